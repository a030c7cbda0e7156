"""Registration of an endpoint by a Register call to the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from grpclib.exceptions import GRPCError, StreamTerminatedError

from agent.kubelet.grpc_channel import dial
from agent.kubelet.messages.v1beta1 import RegisterRequest, RegistrationStub
from agent.kubelet.wire import VERSION, PluginOptions, format_error_text

DEADLINE_SECONDS = 14.0  # 12 to 15, because the kubelet has 10 to dial back (#3); sent as whole seconds


class KubeletUnreachable(Exception):  # noqa: N818  the field's word for it
    """There is no kubelet at the socket, or the connection was lost. `was_sent`: the kubelet may have the request."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


class RefusedByKubelet(Exception):  # noqa: N818  the field's word for it
    """The kubelet answered with an error. The text is printable and has one line."""


async def register(
    kubelet_socket: str,
    endpoint: str,
    resource: str,
    options: PluginOptions = PluginOptions(),  # noqa: B008  frozen
    timeout_s: float | None = None,
    *,
    is_current: Callable[[], bool] = lambda: True,
) -> None:
    """Register a socket that is already served. The kubelet connects to the socket before it answers.

    Args:
        kubelet_socket: path of kubelet.sock.
        endpoint: name of our socket, in the same directory.
        resource: name of the resource.
        options: the same as in the answer to GetDevicePluginOptions.
        timeout_s: seconds for the whole call. Default: DEADLINE_SECONDS.
        is_current: called after the connection is open. It returns whether the socket is still that of the same
            kubelet. A kubelet that starts removes our sockets, and would dial for 10 s without success.

    Raises:
        KubeletUnreachable: there is no listener, the connection was lost, or the answer is not valid.
        RefusedByKubelet: the kubelet answered with an error.
        TimeoutError: there was no answer in time. A stream may still open.
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
    except Exception as error:  # incomplete, not protobuf: the libraries raise many types
        raise KubeletUnreachable("its answer cannot be read", was_sent=True) from error
