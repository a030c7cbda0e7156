"""Sections of named clauses: `exclude`, `wait`, `gate`, and the conditions about the machine."""

from __future__ import annotations

from collections.abc import Iterable

from agent.config.clauses.clause import compile_clause, refuse_empty
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope
from agent.core.entry.partner_checks import PartnerCondition
from agent.core.language.clause import Clause
from agent.core.struct import replace


def is_host_word(address: str) -> bool:
    """Return whether an address is about the machine: a word of `host`, an option, or an absolute path."""
    return address.startswith(("host.", "options.", "/"))


def report_device_words(subject: str, clause: Branch, scope: Scope, write: str) -> None:
    """Report the lines of a clause that are about a device."""
    for address, node in clause.members.items():
        if isinstance(node, Leaf) and not is_host_word(address):
            message = f"{subject} is about the machine: host.…, options.…, or a path from the root"
            scope.report_error(node.spot, "unknown-word", message, write, mark="key")


def compile_exclude(tree: Branch, scope: Scope) -> tuple[Clause, ...]:
    """Return the clauses of `exclude`."""
    return _compile_clauses(
        "exclude", tree, scope, "it would exclude everything", "take it out, or say what it excludes"
    )


def compile_wait(tree: Branch, scope: Scope) -> tuple[tuple[Clause, ...], tuple[PartnerCondition, ...]]:
    """Return the not-ready conditions, and those about the health of partners."""
    wait_scope = replace(scope, allows_partner_health=True)
    clauses = _compile_clauses("wait", tree, wait_scope, "everything would wait for ever")
    partner_conditions = tuple(
        PartnerCondition(clause, names) for clause in clauses if (names := find_partner_joins((clause,), scope))
    )
    partner_clauses = [hinge.clause for hinge in partner_conditions]
    return tuple(
        clause for clause in clauses if not any(clause is partner_clause for partner_clause in partner_clauses)
    ), partner_conditions


def find_partner_joins(clauses: Iterable[Clause], scope: Scope) -> tuple[str, ...]:
    """Return the joins whose partner health the clauses use."""
    return (
        scope.entry_words.find_health_joins(line.word for clause in clauses for line in clause.walk_lines())
        if scope.entry_words
        else ()
    )


def _compile_clauses(
    section: str, tree: Branch, scope: Scope, consequence: str, write: str = "take it out, or say when it holds"
) -> tuple[Clause, ...]:
    """Return the named clauses of a section. A clause without lines would always match, so it is reported."""
    clauses: list[Clause] = []
    for name, member in tree.list_branches(section):
        refuse_empty(member, scope, f"{section}.{name} says nothing, so {consequence}", write)
        clauses.append(compile_clause(f"{section}.{name}", member, scope))
    return tuple(clause for clause in clauses if clause.lines)


def compile_gate(tree: Branch, scope: Scope) -> tuple[Clause, ...]:
    """Return the preconditions: clauses about the machine. Lines about a device are reported."""
    gates = _compile_clauses("gate", tree, scope, "it would always be open")
    for name, member in tree.list_branches("gate"):
        report_device_words(f"gate.{name}", member, scope, f"for a device write wait.{name}")
    return gates
