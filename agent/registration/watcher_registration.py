"""Registration by the plugin watcher: the kubelet finds a socket in a directory.

Level-triggered like `socket_registration`. The endpoint is the same, with one more service.
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

STREAM_SECONDS = 30.0  # without a stream for this time, the plugin watcher gets a new socket
OFFER_BACKOFF = Backoff(initial_s=6.25, max_s=60.0)  # at least 5 s after jitter


async def keep_offered(
    serve: EndpointFactory, wait_for_event: Callable[[], Coroutine[Any, Any, None]], report: PhaseListener
) -> None:
    """Keep a socket of the resource in the directory of the plugin watcher, until cancelled.

    The kubelet registers the sockets of this directory, and again after its own restart. A new socket is created only
    if that does not happen, or if the socket is removed.

    Args:
        serve: creates an endpoint in the directory of the watcher.
        wait_for_event: returns at the next event in that directory.
        report: called at each change of the phase, with the reason.
    """
    backoff = OFFER_BACKOFF
    while True:
        try:
            async with serve() as endpoint:
                stream_seconds = await _offer_once(endpoint, wait_for_event, report)
                has_file = endpoint.is_present
                await endpoint.end()
        except TimeoutError as error:
            report(Phase.WAITING, Reason.from_text(str(error)))
            stream_seconds, has_file, has_directory = 0.0, True, True
        except OSError as error:
            report(Phase.WAITING, Reason.from_text(f"its socket cannot be created: {error}"))
            stream_seconds, has_file, has_directory = 0.0, True, False
        else:
            has_directory = True
        if stream_seconds >= STEADY_SECONDS:
            backoff = backoff.reset()
            continue
        backoff = backoff.add_failure()
        if not has_file and backoff.failures == 1:  # a removed socket is replaced at once, but only once
            continue
        pause = asyncio.sleep(backoff.compute_delay(random.random()))  # noqa: S311  jitter
        await (pause if has_directory else wait_for_any(pause, wait_for_event()))


async def _offer_once(
    endpoint: Endpoint, wait_for_event: Callable[[], Coroutine[Any, Any, None]], report: PhaseListener
) -> float:
    """Offer one socket while it is useful. Return the seconds for which its last stream lived."""
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
                report(Phase.WAITING, Reason(ReasonCause.KUBELET, f"the kubelet did not connect to {endpoint.path}"))
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
    """Return the text of the plugin watcher when it refuses the endpoint."""
    while True:
        registered, error = await endpoint.wait_for_verdict()
        if not registered:
            return error or "without a reason"
