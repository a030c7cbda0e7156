"""Checks of an entry (`health.NAME`), compiled."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.clauses.clause import compile_clause
from agent.config.give.vfio import CHECK
from agent.config.language.value_checks import parse_duration, parse_looks
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.check_syntax import CheckSource, CheckSyntax
from agent.config.resource.fact_checks import CLAUSE_SYNTAX, COUNTER_SYNTAX
from agent.config.resource.log_checks import LOG_SYNTAX, compile_event_rate
from agent.config.resource.query_checks import PROBE_SYNTAX, RUN_SYNTAX, SOCKET_SYNTAX
from agent.config.scope import Scope
from agent.config.sources import MIN_INTERVAL
from agent.config.values.templates import compile_template
from agent.core.entry.check import (
    ONE_LOOK,
    Check,
    Criterion,
    FailureThreshold,
    LookCount,
    LookDuration,
    LookThreshold,
    OnUnknown,
)
from agent.core.language.clause import Clause
from agent.core.struct import replace

CHECK_KINDS: Mapping[str, CheckSyntax] = {  # by verb
    "holds": CLAUSE_SYNTAX,
    "log": LOG_SYNTAX,
    "rises": COUNTER_SYNTAX,
    "run": RUN_SYNTAX,
    "socket": SOCKET_SYNTAX,
    "probe": PROBE_SYNTAX,
}


def compile_health(
    tree: Branch, scope: Scope, source_interval: float | None, vfio_check: Check | None = None
) -> tuple[Check, ...]:
    """Return the checks of an entry, in its order.

    source_interval: the seconds between two reads of its source, besides kernel events. None if not set.
    vfio_check: the check of `give.vfio`. It has its own criterion. The entry can set its thresholds and the other
        settings.
    """
    scope = replace(scope, allows_partner_health=True)
    compiled_checks = [
        _compile_check(name, member, tree, scope, source_interval, vfio_check=vfio_check)
        for name, member in tree.list_branches("health")
    ]
    checks = tuple(check for check in compiled_checks if check is not None)
    if vfio_check is None or any(check.name == CHECK for check in checks):
        return checks
    return (*checks, replace(vfio_check, partner_joins=_find_partner_joins(vfio_check, scope)))


def _merge_vfio_check(entry_check: Check, vfio_check: Check) -> Check:
    """Return the check of `give.vfio` with the settings of the entry."""
    clauses = [condition for condition in (vfio_check.condition, entry_check.condition) if condition is not None]
    lines = tuple(line for clause in clauses for line in clause.lines)
    return replace(
        entry_check,
        condition=Clause(clauses[-1].name, lines, clauses[-1].origin) if clauses else None,
        reason=entry_check.reason or vfio_check.reason,
        recheck_on_allocate=True,
    )


def _compile_check(
    name: str, branch: Branch, tree: Branch, scope: Scope, source_interval: float | None, *, vfio_check: Check | None
) -> Check | None:
    verb = next(iter(branch.verbs), "holds")
    if verb not in CHECK_KINDS:
        return None  # a key of a later version, reported with all such keys
    syntax = CHECK_KINDS[verb]
    _report_misplaced_keys(name, branch, scope)
    condition_branch = branch.get_branch("when")
    condition = compile_clause(f"health.{name}.when", condition_branch, scope) if condition_branch else None
    interval = _compile_interval(branch.get_leaf("every"), scope)
    trip = _compile_failure_threshold(branch.get_leaf("trip"), syntax, scope)
    recover = _compile_recovery_threshold(branch, syntax, scope)
    criterion: Criterion | None
    is_vfio = name == CHECK and _gives_vfio(tree)
    if is_vfio:
        _report_vfio_criterion(name, branch, scope)
        criterion, reason_scope = None if branch.verbs or vfio_check is None else vfio_check.criterion, scope
    else:
        # The inputs of other kinds than those that are read at looks are fixed at a look.
        look_scope = replace(scope, allows_partner_health=syntax.is_read_at_looks)
        criterion, reason_scope = syntax.compile(CheckSource(name, branch, look_scope, interval, recover))
        reason_scope = replace(reason_scope, allows_partner_health=True)
    for leaf, threshold in ((branch.get_leaf("trip"), trip), (branch.get_leaf("recover"), recover)):
        if (
            leaf is not None
            and _is_several_looks(threshold)
            and syntax.is_read_at_looks
            and interval is source_interval is None
        ):
            message = "without every, looks follow events and full rescans, so the time between two looks is not fixed"
            write = 'add every = "5s", or write a time: "10s"'
            scope.report_warning(leaf.spot, "looks-by-chance", message, write)
    unknown = branch.get_leaf("on_unknown")
    reason = branch.get_leaf("reason")
    compiled_reason = (
        compile_template(reason.spot, reason.value, reason_scope, "reason", lists=True) if reason else None
    )
    if criterion is None:
        return None
    check = Check(
        name,
        criterion,
        condition=condition,
        interval=interval if syntax.is_read_at_looks else None,
        failure_threshold=trip,
        recovery_threshold=recover,
        on_unknown=OnUnknown(unknown.value) if unknown else OnUnknown.UNHEALTHY,
        reason=compiled_reason.template if compiled_reason else None,
    )
    check = _merge_vfio_check(check, vfio_check) if is_vfio and vfio_check else check
    return replace(check, partner_joins=_find_partner_joins(check, scope))


def _find_partner_joins(check: Check, scope: Scope) -> tuple[str, ...]:
    """Return the joins whose partner health a check uses."""
    words = [line.word for clause in check.list_clauses() for line in clause.walk_lines()]
    words += [slot.word for slot in check.reason.slots] if check.reason else []
    return scope.entry_words.find_health_joins(words) if scope.entry_words else ()


def _is_several_looks(threshold: FailureThreshold | None) -> bool:
    """Return whether the threshold is more than one look."""
    return isinstance(threshold, LookCount) and threshold.number > 1


def _report_vfio_criterion(name: str, branch: Branch, scope: Scope) -> None:
    """Report the criteria of the check of `give.vfio`. The check has its own criterion."""
    for verb in branch.verbs:
        node = branch.get_branch(verb) or branch.get_leaf(verb)
        message = f"health.{name} is the check of give.vfio, which has its own criterion"
        scope.report_error((node or branch).spot, "type", message, "give yours another name", mark="key")


def _gives_vfio(tree: Branch) -> bool:
    """Return whether the entry uses VFIO."""
    give = tree.get_branch("give")
    sections = [give, *(branch for _, branch in tree.list_branches("give", "also"))]
    return any(section is not None and section.get_branch("vfio") is not None for section in sections)


def _compile_interval(leaf: Leaf | None, scope: Scope) -> float | None:
    """Return the seconds between two looks, or None."""
    value = parse_duration(leaf.value) if leaf and isinstance(leaf.value, str) else None
    if leaf is not None and value is not None and value < MIN_INTERVAL:
        message = f"every is at least {MIN_INTERVAL:g} s, because each look reads the device"
        scope.report_error(leaf.spot, "type", message, 'write for example "5s"')
    return value


def _compile_failure_threshold(leaf: Leaf | None, syntax: CheckSyntax, scope: Scope) -> FailureThreshold:
    """Return the failure threshold (`trip`)."""
    event_rate = compile_event_rate(leaf, scope) if syntax.counts_events else None
    return event_rate or _compile_threshold(leaf, scope)


def _compile_threshold(leaf: Leaf | None, scope: Scope) -> LookThreshold:
    """Return a threshold. The default is one look."""
    if leaf is None:
        return ONE_LOOK
    number = parse_looks(leaf.value)
    if number is not None:
        return LookCount(number)
    time = parse_duration(leaf.value) if isinstance(leaf.value, str) else None
    if time is None:
        message = "only log and rises count events in a window"
        scope.report_error(leaf.spot, "type", message, 'write looks ("2 looks") or a time ("10s")')
        return ONE_LOOK
    return LookDuration(time)


def _compile_recovery_threshold(branch: Branch, syntax: CheckSyntax, scope: Scope) -> LookThreshold | None:
    """Return the recovery threshold (`recover`). None: an administrator must clear the failure."""
    leaf = branch.get_leaf("recover")
    is_latching = branch.is_on("latch")
    if leaf is not None and is_latching:
        message = "latch = true and recover contradict each other"
        scope.report_error(leaf.spot, "type", message, 'remove latch; recover = "never" has the same effect')
    if is_latching or (leaf is not None and leaf.value == "never") or (leaf is None and syntax.counts_events):
        return None
    return _compile_threshold(leaf, scope)


def _report_misplaced_keys(name: str, branch: Branch, scope: Scope) -> None:
    """Report keys that belong to another check kind."""
    own_keys = {key for verb in branch.verbs for key in CHECK_KINDS[verb].own_keys}
    for key in ("timeout", "of", "speaks") if branch.verbs else ():
        leaf = branch.get_leaf(key)
        if leaf is not None and key not in own_keys:
            verbs = ", ".join(sorted(verb for verb, syntax in CHECK_KINDS.items() if key in syntax.own_keys))
            message = (
                f"health.{name} sends no query, so it has no timeout"
                if key == "timeout"
                else f"{key} describes a service, and health.{name} asks no service"
            )
            scope.report_error(leaf.spot, "type", message, f"{key} goes with {verbs}", mark="key")
    interval = branch.get_leaf("every")
    if interval is not None and "probe" in branch.verbs:
        message = f"health.{name} reads a probe, which reports changes by itself"
        scope.report_error(interval.spot, "type", message, "remove every", mark="key")
    for key in ("only", "ignore", "latch"):
        clause = branch.get_branch(key)
        if clause is not None and key not in own_keys:
            message = f"a clause in {key} tests the values that log captures, and this check has no log"
            write = 'latch = true, or recover = "never"' if key == "latch" else "write the test in holds or when"
            scope.report_error(clause.spot, "type", message, write, mark="key")
