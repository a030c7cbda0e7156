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
    backoff = OFFER_BACKOFF
    while True:
        try:
            async with serve() as endpoint:
                stream_seconds = await _offer_once(endpoint, wait_for_event, report)
                has_file = endpoint.is_present
                await endpoint.end()
        except TimeoutError as error:
            report(Phase.WAITING, Reason.of(str(error)))
            stream_seconds, has_file, has_directory = 0.0, True, True
        except OSError as error:
            report(Phase.WAITING, Reason.of(f"its socket cannot be made: {error}"))
            stream_seconds, has_file, has_directory = 0.0, True, False
        else:
            has_directory = True
        if stream_seconds >= STEADY_SECONDS:
            backoff = backoff.reset()
            continue
        backoff = backoff.failed()
        if not has_file and backoff.failures == 1:  # a socket that was removed is made anew at once, but not for ever
            continue
        pause = asyncio.sleep(backoff.seconds(random.random()))  # noqa: S311  jitter
        await (pause if has_directory else wait_for_any(pause, wait_for_event()))


async def _offer_once(
    endpoint: Endpoint, wait_for_event: Callable[[], Coroutine[Any, Any, None]], report: PhaseListener
) -> float:
    """Offer one socket for as long as it is of use; how many seconds its last stream lived."""
    loop = asyncio.get_running_loop()
    await endpoint.wait_until_ready()

    async def wait_for_removal() -> Literal[False]:
        while endpoint.is_present:
            await wait_for_event()
        return False

    report(Phase.REGISTERING, NO_REASON)
    stream_seconds = 0.0
    while True:
        outcome = await wait_for_any(
            _wait_for_stream(endpoint), _wait_for_refusal(endpoint), wait_for_removal(), seconds=STREAM_SECONDS
        )
        if outcome is not True and not endpoint.stream_count:
            if isinstance(outcome, str):
                report(Phase.WAITING, Reason(ReasonCause.REFUSED, outcome))
            elif endpoint.is_present:
                report(Phase.WAITING, Reason(ReasonCause.KUBELET, f"nobody came for {endpoint.path}"))
            return stream_seconds
        report(Phase.STREAMING, NO_REASON)
        start_time = loop.time()
        await wait_for_any(endpoint.wait_for_streams_end(grace=0.0), wait_for_removal())
        stream_seconds = loop.time() - start_time
        if not endpoint.is_present:
            return stream_seconds
        report(Phase.WAITING, Reason(ReasonCause.KUBELET, "its stream ended"))


async def _wait_for_stream(endpoint: Endpoint) -> bool:
    await endpoint.wait_for_stream()
    return True


async def _wait_for_refusal(endpoint: Endpoint) -> str:
    """The text with which the plugin watcher refused the endpoint."""
    while True:
        registered, error = await endpoint.wait_for_verdict()
        if not registered:
            return error or "without a reason"
