"""Registering an endpoint by a call to the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grpclib.exceptions import GRPCError, StreamTerminatedError

from agent.kubelet.grpc_channel import dial
from agent.kubelet.messages.v1beta1 import RegisterRequest, RegistrationStub
from agent.kubelet.wire import VERSION, PluginOptions, format_error_text

DEADLINE_SECONDS = 14.0  # 12 to 15, for the kubelet gives itself 10 to dial back (#3); goes out as whole seconds


class KubeletUnreachable(Exception):  # noqa: N818  the field's word for it
    """There is no kubelet behind the socket, or it went away; says why. `sent`: it may have had the request."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


class RefusedByKubelet(Exception):  # noqa: N818  the field's word for it
    """The kubelet answered with an error; its text, printable, on one line."""


async def register(
    kubelet_socket: str,
    endpoint: str,
    resource: str,
    options: PluginOptions = PluginOptions(),  # noqa: B008  frozen
    timeout_s: float | None = None,
    *,
    is_current: Callable[[], bool] = lambda: True,
) -> None:
    """Register a socket that is served already: the kubelet dials it before it answers.

    Args:
        kubelet_socket: path of kubelet.sock.
        endpoint: name of our socket, in the same directory.
        resource: name of the resource.
        options: those that the endpoint answers GetDevicePluginOptions with.
        timeout_s: seconds in all; DEADLINE_SECONDS if none is said.
        is_current: called after the connection is open. It returns whether the socket is still that of the same
            kubelet. A kubelet that starts removes our sockets, and would dial for 10 s without success.

    Raises:
        Unreachable: nobody listens there, or the connection was lost, or what came is no answer.
        RefusedByKubelet: it answered with an error.
        TimeoutError: it did not answer in time; a stream may open all the same.
    """
    request = RegisterRequest(
        version=VERSION, endpoint=endpoint, resource_name=resource, options=options.build_message()
    )
    timeout_s = DEADLINE_SECONDS if timeout_s is None else timeout_s
    sent = False
    try:
        async with asyncio.timeout(timeout_s), dial(kubelet_socket) as channel:
            if not is_current():
                raise KubeletUnreachable("another kubelet is there", was_sent=False)
            sent = True
            await RegistrationStub(channel).register(request, timeout=timeout_s)
    except GRPCError as error:
        raise RefusedByKubelet(format_error_text(error.message or error.status.name)) from error
    except TimeoutError:
        raise TimeoutError(f"Register did not return within {timeout_s:g} s") from None
    except StreamTerminatedError as error:
        raise KubeletUnreachable("the connection was lost", was_sent=True) from error
    except OSError as error:
        raise KubeletUnreachable(error.strerror or str(error), was_sent=sent) from error
    except KubeletUnreachable:
        raise
    except Exception as error:  # cut short, not protobuf: libraries raise what they like
        raise KubeletUnreachable("its answer cannot be read", was_sent=True) from error
