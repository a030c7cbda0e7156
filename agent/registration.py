"""Registration: one resource's way to a live stream with the kubelet that is there, for ever.

Level-triggered. What is wanted is one open ListAndWatch stream with the kubelet whose socket is there now; whatever
happens (the directory wiped, the socket made anew, the stream ended, Register refused or hanging), the answer is to
look at what is there and begin again with a fresh endpoint. The signs of one kubelet restart therefore come to one
registration, and while the stream lives there is nothing to do, on no timer.

Two ways, one per resource: `Register` on kubelet.sock, or a socket in the plugin watcher's directory.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal

from agent.core.backoff import Backoff
from agent.core.phase import Phase
from agent.host.presence import Identity, Presence
from agent.kubelet.endpoint import Endpoint
from agent.kubelet.register import RefusedByKubelet, Unreachable, register

REGISTER_SECONDS = 14.0  # above the 10 s that the kubelet gives itself inside Register; goes out as whole seconds
STREAM_SECONDS = 10.0  # from Register's answer to the first ListAndWatch
STEADY_SECONDS = 10.0  # a stream that lived so long was a success
WATCHER_SECONDS = 30.0  # without a stream for so long, the plugin watcher is offered a new socket
EAGER_SECONDS = 1.0  # so long a socket that refuses connections is tried every EAGER_PAUSE: it will listen soon
EAGER_PAUSE = 0.015
SELDOM = Backoff(first=0.1, ceiling=10.0)  # after that
DOWN_SECONDS = 0.5  # after so long an unreachable kubelet is said to be down
AGAIN = Backoff(first=1.25, ceiling=60.0)
OFFER_AGAIN = Backoff(first=6.25, ceiling=60.0)  # 5 s at least, its jitter taken off (kubelet-contract #92)


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
    again = AGAIN
    before: Identity | None = None
    while True:
        if kubelet.identity is None:
            report(Phase.WAITING, f"kubelet: {kubelet.path} is not there")
        identity = await kubelet.there()
        again = (again if identity == before else again.reset()).failed()
        before = identity
        pause = again.seconds(random.random())  # noqa: S311  jitter, no secret
        begun = asyncio.get_running_loop().time()
        try:
            async with serve() as endpoint:
                lived = await _one_registration(resource, endpoint, identity, kubelet, report, pause=pause)
                unharmed = endpoint.present
                await endpoint.end()
        except OSError as error:
            report(Phase.WAITING, f"its socket cannot be made: {error}")
            lived, unharmed = 0.0, True
        if lived >= STEADY_SECONDS or not unharmed:
            again = again.reset()
        else:
            left = begun + lived + pause - asyncio.get_running_loop().time()
            await _first(asyncio.sleep(left), kubelet.other_than(identity))


async def _one_registration(
    resource: str, endpoint: Endpoint, identity: Identity, kubelet: Presence, report: Report, *, pause: float
) -> float:
    """Register one endpoint and stay with it to its end; how many seconds its stream lived.

    It is done with when its stream ended, another kubelet is there, its socket was removed before a stream came, or
    no stream came: for STREAM_SECONDS, or for `pause` when Register failed. A stream counts whatever Register says
    (kubelet-contract #4).
    """
    loop = asyncio.get_running_loop()
    await endpoint.answers()
    report(Phase.REGISTERING, "")
    failure = await _first(
        _register(resource, endpoint, identity, kubelet, report),
        endpoint.streams_ended(grace=0.0),
        kubelet.other_than(identity),
        _removed(endpoint, kubelet),
    )
    if failure is not None and not endpoint.streams:
        if failure:
            report(Phase.WAITING, failure)
        await _first(
            endpoint.stream_opened(),
            kubelet.other_than(identity),
            _removed(endpoint, kubelet),
            seconds=pause if failure else STREAM_SECONDS,
        )
    if not endpoint.streams or kubelet.identity not in (None, identity):
        if failure == "" and endpoint.present and kubelet.identity == identity:
            report(Phase.WAITING, f"the kubelet opened no stream within {STREAM_SECONDS:g} s of Register")
        return 0.0
    report(Phase.STREAMING, "")
    since = loop.time()
    await _first(endpoint.streams_ended(grace=0.0), kubelet.other_than(identity))
    other = kubelet.identity not in (None, identity)
    report(Phase.WAITING, "kubelet: another one is there" if other else "kubelet: its stream ended")
    return loop.time() - since


async def _register(resource: str, endpoint: Endpoint, identity: Identity, kubelet: Presence, report: Report) -> str:
    """Call Register until that kubelet answers, or its connection is lost; the failure, empty for none.

    A socket is visible before it listens (ECONNREFUSED for some ms), and a stopped kubelet's stays: so it is tried
    at short intervals at first, then ever more seldom. The wait ends early when something happens in the kubelet's
    directory.
    """
    loop = asyncio.get_running_loop()
    since = loop.time()
    seldom = SELDOM
    while True:
        kubelet.check()
        if kubelet.identity == identity:
            try:
                await register(kubelet.path, endpoint.name, resource, endpoint.options, REGISTER_SECONDS)
            except Unreachable as error:
                if error.sent:
                    return f"kubelet: {error}"
                if loop.time() - since >= DOWN_SECONDS:
                    report(Phase.WAITING, f"kubelet: {kubelet.path} {error}")
            except RefusedByKubelet as error:
                return f"the kubelet refused: {error}"
            except TimeoutError as error:
                return f"the kubelet: {error}"
            else:
                return ""
        if loop.time() - since < EAGER_SECONDS:
            await asyncio.sleep(EAGER_PAUSE)
            continue
        seldom = seldom.failed()
        await _first(asyncio.sleep(seldom.seconds(random.random())), kubelet.stirred())  # noqa: S311  jitter


async def keep_offered(serve: Serve, stirred: Callable[[], Coroutine[Any, Any, None]], report: Report) -> None:
    """Keep a resource's socket in the plugin watcher's directory, until cancelled.

    The kubelet registers what it finds there, again after its own restart; only when that does not happen, or the
    socket is gone, is a new socket put there (kubelet-contract §2.2).

    Args:
        serve: makes a fresh endpoint in the watcher's directory.
        stirred: returns at the next event in that directory.
        report: told each change of phase with its reason.
    """
    again = OFFER_AGAIN
    while True:
        try:
            async with serve() as endpoint:
                lived = await _one_offer(endpoint, stirred, report)
                await endpoint.end()
        except OSError as error:
            report(Phase.WAITING, f"its socket cannot be made: {error}")
            lived = 0.0
            there = False
        else:
            there = True
        if lived >= STEADY_SECONDS:
            again = again.reset()
            continue
        again = again.failed()
        pause = asyncio.sleep(again.seconds(random.random()))  # noqa: S311  jitter
        await (pause if there else _first(pause, stirred()))


async def _one_offer(endpoint: Endpoint, stirred: Callable[[], Coroutine[Any, Any, None]], report: Report) -> float:
    """Offer one socket for as long as it is of use; how many seconds its last stream lived."""
    loop = asyncio.get_running_loop()
    await endpoint.answers()

    async def gone() -> Literal[False]:
        while endpoint.present:
            await stirred()
        return False

    report(Phase.REGISTERING, "")
    lived = 0.0
    while True:
        outcome = await _first(_opened(endpoint), _refusal(endpoint), gone(), seconds=WATCHER_SECONDS)
        if outcome is not True and not endpoint.streams:
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
