"""allocate --dry-run: the grant in every form, which ids are taken, and what is refused and how."""

import json
import shlex
import shutil
import subprocess

import pytest

from agent.cli.grant_preview.grant_formats import (
    UnsupportedGrantError,
    build_cdi_name,
    build_cdi_spec,
    build_ctr_arguments,
    build_docker_arguments,
    list_notes,
)
from agent.core.entry.cdi import parse_device_names
from agent.core.grants.grant import Grant, GrantedMount, GrantedNode
from agent.core.inventory.device import DeviceNode

CARD, SHARED = "a.example/card", "a.example/shared"
ENTRIES = f"""
[[resource]]
name = "{CARD}"
source = "pci"
match = {{ vendor = "15b3" }}
id = "{{address}}"
prefer = [{{ same = "numa" }}]
limit.per_container = 3
[resource.give]
nodes.card = {{ path = "/dev/card-{{slot}}", to = "/dev/card{{n}}" }}
mounts.lib = {{ path = "/opt/card", to = "/usr/lib/card", read_only = true }}
env.CARDS = {{ value = "{{address}}", join = "," }}
env.NOTE = "a b'c $(x)"
annotations.cards = {{ name = "a.example/cards", value = "{{address}}", join = "," }}

[[resource]]
name = "{SHARED}"
source = {{ node = "/dev/one" }}
replicas = 3
[resource.give.nodes]
one = "{{node}}"
"""


@pytest.fixture
def run_allocate(tree, config, cli):
    for number in range(4):
        tree.pci(f"0000:3b:0{number}.0", numa_node=f"{int(number > 0)}\n")
        tree.node(f"/dev/card-0000:3b:0{number}", f"c 240:{number}")
    tree.node("/dev/one", "c 1:3")
    tree.file("/opt/card/a.so")

    def ask(*words, text=ENTRIES):
        return cli("--root", tree.top, "--config", config(text), "allocate", *words)

    return ask


def test_a_page_for_people(run_allocate):
    code, out, err = run_allocate(CARD, "--count", "2", "--dry-run")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"grant of {CARD} for one container: 0000:3b:01.0 0000:3b:02.0   (2 of 4 Healthy, NUMA 1, same numa)",
        "  node   /dev/card-0000:3b:01   char 240:1   rw   in the container /dev/card0      0000:3b:01.0",
        "  node   /dev/card-0000:3b:02   char 240:2   rw   in the container /dev/card1      0000:3b:02.0",
        "  mount  /opt/card                           ro   in the container /usr/lib/card   once",
        "  env    CARDS=0000:3b:01.0,0000:3b:02.0",
        "  env    NOTE=a b'c $(x)",
        "  note   a.example/cards=0000:3b:01.0,0000:3b:02.0",
        "Every node was checked below --root just now.",
    ]


def test_for_programs(run_allocate):
    code, out, _ = run_allocate(SHARED, "--dry-run", "-o", "json")
    assert code == 0
    assert json.loads(out) == {
        "resource": SHARED,
        "ids": ["one::0"],
        "nodes": [
            {"host": "/dev/one", "container": "/dev/one", "permissions": "rw", "type": "c", "major": 1, "minor": 3}
        ],
        "mounts": [],
        "env": {},
        "annotations": {},
        "cdi": [],
        "devinfo": {},
        "cdi_spec": None,
    }


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["--count", "1"], ["0000:3b:01.0"]),  # where most are free
        (["--count", "3"], ["0000:3b:01.0", "0000:3b:02.0", "0000:3b:03.0"]),
        (["--id", "0000:3b:03.0", "0000:3b:00.0"], ["0000:3b:00.0", "0000:3b:03.0"]),
        (
            ["--prefer", "--count", "2", "--id", "0000:3b:00.0", "0000:3b:03.0", "0000:3b:01.0"],
            ["0000:3b:01.0", "0000:3b:03.0"],
        ),
    ],
)
def test_which_ids(run_allocate, words, ids):
    code, out, _ = run_allocate(CARD, *words, "--dry-run", "-o", "json")
    assert code == 0
    assert json.loads(out)["ids"] == ids


def test_as_the_answer_to_the_kubelet(run_allocate):
    code, out, _ = run_allocate(CARD, "--id", "0000:3b:02.0", "--dry-run", "--as", "grpc")
    assert code == 0
    (answer,) = json.loads(out)["container_responses"]
    assert answer == {
        "envs": {"CARDS": "0000:3b:02.0", "NOTE": "a b'c $(x)"},
        "devices": [{"container_path": "/dev/card0", "host_path": "/dev/card-0000:3b:02", "permissions": "rw"}],
        "mounts": [{"container_path": "/usr/lib/card", "host_path": "/opt/card", "read_only": True}],
        "annotations": {"a.example/cards": "0000:3b:02.0"},
    }


def test_as_a_cdi_spec(run_allocate):
    code, out, _ = run_allocate(CARD, "--id", "0000:3b:02.0", "--dry-run", "--as", "cdi")
    spec = json.loads(out)
    assert code == 0
    assert parse_device_names(spec) == (f"{CARD}=grant",)
    assert spec["cdiVersion"] == "0.6.0"
    assert spec["annotations"] == {"a.example/cards": "0000:3b:02.0"}
    (device,) = spec["devices"]
    assert device["containerEdits"] == {
        "env": ["CARDS=0000:3b:02.0", "NOTE=a b'c $(x)"],
        "deviceNodes": [{"path": "/dev/card0", "hostPath": "/dev/card-0000:3b:02", "permissions": "rw"}],
        "mounts": [
            {
                "hostPath": "/opt/card",
                "containerPath": "/usr/lib/card",
                "options": ["rbind", "rprivate", "ro"],
            }
        ],
    }


@pytest.mark.parametrize(("moved", "annotated", "version"), [(0, 0, "0.3.0"), (1, 0, "0.5.0"), (1, 1, "0.6.0")])
def test_the_least_version_of_a_cdi_spec(moved, annotated, version):
    node = GrantedNode("/dev/a", "/dev/b" if moved else "/dev/a", "rw", DeviceNode("/dev/a", "c", 1, 3))
    assert (
        build_cdi_spec(Grant(CARD, nodes=(node,), annotations={"a": "b"} if annotated else {}))["cdiVersion"] == version
    )


@pytest.mark.parametrize("form", ["docker", "podman", "ctr"])
def test_arguments_survive_a_shell(run_allocate, form):
    """What a shell makes of the line is what -o json says, with nothing done on the way."""
    text = ENTRIES.replace('nodes.card = { path = "/dev/card-{slot}", to = "/dev/card{n}" }', "nodes.x = '/dev/one'")
    words = [CARD, "--id", "0000:3b:02.0", "--dry-run", "--as", form]
    code, out, err = run_allocate(*words, text=text)
    assert code == 0
    assert ("rwm" in err) is (form == "ctr")
    said = json.loads(run_allocate(*words, "-o", "json", text=text)[1])
    line = subprocess.run(["/bin/sh", "-c", f'printf "%s\\0" {out}'], capture_output=True, check=True)
    assert line.stdout.decode().split("\0")[:-1] == said == shlex.split(out)
    mount = "src=/opt/card,dst=/usr/lib/card,options=rbind:ro"
    if form != "ctr":
        mount = "source=/opt/card,target=/usr/lib/card,readonly"
    assert said == [
        *("--device", "/dev/one" if form == "ctr" else "/dev/one:/dev/one:rw"),
        *("--mount", f"type=bind,{mount}"),
        *("--env", "CARDS=0000:3b:02.0", "--env", "NOTE=a b'c $(x)"),
        *("--annotation", "a.example/cards=0000:3b:02.0"),
    ]


HOSTILE = "/opt/a b,c\"d'e$(f);\n"


@pytest.mark.parametrize("arguments", [build_docker_arguments, build_ctr_arguments])
def test_text_that_means_something_to_a_shell_or_in_a_list(arguments):
    grant = Grant(
        CARD,
        mounts=(GrantedMount(HOSTILE, "/x", read_only=False),),
        env={"A": HOSTILE},
        cdi=("vendor.example/class=a:b",),
    )
    said = arguments(grant)
    assert shlex.split(shlex.join(said)) == said
    assert said[:2] == ["--device", "vendor.example/class=a:b"]
    assert said[-2:] == ["--env", f"A={HOSTILE}"]
    source = "source" if arguments is build_docker_arguments else "src"
    doubled = HOSTILE.replace('"', '""')
    assert f'"{source}={doubled}"' in said[3]


def test_what_a_form_cannot_say_is_refused(run_allocate):
    code, out, err = run_allocate(CARD, "--dry-run", "--as", "ctr", "-o", "json")
    assert code == 1
    assert json.loads(out)["refused"] == "form"
    assert "write --as cdi into a file of /etc/cdi, and --device a.example/card=grant" in err
    code, out, err = run_allocate(CARD, "--dry-run", "--as", "docker")
    assert (code, out) == (1, "")
    assert "has a colon" in err


def test_what_docker_cannot_map_it_does_not():
    node = GrantedNode("/dev/a", "/dev/b:c", "rw", DeviceNode("/dev/a", "c", 1, 3))
    with pytest.raises(UnsupportedGrantError, match="/dev/b:c has a colon"):
        build_docker_arguments(Grant(CARD, nodes=(node,)))


def test_notes():
    grant = Grant(CARD, cdi=("v.example/c=1",))
    assert [*list_notes(grant, "docker")] == []
    assert "v.example/c=1" in " ".join(list_notes(grant, "cdi"))
    assert "1.7" in " ".join(list_notes(grant, "ctr"))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([CARD], 2, "add --dry-run"),
        ([CARD, "--dry-run", "--count", "0"], 2, "a number of at least 1"),
        ([CARD, "--dry-run", "--prefer"], 2, "--prefer needs --count N"),
        ([CARD, "--dry-run", "--count", "1", "--id", "x"], 2, "--count or --id"),
        (["a.example/crad", "--dry-run"], 4, "a.example/crad: no such resource; nearest: a.example/card"),
        ([CARD, "--dry-run", "--id", "nowhere"], 4, "no device 'nowhere' is listed"),
        ([CARD, "--dry-run", "--id", "0000:3b:02.0", "0000:3b:2.0"], 4, "is listed; nearest: 0000:3b:02.0"),
        ([CARD, "--dry-run", "--id", "one::0"], 4, "is listed"),
        ([CARD, "--dry-run", "--id", "one::0", "-o", "json"], 4, '"exit": 4'),
        ([CARD, "--dry-run", "--count", "5"], 1, "4 devices are Healthy, but 5 are requested"),
        ([CARD, "--dry-run", "--count", "4"], 1, "limit.per_container"),
        ([SHARED, "--dry-run", "--count", "4"], 1, "3 devices are Healthy, but 4 are requested"),
    ],
)
def test_what_is_wrong(run_allocate, words, code, said):
    got, out, err = run_allocate(*words)
    assert (got, out) == (code, "")
    assert said in err


def test_a_node_that_is_missing_is_told_as_the_kubelet_would_be(run_allocate, tree):
    tree.at("/dev/card-0000:3b:02").unlink()
    code, out, err = run_allocate(CARD, "--id", "0000:3b:02.0", "--dry-run", "-o", "json")
    assert code == 1
    assert json.loads(out)["refused"] == "unhealthy"
    assert json.loads(err) == {"error": json.loads(out)["reason"], "exit": 1}
    assert "Unhealthy: /dev/card-0000:3b:02: no such file" in err
    assert run_allocate(CARD, "--count", "3", "--dry-run")[0] == 0


def test_entries_with_errors_leave_the_others(run_allocate):
    code, _, err = run_allocate(SHARED, "--dry-run", text=f"{ENTRIES}\n[[resource]]\nnam = 'x'\n")
    assert code == 4
    assert "left out" in err


def test_a_recording_is_answered_for(run_allocate, tree, config, cli, tmp_path):
    run_allocate(SHARED, "--dry-run")
    directory = config(ENTRIES)
    assert cli("--root", tree.top, "--config", directory, "record", tmp_path / "a.rec")[0] == 0
    code, out, _ = cli("--root", tmp_path / "a.rec", "--config", directory, "allocate", SHARED, "--dry-run")
    assert code == 0
    assert "char 1:3" in out


@pytest.mark.skipif(shutil.which("ctr") is None, reason="ctr is not installed (Debian: containerd); tests/node uses it")
def test_ctr_knows_these_flags():
    done = subprocess.run(["ctr", "run", "--help"], capture_output=True, text=True, check=False)
    assert all(f"--{flag} " in done.stdout for flag in ("device", "mount", "env", "annotation"))


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker here: its flags are checked as text")
def test_docker_knows_these_flags():
    done = subprocess.run(["docker", "run", "--help"], capture_output=True, text=True, check=False)
    assert all(f"--{flag} " in done.stdout for flag in ("device", "mount", "env", "annotation"))


def test_what_the_agent_puts_into_a_spec_of_its_own_is_said_itself(run_allocate):
    """There is no agent that wrote it: only people, and the kubelet, are told its name."""
    text = ENTRIES.replace("[resource.give.nodes]\none", '[resource.give]\nvia = "cdi"\n[resource.give.nodes]\none')
    assert run_allocate(SHARED, "--dry-run", "--as", "docker", text=text)[:2] == (0, "--device /dev/one:/dev/one:rw\n")
    spec = json.loads(run_allocate(SHARED, "--dry-run", "--as", "cdi", text=text)[1])
    assert spec["devices"][0]["containerEdits"]["deviceNodes"][0]["path"] == "/dev/one"
    (answer,) = json.loads(run_allocate(SHARED, "--dry-run", "--as", "grpc", text=text)[1])["container_responses"]
    assert [*answer] == ["cdi_devices"]


def test_what_a_spec_of_its_own_says_is_shown(run_allocate):
    """For people below its name, for programs as the file has it."""
    text = ENTRIES.replace(', to = "/dev/card{n}"', "").replace("env.NOTE", 'via = "cdi"\nenv.NOTE')
    code, out, err = run_allocate(CARD, "--count", "2", "--dry-run", text=text)
    assert (code, err) == (0, "")
    file = "/var/run/cdi/device-agent_a.example_card.yaml"
    assert out.splitlines()[1:] == [
        "  cdi    device-agent.a.example/card=0000:3b:01.0",
        "  cdi    device-agent.a.example/card=0000:3b:02.0",
        "  env    CARDS=0000:3b:01.0,0000:3b:02.0",
        "  note   a.example/cards=0000:3b:01.0,0000:3b:02.0",
        f"  file   {file}   (the CDI spec; not written now), which says",
        "    node   /dev/card-0000:3b:01   char 240:1   rw                                    0000:3b:01.0",
        "    node   /dev/card-0000:3b:02   char 240:2   rw                                    0000:3b:02.0",
        "    mount  /opt/card                           ro   in the container /usr/lib/card   once",
        "    env    NOTE=a b'c $(x)",
        "Every node was checked below --root just now.",
    ]
    said = json.loads(run_allocate(CARD, "--count", "1", "--dry-run", "-o", "json", text=text)[1])
    assert said["nodes"] == []
    assert said["cdi_spec"]["file"] == file
    assert parse_device_names(said["cdi_spec"]["spec"]) == tuple(said["cdi"])


def test_files_of_device_information_are_named_once(run_allocate):
    text = ENTRIES.replace("[resource.give]\n", '[resource.give]\ndevinfo = { type = "pci", pci = "{address}" }\n', 1)
    out = run_allocate(CARD, "--count", "2", "--dry-run", text=text)[1].splitlines()
    directory = "/var/run/k8s.cni.cncf.io/devinfo/dp"
    first = "a.example-card-0000:3b:01.0-device.json"
    assert f"  file   {directory}/{first}   (and 1 more; not written now)" in out


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ('[{ packed = "slot" }, { near = "pcie" }]', "packed by slot, then near pcie"),
        ('[{ balanced = "numa" }, { order = "address" }]', "balanced by numa, then by address"),
    ],
)
def test_what_they_were_preferred_by_is_said(run_allocate, rules, said):
    text = ENTRIES.replace('[{ same = "numa" }]', rules)
    assert run_allocate(CARD, "--count", "2", "--dry-run", text=text)[1].splitlines()[0].endswith(f", {said})")
    assert said not in run_allocate(CARD, "--id", "0000:3b:01.0", "--dry-run", text=text)[1]


@pytest.mark.parametrize("kind", ["a.example/card", "a.example/4g.20gb"])
def test_a_resource_that_no_kind_may_be_called_like_has_a_kind_all_the_same(kind):
    node = GrantedNode("/dev/a", "/dev/a", "rw", DeviceNode("/dev/a", "c", 1, 3))
    assert parse_device_names(build_cdi_spec(Grant(kind, nodes=(node,)))) == (build_cdi_name(Grant(kind)),)
