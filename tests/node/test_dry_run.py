"""What `allocate --dry-run` prints, given to a real container with no kubelet between: it has what was said."""

import json
import shlex
import shutil
import sys

import pytest

from tests.node import image
from tests.node.node import CDI, CONTAINERD_2, ETC, NO_DRIVER, PROGRAM

HOST = "/run/vendor"


@pytest.fixture
def host(node):
    """The node with an entry that gives nodes, a mount and a variable of text that a shell would do something with."""
    for number in range(2):
        node.plug(f"lab/dry{number}", "c", 240, 170 + number)
    node.machine.path(HOST).mkdir(parents=True)
    node.machine.path(f"{HOST}/a b,c").write_text("mounted\n")
    yield node
    for directory in (HOST, CDI.replace("/var/run", "/run")):
        shutil.rmtree(node.machine.path(directory), ignore_errors=True)


def serve(host, to=""):
    give = (
        f'nodes.it = {{ path = "{{node}}", permissions = "rwm"{to} }}\n'
        f'mounts.it = {{ path = "{HOST}/a b,c", to = "/opt/it", read_only = true }}\n'
        'env.WHICH = { value = "{id}", join = "," }\nenv.TEXT = "a $(b) \'c"'
    )
    entry = f'[[resource]]\nname = "node.test/dry"\nsource = {{ node = "/dev/lab/dry*" }}\n[resource.give]\n{give}\n'
    host.serve(entry)
    return entry


def allocate(host, form):
    """What the program prints in the machine."""
    command = (sys.executable, "-m", "agent.cli.main", "allocate", "node.test/dry", "--dry-run", "--count", "2")
    return host.machine.must("env", f"PYTHONPATH={PROGRAM}", *command, "--as", form, "--config", ETC)


def test_ctr_starts_a_container_with_its_arguments(host):
    serve(host)
    words = shlex.split(allocate(host, "ctr"))
    script = 'head -c 1 /dev/lab/dry1; ls -l /dev/lab; echo $WHICH; echo "$TEXT"; cat /opt/it; echo no > /opt/it'
    container = (image.NAME, "dry", "sh", "-c", f"exec 2>&1; {script}; true")
    said = host.ctr("run", "--rm", *words, *container)
    assert NO_DRIVER in said  # the device cgroup lets it
    assert "240, 170" in said
    assert "lab_dry0,lab_dry1\na $(b) 'c\nmounted\n" in said
    assert "Read-only file system" in said


@pytest.mark.runtimes(CONTAINERD_2)
def test_a_runtime_takes_the_spec(host):
    """As the one CDI device that the spec is of, asked for by an entry that says nothing else."""
    entry = serve(host, ', to = "/dev/dry{n}"')
    spec = allocate(host, "cdi")
    directory = host.machine.path(CDI.replace("/var/run", "/run"))
    directory.mkdir(exist_ok=True)
    (directory / "dry.json").write_text(spec)
    assert json.loads(spec)["kind"] == "node.test/dry"
    host.plug("lab/by", "c", 240, 175)
    by = '[[resource]]\nname = "node.test/by"\nsource = { node = "/dev/lab/by" }\ngive.cdi.it = "node.test/dry=grant"\n'
    host.serve(by, entry)
    host.start_agent()
    host.offers("by", "lab_by")
    host.apply("has-grant", by=1)
    host.running("has-grant")
    assert host.nodes("has-grant") == {"/dev/dry0": "c 240:170", "/dev/dry1": "c 240:171"}
    assert host.inside("has-grant", "cat /opt/it") == "mounted"
    assert "Read-only file system" in host.inside("has-grant", "echo no > /opt/it")
    assert "TEXT=a $(b) 'c" in host.inside("has-grant", "tr '\\0' '\\n' < /proc/1/environ")
