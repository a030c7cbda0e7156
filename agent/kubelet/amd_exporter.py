"""Queries to AMD's Device Metrics Exporter, which evaluates the GPUs of its node (protos/metricssvc)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from grpclib.const import Cardinality

from agent.core.entry.query import QueryResult, QueryStatus, SocketQuery
from agent.core.language.safe_text import escape, shorten
from agent.core.language.value import ValueType, parse_kernel_text
from agent.kubelet.grpc_channel import LimitedChannel

_LIST = "/metricssvc.MetricsService/List"
_TEXT_LIMIT = 40  # characters of an unknown state
_RESULTS = {
    "healthy": QueryResult(QueryStatus.HEALTHY),
    "unhealthy": QueryResult(QueryStatus.UNHEALTHY, "the exporter says unhealthy"),
    "unknown": QueryResult(QueryStatus.UNKNOWN, "the exporter says unknown"),
}
_WORST = (QueryStatus.UNHEALTHY, QueryStatus.UNKNOWN, QueryStatus.HEALTHY)


async def query_exporter(channel: LimitedChannel, service: SocketQuery) -> AsyncGenerator[QueryResult, None]:
    """Yield the state of one GPU, named by PCI address or UUID. The exporter has no watch, so there is one result."""
    async with asyncio.timeout(service.timeout), channel.request(_LIST, Cardinality.UNARY_UNARY, bytes, bytes) as call:
        await call.send_message(b"", end=True)
        message = await call.recv_message()
    results = await asyncio.to_thread(
        _parse_results, message or b"", service.device_name
    )  # a message with many GPUs takes long
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
            _RESULTS.get(
                gpu.health.lower(),
                QueryResult(QueryStatus.UNKNOWN, f"the exporter says {escape(shorten(gpu.health, _TEXT_LIMIT))}"),
            )
            for gpu in GpuStateResponse.parse(message).gpu_state
            if not names.isdisjoint(
                (parse_kernel_text(ValueType.PCI, gpu.device), gpu.device.lower(), gpu.uuid.lower())
            )
        ]
    except Exception as error:  # no message, or a field of another type, which betterproto2 accepts
        raise ValueError(str(error)) from error
