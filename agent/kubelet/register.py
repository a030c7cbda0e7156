"""Registering an endpoint by a call to the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grpclib.exceptions import GRPCError, StreamTerminatedError

from agent.kubelet.grpc_channel import dial
from agent.kubelet.messages.v1beta1 import RegisterRequest, RegistrationStub
from agent.kubelet.wire import VERSION, Options, one_line

DEADLINE_SECONDS = 14.0  # 12 to 15, for the kubelet gives itself 10 to dial back (#3); goes out as whole seconds


class KubeletUnreachable(Exception):  # noqa: N818  the field's word for it
    """There is no kubelet behind the socket, or it went away; says why. `sent`: it may have had the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class RefusedByKubelet(Exception):  # noqa: N818  the field's word for it
    """The kubelet answered with an error; its text, printable, on one line."""


async def register(
    kubelet_socket: str,
    endpoint: str,
    resource: str,
    options: Options = Options(),  # noqa: B008  frozen
    deadline: float | None = None,
    *,
    meant: Callable[[], bool] = lambda: True,
) -> None:
    """Register a socket that is served already: the kubelet dials it before it answers.

    Args:
        kubelet_socket: path of kubelet.sock.
        endpoint: name of our socket, in the same directory.
        resource: name of the resource.
        options: those that the endpoint answers GetDevicePluginOptions with.
        deadline: seconds in all; DEADLINE_SECONDS if none is said.
        meant: asked once connected: whether the socket still is the one that is meant. A kubelet that begins removes
            our sockets, and would dial in vain for 10 s.

    Raises:
        Unreachable: nobody listens there, or the connection was lost, or what came is no answer.
        RefusedByKubelet: it answered with an error.
        TimeoutError: it did not answer in time; a stream may open all the same.
    """
    request = RegisterRequest(version=VERSION, endpoint=endpoint, resource_name=resource, options=options.message())
    deadline = DEADLINE_SECONDS if deadline is None else deadline
    sent = False
    try:
        async with asyncio.timeout(deadline), dial(kubelet_socket) as channel:
            if not meant():
                raise KubeletUnreachable("another kubelet is there", sent=False)
            sent = True
            await RegistrationStub(channel).register(request, timeout=deadline)
    except GRPCError as error:
        raise RefusedByKubelet(one_line(error.message or error.status.name)) from error
    except TimeoutError:
        raise TimeoutError(f"Register did not return within {deadline:g} s") from None
    except StreamTerminatedError as error:
        raise KubeletUnreachable("the connection was lost", sent=True) from error
    except OSError as error:
        raise KubeletUnreachable(error.strerror or str(error), sent=sent) from error
    except KubeletUnreachable:
        raise
    except Exception as error:  # cut short, not protobuf: libraries raise what they like
        raise KubeletUnreachable("its answer cannot be read", sent=True) from error
