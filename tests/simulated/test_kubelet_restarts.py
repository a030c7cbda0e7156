"""Starts, stops and restarts: files that remain, and state that the kubelet keeps."""

import asyncio
import json
import os
import socket

import pytest
from grpclib.client import Channel

from device_agent_lab.simulated.errors import KubeletStopped
from device_agent_lab.simulated.kubelet import Kubelet
from tests.simulated.tiny_plugin import device

FOO = "example.com/foo"


def fill(directory):
    """A socket, a file, links to both, a directory with a socket in it, a checkpoint."""
    os.makedirs(directory / "sub")
    for path in (directory / "s.sock", directory / "sub" / "s.sock"):
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    (directory / "file").write_text("")
    (directory / "to-file").symlink_to("file")
    (directory / "to-socket").symlink_to("s.sock")
    (directory / "kubelet_internal_checkpoint").write_text("not JSON")


@pytest.mark.parametrize(
    ("release", "stays"),
    [("1.32", {"sub"}), ("1.33", {"sub", "file", "to-file"}), ("1.36", {"sub", "file", "to-file"})],
)
async def test_what_is_removed_at_start(make_kubelet, tmp_path, release, stays):
    directory = tmp_path / "dp"
    fill(directory)
    kubelet = make_kubelet(directory, release=release)
    await kubelet.start()
    # A dangling link cannot be followed, so that the order of removal decides over `to-socket`.
    left = set(os.listdir(directory)) - {"to-socket"}
    assert left == stays | {"kubelet.sock", "kubelet_internal_checkpoint"}
    assert os.listdir(directory / "sub") == ["s.sock"]


async def test_a_start_that_wipes_nothing(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet)
    await kubelet.restart(wipe=False)
    assert exists(foo.path)
    await kubelet.restart()
    assert not exists(foo.path)


async def test_the_socket_is_there_before_it_listens(make_kubelet):
    kubelet = make_kubelet()
    starting = asyncio.create_task(kubelet.start(listen_after=0.3))
    await kubelet.until(lambda: kubelet.events.select("bound"))
    assert exists(kubelet.socket)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_unix_connection(kubelet.socket)
    await starting
    _, writer = await asyncio.open_unix_connection(kubelet.socket)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("kind", ["term", "kill"])
async def test_a_stop_ends_connections_and_leaves_the_sockets(started, plugin, kind):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    await foo.register()
    await kubelet.until(lambda: kubelet.streams(FOO) == 1)
    async with Channel(path=kubelet.socket) as channel:
        await channel.__connect__()
        await kubelet.stop(kind)
        assert not kubelet.running
        for protocol in foo.server.protocols:
            await kubelet.until(lambda protocol=protocol: is_closed(protocol))
        await kubelet.until(lambda: is_closed(channel._protocol))
    assert exists(kubelet.socket)
    assert exists(foo.path)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_unix_connection(kubelet.socket)


def exists(path):
    return os.path.exists(path)


def content(path):
    with open(path) as file:
        return json.load(file)


def is_closed(protocol):
    return protocol.connection.is_closing()


async def test_a_restart_knows_the_resource_without_devices(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    await foo.register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    await kubelet.allocate("p", "c", {FOO: 1})
    await kubelet.restart(kind="kill")
    assert kubelet.is_known(FOO)
    assert (kubelet.capacity(FOO), kubelet.allocatable(FOO)) == (0, 0)
    assert kubelet.get_held_ids(FOO) == {"a": ("p", "c")}
    await (await plugin(kubelet, devices=[device("a")])).register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    await foo.close()


async def test_the_checkpoint_is_private_and_written_for_every_list(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    await foo.register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    path = os.path.join(kubelet.directory, "kubelet_internal_checkpoint")
    inode = os.stat(path).st_ino
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert content(path)["Data"]["RegisteredDevices"] == {FOO: ["a"]}
    foo.send()
    await kubelet.until(lambda: len(kubelet.lists) == 2)
    assert os.stat(path).st_ino != inode


async def test_a_lost_checkpoint_is_a_resource_unheard_of(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    await foo.register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    await kubelet.stop()
    os.unlink(os.path.join(kubelet.directory, "kubelet_internal_checkpoint"))
    await kubelet.start()
    assert (await kubelet.allocate("p", "c", {FOO: 1})).without == (FOO,)


async def test_nothing_is_allocated_by_a_kubelet_that_is_stopped(make_kubelet):
    kubelet = make_kubelet()
    with pytest.raises(KubeletStopped):
        await kubelet.allocate("p", "c", {FOO: 1})


async def test_a_kubelet_that_goes_away_during_allocate(started, plugin):
    kubelet = await started()
    foo = await plugin(kubelet, devices=[device("a")])
    foo.gate = asyncio.Event()
    await foo.register()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    allocating = asyncio.create_task(kubelet.allocate("p", "c", {FOO: 1}))
    await kubelet.until(lambda: foo.allocated)
    await kubelet.stop("kill")
    with pytest.raises(KubeletStopped):
        await allocating


async def test_waiting_tells_what_happened(started):
    kubelet = await started()
    with pytest.raises(TimeoutError, match="listening"):
        await kubelet.until(lambda: kubelet.streams(FOO), timeout=0.01)


async def test_many_lives_leave_nothing(started, plugin):
    kubelet = await started()
    for life in range(20):
        foo = await plugin(kubelet, devices=[device("a")], name=f"{life}.sock")
        await foo.register()
        await kubelet.until(lambda: kubelet.streams(FOO) == 1)
        await kubelet.restart(kind="kill" if life % 2 else "term")
        await foo.close()


async def test_as_a_plain_context(tmp_path):
    async with Kubelet(tmp_path) as kubelet:
        assert kubelet.running
    assert not kubelet.running
