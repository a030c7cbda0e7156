"""Each stream gets the newest list once, and no stream waits for another."""

import asyncio
import time
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.inventory.device import DeviceList
from agent.counters import Counters
from agent.registry import Registry
from tests.core.builders import make_listed, snapshot

R = "example.com/a"
EMPTY = DeviceList(R)
ONE = snapshot(make_listed("x"))
TWO = snapshot(make_listed("x"), make_listed("y"))


async def start_task(awaitable):
    """Start a task and run it until it waits."""
    task = asyncio.ensure_future(awaitable)
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def run_loop_turns():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_stream_is_told_at_once_what_there_is_even_if_it_is_nothing():
    registry = Registry()
    with registry.follow(R) as follower:
        assert await follower.wait_for_list() == EMPTY
    registry.publish(ONE)
    with registry.follow(R) as follower:
        assert await follower.wait_for_list() is ONE


async def test_it_wakes_for_what_is_new_and_not_for_what_is_equal():
    registry = Registry()
    registry.publish(ONE)
    with registry.follow(R) as follower:
        follower.mark_sent(await follower.wait_for_list())
        news = await start_task(follower.wait_for_list())
        assert not registry.publish(snapshot(make_listed("x")))
        await run_loop_turns()
        assert not news.done()
        assert registry.publish(TWO)
        assert await news is TWO


async def test_what_is_published_between_two_waits_is_not_lost():
    registry = Registry()
    with registry.follow(R) as follower:
        first = await follower.wait_for_list()
        registry.publish(ONE)
        follower.mark_sent(first)
        assert await follower.wait_for_list() is ONE


async def test_a_slow_stream_is_told_the_newest_alone():
    registry = Registry()
    with registry.follow(R) as follower:
        follower.mark_sent(await follower.wait_for_list())
        registry.publish(ONE)
        registry.publish(TWO)
        assert await follower.wait_for_list() is TWO
        follower.mark_sent(TWO)
        registry.publish(ONE)
        registry.publish(TWO)
        news = await start_task(follower.wait_for_list())
        assert not news.done(), "nothing differs from what it knows"
        news.cancel()


async def test_what_is_over_before_a_stream_wakes_is_no_news():
    registry = Registry()
    with registry.follow(R) as follower:
        follower.mark_sent(await follower.wait_for_list())
        news = await start_task(follower.wait_for_list())
        registry.publish(ONE)
        registry.publish(EMPTY)
        await run_loop_turns()
        assert not news.done()
        registry.publish(TWO)
        assert await news is TWO


async def test_every_stream_is_told():
    registry = Registry()
    with registry.follow(R) as one, registry.follow(R) as other:
        assert registry.count_streams(R) == 2
        for follower in (one, other):
            follower.mark_sent(await follower.wait_for_list())
        tasks = [await start_task(follower.wait_for_list()) for follower in (one, other)]
        registry.publish(ONE)
        assert await asyncio.gather(*tasks) == [ONE, ONE]
    assert registry.count_streams(R) == 0


async def test_one_turn_of_the_event_loop_after_it_is_published_every_stream_has_it():
    registry = Registry()
    followers = [registry.follow(R) for _ in range(50)]
    with ExitStack() as opened:
        tasks = []
        for follower in map(opened.enter_context, followers):
            follower.mark_sent(await follower.wait_for_list())
            tasks.append(await start_task(follower.wait_for_list()))
        registry.publish(ONE)
        await asyncio.sleep(0)
        assert all(task.done() and task.result() is ONE for task in tasks)


async def test_what_is_sent_to_one_stream_is_not_sent_to_another():
    registry = Registry()
    registry.publish(ONE)
    with registry.follow(R) as one, registry.follow(R) as other:
        one.mark_sent(ONE)
        assert (one.is_up_to_date, other.is_up_to_date) == (True, False)


async def test_delivered_waits_for_all_streams_and_only_for_those_of_the_resources():
    registry = Registry()
    registry.publish(ONE)
    with registry.follow(R) as one, registry.follow(R) as other, registry.follow("example.com/other"):
        delivered = await start_task(registry.wait_until_delivered([R]))
        one.mark_sent(ONE)
        await run_loop_turns()
        assert not delivered.done()
        other.mark_sent(ONE)
        await asyncio.wait_for(delivered, 60)


async def test_delivered_at_once_where_nobody_follows():
    registry = Registry()
    registry.publish(ONE)
    await asyncio.wait_for(registry.wait_until_delivered([R, "example.com/unknown"]), 60)


async def test_a_stream_that_ends_is_waited_for_no_more():
    registry = Registry()
    registry.publish(ONE)
    with registry.follow(R):
        delivered = await start_task(registry.wait_until_delivered([R]))
        assert not delivered.done()
    await asyncio.wait_for(delivered, 60)


async def test_an_old_list_that_is_sent_late_is_no_delivery():
    registry = Registry()
    registry.publish(ONE)
    with registry.follow(R) as follower:
        delivered = await start_task(registry.wait_until_delivered([R]))
        registry.publish(TWO)
        follower.mark_sent(ONE)
        await run_loop_turns()
        assert not delivered.done()
        follower.mark_sent(TWO)
        await asyncio.wait_for(delivered, 60)


async def test_several_may_wait_for_the_same_delivery():
    registry = Registry()
    registry.publish(ONE)
    with registry.follow(R) as one, registry.follow(R) as other:
        waits = [await start_task(registry.wait_until_delivered([R])) for _ in range(3)]
        one.mark_sent(ONE)
        await run_loop_turns()
        other.mark_sent(ONE)
        await asyncio.wait_for(asyncio.gather(*waits), 60)


async def test_asking_makes_nothing():
    registry = Registry()
    assert registry.get_list(R) == EMPTY
    assert registry.count_streams(R) == 0
    assert registry._boards == {}


async def test_what_is_forgotten_is_gone_and_an_open_stream_is_told_an_empty_list():
    registry = Registry()
    registry.publish(ONE)
    registry.forget("example.com/unknown")
    with registry.follow(R) as follower:
        follower.mark_sent(ONE)
        registry.forget(R)
        assert await follower.wait_for_list() == EMPTY
        registry.publish(TWO)
        assert await follower.wait_for_list() is TWO, "the resource is back"
    assert registry.get_list(R) is TWO
    with registry.follow(R):
        registry.forget(R)
        assert registry.get_list(R) == EMPTY
    assert registry._boards == {}
    registry.publish(ONE)
    registry.forget(R)
    assert registry._boards == {}


@settings(max_examples=50)
@given(st.lists(st.sampled_from(["x", "y", "publish", "read", "end"]), max_size=30), st.integers(1, 3))
def test_whatever_happens_every_stream_ends_up_with_the_newest_list(steps, streams):
    asyncio.run(_live(steps, streams))


async def _live(steps, streams):
    registry = Registry()
    got = {n: [] for n in range(streams)}
    gates = {n: asyncio.Semaphore(0) for n in range(streams)}

    async def read(n):
        with registry.follow(R) as follower:
            while True:
                news = await follower.wait_for_list()
                await gates[n].acquire()
                got[n].append(news)
                follower.mark_sent(news)

    tasks = {n: asyncio.create_task(read(n)) for n in range(streams)}
    names = []
    for step, action in enumerate(steps):
        if action in "xy":
            names = [*names, action] if action not in names else [name for name in names if name != action]
        elif action == "publish":
            registry.publish(snapshot(*map(make_listed, sorted(names))))
        elif action == "read":
            gates[step % streams].release()
        elif len(tasks) > 1:
            tasks.popitem()[1].cancel()
        await asyncio.sleep(0)
    for gate in gates.values():
        for _ in range(3):
            gate.release()
    await asyncio.wait_for(registry.wait_until_delivered([R]), 60)
    for n in tasks:
        assert got[n][-1] == registry.get_list(R)
        assert all(one != following for one, following in zip(got[n], got[n][1:], strict=False)), "sent twice in a row"
    for task in tasks.values():
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await next(iter(tasks.values()))


async def test_how_long_the_kubelet_is_away_is_no_time_that_a_list_took():
    counts = Counters()
    registry = Registry(counts)
    with registry.follow(R):
        registry.publish(ONE, time.monotonic())
    with registry.follow(R) as follower:
        follower.mark_sent(await follower.wait_for_list(), 1)
    assert sum(counts.change_times.build_distribution().counts) == 0
    with registry.follow(R) as follower:
        registry.publish(TWO, time.monotonic())
        follower.mark_sent(await follower.wait_for_list(), 1)
    assert sum(counts.change_times.build_distribution().counts) == 1
