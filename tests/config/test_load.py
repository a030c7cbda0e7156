"""Loading a directory: which files, in which order, and what a mistake costs."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from agent.config.load import SHIPPED, load, load_with_entries
from agent.config.settings import Settings
from agent.config.toml.finding import Severity

LANGUAGE = Path(__file__).parent / "language"
TUN = '[[resource]]\nname = "lab.example/tun"\nclass = "tun"\n'


def test_two_lines_serve_a_device(configure):
    found = configure({"resources.d/40-lab.toml": TUN})
    assert found.findings == ()
    (resource,) = found.resources
    assert (resource.name, resource.class_name, resource.shares) == ("lab.example/tun", "tun", 100)
    assert [(node.path.source, node.container_paths[0].source, node.permissions) for node in resource.nodes] == [
        ("{node}", "{node}", "rw")
    ]
    assert found.files == ("resources.d/40-lab.toml", "classes/tun.toml", "classes/node.toml")
    assert found.is_valid


def test_no_directory_is_the_defaults_and_a_warning(tmp_path):
    found = load(str(tmp_path / "none"))
    assert (found.resources, found.files) == ((), ())
    assert [(finding.severity, finding.code) for finding in found.findings] == [("warning", "unreadable")]


def test_an_empty_directory_is_the_defaults(tmp_path):
    found = load(str(tmp_path))
    assert (found.findings, found.resources) == ((), ())
    assert found.settings.kubelet == Settings().kubelet
    assert found.settings.paths.resources == str(tmp_path / "resources.d")
    assert found.settings.paths.classes == (str(tmp_path / "classes"), "/usr/share/device-agent/classes")


def test_files_come_in_name_order_and_entries_in_file_order(configure):
    text = '[[resource]]\nname = "a/{0}1"\nsource = "pci"\n[[resource]]\nname = "a/{0}2"\nsource = "pci"\n'
    found = configure(
        {
            "resources.d/20.toml": text.format("b"),
            "resources.d/10.toml": text.format("a"),
            "resources.d/.hidden.toml": "x",
            "resources.d/30.txt": "x",
        }
    )
    assert [resource.name for resource in found.resources] == ["a/a1", "a/a2", "a/b1", "a/b2"]


def test_a_file_with_a_mistake_gives_nothing_and_the_others_all(configure):
    found = configure({"resources.d/a.toml": TUN + "replica = 2\n", "resources.d/b.toml": TUN.replace("tun", "fuse")})
    assert [resource.name for resource in found.resources] == ["lab.example/fuse"]
    assert not found.is_valid


def test_a_warning_costs_nothing(configure):
    found = configure({"resources.d/a.toml": '[[resource]]\nname = "a/b"\nsource = { node = "/dev/video*" }\n'})
    assert [finding.severity for finding in found.findings] == ["warning"]
    assert len(found.resources) == 1


def test_the_digest_is_of_every_text(configure):
    first = configure({"resources.d/a.toml": TUN})
    assert len(first.digest) == 6
    assert configure({"resources.d/a.toml": TUN}).digest == first.digest
    assert configure({"resources.d/a.toml": TUN + "#\n"}).digest != first.digest
    assert configure({"resources.d/a.toml": TUN, "agent.toml": ""}).digest != first.digest


def test_a_class_of_ones_own_goes_before_a_shipped_one(configure):
    own = 'about = "x"\nsource = { node = "/dev/net/tun" }\nreplicas = 7\n'
    found = configure({"resources.d/a.toml": TUN, "classes/tun.toml": own})
    assert found.resources[0].shares == 7


def test_a_class_that_nobody_uses_is_checked_as_well(configure):
    found = configure({"classes/mine.toml": 'source = "pci"\nmatch.vendro = "x"\n'})
    assert [(finding.file, finding.line, finding.code) for finding in found.findings] == [
        ("classes/mine.toml", 1, "missing"),
        ("classes/mine.toml", 2, "unknown-word"),
    ]


def test_directories_may_be_elsewhere(tmp_path, configure):
    there = tmp_path / "there"
    (there / "c").mkdir(parents=True)
    (there / "r").mkdir()
    (there / "c" / "mine.toml").write_text('about = "x"\nsource = "pci"\n')
    (there / "r" / "a.toml").write_text('[[resource]]\nname = "a/b"\nclass = "mine"\nbad = 1\n')
    found = configure({"etc/x": "", "agent.toml": f'paths = {{ resources = "{there}/r", classes = ["{there}/c"] }}\n'})
    assert [finding.file for finding in found.findings] == ["there/r/a.toml"]


def test_the_agents_way_of_registering_is_the_default_of_every_entry(configure):
    text = TUN + TUN.replace("tun", "fuse") + 'registration = "socket"\n'
    found = configure({"agent.toml": 'kubelet.registration = "watcher"\n', "resources.d/a.toml": text})
    assert [resource.registration for resource in found.resources] == ["watcher", "socket"]


def test_what_cannot_be_read_is_a_finding(tmp_path):
    resources = tmp_path / "resources.d"
    resources.mkdir()
    (resources / "a.toml").mkdir()
    os.mkfifo(resources / "b.toml")
    (resources / "c.toml").symlink_to("nowhere")
    (resources / "d.toml").write_bytes(b"#" * (1024 * 1024 + 1))
    (resources / "e.toml").write_bytes(b"a = '\xff'\n")
    (resources / "f.toml").write_text(TUN)
    found = load(str(tmp_path))
    assert [(finding.file, finding.code) for finding in found.findings] == [
        ("resources.d/a.toml", "unreadable"),
        ("resources.d/b.toml", "unreadable"),
        ("resources.d/c.toml", "unreadable"),
        ("resources.d/d.toml", "unreadable"),
        ("resources.d/e.toml", "toml"),
    ]
    assert [resource.name for resource in found.resources] == ["lab.example/tun"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_without_permission_is_a_finding(tmp_path):
    (tmp_path / "resources.d").mkdir(mode=0)
    assert [finding.code for finding in load(str(tmp_path)).findings] == ["unreadable"]


def test_a_directory_that_is_a_file_is_a_finding(tmp_path):
    (tmp_path / "resources.d").write_text("")
    assert [(finding.file, finding.code) for finding in load(str(tmp_path)).findings] == [("resources.d", "unreadable")]


SHIPPED_CLASSES = {path.stem: tomllib.loads(path.read_text()) for path in sorted(Path(SHIPPED).glob("*.toml"))}
SHIPPED_NAMES = list(SHIPPED_CLASSES)
PARTS = {name for name, said in SHIPPED_CLASSES.items() if not said.keys() & {"source", "uses"}}


@pytest.mark.parametrize("name", SHIPPED_NAMES)
def test_every_shipped_class_says_what_it_means(tmp_path, name):
    (tmp_path / "classes").symlink_to(SHIPPED)
    (tmp_path / "resources.d").mkdir()
    source = 'source = "pci"\nid = "{address}"\ngive.nodes.node = "/dev/x"\n' if name in PARTS else ""
    text = f'[[resource]]\nname = "example.com/{name}"\nclass = "{name}"\n{source}'
    (tmp_path / "resources.d" / "a.toml").write_text(text)
    found = load(str(tmp_path))
    assert found.findings == ()
    (resource,) = found.resources
    assert resource.class_name == name
    assert resource.nodes or resource.env


def test_what_a_shipped_class_finds_below_proc_it_looks_for_by_itself():
    """Nothing there sends an event: at boot a GPU would be missing until the next sweep."""
    below = {name: said["source"] for name, said in SHIPPED_CLASSES.items() if "/proc/" in str(said.get("source"))}
    assert below
    assert [name for name, source in below.items() if "every" not in source] == []


def test_the_whole_language_loads():
    """Nothing in the samples is taken for a mistake, each class is known, and each entry is served."""
    studied = load_with_entries(str(LANGUAGE))
    assert [each for each in studied.configuration.findings if each.severity is Severity.ERROR] == []
    assert {path.stem for path in (LANGUAGE / "classes").glob("*.toml")} == set(studied.local_class_names)
    served = {spec.origin for spec in studied.configuration.resources}
    assert {entry.spot.origin for entry in studied.entries} == served
    assert len(served) == 34


def test_the_entries_of_the_language_are_served_by_the_classes_that_are_shipped(tmp_path):
    """They say to the shipped classes what they say to the samples: every address that they change is there."""
    (tmp_path / "resources.d").symlink_to(LANGUAGE / "resources.d")
    studied = load_with_entries(str(tmp_path))
    assert [each for each in studied.configuration.findings if each.severity is Severity.ERROR] == []
    assert not studied.local_class_names
    assert len(studied.configuration.resources) == 34


def test_what_two_samples_have_in_common_is_warned_of():
    found = [each for each in load(str(LANGUAGE)).findings if each.severity is Severity.WARNING]
    assert {each.code for each in found} <= {"collides", "nothing-left", "same-id", "unsettled-name"}
    assert ("classes/amd-gpu.toml", "unsettled-name") in {(each.file, each.code) for each in found}
    assert ("resources.d/60-two-lines-each.toml", "collides") in {(each.file, each.code) for each in found}


def test_the_default_agent_toml_is_the_defaults():
    path = Path(__file__).parents[2] / "config"
    found = load(str(path))
    assert found.files[:1] == ("agent.toml",)
    assert not [finding for finding in found.findings if finding.file == "agent.toml"]
    assert found.settings.kubelet == Settings().kubelet
