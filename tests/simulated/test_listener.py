"""The socket of the simulated kubelet, on the loop of the lab."""

import asyncio
import contextlib
import socket

import pytest
import uvloop

from device_agent_lab.simulated.listener import GrpcListener


@pytest.fixture(autouse=True)
def nothing_stays():
    """In place of that of this directory: this loop is not the test's, and uvloop keeps two files of its own."""


class Service:
    def __mapping__(self):
        return {}


def test_the_end_of_the_kubelet_in_the_middle_of_an_accept_leaves_nothing(tmp_path):
    """At each turn of the loop after the connection of a peer."""
    faults = []

    async def end_after(turns):
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append((turns, context)))
        listener = GrpcListener(str(tmp_path / f"{turns}.sock"))
        listener.listen()
        serving = asyncio.create_task(listener.serve(Service()))
        await asyncio.sleep(0.01)
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(listener.path)
            for _ in range(turns):
                await asyncio.sleep(0)
            serving.cancel()
            await asyncio.wait({serving})
            await listener.close()
            peer.settimeout(60)
            with contextlib.suppress(ConnectionResetError):  # it was not accepted
                while peer.recv(4096):  # what was written, and then the end
                    continue

    for turns in range(8):
        uvloop.run(end_after(turns))
    assert faults == []
