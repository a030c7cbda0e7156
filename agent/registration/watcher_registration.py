"""The other way to register: a socket in the plugin watcher's directory, which the kubelet finds by itself.

Level-triggered as `registration` is, and served by the same endpoint with one RPC more.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from agent.core.backoff import STEADY_SECONDS, Backoff
from agent.core.reason import NO_REASON, Reason, ReasonCause
from agent.core.registration_phase import Phase, PhaseListener
from agent.kubelet.endpoint import Endpoint, EndpointFactory
from agent.registration.wait_for_any import wait_for_any

STREAM_SECONDS = 30.0  # without a stream for so long, the plugin watcher is offered a new socket
OFFER_BACKOFF = Backoff(first=6.25, ceiling=60.0)  # 5 s at least, its jitter taken off


async def keep_offered(
    serve: EndpointFactory, wait_for_event: Callable[[], Coroutine[Any, Any, None]], report: PhaseListener
) -> None:
    """Keep a resource's socket in the plugin watcher's directory, until cancelled.

    The kubelet registers what it finds there, again after its own restart; only when that does not happen, or the
    socket is gone, is a new socket put there.

    Args:
        serve: makes a fresh endpoint in the watcher's directory.
        wait_for_event: returns at the next event in that directory.
        report: told each change of phase with its reason.
    """
    again = OFFER_BACKOFF
    while True:
        try:
            async with serve() as endpoint:
                lived = await _one_offer(endpoint, wait_for_event, report)
                unharmed = endpoint.is_present
                await endpoint.end()
        except TimeoutError as error:
            report(Phase.WAITING, Reason.of(str(error)))
            lived, unharmed, there = 0.0, True, True
        except OSError as error:
            report(Phase.WAITING, Reason.of(f"its socket cannot be made: {error}"))
            lived, unharmed, there = 0.0, True, False
        else:
            there = True
        if lived >= STEADY_SECONDS:
            again = again.reset()
            continue
        again = again.failed()
        if not unharmed and again.failures == 1:  # a socket that was removed is made anew at once, but not for ever
            continue
        pause = asyncio.sleep(again.seconds(random.random()))  # noqa: S311  jitter
        await (pause if there else wait_for_any(pause, wait_for_event()))


async def _one_offer(
    endpoint: Endpoint, stirred: Callable[[], Coroutine[Any, Any, None]], report: PhaseListener
) -> float:
    """Offer one socket for as long as it is of use; how many seconds its last stream lived."""
    loop = asyncio.get_running_loop()
    await endpoint.wait_until_ready()

    async def gone() -> Literal[False]:
        while endpoint.is_present:
            await stirred()
        return False

    report(Phase.REGISTERING, NO_REASON)
    lived = 0.0
    while True:
        outcome = await wait_for_any(_opened(endpoint), _refusal(endpoint), gone(), seconds=STREAM_SECONDS)
        if outcome is not True and not endpoint.stream_count:
            if isinstance(outcome, str):
                report(Phase.WAITING, Reason(ReasonCause.REFUSED, outcome))
            elif endpoint.is_present:
                report(Phase.WAITING, Reason(ReasonCause.KUBELET, f"nobody came for {endpoint.path}"))
            return lived
        report(Phase.STREAMING, NO_REASON)
        since = loop.time()
        await wait_for_any(endpoint.wait_for_streams_end(grace=0.0), gone())
        lived = loop.time() - since
        if not endpoint.is_present:
            return lived
        report(Phase.WAITING, Reason(ReasonCause.KUBELET, "its stream ended"))


async def _opened(endpoint: Endpoint) -> bool:
    await endpoint.wait_for_stream()
    return True


async def _refusal(endpoint: Endpoint) -> str:
    """The text with which the plugin watcher refused the endpoint."""
    while True:
        registered, error = await endpoint.wait_for_verdict()
        if not registered:
            return error or "without a reason"
