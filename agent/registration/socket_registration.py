"""Registration by Register: one live stream with the present kubelet, without end.

Level-triggered: the goal is one open ListAndWatch stream with the kubelet of the present socket. After any change
(directory wiped, socket replaced, stream ended, Register refused or hanging) the task reads the present state and
starts a new endpoint. Several signs of one kubelet restart lead to one registration. While the stream lives, no timer
runs.

`watcher_registration.py` contains the other method, a socket in the directory of the plugin watcher.
"""

from __future__ import annotations

import asyncio
import random

from agent.core.backoff import STEADY_SECONDS, Backoff
from agent.core.reason import NO_REASON, Reason, ReasonCause
from agent.core.registration_phase import Phase, PhaseListener
from agent.host.socket_watch import SocketIdentity, SocketWatch
from agent.kubelet.endpoint import Endpoint, EndpointFactory
from agent.kubelet.register import KubeletUnreachable, RefusedByKubelet, register
from agent.registration.wait_for_any import wait_for_any

STREAM_SECONDS = 10.0  # from Register's answer to the first ListAndWatch
EAGER_SECONDS = 1.0  # a socket that refuses connections is tried every EAGER_PAUSE; it usually listens soon
EAGER_PAUSE = 0.015
CONNECT_BACKOFF = Backoff(initial_s=0.1, max_s=10.0)  # after EAGER_SECONDS
DOWN_SECONDS = 0.5  # then an unreachable kubelet is reported as down
REGISTER_BACKOFF = Backoff(initial_s=1.25, max_s=60.0)


async def keep_registered(resource: str, serve: EndpointFactory, kubelet: SocketWatch, report: PhaseListener) -> None:
    """Keep a resource registered by Register, until cancelled.

    Args:
        resource: the resource name.
        serve: creates an endpoint with a new socket name.
        kubelet: the socket of the kubelet.
        report: called at each change of the phase, with the reason.
    """
    backoff = REGISTER_BACKOFF
    previous_identity: SocketIdentity | None = None
    while True:
        if kubelet.identity is None:
            report(Phase.WAITING, _make_kubelet_reason(f"{kubelet.path} does not exist"))
        identity = await kubelet.wait_for_socket()
        backoff = (backoff if identity == previous_identity else backoff.reset()).add_failure()
        previous_identity = identity
        pause = backoff.compute_delay(random.random())  # noqa: S311  jitter, no secret
        start_time = asyncio.get_running_loop().time()
        try:
            async with serve() as endpoint:
                stream_seconds = await _register_once(resource, endpoint, identity, kubelet, report, pause=pause)
                has_file = endpoint.is_present
                await endpoint.end()
        except TimeoutError as error:
            report(Phase.WAITING, Reason.from_text(str(error)))
            stream_seconds, has_file = 0.0, True
        except OSError as error:
            report(Phase.WAITING, Reason.from_text(f"its socket cannot be created: {error}"))
            stream_seconds, has_file = 0.0, True
        if stream_seconds >= STEADY_SECONDS:
            backoff = backoff.reset()
        elif has_file or backoff.failures > 1:  # a removed socket is replaced at once, but only once
            remaining_s = start_time + stream_seconds + pause - asyncio.get_running_loop().time()
            await wait_for_any(asyncio.sleep(remaining_s), kubelet.wait_for_other(identity))


async def _register_once(
    resource: str,
    endpoint: Endpoint,
    identity: SocketIdentity,
    kubelet: SocketWatch,
    report: PhaseListener,
    *,
    pause: float,
) -> float:
    """Register one endpoint and wait for its end. Return the seconds for which its stream lived.

    The endpoint ends when its stream ends, when the kubelet is replaced, when its socket is removed before the stream
    opens, or when no stream opens. The wait for a stream is STREAM_SECONDS, or `pause` after a failed Register. An open
    stream counts, whatever the result of Register is.
    """
    loop = asyncio.get_running_loop()
    await endpoint.wait_until_ready()
    report(Phase.REGISTERING, NO_REASON)
    failure = await wait_for_any(
        _register(resource, endpoint, identity, kubelet, report),
        endpoint.wait_for_streams_end(grace=0.0),
        kubelet.wait_for_other(identity),
        _wait_for_removal(endpoint, kubelet),
    )
    if failure is not None and not endpoint.stream_count:
        if failure:
            report(Phase.WAITING, failure)
        await wait_for_any(
            endpoint.wait_for_stream(),
            kubelet.wait_for_other(identity),
            _wait_for_removal(endpoint, kubelet),
            seconds=pause if failure else STREAM_SECONDS,
        )
    if not endpoint.stream_count or kubelet.identity not in (None, identity):
        if failure == NO_REASON and endpoint.is_present and kubelet.identity == identity:
            text = f"the kubelet opened no stream within {STREAM_SECONDS:g} s of Register"
            report(Phase.WAITING, Reason.from_text(text))
        return 0.0
    report(Phase.STREAMING, NO_REASON)
    start_time = loop.time()
    await wait_for_any(endpoint.wait_for_streams_end(grace=0.0), kubelet.wait_for_other(identity))
    is_replaced = kubelet.identity not in (None, identity)
    report(Phase.WAITING, _make_kubelet_reason("another kubelet replaced it" if is_replaced else "its stream ended"))
    return loop.time() - start_time


async def _register(
    resource: str, endpoint: Endpoint, identity: SocketIdentity, kubelet: SocketWatch, report: PhaseListener
) -> Reason:
    """Call Register until this kubelet answers or the connection is lost. Return the failure, or `NO_REASON`.

    A socket file exists before the kubelet listens (ECONNREFUSED for some ms), and the socket of a stopped kubelet
    stays. So the pause between calls is short at first, and then grows. An event in the kubelet's directory ends the
    pause.
    """
    loop = asyncio.get_running_loop()
    start_time = loop.time()
    backoff = CONNECT_BACKOFF

    def is_same_kubelet() -> bool:
        kubelet.check()
        return kubelet.identity == identity

    while True:
        if is_same_kubelet():
            try:
                await register(kubelet.path, endpoint.name, resource, endpoint.options, is_current=is_same_kubelet)
            except KubeletUnreachable as error:
                if error.was_sent:
                    return _make_kubelet_reason(str(error))
                if loop.time() - start_time >= DOWN_SECONDS:
                    report(Phase.WAITING, _make_kubelet_reason(f"{kubelet.path} {error}"))
            except RefusedByKubelet as error:
                return Reason(ReasonCause.REFUSED, str(error))
            except TimeoutError as error:
                return Reason.from_text(f"the kubelet: {error}")
            else:
                return NO_REASON
        if loop.time() - start_time < EAGER_SECONDS:
            await asyncio.sleep(EAGER_PAUSE)
            continue
        backoff = backoff.add_failure()
        await wait_for_any(asyncio.sleep(backoff.compute_delay(random.random())), kubelet.wait_for_event())  # noqa: S311  jitter


async def _wait_for_removal(endpoint: Endpoint, kubelet: SocketWatch) -> None:
    """Return when the socket file of the endpoint is removed."""
    while endpoint.is_present:
        await kubelet.wait_for_event()


def _make_kubelet_reason(text: str) -> Reason:
    """Return the reason of a resource whose kubelet is down or was replaced."""
    return Reason(ReasonCause.KUBELET, text)
