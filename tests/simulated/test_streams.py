"""ListAndWatch: what each message and each end does; several registrations of one resource."""

import asyncio
import os

import pytest
from grpclib import GRPCError

from device_agent_lab.simulated.plugin_client import RECEIVE_LIMIT
from tests.simulated.tiny_plugin import device

FOO = "example.com/foo"


async def register_plugin(kubelet, plugin, *devices, **how):
    one = await plugin(kubelet, devices=devices, **how)
    before = len(kubelet.lists)
    await one.register()
    await kubelet.until(lambda: len(kubelet.lists) > before)
    return one


async def test_every_message_is_the_whole_list(started, plugin):
    kubelet = await started()
    foo = await register_plugin(kubelet, plugin, device("a"), device("b"))
    foo.set(device("b"), device("c"))
    await kubelet.until(lambda: kubelet.healthy(FOO) == {"b", "c"})
    assert [seen.ids for seen in kubelet.lists.select(FOO)] == [{"a", "b"}, {"b", "c"}]
    assert kubelet.lists[0].at <= kubelet.lists[1].at


async def test_messages_that_say_nothing_new_are_counted(started, plugin):
    kubelet = await started()
    foo = await register_plugin(kubelet, plugin, device("a"), device("b"))
    foo.set(device("b"), device("a"))
    await kubelet.until(lambda: kubelet.lists.repeated(FOO) == 1)


async def test_an_empty_list_is_a_resource_without_devices(started, plugin):
    kubelet = await started()
    foo = await register_plugin(kubelet, plugin, device("a"))
    foo.set()
    await kubelet.until(lambda: kubelet.capacity(FOO) == 0)
    assert kubelet.is_known(FOO)


async def test_only_healthy_is_healthy(started, plugin):
    kubelet = await started()
    words = ["Healthy", "healthy", "Unknown", ""]
    await register_plugin(kubelet, plugin, *(device(f"d{i}", word) for i, word in enumerate(words)))
    assert kubelet.healthy(FOO) == {"d0"}
    assert kubelet.lists[0].healths == set(words)


async def test_a_duplicate_id_counts_twice(started, plugin):
    kubelet = await started()
    await register_plugin(kubelet, plugin, device("a"), device("a", "Unhealthy"))
    assert (kubelet.capacity(FOO), kubelet.allocatable(FOO)) == (2, 1)
    assert kubelet.lists[0].duplicates == {"a"}


async def test_no_message_no_resource(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet)
    foo.ending.set()
    await foo.register()
    await kubelet.until(lambda: kubelet.events.select("disconnected"))
    assert kubelet.capacity(FOO) == 0
    assert not kubelet.is_known(FOO)


@pytest.mark.parametrize("how", ["end", "cancel", "die"])
async def test_the_end_of_a_stream_makes_all_unhealthy_and_is_not_retried(started, plugin, how):
    kubelet = await started()
    foo = await register_plugin(kubelet, plugin, device("a"))
    if how == "end":
        foo.end_streams()
    elif how == "cancel":
        kubelet.cancel_stream(FOO)
    else:
        await foo.close()
    await kubelet.until(lambda: kubelet.events.select("disconnected"))
    assert (kubelet.capacity(FOO), kubelet.allocatable(FOO), kubelet.streams(FOO)) == (1, 0, 0)
    assert kubelet.connections() == 0
    if how != "die":
        assert len(foo.server.of("ListAndWatch")) == 1
    assert len(foo.sent) == 1


async def test_after_the_grace_the_resource_is_forgotten_but_its_key_stays(started, plugin):
    now = [0.0]
    kubelet = await started(clock=lambda: now[0])
    foo = await register_plugin(kubelet, plugin, device("a"))
    foo.end_streams()
    await kubelet.until(lambda: kubelet.events.select("disconnected"))
    now[0] = 300
    assert kubelet.capacity(FOO) == 1
    now[0] = 301
    assert kubelet.status().capacity == {FOO: 0}
    assert not kubelet.is_known(FOO)
    foo.ending.clear()
    await foo.register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)


async def test_a_message_above_4_mib_ends_the_stream(started, plugin):
    kubelet = await started()
    size = 4096
    foo = await register_plugin(kubelet, plugin, *(device(f"{i:0{size - 20}}") for i in range(1000)))
    assert kubelet.lists[0].size < RECEIVE_LIMIT
    foo.set(*(device(f"{i:0{size}}") for i in range(1024)))
    (event,) = await kubelet.until(lambda: kubelet.events.select("stream_ended"))
    assert event.detail["code"] == "ResourceExhausted"
    assert event.detail["text"].endswith(f"vs. {RECEIVE_LIMIT})")
    assert kubelet.allocatable(FOO) == 0


async def test_a_slow_reader_holds_the_plugin_up(started, plugin):
    kubelet = await started()
    foo = await register_plugin(kubelet, plugin, device("a"))
    kubelet.stop_reading(FOO)
    big = [device(f"{i:063}") for i in range(10_000)]
    for _ in range(3):
        foo.set(*big)
        await asyncio.sleep(0.05)
    # The first of them is stuck in flow control, the others have not been sent.
    assert len(foo.sent) == 2 or len(foo.sent) == 3
    foo.set(device("b"))
    kubelet.resume_reading(FOO)
    await kubelet.until(lambda: kubelet.healthy(FOO) == {"b"})


async def test_the_plugins_socket_file_does_not_matter_while_the_stream_lives(started, plugin):
    kubelet = await started()
    foo = await register_plugin(kubelet, plugin, device("a"))
    os.unlink(foo.path)
    await kubelet.allocate("p", "c", {FOO: 1})
    assert kubelet.streams(FOO) == 1


@pytest.mark.parametrize("release", ["1.30", "1.36"])
async def test_until_1_36_the_end_of_the_older_stream_disconnects_the_newer(started, plugin, release):
    kubelet = await started(release=release)
    old = await register_plugin(kubelet, plugin, device("a"), name="old.sock")
    await register_plugin(kubelet, plugin, device("a"), name="new.sock")
    assert kubelet.streams(FOO) == 2
    old.end_streams()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 0)
    await kubelet.until(lambda: kubelet.streams(FOO) == 0)
    # The connection whose stream had ended is known to nobody any more: a leak.
    assert kubelet.connections() == 1


async def test_same_socket_twice_is_accepted_until_1_36(started, plugin):
    kubelet = await started()
    foo = await register_plugin(kubelet, plugin, device("a"))
    await foo.register()
    await kubelet.until(lambda: len(kubelet.lists) == 2)
    foo.set(device("b"))
    await kubelet.until(lambda: len(kubelet.lists) == 4)
    assert kubelet.healthy(FOO) == {"b"}
    assert kubelet.lists.repeated() == 0


async def test_1_37_refuses_a_socket_that_is_connected(started, plugin):
    kubelet = await started(release="1.37")
    foo = await register_plugin(kubelet, plugin, device("a"))
    with pytest.raises(GRPCError, match=f"device plugin already connected: {foo.path}"):
        await foo.register()
    assert kubelet.allocatable(FOO) == 1
    # The refusal dropped the live client from the table: its end goes unnoticed, the socket stays taken.
    foo.end_streams()
    await kubelet.until(lambda: kubelet.events.select("stream_ended"))
    assert kubelet.allocatable(FOO) == 1
    with pytest.raises(GRPCError, match="already connected"):
        await foo.register()


async def test_1_37_keeps_both_and_the_newest_wins(started, plugin):
    kubelet = await started(release="1.37")
    old = await register_plugin(kubelet, plugin, device("a"), name="old.sock")
    new = await register_plugin(kubelet, plugin, device("a"), name="new.sock")
    await kubelet.allocate("p", "c", {FOO: 1})
    assert (len(old.allocated), len(new.allocated)) == (0, 1)
    new.end_streams()
    await kubelet.until(lambda: kubelet.events.select("disconnected"))
    assert kubelet.allocatable(FOO) == 1
    kubelet.remove_pod("p")
    await kubelet.allocate("q", "c", {FOO: 1})
    assert len(old.allocated) == 1
    old.end_streams()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 0)


async def test_a_second_stream_on_command(started, plugin):
    kubelet = await started(release="1.37")
    foo = await register_plugin(kubelet, plugin, device("a"))
    await kubelet.open_stream(FOO)
    await kubelet.until(lambda: kubelet.streams(FOO) == 2)
    assert len(foo.server.of("ListAndWatch")) == 2
