"""Probes as processes: their reports, their end, and the facts after it."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from agent.checks import probe_processes, probe_reports
from agent.checks.probe_processes import Probes
from agent.core.backoff import Backoff
from agent.core.entry.query import ProbeSpec, QueryResult, QueryStatus
from agent.core.language.value import Absent

A, B = "0000:3b:00.0", "0000:5e:00.0"


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(probe_processes, "RESTART", Backoff(0.02, 0.1))
    monkeypatch.setattr(probe_processes, "OFF_SECONDS", 0.1)


class World:
    """Who looks, and a probe that says what is written to a pipe."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.wanted = True
        self.marks = []
        self.probes = Probes()
        os.mkfifo(top / "pipe")
        self.pipe = os.open(top / "pipe", os.O_RDWR)

    def needs_probe(self, mark):
        del mark
        return self.wanted

    def report_change(self, mark, *, changed):
        self.marks.append((mark, changed))

    def probe(self, timeout=30.0, script="echo $$ >> {top}/pids; exec cat {top}/pipe"):
        return ProbeSpec("it", ("/bin/sh", "-c", script.replace("{top}", str(self.top))), timeout)

    def is_there(self, pid):
        """Whether that is still one of ours: numbers are given again."""
        try:
            return str(self.top).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    @property
    def pids(self):
        path = self.top / "pids"
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def say(self, *lines):
        os.write(self.pipe, "".join(f"{line}\n" for line in lines).encode())

    def verdict(self, probe, *places):
        answer = self.probes.get_health(probe, places or (A,))
        self.probes.finish_look(self)
        return answer.status, answer.reason

    async def until(self, holds):
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110  what it waits for is inside of the task that listens
                await asyncio.sleep(0.002)

    async def hears(self, probe, *verdict, place=A):
        await self.until(lambda: self.verdict(probe, place) == verdict)


@pytest.fixture
async def world(tmp_path):
    made = World(tmp_path)
    running = asyncio.create_task(made.probes.run(made))
    yield made
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])
    os.close(made.pipe)
    # One that was just being started is killed aside.
    await made.until(lambda: not any(map(made.is_there, made.pids)))


def verdict(healthy, place=A, reason=""):
    return f'{{"place": "{place}", "healthy": {healthy}, "reason": "{reason}"}}'


AWAITED = QueryStatus.PENDING, "no answer yet"
NOTHING = QueryStatus.UNKNOWN, "the probe it says nothing of it"


async def test_what_it_says_is_known_by_place(world):
    probe = world.probe()
    assert world.verdict(probe) == AWAITED
    world.say(verdict("true"), verdict("false", B, "Xid 79"))
    await world.hears(probe, QueryStatus.HEALTHY, "")
    await world.hears(probe, QueryStatus.UNHEALTHY, "Xid 79", place=B)
    assert world.verdict(probe, "other") == AWAITED
    world.say('{"complete": true}')
    await world.hears(probe, *NOTHING, place="other")
    assert world.verdict(probe, A, B) == (QueryStatus.UNHEALTHY, "Xid 79")
    assert (probe.make_dirty_key(B), True) in world.marks
    world.say(f'{{"place": "{B}", "gone": true}}')
    await world.hears(probe, *NOTHING, place=B)
    assert len(world.pids) == 1


async def test_each_verdict_is_another_answer_and_only_another_reply_a_change(world):
    probe = world.probe()
    world.verdict(probe)
    world.say(verdict("true"))
    await world.hears(probe, QueryStatus.HEALTHY, "")
    first = world.probes.get_health(probe, (A,)).number
    world.say(verdict("true"))
    await world.until(lambda: world.probes.get_health(probe, (A,)).number > first)
    assert world.marks == [(probe.make_dirty_key(A), True), (probe.make_dirty_key(A), False)]


async def test_fields(world):
    probe = world.probe()
    assert world.probes.get_field(probe, (A,), "f") == Absent("no answer yet", pending=True)
    world.probes.finish_look(world)
    world.say(f'{{"place": "{A}", "field": "f", "value": "1g.10gb"}}')
    await world.until(lambda: world.probes.get_field(probe, (B, A), "f") == "1g.10gb")
    assert world.probes.get_field(probe, (A,), "g") == Absent("the probe it says no g", pending=True)
    world.say('{"complete": true}')
    await world.until(lambda: world.probes.get_field(probe, (A,), "g") == Absent("the probe it says no g"))
    world.say(f'{{"place": "{A}", "field": "f", "value": null}}')
    await world.until(lambda: world.probes.get_field(probe, (A,), "f") == Absent("the probe it says no f"))


async def test_killed_and_started_again_in_time_it_costs_nothing(world):
    probe = world.probe()
    world.verdict(probe)
    world.say(verdict("true"), verdict("false", B, "old"), '{"complete": true}')
    await world.hears(probe, QueryStatus.UNHEALTHY, "old", place=B)
    os.kill(world.pids[0], signal.SIGKILL)
    await world.until(lambda: len(world.pids) == 2)
    assert world.verdict(probe) == (QueryStatus.HEALTHY, "")
    world.say(verdict("true"), '{"complete": true}')
    await world.hears(probe, *NOTHING, place=B)
    assert world.verdict(probe) == (QueryStatus.HEALTHY, "")


async def test_what_is_silent_for_too_long_is_known_no_more_until_it_speaks(world):
    probe = world.probe(2.0)  # it has to have begun by then
    world.verdict(probe)
    world.say(verdict("true"))
    await world.hears(probe, QueryStatus.HEALTHY, "")
    os.kill(world.pids[0], signal.SIGSTOP)
    await world.hears(probe, QueryStatus.UNKNOWN, "the probe it: it was silent for 2 s")
    assert (probe.dirty_key, True) in world.marks
    await world.until(lambda: len(world.pids) > 1)
    world.say(verdict("true"))
    await world.hears(probe, QueryStatus.HEALTHY, "")


async def test_what_dies_at_once_is_started_ever_more_seldom(world, caplog, monkeypatch):
    waits = []

    class Counting(Backoff):
        def compute_delay(self, jitter):
            waits.append(self.failures)
            return 0.01 * super().compute_delay(jitter)

    monkeypatch.setattr(probe_processes, "RESTART", Counting(1.0, 8.0))
    probe = world.probe(script="echo $$ >> {top}/pids; echo no such card >&2; exit 3")
    world.verdict(probe)
    await world.hears(probe, QueryStatus.UNKNOWN, "the probe it: exit code 3: no such card")
    await world.until(lambda: len(world.pids) > 3)
    assert waits[:3] == [1, 2, 3]
    said = [record.getMessage() for record in caplog.records if "probe it" in record.getMessage()]
    assert said == ["probe it: exit code 3: no such card; starting it again"]


async def test_a_program_that_is_not_there_is_off(world):
    probe = ProbeSpec("it", ("/no/such",), 30.0)
    world.verdict(probe)
    await world.hears(probe, QueryStatus.NOT_APPLICABLE, "it is off: /no/such: no such program")
    assert world.probes.get_field(probe, (A,), "f") == Absent("the probe it is off: /no/such: no such program")


async def test_one_that_says_so_is_off_and_may_come_on(world):
    probe = world.probe()
    world.verdict(probe)
    world.say(verdict("false"), '{"off": "no driver"}')
    await world.hears(probe, QueryStatus.NOT_APPLICABLE, "it is off: no driver")
    os.kill(world.pids[0], signal.SIGKILL)
    await world.until(lambda: len(world.pids) > 1)
    assert world.verdict(probe) == (QueryStatus.NOT_APPLICABLE, "it is off: no driver")
    world.say(verdict("true"))
    await world.hears(probe, QueryStatus.HEALTHY, "")


@pytest.mark.parametrize(
    "junk",
    ["hello", '{"place": 1}', "\x1b[2J", "{" * 1000, "x" * 3_000_000],
    ids=["text", "other", "escape", "braces", "megabytes"],
)
async def test_junk_is_no_report_and_costs_none(world, junk):
    probe = world.probe(script="echo $$ >> {top}/pids; cat {top}/junk; exec cat {top}/pipe")
    (world.top / "junk").write_text(f"{junk}\n")
    world.verdict(probe)
    world.say(verdict("true"))
    await world.hears(probe, QueryStatus.HEALTHY, "")
    assert len(world.pids) == 1


async def test_a_flood_leaves_others_their_turn(world):
    flood = world.probe(script="echo $$ >> {top}/pids; exec yes '" + verdict("true") + "'")
    world.verdict(flood)
    await world.hears(flood, QueryStatus.HEALTHY, "")
    probe = world.probe()
    world.verdict(probe)
    world.say(verdict("false"))
    await world.hears(probe, QueryStatus.UNHEALTHY, "")
    number = world.probes.get_health(flood, (A,)).number
    await world.until(lambda: world.probes.get_health(flood, (A,)).number > number)


async def test_places_are_bounded(world, monkeypatch):
    monkeypatch.setattr(probe_reports, "PLACES_LIMIT", 2)
    monkeypatch.setattr(probe_reports, "FIELDS_LIMIT", 1)
    probe = world.probe()
    world.verdict(probe)
    world.say(*(verdict("true", f"p{number}") for number in range(5)), '{"complete": true}')
    world.say(*(f'{{"place": "p{p}", "field": "{f}", "value": 1}}' for p in range(3) for f in "fg"), "{}")
    world.say(verdict("false", "p0", "end"))
    await world.hears(probe, QueryStatus.UNHEALTHY, "end", place="p0")
    assert world.verdict(probe, "p1") == (QueryStatus.HEALTHY, "")
    assert world.verdict(probe, "p2") == NOTHING
    assert world.probes.get_field(probe, ("p0",), "f") == 1
    assert isinstance(world.probes.get_field(probe, ("p0",), "g"), Absent)
    assert isinstance(world.probes.get_field(probe, ("p2",), "f"), Absent)


async def test_all_that_is_remembered_is_bounded(world, monkeypatch, caplog):
    monkeypatch.setattr(probe_reports, "SIZE_LIMIT", 1000)
    probe = world.probe()
    world.verdict(probe)
    world.say(*(f'{{"place": "p{n}", "field": "{f}", "value": "{"x" * 200}"}}' for n in range(9) for f in "fg"))
    world.say(verdict("true", A, "short"), *(verdict("false", B, "y" * 4000) for _ in range(9)))
    world.say(verdict("false", A, "z" * 999), '{"complete": true}', verdict("true", "p0", "end"))
    await world.hears(probe, QueryStatus.HEALTHY, "end", place="p0")
    assert world.verdict(probe, A) == (
        QueryStatus.UNHEALTHY,
        "",
    )  # for its reason there is no room, and for what is so there is
    held = world.probes._runs[probe].reports
    assert held._size <= 1000
    assert held._size == sum(
        [len(place) + len(said.reason) for place, (_, said) in held._health.items()]
        + [len(f"{p}{name}{value}") for p, fields in held._fields.items() for name, (_, value) in fields.items()]
    )
    assert [record.message for record in caplog.records if "more than" in record.message] == [
        "probe it: it says more than can be remembered: the rest is dropped"
    ]


async def test_what_closes_its_output_is_started_again(world):
    probe = world.probe(script="echo $$ >> {top}/pids; exec >&- 2>&-; exec tail -f {top}/pids")
    world.verdict(probe)
    await world.hears(probe, QueryStatus.UNKNOWN, "the probe it: it closed its output")
    await world.until(lambda: len(world.pids) > 1)


async def test_what_nothing_rests_on_is_ended_and_begins_anew_when_it_is_wanted(world):
    probe = world.probe()
    world.verdict(probe)
    world.say(verdict("true"))
    await world.hears(probe, QueryStatus.HEALTHY, "")
    world.wanted = False
    world.probes.finish_look(world)
    world.probes.finish_look(world)
    await world.until(lambda: not world.probes._runs)
    assert not world.is_there(world.pids[0])
    world.wanted = True
    assert world.verdict(probe) == AWAITED
    world.say(verdict("true"))
    await world.hears(probe, QueryStatus.HEALTHY, "")


async def test_one_that_is_ended_before_it_has_begun_begins_when_it_is_wanted_again(world):
    """A reload and another, between two turns of the loop."""
    probe = world.probe()
    world.verdict(probe)
    while not world.probes._tasks:  # noqa: ASYNC110  until it is there, which is a turn before it begins
        await asyncio.sleep(0)
    world.wanted = False
    world.probes.finish_look(world)
    await world.until(lambda: not world.probes._tasks)
    assert not world.pids
    world.wanted = True
    assert world.verdict(probe) == AWAITED
    world.say(verdict("true"))
    await world.hears(probe, QueryStatus.HEALTHY, "")


async def test_the_worst_of_several_names_counts(world):
    probe = world.probe()
    world.verdict(probe)
    world.say(verdict("true", "a"), verdict("null", "b", "why"), verdict("false", "c", "ill"), '{"complete": true}')
    await world.hears(probe, QueryStatus.UNHEALTHY, "ill", place="c")
    assert world.verdict(probe, "a", "b") == (QueryStatus.UNKNOWN, "why")
    assert world.verdict(probe, "a", "b", "c", "d") == (QueryStatus.UNHEALTHY, "ill")
    assert world.probes.get_health(probe, ("a", "c")) == QueryResult(QueryStatus.UNHEALTHY, "ill", 3)


DOCS = Path(__file__).parents[2] / "docs/probes.md"


async def test_the_example_of_the_docs(world):
    (program,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    board = world.top / "devices/npu0"
    (board / "hwmon/hwmon3").mkdir(parents=True)
    (board / "hwmon/hwmon3/device").symlink_to(board)
    (world.top / "class").mkdir()
    (world.top / "class/hwmon3").symlink_to(board / "hwmon/hwmon3")
    fan = board / "hwmon/hwmon3/fan1_input"
    fan.write_text("900\n")
    for text in ("/sys/class/hwmon", "time.sleep(5)"):
        assert text in program
    code = program.replace("/sys/class/hwmon", f"{world.top}/class").replace("time.sleep(5)", "time.sleep(0.02)")
    (world.top / "probe").write_text(code)
    assert len(program.splitlines()) <= 24
    probe = ProbeSpec("fan", (sys.executable, str(world.top / "probe")), 30.0)
    world.verdict(probe)
    await world.hears(probe, QueryStatus.HEALTHY, "", place=str(board))
    await world.until(lambda: world.probes.get_field(probe, (str(board),), "fan") == 900)
    fan.write_text("0\n")
    await world.hears(probe, QueryStatus.UNHEALTHY, "its fan stands still", place=str(board))
    fan.unlink()
    await world.until(lambda: world.verdict(probe, str(board))[0] is QueryStatus.UNKNOWN)
    (world.top / "class/hwmon3").unlink()
    probe = ProbeSpec("no fan", probe.argv, 30.0)
    world.verdict(probe)
    await world.hears(probe, QueryStatus.NOT_APPLICABLE, "no fan is off: no board with a fan")
