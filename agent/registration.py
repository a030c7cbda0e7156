"""Registration: one resource's way to a live stream with the kubelet that is there, for ever.

Level-triggered. What is wanted is one open ListAndWatch stream with the kubelet whose socket is there now; whatever
happens (the directory wiped, the socket made anew, the stream ended, Register refused or hanging), the answer is to
look at what is there and begin again with a fresh endpoint. The signs of one kubelet restart therefore come to one
registration, and while the stream lives there is nothing to do, on no timer.

Two ways, one per resource: `Register` on kubelet.sock, or a socket in the plugin watcher's directory.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Any

from agent.core.backoff import Backoff
from agent.core.phase import Phase
from agent.kubelet.endpoint import Endpoint
from agent.host.presence import Identity, Presence
from agent.kubelet.register import RefusedByKubelet, Unreachable, register

REGISTER_SECONDS = 13.0  # above the 10 s that the kubelet gives itself inside Register
STREAM_SECONDS = 10.0  # from Register's answer to the first ListAndWatch
STEADY_SECONDS = 10.0  # a stream that lived so long was a success
WATCHER_SECONDS = 30.0  # without a stream for so long, the plugin watcher is offered a new socket


class Ended(Enum):
    """Why one endpoint is done with."""

    OTHER_KUBELET = "another kubelet is there"
    SOCKET_GONE = "our socket was removed"
    STREAM_ENDED = "the stream ended"
    NO_STREAM = "no stream came"
    REFUSED = "the kubelet refused"


Serve = Callable[[], AbstractAsyncContextManager[Endpoint]]
Report = Callable[[Phase, str], None]


async def keep_registered(resource: str, serve: Serve, kubelet: Presence, report: Report) -> None:
    """Keep a resource registered by `Register`, until cancelled.

    Args:
        resource: its name.
        serve: makes a fresh endpoint with a socket name never used before.
        kubelet: the kubelet's socket.
        report: told each change of phase with its reason.
    """
    again = Backoff(first=1.0, ceiling=60.0)
    while True:
        if kubelet.identity is None:
            report(Phase.WAITING, f"kubelet: {kubelet.path} is not there")
        identity = await kubelet.there()
        try:
            async with serve() as endpoint:
                ended, lived = await _one_registration(resource, endpoint, identity, kubelet, report)
                await endpoint.end()
        except OSError as error:
            report(Phase.WAITING, f"its socket cannot be made: {error}")
            ended, lived = Ended.REFUSED, 0.0
        again = again.reset() if lived >= STEADY_SECONDS else again
        if ended in (Ended.OTHER_KUBELET, Ended.SOCKET_GONE):
            again = again.reset()
            continue
        if lived >= STEADY_SECONDS:
            continue
        again = again.failed()
        await _first(asyncio.sleep(again.seconds(random.random())), kubelet.other_than(identity))  # noqa: S311


async def _one_registration(
    resource: str, endpoint: Endpoint, identity: Identity, kubelet: Presence, report: Report
) -> tuple[Ended, float]:
    """Register one endpoint and stay with it to its end: why it ended, and how many seconds the stream lived."""
    loop = asyncio.get_running_loop()
    await endpoint.answers()
    report(Phase.REGISTERING, "")
    registered = await _first(
        _register(resource, endpoint, kubelet, report), kubelet.other_than(identity), _removed(endpoint, kubelet)
    )
    if registered is None:
        return (Ended.SOCKET_GONE if kubelet.identity == identity else Ended.OTHER_KUBELET), 0.0
    if not endpoint.streams:
        if registered:
            report(Phase.WAITING, f"the kubelet refused: {registered}")
            return Ended.REFUSED, 0.0
        opened = await _first(
            _opened(endpoint), kubelet.other_than(identity), _removed(endpoint, kubelet), seconds=STREAM_SECONDS
        )
        if opened is None and not endpoint.streams:
            if kubelet.identity != identity:
                return Ended.OTHER_KUBELET, 0.0
            report(Phase.WAITING, f"the kubelet opened no stream within {STREAM_SECONDS:g} s of Register")
            return (Ended.NO_STREAM if endpoint.present else Ended.SOCKET_GONE), 0.0
    report(Phase.STREAMING, "")
    since = loop.time()
    await _first(endpoint.streams_ended(grace=0.0), kubelet.other_than(identity))
    other = kubelet.identity not in (None, identity)
    report(Phase.WAITING, "kubelet: another one is there" if other else "kubelet: its stream ended")
    return (Ended.OTHER_KUBELET if other else Ended.STREAM_ENDED), loop.time() - since


async def _register(resource: str, endpoint: Endpoint, kubelet: Presence, report: Report) -> str:
    """Call Register until the kubelet answers; the text of a refusal, empty for none.

    A socket is visible before it listens (ECONNREFUSED for some ms), and a stopped kubelet's stays: so 15 ms at
    first, then ever longer. The wait ends early when something happens in the kubelet's directory.
    """
    again = Backoff(first=0.015, ceiling=10.0)
    while True:
        try:
            await register(kubelet.path, os.path.basename(endpoint.path), resource, deadline=REGISTER_SECONDS)
        except Unreachable as error:
            again = again.failed()
            if again.failures == PATIENT_FAILURES:
                report(Phase.WAITING, f"kubelet: {kubelet.path} {error}")
        except RefusedByKubelet as error:
            return str(error)
        except TimeoutError:
            return f"Register did not return within {REGISTER_SECONDS:g} s"
        else:
            return ""
        await _first(asyncio.sleep(again.seconds(random.random())), kubelet.stirred())  # noqa: S311  jitter


PATIENT_FAILURES = 6  # tries, over about half a second, before an unreachable kubelet is said to be down


async def keep_offered(serve: Serve, stirred: Callable[[], Coroutine[Any, Any, None]], report: Report) -> None:
    """Keep a resource's socket in the plugin watcher's directory, until cancelled.

    The kubelet registers what it finds there, again after its own restart; only when that does not happen, or the
    socket is gone, is a new socket put there (kubelet-contract §2.2).

    Args:
        serve: makes a fresh endpoint in the watcher's directory.
        stirred: returns at the next event in that directory.
        report: told each change of phase with its reason.
    """
    again = Backoff(first=5.0, ceiling=60.0)
    while True:
        try:
            async with serve() as endpoint:
                lived = await _one_offer(endpoint, stirred, report)
                await endpoint.end()
        except OSError as error:
            report(Phase.WAITING, f"its socket cannot be made: {error}")
            lived = 0.0
        if lived >= STEADY_SECONDS:
            again = again.reset()
            continue
        again = again.failed()
        await asyncio.sleep(again.seconds(random.random()))  # noqa: S311  jitter


async def _one_offer(
    endpoint: Endpoint, stirred: Callable[[], Coroutine[Any, Any, None]], report: Report
) -> float:
    """Offer one socket for as long as it is of use; how many seconds its last stream lived."""
    loop = asyncio.get_running_loop()
    await endpoint.answers()

    async def gone() -> bool:
        while endpoint.present:
            await stirred()
        return True

    report(Phase.REGISTERING, "")
    lived = 0.0
    while True:
        outcome = await _first(_opened(endpoint), _refusal(endpoint), gone(), seconds=WATCHER_SECONDS)
        if not endpoint.streams:
            if isinstance(outcome, str):
                report(Phase.WAITING, f"the kubelet refused: {outcome}")
            elif endpoint.present:
                report(Phase.WAITING, f"kubelet: nobody came for {endpoint.path}")
            return lived
        report(Phase.STREAMING, "")
        since = loop.time()
        await _first(endpoint.streams_ended(grace=0.0), gone())
        lived = loop.time() - since
        if not endpoint.present:
            return max(lived, STEADY_SECONDS)
        report(Phase.WAITING, "kubelet: its stream ended")


async def _removed(endpoint: Endpoint, kubelet: Presence) -> None:
    """Return when the endpoint's socket file is gone."""
    while endpoint.present:
        await kubelet.stirred()


async def _opened(endpoint: Endpoint) -> bool:
    await endpoint.stream_opened()
    return True


async def _refusal(endpoint: Endpoint) -> str:
    """The text with which the plugin watcher refused the endpoint."""
    while True:
        registered, error = await endpoint.notified()
        if not registered:
            return error or "without a reason"


async def _first(*waits: Coroutine[Any, Any, Any], seconds: float | None = None) -> Any:  # noqa: ANN401
    """The result of whichever returns first, the others cancelled and gone; None if time is up."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return next((task.result() for task in tasks if task in done), None)
