"""Registration: one resource's way to a live stream with the kubelet that is there, for ever.

Level-triggered. What is wanted is one open ListAndWatch stream with the kubelet whose socket is there now; whatever
happens (the directory wiped, the socket made anew, the stream ended, Register refused or hanging), the answer is to
look at what is there and begin again with a fresh endpoint. The signs of one kubelet restart therefore come to one
registration, and while the stream lives there is nothing to do, on no timer.

The other way, a socket in the plugin watcher's directory, is `watched.py`.
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
EAGER_SECONDS = 1.0  # so long a socket that refuses connections is tried every EAGER_PAUSE: it will listen soon
EAGER_PAUSE = 0.015
CONNECT_BACKOFF = Backoff(first=0.1, ceiling=10.0)  # after that
DOWN_SECONDS = 0.5  # after so long an unreachable kubelet is said to be down
REGISTER_BACKOFF = Backoff(first=1.25, ceiling=60.0)


async def keep_registered(resource: str, serve: EndpointFactory, kubelet: SocketWatch, report: PhaseListener) -> None:
    """Keep a resource registered by `Register`, until cancelled.

    Args:
        resource: its name.
        serve: makes a fresh endpoint with a socket name never used before.
        kubelet: the kubelet's socket.
        report: told each change of phase with its reason.
    """
    backoff = REGISTER_BACKOFF
    previous_identity: SocketIdentity | None = None
    while True:
        if kubelet.identity is None:
            report(Phase.WAITING, _make_kubelet_reason(f"{kubelet.path} is not there"))
        identity = await kubelet.wait_for_socket()
        backoff = (backoff if identity == previous_identity else backoff.reset()).failed()
        previous_identity = identity
        pause = backoff.seconds(random.random())  # noqa: S311  jitter, no secret
        start_time = asyncio.get_running_loop().time()
        try:
            async with serve() as endpoint:
                stream_seconds = await _register_once(resource, endpoint, identity, kubelet, report, pause=pause)
                has_file = endpoint.is_present
                await endpoint.end()
        except TimeoutError as error:
            report(Phase.WAITING, Reason.of(str(error)))
            stream_seconds, has_file = 0.0, True
        except OSError as error:
            report(Phase.WAITING, Reason.of(f"its socket cannot be made: {error}"))
            stream_seconds, has_file = 0.0, True
        if stream_seconds >= STEADY_SECONDS:
            backoff = backoff.reset()
        elif has_file or backoff.failures > 1:  # a socket that was removed is made anew at once, but not for ever
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
    """Register one endpoint and stay with it to its end; how many seconds its stream lived.

    It is done with when its stream ended, another kubelet is there, its socket was removed before a stream came, or
    no stream came: for STREAM_SECONDS, or for `pause` when Register failed. A stream counts whatever Register says.
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
            report(Phase.WAITING, Reason.of(text))
        return 0.0
    report(Phase.STREAMING, NO_REASON)
    start_time = loop.time()
    await wait_for_any(endpoint.wait_for_streams_end(grace=0.0), kubelet.wait_for_other(identity))
    is_replaced = kubelet.identity not in (None, identity)
    report(Phase.WAITING, _make_kubelet_reason("another one is there" if is_replaced else "its stream ended"))
    return loop.time() - start_time


async def _register(
    resource: str, endpoint: Endpoint, identity: SocketIdentity, kubelet: SocketWatch, report: PhaseListener
) -> Reason:
    """Call Register until that kubelet answers, or its connection is lost; the failure, `NO_REASON` for none.

    A socket is visible before it listens (ECONNREFUSED for some ms), and a stopped kubelet's stays: so it is tried
    at short intervals at first, then ever more seldom. The wait ends early when something happens in the kubelet's
    directory.
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
                return Reason.of(f"the kubelet: {error}")
            else:
                return NO_REASON
        if loop.time() - start_time < EAGER_SECONDS:
            await asyncio.sleep(EAGER_PAUSE)
            continue
        backoff = backoff.failed()
        await wait_for_any(asyncio.sleep(backoff.seconds(random.random())), kubelet.wait_for_event())  # noqa: S311  jitter


async def _wait_for_removal(endpoint: Endpoint, kubelet: SocketWatch) -> None:
    """Return when the endpoint's socket file is gone."""
    while endpoint.is_present:
        await kubelet.wait_for_event()


def _make_kubelet_reason(text: str) -> Reason:
    """Return the reason of a resource whose kubelet is down or was replaced."""
    return Reason(ReasonCause.KUBELET, text)
