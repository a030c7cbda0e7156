"""`health.NAME.socket`: queries to services at Unix sockets, in one of two protocols.

The gRPC health protocol: grpc.health.v1, https://github.com/grpc/grpc-proto/blob/master/grpc/health/v1/health.proto.
`Watch` if the server has it, because changes then arrive at once. Otherwise `Check`. AMD's Device Metrics Exporter,
which evaluates the GPUs of its node: protos/metricssvc.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager

from grpclib.const import Cardinality
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError
from h2.exceptions import H2Error

from agent.core.entry.query import QueryResult, QueryStatus, ServiceProtocol, SocketQuery
from agent.core.language.safe_text import escape, shorten
from agent.core.language.value import ValueType, parse_kernel_text
from agent.kubelet.grpc_channel import LimitedChannel
from agent.kubelet.wire import encode_varint, format_error_text

_LIMIT = 256 * 1024  # bytes of one answer
_MAY_BE_MISSING = frozenset({ServiceProtocol.AMD_METRICS})  # services that some nodes do not have

_WATCH, _CHECK = "/grpc.health.v1.Health/Watch", "/grpc.health.v1.Health/Check"
_PAUSE_SECONDS = 0.02  # between two results: a service that sends too much is slowed down
_SERVICE = b"\x0a"  # the tag of HealthCheckRequest.service, a string; without it the request is for the whole server
_STATUS = 0x08  # the tag of HealthCheckResponse.status, a varint
_SERVING_STATUSES = {
    0: QueryResult(QueryStatus.UNKNOWN, "the service reports UNKNOWN"),
    1: QueryResult(QueryStatus.HEALTHY),
    2: QueryResult(QueryStatus.UNHEALTHY, "the service reports NOT_SERVING"),
    3: QueryResult(QueryStatus.UNKNOWN, "the service reports SERVICE_UNKNOWN"),
}

_LIST = "/metricssvc.MetricsService/List"
_TEXT_LIMIT = 40  # characters of an unknown state
_GPU_STATES = {
    "healthy": QueryResult(QueryStatus.HEALTHY),
    "unhealthy": QueryResult(QueryStatus.UNHEALTHY, "the exporter reports unhealthy"),
    "unknown": QueryResult(QueryStatus.UNKNOWN, "the exporter reports unknown"),
}
_WORST = (QueryStatus.UNHEALTHY, QueryStatus.UNKNOWN, QueryStatus.HEALTHY)


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
        reason = (
            "the answer is too long"
            if channel.is_flooded
            else "the connection was lost, or the service does not use gRPC"
        )
        yield QueryResult(QueryStatus.UNKNOWN, f"{service.path}: {reason}")


@asynccontextmanager
async def _connect(channel: LimitedChannel, service: SocketQuery) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(service.timeout):
            await channel.__connect__()
        yield
    finally:
        channel.close()


async def _query_health(channel: LimitedChannel, service: SocketQuery) -> AsyncGenerator[QueryResult, None]:
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
        # UNIMPLEMENTED, or another error of servers without Watch.
        yield _parse_response(await _call(channel, service, _CHECK, _encode_request(service.device_name)))


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
    yield QueryResult(QueryStatus.UNKNOWN, f"{service.path}: the service ended the call")


async def _call(channel: LimitedChannel, service: SocketQuery, method: str, request: bytes) -> bytes:
    """Return the response to one call, within the timeout of the query."""
    async with asyncio.timeout(service.timeout), channel.request(method, Cardinality.UNARY_UNARY, bytes, bytes) as call:
        await call.send_message(request, end=True)
        return await call.recv_message() or b""


def _parse_response(message: bytes) -> QueryResult:
    """Return the result of a HealthCheckResponse. Its only field has one byte, because there are four statuses."""
    status = message[1] if len(message) == 2 and message[0] == _STATUS else 0 if not message else -1
    return _SERVING_STATUSES.get(status, QueryResult(QueryStatus.UNKNOWN, "the answer is not a health status"))


def _encode_request(service_name: str) -> bytes:
    """Return a HealthCheckRequest for a service name."""
    name = service_name.encode()
    return _SERVICE + encode_varint(len(name)) + name if name else b""


async def _query_exporter(channel: LimitedChannel, service: SocketQuery) -> AsyncGenerator[QueryResult, None]:
    """Yield the state of one GPU, named by PCI address or UUID. The exporter has no watch, so there is one result."""
    message = await _call(channel, service, _LIST, b"")
    # In a thread, because a message with many GPUs takes long.
    results = await asyncio.to_thread(_parse_results, message, service.device_name)
    unlisted = QueryResult(QueryStatus.UNKNOWN, f"the exporter does not list {service.device_name}")
    yield min(results, key=lambda result: _WORST.index(result.status), default=unlisted)


def _parse_results(message: bytes, gpu_name: str) -> list[QueryResult]:
    """Return the state of each GPU with this name. A partitioned GPU can be listed more than once.

    Raises:
        ValueError: the message is not valid.
    """
    from agent.kubelet.messages.metricssvc import GpuStateResponse  # the import must not delay the first lists

    names = {gpu_name.lower(), parse_kernel_text(ValueType.PCI, gpu_name)}
    try:
        return [
            _GPU_STATES.get(
                gpu.health.lower(),
                QueryResult(QueryStatus.UNKNOWN, f"the exporter reports {escape(shorten(gpu.health, _TEXT_LIMIT))}"),
            )
            for gpu in GpuStateResponse.parse(message).gpu_state
            if not names.isdisjoint(
                (parse_kernel_text(ValueType.PCI, gpu.device), gpu.device.lower(), gpu.uuid.lower())
            )
        ]
    except Exception as error:  # no message, or a field of another type, which betterproto2 accepts
        raise ValueError(str(error)) from error


_QueryFunction = Callable[[LimitedChannel, SocketQuery], AsyncGenerator[QueryResult, None]]
_PROTOCOLS: Mapping[ServiceProtocol, _QueryFunction] = {
    ServiceProtocol.GRPC_HEALTH: _query_health,
    ServiceProtocol.AMD_METRICS: _query_exporter,
}
