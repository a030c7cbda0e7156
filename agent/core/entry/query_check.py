"""The check kinds that ask a program, a service or a probe: `run`, `socket`, `probe`."""

from __future__ import annotations

from agent.core.entry.check import Check, CheckResult, CheckVerdict, Criterion, OnUnknown
from agent.core.entry.program import build_argv
from agent.core.entry.query import ProbeSpec, ProgramQuery, Query, QueryFacts, QueryStatus, ServiceProtocol, SocketQuery
from agent.core.language.template import FactReader, Template
from agent.core.language.value import Absent


class QueryCheck(Criterion):
    """A check kind that sends a query."""

    def evaluate(self, check: Check, facts: QueryFacts) -> CheckResult:
        """Return the result of the last answer."""
        query = self.build_query(facts)
        if isinstance(query, Absent):
            return check.make_unknown_result(check.join_reasons(query.reason, facts))
        answer = facts.get_query_result(query)
        match answer.status:
            case QueryStatus.HEALTHY:
                return CheckResult(CheckVerdict.PASS, query_number=answer.number)
            case QueryStatus.NOT_APPLICABLE:
                return CheckResult(CheckVerdict.NOT_APPLICABLE, answer.reason)
            case QueryStatus.PENDING:
                waits = check.on_unknown is OnUnknown.UNHEALTHY
                return CheckResult(CheckVerdict.PENDING if waits else CheckVerdict.IGNORED, answer.reason)
            case QueryStatus.UNKNOWN:
                return check.make_unknown_result(
                    check.join_reasons(answer.reason, facts), answer.number, timed_out=answer.timed_out
                )
        return CheckResult(CheckVerdict.FAIL, check.join_reasons(answer.reason, facts), answer.number)

    def build_query(self, facts: FactReader) -> Query | Absent:
        """Return the query about a device, or absent if one of its words is absent."""
        raise NotImplementedError


class RunTemplate(QueryCheck):
    """A `run = ["PROGRAM", "ARGUMENT", …]` criterion. A list word gives one argument per element."""

    argv: tuple[Template, ...]
    timeout: float
    interval: float

    def list_words(self) -> tuple[str, ...]:
        """Return the words of the query."""
        return _list_words(*self.argv)

    def build_query(self, facts: FactReader) -> Query | Absent:
        """Return the program query, or absent if one of its words is absent."""
        argv = build_argv(self.argv, facts)
        return argv if isinstance(argv, Absent) else ProgramQuery(argv, self.timeout, self.interval)


class SocketTemplate(QueryCheck):
    """A `socket = "PATH"` criterion."""

    path: Template
    timeout: float
    interval: float
    device_name: Template | None = None
    protocol: ServiceProtocol = ServiceProtocol.GRPC_HEALTH

    def list_words(self) -> tuple[str, ...]:
        """Return the words of the query."""
        return _list_words(self.path, *(() if self.device_name is None else (self.device_name,)))

    def build_query(self, facts: FactReader) -> Query | Absent:
        """Return the service query, or absent if one of its words is absent."""
        paths = self.path.write_paths(facts)
        device_name = None if self.device_name is None else self.device_name.write(facts)
        if isinstance(paths, Absent):
            return paths
        if isinstance(device_name, Absent):
            return device_name
        return SocketQuery(paths[0], self.timeout, self.interval, device_name or "", self.protocol)


class ProbeTemplate(QueryCheck):
    """A `probe = "NAME"` criterion: the probe reports about the location of the device."""

    probe: ProbeSpec

    def build_query(self, facts: FactReader) -> Query | Absent:
        """Return the probe. Its query has no words."""
        del facts
        return self.probe


def _list_words(*templates: Template) -> tuple[str, ...]:
    return tuple(slot.word for template in templates for slot in template.slots)
