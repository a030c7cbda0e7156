"""A received call: reads the request, and maps every error to a status.

A peer that breaks the protocol gets an error of its own. Any other exception is a defect of the agent. The peer gets
one line about the defect, and the agent gets the exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from grpclib.const import Handler, Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Stream
from h2.exceptions import H2Error

from agent.kubelet.wire import format_error_text

DefectHandler = Callable[[BaseException], None]


class Servicer(Protocol):
    """A generated service with its methods."""

    def __mapping__(self) -> Mapping[str, Handler]:
        """Return the calls by path."""


class Request:
    """A call whose request is already read. It has the part of a stream that generated code uses."""

    def __init__(self, stream: Stream[Any, Any], message: object) -> None:
        self._stream = stream
        self._message = message

    async def recv_message(self) -> Any:  # noqa: ANN401  as the stream's
        """Return the request."""
        return self._message

    async def send_message(self, message: object) -> None:
        """Send a message. Wait for a slow reader.

        Raises:
            StreamTerminatedError: the peer is gone.
        """
        try:
            await self._stream.send_message(message)
        except (H2Error, OSError, RuntimeError) as error:  # RuntimeError: uvloop's for a transport that is closed
            raise StreamTerminatedError(str(error)) from error


def map_calls(servicer: Servicer, on_defect: DefectHandler) -> Mapping[str, Handler]:
    """Return the calls of a service by path, with mapped errors. `on_defect` is called with every defect."""
    return {
        path: call._replace(func=partial(_handle_call, call.func, on_defect))
        for path, call in servicer.__mapping__().items()
    }


def make_internal_error(error: Exception) -> GRPCError:
    """Return the status of a defect for the peer."""
    return GRPCError(Status.INTERNAL, format_error_text(f"internal error: {type(error).__name__}: {error}"))


async def _handle_call(handle: Callable[[Any], Any], on_defect: DefectHandler, stream: Stream[Any, Any]) -> None:
    request = Request(stream, await _receive_request(stream))
    try:
        await handle(request)
    except (GRPCError, StreamTerminatedError):
        raise
    except Exception as error:
        on_defect(error)
        raise make_internal_error(error) from error


async def _receive_request(stream: Stream[Any, Any]) -> object:
    """Return the request.

    Raises:
        GRPCError: the received data is not a request of this call.
    """
    try:
        message = await stream.recv_message()
    except (GRPCError, StreamTerminatedError):
        raise
    except NotImplementedError:
        raise GRPCError(Status.UNIMPLEMENTED, "compressed requests are not supported") from None
    except Exception:  # noqa: BLE001  incomplete, not protobuf, not UTF-8: the libraries raise many types
        raise GRPCError(Status.INVALID_ARGUMENT, "the request cannot be read") from None
    if message is None:
        raise GRPCError(Status.INVALID_ARGUMENT, "there is no request")
    return message
