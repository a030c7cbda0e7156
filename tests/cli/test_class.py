"""`class list`, `class show`, `check --aloud`: the same sentences for people and for programs."""

import json
import os

import pytest

from agent.config.load import SHIPPED, load

NOTES = '# Which is for\n# the entry to say:\n#   match.driver = "acme"\n# It is never two.\n'
OWN = NOTES + 'about = "every NPU"\nname = "a.example/npu"\nsource = { subsystem = "npu" }\nid = "{path_id}"\n'
ENTRY = '[[resource]]\nname = "a.example/tun"\nclass = "tun"\nreplicas = 7\n'


@pytest.fixture
def directory(config):
    where = config(ENTRY)
    (where / "classes").mkdir()
    (where / "classes" / "npu.toml").write_text(OWN)
    return where


def test_the_list_has_every_class(cli, directory):
    code, out, err = cli("class", "list", "--config", directory)
    assert code == 0
    names = [line.split()[0] for line in out.splitlines()]
    shipped = sorted(name.removesuffix(".toml") for name in os.listdir(SHIPPED))
    assert names == ["CLASS", *sorted({*shipped, "npu"})]  # one goes over a shipped one
    (own,) = [line for line in out.splitlines() if line.endswith("yours")]
    assert own.split() == ["npu", "npu", "device", "every", "NPU", "yours"]
    assert err.startswith(f"{len(names) - 1} classes; 1 is yours")
    told = json.loads(cli("class", "list", "--config", directory, "-o", "json")[1])
    assert [one["name"] for one in told] == names[1:]
    assert {one["own"] for one in told if one["name"] == "npu"} == {True}


def test_the_list_of_what_is_here_says_who_has_it(cli, directory, tree):
    tree.node("/dev/net/tun", "c 10:200")
    tree.node("/dev/kvm", "c 10:232")
    code, out, err = cli("class", "list", "--here", "--config", directory, "--root", tree.top)
    assert code == 0
    _, *rows = (line.split() for line in out.splitlines())
    assert [(row[0], row[-1]) for row in rows] == [("kvm", "1"), ("tun", "a.example/tun")]
    assert err.startswith("2 of ")
    told = json.loads(cli("class", "list", "--here", "--config", directory, "--root", tree.top, "-o", "json")[1])
    assert [(one["name"], one["count"], one["takers"]) for one in told] == [
        ("kvm", 1, []),
        ("tun", 1, ["a.example/tun"]),
    ]


def test_a_class_in_full_ends_in_an_entry_that_serves(cli, directory):
    code, out, _ = cli("class", "show", "npu", "--config", directory)
    assert code == 0
    assert out.splitlines() == [
        "npu   every NPU",
        f"  file        {directory}/classes/npu.toml",
        "  takes       Every npu device",
        "  name        called a.example/npu",
        "  id          known as {path_id}",
        "                follows the place where it is plugged in",
        "  shares      not shared: one container has a device at a time",
        "  health      healthy while it is there",
        "  prefers     the kubelet is told the NUMA node of each, where it has one",
        "  notes       Which is for the entry to say:",
        '                match.driver = "acme"',
        "              It is never two.",
        "  example     [[resource]]",
        '              class = "npu"',
    ]
    told = json.loads(cli("class", "show", "npu", "--config", directory, "-o", "json")[1])
    (directory / "resources.d" / "b.toml").write_text(told["example"])
    assert [resource.name for resource in load(str(directory)).resources] == ["a.example/tun", "a.example/npu"]


def test_a_class_as_it_is_written(cli, directory):
    assert cli("class", "show", "npu", "--toml", "--config", directory)[1] == OWN
    with open(os.path.join(SHIPPED, "tun.toml"), encoding="utf-8") as file:
        assert cli("class", "show", "tun", "--toml", "--config", directory)[1] == file.read()


def test_a_class_aloud(cli, directory):
    out = cli("class", "show", "npu", "--aloud", "--config", directory)[1]
    assert [line.split() for line in out.splitlines()] == [
        ["class", "npu:", "every", "NPU"],
        ["Every", "npu", "device", "npu.toml:7"],
        ["called", "a.example/npu", "npu.toml:6"],
        ["known", "as", "{path_id}", "npu.toml:8"],
        [],
    ]
    told = json.loads(cli("class", "show", "npu", "--aloud", "--config", directory, "-o", "json")[1])
    assert [clause["line"] for clause in told["clauses"]] == [7, 6, 8]
    assert told["clauses"][0]["file"] == "classes/npu.toml"


def test_a_class_that_is_none(cli, directory):
    code, out, err = cli("class", "show", "npuu", "--config", directory)
    assert (code, out) == (4, "")
    assert err == "device-agent class: npuu: no class has this name; nearest: npu\n"
    assert cli("class", "show", "zzzzzzzz", "--config", directory)[0] == 4
    assert cli("class", "show", "--config", directory)[0] == 2
    assert cli("class", "list", "npu", "--config", directory)[0] == 2
    assert cli("class", "show", "npu", "--aloud", "--toml", "--config", directory)[0] == 2


def test_check_aloud_reads_all_back_and_judges_it_all_the_same(cli, directory):
    code, out, _ = cli("check", "--aloud", "--config", directory)
    assert code == 0
    titles = [line for line in out.splitlines() if line.startswith(("class", "entry"))]
    assert titles == ["class npu: every NPU", "entry resources.d/a.toml:1: /dev/net/tun, a hundred times"]
    assert "in 7 shares each  [instead of 100, tun.toml:5]" in out
    assert out.splitlines()[-1].startswith("No errors in ")
    (directory / "resources.d" / "b.toml").write_text("[[resource]]\nnaem = 1\n")
    code, out, _ = cli("check", "--aloud", "a.example/tun", "--config", directory)
    assert code == 1
    assert "class npu" not in out
    assert "nearest: name" in out


def test_check_aloud_for_programs(cli, directory):
    code, out, _ = cli("check", "--aloud", "--config", directory, "-o", "json")
    assert code == 0
    assert [(one["kind"], one["name"], one["resource"]) for one in json.loads(out)] == [
        ("class", "npu", None),
        ("entry", "resources.d/a.toml:1", "a.example/tun"),
    ]


def test_check_aloud_of_nothing(cli, directory):
    code, out, err = cli("check", "--aloud", "a.example/tum", "--config", directory)
    assert (code, out) == (4, "")
    assert (
        err == "device-agent check: a.example/tum: no resource, entry or class has this name; nearest: a.example/tun\n"
    )
