"""Queries of a check to a program, a service or a probe, and their results. The shell around the core sends the
queries.

A query result is a fact. A look uses the known result and never waits.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol, TypeAlias

from agent.core.language.logic import Knowledge
from agent.core.struct import Struct


class QueryStatus(Enum):
    """The status of a query.

    UNKNOWN: the query has no result.
    NOT_APPLICABLE: the program or service is not on this host.
    PENDING: no result yet.
    """

    HEALTHY = "well"
    UNHEALTHY = "ill"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "off"
    PENDING = "awaited"


class QueryResult(Struct):
    """The result of a query.

    number: different for each result, so that two looks count one result once.
    timed_out: no result, because no answer came before the timeout.
    """

    status: QueryStatus
    reason: str = ""
    number: int = 0
    timed_out: bool = False


class ProgramQuery(Struct):
    """A query that runs a program. Exit status 0 means healthy.

    timeout, interval: seconds.
    """

    argv: tuple[str, ...]
    timeout: float
    interval: float

    @property
    def dirty_key(self) -> str:
        """The key of the query in the dirty set."""
        return f"run:{hash(self):x}"


class ProbeSpec(Struct):
    """One `[probe.NAME]` table: a long-running program that reports about locations. timeout: its longest silence in
    seconds.
    """

    name: str
    argv: tuple[str, ...]
    timeout: float

    @property
    def dirty_key(self) -> str:
        """The key of the probe in the dirty set. The key of a report has a slash and the location behind it."""
        return f"probe:{hash(self):x}"

    def make_dirty_key(self, place: str) -> str:
        """Return the key of the report about a location in the dirty set."""
        return f"{self.dirty_key}/{place.lstrip('/')}"


class ServiceProtocol(Enum):
    """The protocol of a service: gRPC health checking, or the service of AMD's metrics exporter."""

    GRPC_HEALTH = "grpc-health"
    AMD_METRICS = "amd-metrics"


class SocketQuery(Struct):
    """A query to a service at a Unix socket.

    timeout, interval: seconds.
    device_name: the name of the device in the service. Empty: the service as a whole.
    """

    path: str
    timeout: float
    interval: float
    device_name: str = ""
    protocol: ServiceProtocol = ServiceProtocol.GRPC_HEALTH

    @property
    def dirty_key(self) -> str:
        """The key of the query in the dirty set."""
        return f"socket:{hash(self):x}"


PolledQuery: TypeAlias = ProgramQuery | SocketQuery  # queries that are repeated
Query: TypeAlias = PolledQuery | ProbeSpec


class QueryFacts(Knowledge, Protocol):
    """The facts of one device, including query results."""

    def get_query_result(self, query: Query) -> QueryResult:
        """Return the known result of a query."""
