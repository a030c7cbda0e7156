"""Every scenario in this directory."""

import tomllib
from pathlib import Path

import pytest

from agent.config.load import SHIPPED
from agent.host.recorder import Recorder
from agent.host.recording import write_recording
from tests.scenarios.scenario import play, read

HERE = Path(__file__).parent
KVM = {"a.example/kvm": ["kvm Healthy"]}


@pytest.mark.parametrize("path", sorted(HERE.glob("*.toml")), ids=lambda path: path.stem)
async def test_scenario(path, rig):
    await play(read(path), rig)


@pytest.mark.parametrize("name", sorted(path.stem for path in Path(SHIPPED).glob("*.toml")))
def test_every_shipped_class_has_a_scenario_that_uses_it(name):
    entries = tomllib.loads(read(HERE / f"class-{name}.toml")["resources"])["resource"]
    assert any(name in {entry.get("class"), *entry.get("uses", ())} for entry in entries)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lists": {"a.example/kvm": ["kvm Unhealthy"]}}, "step 1: : a.example/kvm: ['kvm Healthy']"),
        ({}, "a.example/kvm"),
        (
            {"lists": {"a.example/kvm": ["kvm Healthy"]}, "grant": {"a.example/kvm": {"ids": ["kvm"], "nodes": []}}},
            "nodes",
        ),
        ({"plugs": ""}, "no such keys: {'plugs'}"),
    ],
)
async def test_a_scenario_that_is_not_true_fails(rig, change, said):
    """A test that cannot fail proves nothing."""
    tree = "P: /devices/virtual/misc/kvm\nN: kvm\nE: SUBSYSTEM=misc\nE: MAJOR=10\nE: MINOR=232"
    resources = '[[resource]]\nname = "a.example/kvm"\nclass = "kvm"\nreplicas = 1\n'
    scenario = {"about": "x", "tree": tree, "resources": resources, "step": [change]}
    if not change:
        scenario["step"] = [{"lists": KVM}, {"unplug": ["/devices/virtual/misc/kvm"]}]
    with pytest.raises(AssertionError) as failure:
        await play(scenario, rig)
    assert said in str(failure.value)


async def test_a_recording_is_a_machine(rig, tmp_path):
    recorder = Recorder("/")
    recorder.find_entry("/dev/null")
    write_recording(recorder.build_recording(), str(tmp_path / "a.rec"))
    (tmp_path / "a.toml").write_text(
        'about = "x"\nrecording = "a.rec"\nresources = """\n[[resource]]\nname = "a.example/null"\n'
        'source = { node = "/dev/null" }\nid = "null"\ngive = { nodes = { it = "{node}" } }\n"""\n'
        '[[step]]\nlists."a.example/null" = ["null Healthy"]\n'
    )
    await play(read(tmp_path / "a.toml"), rig)
