"""AMD's Device Metrics Exporter, which judges the GPUs of its node; see protos/metricssvc."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from grpclib.const import Cardinality

from agent.core.entry.query import QueryResult, QueryStatus, SocketQuery
from agent.core.language.safe_text import escape, shorten
from agent.core.language.value import ValueType, parse_kernel_text
from agent.kubelet.grpc_channel import LimitedChannel

_LIST = "/metricssvc.MetricsService/List"
_TEXT_LIMIT = 40  # characters of what it says
_RESULTS = {
    "healthy": QueryResult(QueryStatus.HEALTHY),
    "unhealthy": QueryResult(QueryStatus.UNHEALTHY, "the exporter says unhealthy"),
    "unknown": QueryResult(QueryStatus.UNKNOWN, "the exporter says unknown"),
}
_WORST = (QueryStatus.UNHEALTHY, QueryStatus.UNKNOWN, QueryStatus.HEALTHY)


async def query_exporter(channel: LimitedChannel, service: SocketQuery) -> AsyncGenerator[QueryResult, None]:
    """What it says of the GPU that `of` names: by its PCI address, or its UUID. It cannot be watched."""
    async with asyncio.timeout(service.timeout), channel.request(_LIST, Cardinality.UNARY_UNARY, bytes, bytes) as call:
        await call.send_message(b"", end=True)
        message = await call.recv_message()
    results = await asyncio.to_thread(
        _parse_results, message or b"", service.device_name
    )  # in many parts it takes its time
    unlisted = QueryResult(QueryStatus.UNKNOWN, f"the exporter does not list {service.device_name}")
    yield min(results, key=lambda result: _WORST.index(result.status), default=unlisted)


def _parse_results(message: bytes, gpu_name: str) -> list[QueryResult]:
    """What it says of each that has this name: one that is cut into partitions may be listed more than once.

    Raises:
        ValueError: it is no answer.
    """
    from agent.kubelet.messages.metricssvc import GpuStateResponse  # the first lists need not wait for it

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
    except Exception as error:  # no message, or a field of another type, which betterproto2 takes as it is
        raise ValueError(str(error)) from error
