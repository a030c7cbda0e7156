"""Queries by the gRPC health protocol.

grpc.health.v1, https://github.com/grpc/grpc-proto/blob/master/grpc/health/v1/health.proto. `Watch` if the server has
it, because changes then arrive at once. Otherwise `Check`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError

from agent.core.entry.query import QueryResult, QueryStatus, SocketQuery
from agent.kubelet.grpc_channel import LimitedChannel

_WATCH, _CHECK = "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"
_PAUSE_SECONDS = 0.02  # between two results: a service that sends too much is slowed down
_SERVICE = 0x0A  # the tag of HealthCheckRequest.service, a string; without it the request is for the whole server
_STATUS = 0x08  # the tag of HealthCheckResponse.status, a varint
_SHORT = 0x7F  # the largest length of one byte
_RESULTS = {
    0: QueryResult(QueryStatus.UNKNOWN, "the service says UNKNOWN"),
    1: QueryResult(QueryStatus.HEALTHY),
    2: QueryResult(QueryStatus.UNHEALTHY, "the service says NOT_SERVING"),
    3: QueryResult(QueryStatus.UNKNOWN, "the service says SERVICE_UNKNOWN"),
}


async def query_health(channel: LimitedChannel, service: SocketQuery) -> AsyncGenerator[QueryResult, None]:
    """Yield the state of the service at each change, until the next query is due."""
    has_result = False
    try:
        async with aclosing(_watch(channel, service)) as results:
            async for result in results:
                has_result = True
                yield result
    except GRPCError:
        if has_result:
            raise
        yield await _check(channel, service)  # UNIMPLEMENTED, or another error of servers without Watch


async def _watch(channel: LimitedChannel, service: SocketQuery) -> AsyncGenerator[QueryResult, None]:
    """Yield the results of `Watch`."""
    deadline = asyncio.get_running_loop().time() + service.interval
    async with channel.request(_WATCH, Cardinality.UNARY_STREAM, bytes, bytes) as stream:
        async with asyncio.timeout(service.timeout):
            await stream.send_message(_encode_request(service.device_name), end=True)
            message = await stream.recv_message()
        while message is not None:
            yield _parse_response(message)
            channel.reset_limit()
            await asyncio.sleep(_PAUSE_SECONDS)
            try:
                async with asyncio.timeout_at(deadline):
                    message = await stream.recv_message()
            except TimeoutError:
                await stream.cancel()
                return
        async with asyncio.timeout(service.timeout):
            await stream.recv_trailing_metadata()
    yield QueryResult(QueryStatus.UNKNOWN, f"{service.path}: it ended the call")


async def _check(channel: LimitedChannel, service: SocketQuery) -> QueryResult:
    """Return the result of one `Check`."""
    async with asyncio.timeout(service.timeout), channel.request(_CHECK, Cardinality.UNARY_UNARY, bytes, bytes) as call:
        await call.send_message(_encode_request(service.device_name), end=True)
        message = await call.recv_message()
    return _parse_response(message or b"")


def _parse_response(message: bytes) -> QueryResult:
    """Return the result of a HealthCheckResponse. Its only field has one byte, because there are four statuses."""
    status = message[1] if len(message) == 2 and message[0] == _STATUS else 0 if not message else -1
    return _RESULTS.get(status, QueryResult(QueryStatus.UNKNOWN, "the service answers what is no status"))


def _encode_request(service_name: str) -> bytes:
    """Return a HealthCheckRequest for a service name."""
    name = service_name.encode()
    if not name:
        return b""
    size = bytes([len(name)]) if len(name) <= _SHORT else bytes([len(name) & _SHORT | 0x80, len(name) >> 7])
    return bytes([_SERVICE]) + size + name
