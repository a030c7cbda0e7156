"""Repeated queries: their results, the limit of parallel queries, and the end of unused ones."""

import asyncio

import pytest

from agent.checks import query_scheduler
from agent.checks.query_scheduler import QueryScheduler
from agent.core.entry.query import ProgramQuery, QueryResult, QueryStatus

WELL, ILL = QueryResult(QueryStatus.HEALTHY), QueryResult(QueryStatus.UNHEALTHY, "why")


def command(name, every=3600.0):
    return ProgramQuery((f"/bin/{name}",), 1.0, every)


class World:
    """Who looks, and who is asked."""

    def __init__(self, answer=WELL):
        self.says = answer
        self.wanted = set()
        self.told_of = []
        self.changes = []
        self.asked = []
        self.now = self.most = 0
        self.hold = None
        self.linger = None
        self.heard = asyncio.Condition()
        self.asking = QueryScheduler(self.ask)

    def needs_query(self, mark):
        return mark in self.wanted

    def report_change(self, mark, *, changed):
        self.told_of.append(mark)
        self.changes.append(changed)

    async def ask(self, inquiry):
        self.asked.append(inquiry)
        self.now += 1
        self.most = max(self.most, self.now)
        async with self.heard:
            self.heard.notify_all()
        if self.hold:
            await self.hold.wait()
        self.now -= 1
        yield self.says
        if self.linger:
            await self.linger.wait()

    def look(self, *inquiries):
        answers = [self.asking.get_result(one) for one in inquiries]
        self.wanted |= {one.dirty_key for one in inquiries}
        self.asking.finish_look(self)
        return answers

    async def until(self, holds):
        async with asyncio.timeout(60):
            while not holds():  # noqa: ASYNC110  what it waits for is inside of the task that asks
                await asyncio.sleep(0.001)


@pytest.fixture
async def world():
    made = World()
    running = asyncio.create_task(made.asking.run(made))
    yield made
    assert not running.done()
    running.cancel()
    await asyncio.wait([running])


async def test_what_a_look_asks_is_asked_once_and_known_to_the_next(world):
    (answer,) = world.look(command("a"))
    assert answer.status is QueryStatus.PENDING
    world.look(command("a"), command("a"))
    await world.until(lambda: world.told_of)
    assert world.asked == [command("a")]
    assert world.told_of == [command("a").dirty_key]
    (answer,) = world.look(command("a"))
    assert (answer.status, answer.number) == (QueryStatus.HEALTHY, 1)
    assert world.changes == [True]


async def test_each_answer_has_another_number_and_says_whether_it_is_another(world):
    world.look(command("a", 0.01))
    await world.until(lambda: len(world.told_of) > 1)
    world.says = ILL
    seen = len(world.told_of)
    await world.until(lambda: len(world.told_of) > seen + 2)
    assert world.changes.count(True) == 2
    (answer,) = world.look(command("a", 0.01))
    assert (answer.status, answer.reason) == (QueryStatus.UNHEALTHY, "why")
    assert answer.number == len(world.told_of)


async def test_five_hundred_at_once_are_few_at_a_time(world):
    world.hold = asyncio.Event()
    world.look(*(command(str(number)) for number in range(500)))
    await world.until(lambda: world.now == query_scheduler.WORKERS)
    world.hold.set()
    await world.until(lambda: len(world.told_of) == 500)
    assert world.most == query_scheduler.WORKERS
    assert len(set(world.asked)) == 500


async def test_what_they_become_due_at_is_spread(world):
    world.look(*(command(str(number), 1000.0) for number in range(500)))
    await world.until(lambda: len(world.told_of) == 500)
    await world.until(lambda: len(world.asking._due) == 500)
    now = asyncio.get_running_loop().time()
    tenths = [int((at - now) // 100) for at, _, _ in world.asking._due]
    assert max(map(tenths.count, range(10))) < 60


async def test_what_does_not_end_costs_no_worker_once_it_is_told(world):
    """A program that cannot be killed: its answer is known, and it is not asked again before it is gone."""
    world.linger = asyncio.Event()
    stuck = [command(f"stuck{number}", 0.01) for number in range(query_scheduler.WORKERS + 1)]
    world.look(*stuck)
    await world.until(lambda: len(world.told_of) == len(stuck))
    world.look(command("other"))
    await world.until(lambda: command("other").dirty_key in world.told_of)
    assert len(world.asked) == len(stuck) + 1
    world.linger.set()
    await world.until(lambda: len(world.asked) > len(stuck) + 1)


async def test_what_nothing_rests_on_is_forgotten(world):
    world.look(command("a", 0.01), command("b", 0.01))
    await world.until(lambda: len(set(world.told_of)) == 2)
    world.wanted.remove(command("a", 0.01).dirty_key)
    await world.until(lambda: world.asking._idle)
    seen = len(world.asked)
    await world.until(lambda: len(world.asked) > seen + 2)
    assert set(world.asked[seen + 1 :]) == {command("b", 0.01)}
    world.asking.finish_look(world)
    assert set(world.asking._results) == {command("b", 0.01)}


async def test_what_was_unwanted_only_between_two_looks_is_asked_again(world):
    one = command("a", 0.01)
    world.look(one)
    await world.until(lambda: world.told_of)
    world.wanted.clear()
    await world.until(lambda: world.asking._idle)
    (answer,) = world.look(one)
    assert answer.status is QueryStatus.HEALTHY
    seen = len(world.told_of)
    await world.until(lambda: len(world.told_of) > seen)
