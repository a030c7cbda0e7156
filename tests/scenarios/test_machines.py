"""Machines that scenarios share, and what a scenario says of its own in place of theirs."""

import tomllib
from pathlib import Path

import pytest

from tests.scenarios import dump
from tests.scenarios.scenario import read

HERE = Path(__file__).parent
SHORT = 60  # lines

CARD = "P: /devices/a\nE: SUBSYSTEM=x\nA: state=well\\n\nH: config=00"
PORT = "P: /devices/a/port\nE: SUBSYSTEM=y"
OTHER = "P: /devices/ab\nE: SUBSYSTEM=x"
MACHINE = f"{CARD}\n\n{PORT}\n\n{OTHER}"


def test_a_paragraph_of_the_same_path_says_only_what_differs():
    other = "P: /devices/a\nA: state=hung\\n\nA: config=text\nS: by/name\nS: by/number\n\nP: /devices/b\nE: SUBSYSTEM=x"
    card = "P: /devices/a\nE: SUBSYSTEM=x\nA: state=hung\\n\nA: config=text\nS: by/name\nS: by/number"
    assert dump.upon(MACHINE, other) == f"{card}\n\n{PORT}\n\n{OTHER}\n\nP: /devices/b\nE: SUBSYSTEM=x"


def test_a_line_that_changes_nothing_fails():
    with pytest.raises(AssertionError, match=r"the machine says so: /devices/a: .*state=well"):
        dump.upon(MACHINE, "P: /devices/a\nA: state=well\\n")


def test_a_device_is_missing_with_what_is_below_it():
    assert dump.without(MACHINE, ["/devices/a"]) == OTHER
    assert dump.without(MACHINE, []) == MACHINE


def test_a_device_is_as_it_was_at_first_with_what_is_below_it():
    assert dump.below(MACHINE, ["/devices/a/port"]) == PORT
    assert dump.below(MACHINE, ["/devices/a"]) == f"{CARD}\n\n{PORT}"


@pytest.mark.parametrize("some", [dump.without, dump.below])
def test_a_device_that_the_machine_does_not_have_fails(some):
    with pytest.raises(AssertionError, match=r"no such device: .*/devices/c"):
        some(MACHINE, ["/devices/a", "/devices/c"])


def test_a_scenario_has_the_machine_that_it_names_with_its_own_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "MACHINES", tmp_path)
    (tmp_path / "two.dump").write_text(f"# Two cards\n{MACHINE}\n")
    (tmp_path / "a.toml").write_text(
        "about = 'x'\nmachine = 'two'\nlacks = ['/devices/a/port']\ntree = '''\nP: /devices/ab\nA: state=hung\n'''\n"
        "[[step]]\nunplug = ['/devices/ab']\n[[step]]\nplug = ['/devices/ab']\n"
    )
    said = read(tmp_path / "a.toml")
    assert said["tree"] == f"# Two cards\n{CARD}\n\n{OTHER}\nA: state=hung"
    assert said["step"][1]["plug"] == f"{OTHER}\nA: state=hung"


SAID = {path.stem: tomllib.loads(path.read_text()) for path in HERE.glob("*.toml")}
MACHINES = sorted(path.stem for path in dump.MACHINES.iterdir())


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_says_what_it_is_and_is_used(name):
    text = dump.machine(name)
    assert text.startswith("# ")
    users = [scenario for scenario, said in SAID.items() if said.get("machine") == name]
    assert len(users) > 1 or (users and len(text.splitlines()) > SHORT)


@pytest.mark.parametrize("name", sorted(SAID))
def test_a_long_dump_is_a_machine_of_its_own(name):
    assert len(SAID[name].get("tree", "").splitlines()) <= SHORT, "put it into machines/"
