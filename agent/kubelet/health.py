"""`health.NAME.socket`: whether a service at a Unix socket says that it is well, by the gRPC health protocol.

grpc.health.v1, as https://github.com/grpc/grpc-proto/blob/master/grpc/health/v1/health.proto has it: `Watch` where the
server has it, so that a change is known at once, else `Check`. The service asked for is the server as a whole.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

from grpclib.const import Cardinality
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from h2.exceptions import H2Error

from agent.core.entry.inquiry import Answer, Reply, Service
from agent.kubelet.channel import Wary
from agent.kubelet.wire import one_line

_WATCH, _CHECK = "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"
_BREATH = 0.02  # seconds between two answers: who floods is read slowly, and then has to wait
_LIMIT = 256 * 1024  # bytes for one answer, which has two
_WHOLE = b""  # a HealthCheckRequest that names no service
_STATUS = 0x08  # the tag of HealthCheckResponse.status, a varint
_SAYS = {
    0: Answer(Reply.UNKNOWN, "the service says UNKNOWN"),
    1: Answer(Reply.WELL),
    2: Answer(Reply.ILL, "the service says NOT_SERVING"),
    3: Answer(Reply.UNKNOWN, "the service says SERVICE_UNKNOWN"),
}


class _Plain(CodecBase):
    """Messages as the bytes that they are."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ANN401  as grpclib has it
        """See `CodecBase`."""
        del message_type
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> bytes:  # noqa: ANN401  as grpclib has it
        """See `CodecBase`."""
        del message_type
        return data


async def ask(service: Service) -> AsyncGenerator[Answer, None]:
    """What a service says, and what it says instead until it is time to ask again."""
    channel = Wary(service.path, _Plain(), _LIMIT)
    try:
        async with _dialled(channel, service):
            heard = False
            try:
                async with aclosing(_watched(channel, service)) as answers:
                    async for answer in answers:
                        heard = True
                        yield answer
            except GRPCError:
                if heard:
                    raise
                yield await _checked(channel, service)  # UNIMPLEMENTED, or what servers say instead
    except TimeoutError:
        yield Answer(Reply.UNKNOWN, f"{service.path}: no answer within {service.timeout:g} s", late=True)
    except GRPCError as error:
        text = one_line(f"{error.status.name}: {error.message or 'no text'}")
        yield Answer(Reply.UNKNOWN, f"{service.path}: {text}")
    except OSError as error:
        yield Answer(Reply.UNKNOWN, f"{service.path}: {os.strerror(error.errno) if error.errno else 'no connection'}")
    except (StreamTerminatedError, ProtocolError, H2Error, RuntimeError, ValueError, AssertionError):
        # RuntimeError: uvloop's for a transport that is closed; AssertionError: grpclib's for a message that is cut.
        why = "it says too much" if channel.flooded else "the connection was lost, or is none of gRPC"
        yield Answer(Reply.UNKNOWN, f"{service.path}: {why}")


@asynccontextmanager
async def _dialled(channel: Wary, service: Service) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(service.timeout):
            await channel.__connect__()
        yield
    finally:
        channel.close()


async def _watched(channel: Wary, service: Service) -> AsyncGenerator[Answer, None]:
    """All that it says while it is watched."""
    until = asyncio.get_running_loop().time() + service.every
    async with channel.request(_WATCH, Cardinality.UNARY_STREAM, bytes, bytes) as stream:
        async with asyncio.timeout(service.timeout):
            await stream.send_message(_WHOLE, end=True)
            message = await stream.recv_message()
        while message is not None:
            yield _says(message)
            channel.heard()
            await asyncio.sleep(_BREATH)
            try:
                async with asyncio.timeout_at(until):
                    message = await stream.recv_message()
            except TimeoutError:
                await stream.cancel()
                return
        async with asyncio.timeout(service.timeout):
            await stream.recv_trailing_metadata()
    yield Answer(Reply.UNKNOWN, f"{service.path}: it ended the call")


async def _checked(channel: Wary, service: Service) -> Answer:
    """What it says when it is asked once."""
    async with asyncio.timeout(service.timeout), channel.request(_CHECK, Cardinality.UNARY_UNARY, bytes, bytes) as call:
        await call.send_message(_WHOLE, end=True)
        message = await call.recv_message()
    return _says(message or b"")


def _says(message: bytes) -> Answer:
    """What a HealthCheckResponse says. Its one field has one byte, for there are four statuses."""
    status = message[1] if len(message) == 2 and message[0] == _STATUS else 0 if not message else -1
    return _SAYS.get(status, Answer(Reply.UNKNOWN, "the service answers what is no status"))
