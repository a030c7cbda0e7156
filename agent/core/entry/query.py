"""Inquiries: what a check asks of a program, a service or a probe, and what it is told. Who asks is the edge.

An answer is a fact like any other: a look takes the one that is known, and waits for none.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol, TypeAlias

from agent.core.entry.program import build_argv
from agent.core.language.logic import Knowledge
from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent
from agent.core.struct import Struct


class QueryStatus(Enum):
    """What is known. UNKNOWN: it was asked and could not be told. OFF: who would know is not on this host.

    AWAITED: it was not asked yet.
    """

    HEALTHY = "well"
    UNHEALTHY = "ill"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "off"
    PENDING = "awaited"


class QueryResult(Struct):
    """What was told, and why. `number`: another for each answer, so that looks at one answer count once.

    late: nothing is known because there was no answer in time.
    """

    status: QueryStatus
    reason: str = ""
    number: int = 0
    timed_out: bool = False


class ProgramQuery(Struct):
    """Whether a program ends with 0 within so many seconds; asked again after `every`."""

    argv: tuple[str, ...]
    timeout: float
    interval: float

    @property
    def dirty_key(self) -> str:
        """As what the places of a look name it."""
        return f"run:{hash(self):x}"


class ProbeSpec(Struct):
    """`[probe.NAME]`: a program that runs on and reports of places. It may be silent for so many seconds."""

    name: str
    argv: tuple[str, ...]
    timeout: float

    @property
    def dirty_key(self) -> str:
        """As what the places of a look name it, with a slash and the place of a report behind it."""
        return f"probe:{hash(self):x}"

    def make_dirty_key(self, place: str) -> str:
        """As what the places of a look name a report."""
        return f"{self.dirty_key}/{place.lstrip('/')}"


class ServiceProtocol(Enum):
    """What a service speaks: gRPC's health protocol, or what AMD's metrics exporter does."""

    GRPC_HEALTH = "grpc-health"
    AMD_METRICS = "amd-metrics"


class SocketQuery(Struct):
    """Whether a service at a Unix socket says that a device is well; asked again after `every`.

    of: what the service calls it; empty for the service as a whole.
    """

    path: str
    timeout: float
    interval: float
    device_name: str = ""
    protocol: ServiceProtocol = ServiceProtocol.GRPC_HEALTH

    @property
    def dirty_key(self) -> str:
        """As what the places of a look name it."""
        return f"socket:{hash(self):x}"


PolledQuery: TypeAlias = ProgramQuery | SocketQuery  # what is asked over and over
Query: TypeAlias = PolledQuery | ProbeSpec


class QueryFacts(Knowledge, Protocol):
    """What is known of one thing, answers to inquiries about it among that."""

    def get_query_result(self, inquiry: Query) -> QueryResult:
        """What is known of an inquiry."""


class QueryTemplate(Protocol):
    """What a check asks that no clause says."""

    def build_query(self, facts: FactReader) -> Query | Absent:
        """The inquiry about a thing; absent if a word of it is."""


class RunTemplate(Struct):
    """`run = ["PROGRAM", "ARGUMENT", …]`. An argument with a list word is one for each of its elements."""

    argv: tuple[Template, ...]
    timeout: float
    interval: float

    def build_query(self, facts: FactReader) -> Query | Absent:
        """See `Asks`."""
        argv = build_argv(self.argv, facts)
        return argv if isinstance(argv, Absent) else ProgramQuery(argv, self.timeout, self.interval)


class SocketTemplate(Struct):
    """`socket = "PATH"`."""

    path: Template
    timeout: float
    interval: float
    device_name: Template | None = None
    protocol: ServiceProtocol = ServiceProtocol.GRPC_HEALTH

    def build_query(self, facts: FactReader) -> Query | Absent:
        """See `Asks`."""
        paths = self.path.write_paths(facts)
        device_name = None if self.device_name is None else self.device_name.write(facts)
        if isinstance(paths, Absent):
            return paths
        if isinstance(device_name, Absent):
            return device_name
        return SocketQuery(paths[0], self.timeout, self.interval, device_name or "", self.protocol)


class ProbeTemplate(Struct):
    """`probe = "NAME"`: what that says of the place where the device is."""

    probe: ProbeSpec

    def build_query(self, facts: FactReader) -> Query | Absent:
        """See `Asks`."""
        del facts
        return self.probe
