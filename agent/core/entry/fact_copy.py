"""Copies of facts, so that clauses and checks can be evaluated when the device is no longer readable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.core.entry.query import Query, QueryResult, QueryStatus
from agent.core.language.clause import Clause, find_relation_tests
from agent.core.language.logic import Knowledge
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct, field, replace


class FactCopy(Struct):
    """A copy of the facts that some clauses, or a check, use for one device.

    related_devices: copies of the facts of related devices, by relation.
    query_results: the known results of queries.
    """

    words: Mapping[str, Value | Absent]
    related_devices: Mapping[str, tuple[FactCopy, ...] | Absent] = field(default_factory=dict)
    query_results: Mapping[Query, QueryResult] = field(default_factory=dict)

    def __call__(self, word: str) -> Value | Absent:
        """Return the value of a word."""
        return self.words.get(word, Absent("was not read"))

    def follow_relation(self, word: str) -> tuple[FactCopy, ...] | Absent:
        """Return the devices of a relation."""
        return self.related_devices.get(word, Absent("was not read"))

    def get_query_result(self, query: Query) -> QueryResult:
        """Return the result of a query. Its status is unknown if the copy has no result."""
        return self.query_results.get(query, QueryResult(QueryStatus.UNKNOWN))

    def add_words(self, words: Mapping[str, Value | Absent]) -> FactCopy:
        """Return the copy with more words. They replace words with the same name."""
        return replace(self, words={**self.words, **words})


def copy_facts(clauses: Iterable[Clause], facts: Knowledge, extra_words: Iterable[str] = ()) -> FactCopy:
    """Return a copy of the facts that these clauses and extra words use."""
    clause_tuple = tuple(clauses)
    words = dict.fromkeys((*(line.word for clause in clause_tuple for line in clause.walk_lines()), *extra_words))
    return FactCopy({word: facts(word) for word in words}, copy_related_facts(clause_tuple, facts))


def copy_related_facts(clauses: Iterable[Clause], facts: Knowledge) -> dict[str, tuple[FactCopy, ...] | Absent]:
    """Return copies of the facts that these clauses use of related devices, by relation."""
    inner_clauses: dict[str, list[Clause]] = {}
    for clause in clauses:
        for line in clause.walk_lines():
            for relation in find_relation_tests(line.test):
                if isinstance(relation.clause, Clause):
                    inner_clauses.setdefault(relation.word, []).append(relation.clause)
    return {
        word: _copy_devices(relation_clauses, facts.follow_relation(word))
        for word, relation_clauses in inner_clauses.items()
    }


def _copy_devices(clauses: list[Clause], devices: tuple[Knowledge, ...] | Absent) -> tuple[FactCopy, ...] | Absent:
    return devices if isinstance(devices, Absent) else tuple(copy_facts(clauses, device) for device in devices)
