"""What programs become of the words of a device, and what entries want to have been run."""

import pytest

from agent.core.entry.program import Command, Program
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.inventory.inventory import Inventory, update_inventory
from agent.core.inventory.listing import Listing
from agent.core.inventory.preconditions import make_precondition_key
from agent.core.language.template import parse
from agent.core.language.value import Absent
from tests.core.builders import HERE, PCI, Facts, clause, host, line, spec


def program(*argv, name="p", when=None, **more):
    return Program(name, tuple(map(parse, argv)), more.get("timeout", 5.0), more.get("optional", False), HERE, when)


WORDS = {
    "serial": "A1",
    "switch": "-rf",
    "several": ("a", "b"),
    "none": (),
    "bell": "x\ny",
    "blank": "a b; rm *",
    "options.flag": "-v",
    "empty": "",
}


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("{serial}", ("A1",)),
        ("{blank}", ("a b; rm *",)),
        ("--id={switch}", ("--id=-rf",)),
        ("x{switch}", ("x-rf",)),
        ("-{serial}", ("-A1",)),
        ("{options.flag}", ("-v",)),
        ("{several}", ("a", "b")),
        ("--of={several}", ("--of=a", "--of=b")),
        ("{serial|lower}", ("a1",)),
        ("", ("",)),
        ("{empty}", ("",)),
    ],
)
def test_arguments(argument, written):
    made = program("/bin/x", argument, timeout=2.0, optional=True).build_command(WORDS.get)
    assert made == Command(("/bin/x", *written), 2.0, True)


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("{switch}", "{switch}: '-rf' would be an option"),
        ("{bell}", "{bell}: 'x\\ny' cannot be an argument"),
        ("--x={bell}", "--x={bell}: '--x=x\\ny' cannot be an argument"),
        ("{none}", "none is empty"),
        ("{gone}", "gone: no such file"),
    ],
)
def test_arguments_that_cannot_be(argument, reason):
    found = program("/bin/x", argument).build_command(lambda word: WORDS.get(word, Absent("no such file")))
    assert isinstance(found, Absent)
    assert found.reason == reason


def machine(loaded="no"):
    """Where /proc/acme says that."""
    return {"/proc/acme": loaded}


ABSENT = clause(line("/proc/acme", "no"), name="prepare.load.when")
LOAD = program("/sbin/load", name="load", when=ABSENT)
ONCE = program("/sbin/once", name="once")
LOADED = clause(line("/proc/acme", "yes"), name="gate.loaded")
GPU = host("gpu")


def look_at_gpu(*specs, said, outcomes, previous=None, touched=ALL_DIRTY):
    facts = {make_precondition_key(entry): machine(said) for entry in range(len(specs))} | {GPU.key: {"serial": "A1"}}
    return update_inventory(specs, Listing({PCI: (GPU,)}), Facts(facts), previous, touched, program_results=outcomes)


def waits(found: Inventory):
    return found.match_results[GPU.key].candidate.not_ready_reason


def test_devices_wait_until_it_has_been_run():
    entry = spec(prepare=(LOAD,), gate=(LOADED,))
    command = Command(("/sbin/load",), 5.0, False)
    found = look_at_gpu(entry, said="no", outcomes={})
    ((wanted,),) = found.prepare_requests.values()
    assert (wanted.name, wanted.command, wanted.runs_once) == ("load", command, False)
    assert waits(found) == "waits for prepare.load: it is to be run"
    failed = look_at_gpu(entry, said="no", outcomes={command: "/sbin/load ended with 1"})
    assert waits(failed) == "waits for prepare.load: /sbin/load ended with 1"
    assert waits(look_at_gpu(entry, said="no", outcomes={command: ""})) == "waits for match./proc/acme = 'yes', here no"
    done = look_at_gpu(entry, said="yes", outcomes={command: "/sbin/load ended with 1"})
    assert done.prepare_requests == {0: ()}
    assert waits(done) == ""


def test_where_nobody_runs_programs_none_is_waited_for():
    assert waits(look_at_gpu(spec(prepare=(LOAD,)), said="no", outcomes=None)) == ""


def test_without_a_clause_it_is_wanted_once_and_always():
    ((wanted,),) = look_at_gpu(spec(prepare=(ONCE,)), said="no", outcomes={}).prepare_requests.values()
    assert wanted.runs_once


def test_the_first_that_has_not_ended_well_is_said():
    entry = spec(prepare=(ONCE, LOAD))
    outcomes = {Command(("/sbin/once",), 5.0, False): ""}
    assert waits(look_at_gpu(entry, said="no", outcomes=outcomes)) == "waits for prepare.load: it is to be run"


def test_an_argument_that_is_absent_says_so():
    entry = spec(prepare=(program("/sbin/load", "{host.kernel}", name="load"),))
    found = look_at_gpu(entry, said="no", outcomes={})
    assert waits(found) == "waits for prepare.load: host.kernel: no such file"
    assert found.prepare_requests == {0: ()}


def test_only_the_entry_that_wants_it_waits_and_an_outcome_touches_it_alone():
    other = host("nic")
    specs = (spec(prepare=(ONCE,), match=clause(line("kind", "gpu"))), spec("example.com/b"))
    facts = Facts({GPU.key: {"serial": "A1", "kind": "gpu"}, other.key: {"serial": "B1"}})
    listing = Listing({PCI: (GPU, other)})
    first = update_inventory(specs, listing, facts, program_results={})
    assert [first.match_results[one.key].candidate.not_ready_reason for one in (GPU, other)] == [
        "waits for prepare.once: it is to be run",
        "",
    ]
    facts.asked.clear()
    outcomes = {Command(("/sbin/once",), 5.0, False): ""}
    then = update_inventory(
        specs, listing, facts, first, DirtySet(keys=frozenset({make_precondition_key(0)})), program_results=outcomes
    )
    assert waits(then) == ""
    assert {key for key, _ in facts.asked} == {GPU.key}
