"""The sections of `give` (`give` itself and each `give.also`) and the conditions (`when`) of their items."""

from __future__ import annotations

from typing import NamedTuple

from agent.config.clauses.clause import compile_clause, refuse_empty
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.toml.file_position import FilePosition
from agent.core.language.clause import Clause
from agent.core.language.logic import PLAIN
from agent.core.language.value import Absent, Value
from agent.core.struct import replace

_OPEN = Absent("is of the host", pending=True)


class GiveCondition(NamedTuple):
    """The condition of one item.

    clause: None if the item is always given.
    is_never: the options of the entry make the condition false.
    per_member: the clause can match one member of a group and not another.
    """

    clause: Clause | None = None
    is_never: bool = False
    per_member: bool = False


class GiveSection(NamedTuple):
    """One section. address: its name in error texts, `give` or `give.also.NAME`."""

    branch: Branch
    address: str
    condition_branch: Branch | None = None

    def compile_condition(self, member: Branch, scope: Scope) -> GiveCondition:
        """Return the condition of an item: the condition of the section and its own."""
        scope = replace(scope, is_reread_at_grant=True, allows_partner_health=True)
        section_condition = _compile_clause(self.condition_branch, f"{self.address}.when", scope)
        member_condition = _compile_clause(member.get_branch("when"), f"{member.spot.local_address}.when", scope)
        clauses = [clause for clause in (section_condition, member_condition) if clause is not None]
        if not clauses:
            return GiveCondition()
        lines = tuple(line for clause in clauses for line in clause.lines)
        whole = Clause(clauses[-1].name, lines, clauses[-1].origin)
        verdict = whole.evaluate(_OptionFacts(scope), PLAIN)
        if verdict is not None:
            return GiveCondition(is_never=not verdict)
        return GiveCondition(whole, per_member=_varies_by_member(whole, scope, member.spot))


def make_sections(tree: Branch, scope: Scope) -> tuple[GiveSection, ...]:
    """Return the sections. The section that is always given is first."""
    give = tree.get_branch("give")
    if give is None:
        return ()
    sections = [GiveSection(give, "give")]
    for name, branch in give.list_branches("also"):
        address = f"give.also.{name}"
        if branch.get_branch("when") is None and scope.has_all_keys:
            write = "write when = { … }, or put what it gives below give itself"
            scope.report_error(branch.spot, "missing", f"{address} does not say when", write, mark="key")
        if branch.members.keys() <= {"when"} and scope.has_all_keys:
            write = "write what it gives, for example nodes.NAME = …"
            scope.report_error(branch.spot, "missing", f"{address} gives nothing", write, mark="key")
        sections.append(GiveSection(branch, address, branch.get_branch("when")))
    return tuple(sections)


class _OptionFacts:
    """The facts that are known without a host: the options of the entry."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def __call__(self, word: str) -> Value | Absent:
        """Return the value of an option. All other words are pending."""
        return self._scope.option_values.get(word, _OPEN)

    def follow_relation(self, word: str) -> Absent:
        """Return that the relation is pending."""
        del word
        return _OPEN


def _compile_clause(branch: Branch | None, name: str, scope: Scope) -> Clause | None:
    if branch is None:
        return None
    refuse_empty(branch, scope, "when says nothing, so it would always hold", "take it out, or say when")
    clause = compile_clause(name, branch, scope)
    return clause if clause.lines else None


def _varies_by_member(clause: Clause, scope: Scope, spot: FilePosition) -> bool:
    quiet = replace(scope, findings=[])  # faults of words are already reported
    signatures = [quiet.find_word(spot, line.word, "key") for line in clause.walk_lines()] if scope.is_grouped else []
    return any(word is not None and word.varies_by_member for word in signatures)
