"""`health.NAME.socket`: queries to services at Unix sockets, in one of two protocols."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager

from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from h2.exceptions import H2Error

from agent.core.entry.query import QueryResult, QueryStatus, ServiceProtocol, SocketQuery
from agent.kubelet import amd_exporter, grpc_health
from agent.kubelet.grpc_channel import LimitedChannel
from agent.kubelet.wire import format_error_text

_QueryFunction = Callable[[LimitedChannel, SocketQuery], AsyncGenerator[QueryResult, None]]
_PROTOCOLS: Mapping[ServiceProtocol, _QueryFunction] = {
    ServiceProtocol.GRPC_HEALTH: grpc_health.query_health,
    ServiceProtocol.AMD_METRICS: amd_exporter.query_exporter,
}
_LIMIT = 256 * 1024  # bytes of one answer
_MAY_BE_MISSING = frozenset({ServiceProtocol.AMD_METRICS})  # services that some nodes do not have


async def query_service(service: SocketQuery) -> AsyncGenerator[QueryResult, None]:
    """Yield the result of a service, and each changed result until the next query is due."""
    query = _PROTOCOLS[service.protocol]
    channel = LimitedChannel(service.path, _LIMIT)
    try:
        async with _connect(channel, service), aclosing(query(channel, service)) as results:
            async for result in results:
                yield result
    except TimeoutError:
        yield QueryResult(
            QueryStatus.UNKNOWN, f"{service.path}: no answer within {service.timeout:g} s", timed_out=True
        )
    except GRPCError as error:
        text = format_error_text(f"{error.status.name}: {error.message or 'no text'}")
        yield QueryResult(QueryStatus.UNKNOWN, f"{service.path}: {text}")
    except OSError as error:
        is_off = isinstance(error, FileNotFoundError) and service.protocol in _MAY_BE_MISSING
        reason = os.strerror(error.errno) if error.errno else "no connection"
        yield QueryResult(QueryStatus.NOT_APPLICABLE if is_off else QueryStatus.UNKNOWN, f"{service.path}: {reason}")
    except (StreamTerminatedError, ProtocolError, H2Error, RuntimeError, ValueError, AssertionError):
        # RuntimeError: uvloop's for a transport that is closed; AssertionError: grpclib's for a message that is cut.
        reason = "it says too much" if channel.is_flooded else "the connection was lost, or is none of gRPC"
        yield QueryResult(QueryStatus.UNKNOWN, f"{service.path}: {reason}")


@asynccontextmanager
async def _connect(channel: LimitedChannel, service: SocketQuery) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(service.timeout):
            await channel.__connect__()
        yield
    finally:
        channel.close()
