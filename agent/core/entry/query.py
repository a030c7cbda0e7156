"""Inquiries: what a check asks of a program, a service or a probe, and what it is told. Who asks is the edge.

An answer is a fact like any other: a look takes the one that is known, and waits for none.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol, TypeAlias

from agent.core.entry.program import arguments
from agent.core.language.logic import Knowledge
from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent
from agent.core.struct import Struct


class QueryStatus(Enum):
    """What is known. UNKNOWN: it was asked and could not be told. OFF: who would know is not on this host.

    AWAITED: it was not asked yet.
    """

    WELL = "well"
    ILL = "ill"
    UNKNOWN = "unknown"
    OFF = "off"
    AWAITED = "awaited"


class QueryResult(Struct):
    """What was told, and why. `number`: another for each answer, so that looks at one answer count once.

    late: nothing is known because there was no answer in time.
    """

    reply: QueryStatus
    reason: str = ""
    number: int = 0
    late: bool = False


class ProgramQuery(Struct):
    """Whether a program ends with 0 within so many seconds; asked again after `every`."""

    argv: tuple[str, ...]
    timeout: float
    every: float

    @property
    def mark(self) -> str:
        """As what the places of a look name it."""
        return f"run:{hash(self):x}"


class ProbeSpec(Struct):
    """`[probe.NAME]`: a program that runs on and reports of places. It may be silent for so many seconds."""

    name: str
    argv: tuple[str, ...]
    timeout: float

    @property
    def mark(self) -> str:
        """As what the places of a look name it, with a slash and the place of a report behind it."""
        return f"probe:{hash(self):x}"

    def about(self, place: str) -> str:
        """As what the places of a look name a report."""
        return f"{self.mark}/{place.lstrip('/')}"


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
    every: float
    of: str = ""
    speaks: ServiceProtocol = ServiceProtocol.GRPC_HEALTH

    @property
    def mark(self) -> str:
        """As what the places of a look name it."""
        return f"socket:{hash(self):x}"


Question: TypeAlias = ProgramQuery | SocketQuery  # what is asked over and over
Inquiry: TypeAlias = Question | ProbeSpec


class QueryFacts(Knowledge, Protocol):
    """What is known of one thing, answers to inquiries about it among that."""

    def answer(self, inquiry: Inquiry) -> QueryResult:
        """What is known of an inquiry."""


class QueryTemplate(Protocol):
    """What a check asks that no clause says."""

    def inquiry(self, facts: FactReader) -> Inquiry | Absent:
        """The inquiry about a thing; absent if a word of it is."""


class RunTemplate(Struct):
    """`run = ["PROGRAM", "ARGUMENT", …]`. An argument with a list word is one for each of its elements."""

    argv: tuple[Template, ...]
    timeout: float
    every: float

    def inquiry(self, facts: FactReader) -> Inquiry | Absent:
        """See `Asks`."""
        argv = arguments(self.argv, facts)
        return argv if isinstance(argv, Absent) else ProgramQuery(argv, self.timeout, self.every)


class SocketTemplate(Struct):
    """`socket = "PATH"`."""

    path: Template
    timeout: float
    every: float
    of: Template | None = None
    speaks: ServiceProtocol = ServiceProtocol.GRPC_HEALTH

    def inquiry(self, facts: FactReader) -> Inquiry | Absent:
        """See `Asks`."""
        paths = self.path.write_paths(facts)
        of = None if self.of is None else self.of.write(facts)
        if isinstance(paths, Absent):
            return paths
        if isinstance(of, Absent):
            return of
        return SocketQuery(paths[0], self.timeout, self.every, of or "", self.speaks)


class ProbeTemplate(Struct):
    """`probe = "NAME"`: what that says of the place where the device is."""

    probe: ProbeSpec

    def inquiry(self, facts: FactReader) -> Inquiry | Absent:
        """See `Asks`."""
        del facts
        return self.probe
