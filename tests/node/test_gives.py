"""Mounts, annotations and CDI devices in real containers."""

import json
import shutil

import pytest

from tests.node.machine import until
from tests.node.node import CDI, CONTAINERD_2

KIND = "node.test/card"
BOTH = pytest.mark.runtimes(None, CONTAINERD_2)
WITH_CDI = pytest.mark.runtimes(CONTAINERD_2)
HOST = "/run/vendor"


def entry(name: str, nodes: str, give: str) -> str:
    return f'[[resource]]\nname = "node.test/{name}"\nsource = {{ node = "{nodes}" }}\n[resource.give]\n{give}\n'


def edits(name: str, minor: int) -> dict:
    """A CDI device: a node, a variable and a mount."""
    return {
        "name": name,
        "containerEdits": {
            "deviceNodes": [{"path": f"/dev/cards/{name}", "hostPath": f"/dev/lab/{name}", "permissions": "rw"}],
            "env": [f"CARD_{minor}={name}"],
            "mounts": [{"hostPath": f"{HOST}/lib", "containerPath": "/opt/lib", "options": ["ro", "bind"]}],
        },
    }


@pytest.fixture
def host(node):
    """The node, with files of a vendor's and no CDI specs but those of the test."""
    node.machine.path(f"{HOST}/lib").mkdir(parents=True)
    for name in ("a.so", "b.so"):
        node.machine.path(f"{HOST}/lib/{name}").write_text(name)
    node.machine.path(f"{HOST}/state").write_text("empty\n")
    yield node
    for directory in (HOST, CDI.replace("/var/run", "/run")):
        shutil.rmtree(node.machine.path(directory), ignore_errors=True)


def write_spec(node, *devices, file="card.json", **more):
    directory = node.machine.path(CDI.replace("/var/run", "/run"))  # the link leads out of the machine
    directory.mkdir(exist_ok=True)
    text = json.dumps({"cdiVersion": "0.6.0", "kind": KIND, "devices": list(devices), **more})
    (directory / f".{file}").write_text(text)
    (directory / f".{file}").rename(directory / file)


def annotations(node, pod) -> dict[str, str]:
    """What the container's runtime is told."""
    return json.loads(node.ctr("containers", "info", node.container(pod)))["Spec"]["annotations"]


@BOTH
def test_mounts(host):
    host.plug("lab/mounts", "c", 240, 150)
    mounts = (
        f'mounts.libs = {{ path = "{HOST}/lib/*.so", to = "/opt/", read_only = true }}\n'
        f'mounts.own = "{HOST}/state"\nmounts.none = {{ path = "{HOST}/none", optional = true }}'
    )
    host.serve(entry("mounts", "/dev/lab/mounts", mounts))
    host.start_agent()
    host.offers("mounts", "lab_mounts")
    host.apply("has-mounts", mounts=1)
    host.running("has-mounts")
    assert host.inside("has-mounts", "cat /opt/a.so /opt/b.so") == "a.sob.so"
    assert "Read-only file system" in host.inside("has-mounts", "echo no > /opt/a.so")
    assert host.inside("has-mounts", f"echo written > {HOST}/state; ls {HOST}") == "state"
    assert host.machine.path(f"{HOST}/state").read_text() == "written\n"
    assert not host.machine.path(f"{HOST}/none").exists()


def test_a_mount_that_is_missing_is_told_before_a_pod_fails_by_it(host):
    """The runtime would make an empty directory of it."""
    host.serve(entry("missing", "/dev/lab/missing", f'mounts.it = "{HOST}/later"'))
    host.start_agent()
    host.agent.says("streaming: 0 devices")  # so that the kubelet knows the resource
    host.plug("lab/missing", "c", 240, 151)
    host.agent.says(f"lab_missing: new → Unhealthy: {HOST}/later: no such file")
    host.apply("too-early", missing=1)
    assert host.refused("too-early")[0] == "UnexpectedAdmissionError"
    assert not host.machine.path(f"{HOST}/later").exists()
    host.machine.path(f"{HOST}/later").write_text("here")
    host.offers("missing", "lab_missing")
    host.apply("in-time", missing=1)
    host.running("in-time")
    assert host.inside("in-time", f"cat {HOST}/later") == "here"


def test_programs_before_each_start_of_a_container(host):
    """By the kubelet's PreStartContainer: one that fails keeps the container from starting until it does not."""
    host.plug("lab/reset0", "c", 240, 172)
    ready, runs = host.machine.path(f"{HOST}/ready"), host.machine.path(f"{HOST}/runs")
    script = f"echo $1 >> {HOST}/runs; test -e {HOST}/ready && exit 0; echo card is busy; exit 1"
    program = f"prestart.reset.run = {json.dumps(['/bin/sh', '-c', script, 'sh', '{id}'])}\n"
    text = entry("reset", "/dev/lab/reset[0-9]", 'nodes.it = "{node}"')
    host.serve(text.replace("[resource.give]", f"{program}[resource.give]"))
    host.start_agent()
    host.offers("reset", "lab_reset0")
    host.apply("is-reset", reset=1)

    def waiting():
        mains = host.status("is-reset").get("containerStatuses", [])
        said = (main["state"].get("waiting", {}).get("message", "") for main in mains)
        return next((text for text in said if text), None)

    assert "prestart.reset: /bin/sh ended with 1: card is busy" in until(waiting, 40, "the kubelet says why")
    ready.write_text("")
    host.running("is-reset", seconds=50)
    before, first = host.container("is-reset"), runs.read_text().split()
    assert set(first) == {"lab_reset0"}
    host.kill("is-reset")
    host.runs_again("is-reset", before)
    assert len(runs.read_text().split()) > len(first)


@BOTH
def test_annotations_reach_the_runtime(host):
    for n in range(2):
        host.plug(f"lab/note{n}", "c", 240, 152 + n)
    notes = 'annotations.ids = { name = "node.test/ids", value = "{id}", join = "," }'
    host.serve(entry("noted", "/dev/lab/note*", notes))
    host.start_agent()
    host.offers("noted", "lab_note0", "lab_note1")
    host.apply("is-noted", noted=2)
    host.running("is-noted")
    assert annotations(host, "is-noted")["node.test/ids"] == "lab_note0,lab_note1"


@WITH_CDI
@pytest.mark.parametrize("via", ["field", "annotation"])
def test_a_container_has_what_the_specs_of_its_cdi_devices_say(host, via):
    pod = f"has-cards-{via}"  # one of the same name and content is the same pod to the kubelet, which may be ending
    for n in range(2):
        host.plug(f"lab/cdi{n}", "c", 240, 160 + n)
    write_spec(host, edits("cdi0", 0), edits("cdi1", 1), containerEdits={"env": ["OF_ALL=1"]})
    host.serve(entry("carded", "/dev/lab/cdi*", f'cdi.card = {{ name = "{KIND}={{name}}", via = "{via}" }}'))
    host.start_agent()
    host.offers("carded", "lab_cdi0", "lab_cdi1")
    host.apply(pod, carded=2)
    host.running(pod)
    assert host.nodes(pod) == {"/dev/cards/cdi0": "c 240:160", "/dev/cards/cdi1": "c 240:161"}
    # The variables of its own, which a shell started in it has not.
    assert "CARD_0=cdi0 CARD_1=cdi1 OF_ALL=1" in host.inside(
        pod, "tr '\\0' '\\n' < /proc/1/environ | grep -e CARD -e OF_ALL | sort | xargs"
    )
    assert host.inside(pod, "cat /opt/lib/a.so") == "a.so"
    assert "Read-only file system" in host.inside(pod, "echo no > /opt/lib/a.so")
    # The device cgroup lets it: there is only no driver behind the number.
    assert "No such device or address" in host.inside(pod, "head -c 1 /dev/cards/cdi0")
    told = {key: value for key, value in annotations(host, pod).items() if key.startswith("cdi.k8s.io/")}
    by_annotation = {"cdi.k8s.io/device-agent_node.test_carded": f"{KIND}=cdi0,{KIND}=cdi1"}
    assert told == (by_annotation if via == "annotation" else {})


@WITH_CDI
@pytest.mark.parametrize("via", ["cdi", "cdi-annotation"])
def test_a_container_has_what_a_spec_of_our_own_says(host, via):
    pod = f"has-own-{via}"  # not the same pod to the kubelet as the other, which may be ending
    for n in range(2):
        host.plug(f"lab/own{n}", "c", 240, 168 + n)
    host.plug("lab/own_ctl", "c", 240, 170)
    give = f"""
via    = "{via}"
nodes  = {{ own = {{ path = "{{node}}", to = "/dev/own/{{id}}" }}, ctl = "/dev/lab/own_ctl" }}
mounts = {{ lib = {{ path = "{HOST}/lib", to = "/opt/lib", read_only = true }} }}
env    = {{ OWN_ALL = {{ value = "{{id}}", join = "," }}, OWN_ONE = "1" }}
"""
    host.serve(entry("owned", "/dev/lab/own[0-9]", give))
    host.start_agent()
    host.offers("owned", "lab_own0", "lab_own1")
    host.apply(pod, owned=2)
    host.running(pod)
    assert host.nodes(pod) == {
        "/dev/own/lab_own0": "c 240:168",
        "/dev/own/lab_own1": "c 240:169",
        "/dev/lab/own_ctl": "c 240:170",
    }
    assert "OWN_ALL=lab_own0,lab_own1 OWN_ONE=1" in host.inside(
        pod, "tr '\\0' '\\n' < /proc/1/environ | grep OWN_ | sort | xargs"
    )
    assert host.inside(pod, "grep -c /opt/lib /proc/mounts") == "1"
    assert "Read-only file system" in host.inside(pod, "echo no > /opt/lib/a.so")
    assert "No such device or address" in host.inside(pod, "head -c 1 /dev/own/lab_own1")
    told = [key for key in annotations(host, pod) if key.startswith("cdi.k8s.io/")]
    assert told == (["cdi.k8s.io/device-agent_node.test_owned"] if via == "cdi-annotation" else [])
    directory = host.machine.path(CDI.replace("/var/run", "/run"))
    assert [path.name for path in directory.iterdir()] == ["device-agent_node.test_owned.yaml"]
    host.serve(entry("other", "/dev/lab/other[0-9]", 'nodes.it = "{node}"'))
    host.reload_agent()
    host.agent.says("configuration:")
    before = host.container(pod)
    host.kill(pod)
    host.runs_again(pod, before)  # the kubelet names what it has kept, and the spec is there as long as it may
    assert host.nodes(pod).keys() >= {"/dev/own/lab_own0", "/dev/lab/own_ctl"}


@WITH_CDI
def test_a_name_in_no_spec_is_refused_before_the_runtime_has_it(host):
    host.plug("lab/card0", "c", 240, 164)
    write_spec(host, edits("card0", 0))
    host.serve(entry("named", "/dev/lab/card*", f'cdi.card = "{KIND}={{name}}"'))
    host.start_agent()
    host.offers("named", "lab_card0")
    host.plug("lab/card1", "c", 240, 165)
    host.agent.says(f"lab_card1: new → Unhealthy: {KIND}=card1 is in no CDI spec in /etc/cdi or /var/run/cdi")
    host.apply("wants-two", named=2)
    assert host.refused("wants-two")[0] == "UnexpectedAdmissionError"
    write_spec(host, edits("card1", 1), file="more.yaml")  # as JSON is YAML
    host.offers("named", "lab_card0", "lab_card1")
    host.apply("has-two", named=2)
    host.running("has-two")
    assert host.nodes("has-two").keys() == {"/dev/cards/card0", "/dev/cards/card1"}


@WITH_CDI
def test_what_a_runtime_says_of_a_name_in_no_spec(host):
    """Where the agent is told not to look: the kubelet tries again and again, and the pod's status says why."""
    host.plug("lab/blind", "c", 240, 166)
    host.serve(entry("blind", "/dev/lab/blind", f'cdi.card = {{ name = "{KIND}=blind", unchecked = true }}'))
    host.start_agent()
    host.offers("blind", "lab_blind")
    host.apply("waits", blind=1)

    def waiting():
        mains = host.status("waits").get("containerStatuses", [])
        return next((m["state"]["waiting"] for m in mains if "message" in m["state"].get("waiting", {})), None)

    found = until(waiting, 40, "the kubelet says why")
    assert (found["reason"], f"unresolvable CDI devices {KIND}=blind" in found["message"]) == (
        "CreateContainerError",
        True,
    ), found
    write_spec(host, edits("blind", 0))
    host.running("waits", seconds=60)
    assert host.nodes("waits").keys() == {"/dev/cards/blind"}


def test_a_runtime_without_cdi_runs_the_container_without_its_device(host):
    """containerd 1.6, silently (docs/configuration.md): so the agent's word for it, Healthy, is only of the spec."""
    if "1.6." not in host.machine.must("containerd", "--version"):
        pytest.skip("this containerd is no 1.6")
    host.plug("lab/deaf", "c", 240, 167)
    write_spec(host, edits("deaf", 0))
    host.serve(entry("deaf", "/dev/lab/deaf", f'cdi.card = "{KIND}={{name}}"'))
    host.start_agent()
    host.offers("deaf", "lab_deaf")
    host.apply("goes-without", deaf=1)
    host.running("goes-without")
    assert host.nodes("goes-without") == {}
