"""Checks of an entry (`health.NAME`), compiled."""

from __future__ import annotations

from collections.abc import Iterable

from agent.config.clauses.clause import compile_clause, refuse_empty
from agent.config.give.vfio import CHECK
from agent.config.language.durations import parse_duration
from agent.config.language.value_checks import parse_looks
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.log_checks import compile_event_rate, compile_log
from agent.config.resource.query_checks import QUERY_COMPILERS, report_misplaced_keys
from agent.config.scope import ANYTHING, Scope
from agent.config.sources import MIN_INTERVAL
from agent.config.values.templates import compile_template
from agent.core.entry.check import ONE_LOOK, Check, FailureThreshold, LookCount, LookDuration, LookThreshold, OnUnknown
from agent.core.entry.counter_check import CounterCheck
from agent.core.entry.kernel_log_check import Log
from agent.core.entry.query import QueryTemplate
from agent.core.language.clause import Clause, Origin
from agent.core.language.template import Template
from agent.core.language.value import ValueType
from agent.core.struct import replace

_VFIO_CRITERION = Clause(CHECK, (), Origin("", 0))  # replaces the criterion of the check of `give.vfio`


def compile_health(
    tree: Branch, scope: Scope, source_interval: float | None, vfio_check: Check | None = None
) -> tuple[Check, ...]:
    """Return the checks of an entry, in its order.

    source_interval: the seconds between two reads of its source, besides kernel events. None if not set.
    vfio_check: the check of `give.vfio`. It has its own criterion. The entry can set its thresholds and the other
        settings.
    """
    branch = tree.get_branch("health")
    scope.allows_partner_health = True
    compiled_checks = (
        [_compile_check(name, member, tree, scope, source_interval) for name, member in branch.list_branches()]
        if branch
        else []
    )
    scope.allows_partner_health = False
    entry_checks = [check for check in compiled_checks if check is not None]
    vfio_check = (
        None
        if vfio_check is None
        else replace(vfio_check, partner_joins=_find_partner_joins((vfio_check.condition,), None, scope))
    )
    if vfio_check is None:
        return tuple(check for check in entry_checks if check.criterion != _VFIO_CRITERION)
    if all(check.name != CHECK for check in entry_checks):
        return (*entry_checks, vfio_check)
    return tuple(
        _merge_vfio_check(check, vfio_check) if check.criterion == _VFIO_CRITERION else check for check in entry_checks
    )


def _merge_vfio_check(entry_check: Check, vfio_check: Check) -> Check:
    """Return the check of `give.vfio` with the settings of the entry."""
    clauses = [condition for condition in (vfio_check.condition, entry_check.condition) if condition is not None]
    lines = tuple(line for clause in clauses for line in clause.lines)
    condition = Clause(clauses[-1].name, lines, clauses[-1].origin) if clauses else None
    partner_joins = tuple(dict.fromkeys((*entry_check.partner_joins, *vfio_check.partner_joins)))
    return replace(
        entry_check,
        criterion=vfio_check.criterion,
        condition=condition,
        reason=entry_check.reason or vfio_check.reason,
        recheck_on_allocate=True,
        partner_joins=partner_joins,
    )


def _compile_check(
    name: str, branch: Branch, tree: Branch, scope: Scope, source_interval: float | None
) -> Check | None:
    verb = next(iter(branch.verbs), "")
    if verb not in {"", "holds", "log", "rises", *QUERY_COMPILERS}:
        return None  # a key of a later version, reported with all such keys
    report_misplaced_keys(name, branch, scope)
    condition_branch = branch.get_branch("when")
    condition = compile_clause(f"health.{name}.when", condition_branch, scope) if condition_branch else None
    interval = _compile_interval(branch.get_leaf("every"), scope)
    trip = _compile_failure_threshold(branch.get_leaf("trip"), verb, scope)
    recover = _compile_recovery_threshold(branch, verb, scope)
    criterion: Clause | QueryTemplate | CounterCheck | Log | None
    reason_scope = scope
    scope.allows_partner_health = verb not in {
        "log",
        *QUERY_COMPILERS,
    }  # queries and log keys are fixed at a look
    if name == CHECK and _gives_vfio(tree):
        criterion = _compile_vfio_criterion(name, branch, scope)
    elif verb in QUERY_COMPILERS:
        criterion = QUERY_COMPILERS[verb](branch, scope, interval)
    elif verb == "log":
        criterion, reason_scope = compile_log(name, branch, scope, recover)
    elif verb == "rises":
        criterion = _compile_counter(branch.get_leaf("rises"), scope)
    else:
        criterion = _compile_clause(name, branch, scope)
    scope.allows_partner_health = True
    for leaf, threshold in ((branch.get_leaf("trip"), trip), (branch.get_leaf("recover"), recover)):
        if (
            leaf is not None
            and _is_several_looks(threshold)
            and verb not in {*QUERY_COMPILERS, "log"}
            and interval is source_interval is None
        ):
            message = "without every, looks come with events and the sweep: how long two of them take is chance"
            write = 'add every = "5s", or write a time: "10s"'
            scope.report_warning(leaf.spot, "looks-by-chance", message, write)
    unknown = branch.get_leaf("on_unknown")
    reason = branch.get_leaf("reason")
    reason_template = (
        compile_template(reason.spot, reason.value, reason_scope, "reason", lists=True) if reason else None
    )
    if criterion is None:
        return None
    return Check(
        name,
        criterion,
        condition=condition,
        interval=None if verb in QUERY_COMPILERS else interval,
        failure_threshold=trip,
        recovery_threshold=recover,
        on_unknown=OnUnknown(unknown.value) if unknown else OnUnknown.UNHEALTHY,
        reason=reason_template.template if reason_template else None,
        partner_joins=_find_partner_joins(
            (criterion, condition), reason_template.template if reason_template else None, scope
        ),
    )


def _find_partner_joins(criteria: Iterable[object], reason: Template | None, scope: Scope) -> tuple[str, ...]:
    """Return the joins whose partner health a check uses."""
    words = [line.word for clause in criteria if isinstance(clause, Clause) for line in clause.walk_lines()]
    words += [slot.word for slot in reason.slots] if reason else []
    return scope.entry_words.find_health_joins(words) if scope.entry_words else ()


def _is_several_looks(threshold: FailureThreshold | None) -> bool:
    """Return whether the threshold is more than one look."""
    return isinstance(threshold, LookCount) and threshold.number > 1


def _compile_vfio_criterion(name: str, branch: Branch, scope: Scope) -> Clause | None:
    """Return a substitute for the criterion of the check of `give.vfio`. Return None with a finding if the entry has
    a criterion.
    """
    for verb in branch.verbs:
        node = branch.get_branch(verb) or branch.get_leaf(verb)
        message = f"health.{name} is the check that give.vfio brings, and says itself what it asks"
        scope.report((node or branch).spot.make_error("type", message, "give yours another name", mark="key"))
    return None if branch.verbs else _VFIO_CRITERION


def _compile_counter(leaf: Leaf | None, scope: Scope) -> CounterCheck | None:
    """Return the counter check, or None. A word that is not a counter is reported."""
    if leaf is None:
        return None
    word = str(leaf.value)
    signature = scope.find_word(leaf.spot, word, "text")
    if signature is None or signature is ANYTHING:
        return None
    if signature.is_list:
        scope.report(
            leaf.spot.make_error(
                "type", f"{word} is a list, and a counter is one number", "take a word that is int", mark="text"
            )
        )
        return None
    if signature.kind is not ValueType.INT:
        write = f'write let.count = {{ read = "{word}", type = "int" }}, and rises = "count"'
        scope.report(
            leaf.spot.make_error("type", f"{word} is {signature.kind.value}, and a counter is int", write, mark="text")
        )
        return None
    return CounterCheck(word)


def _compile_clause(name: str, branch: Branch, scope: Scope) -> Clause | None:
    """Return the clause of `holds`, or None. A missing clause is reported."""
    clause_branch = branch.get_branch("holds")
    if clause_branch is None:
        scope.report_missing(branch, f"health.{name} does not say what is asked", "write holds = { WORD = … }")
        return None
    message = f"health.{name} says nothing, so it would always hold"
    refuse_empty(clause_branch, scope, message, "take it out, or say what holds")
    return compile_clause(f"health.{name}.holds", clause_branch, scope)


def _gives_vfio(tree: Branch) -> bool:
    """Return whether the entry uses VFIO."""
    give = tree.get_branch("give")
    conditional_sections = give.get_branch("also") if give else None
    parts = (
        [give, *(branch for _, branch in conditional_sections.list_branches())]
        if give and conditional_sections
        else [give]
    )
    return any(part is not None and part.get_branch("vfio") is not None for part in parts)


def _compile_interval(leaf: Leaf | None, scope: Scope) -> float | None:
    """Return the seconds between two looks, or None."""
    value = parse_duration(leaf.value) if leaf and isinstance(leaf.value, str) else None
    if leaf is not None and value is not None and value < MIN_INTERVAL:
        message = f"how often to look is {MIN_INTERVAL:g} s at least: each time costs a look at the device"
        scope.report(leaf.spot.make_error("type", message, 'write for example "5s"'))
    return value


def _compile_failure_threshold(leaf: Leaf | None, verb: str, scope: Scope) -> FailureThreshold:
    """Return the failure threshold (`trip`)."""
    event_rate = compile_event_rate(leaf, scope) if verb in {"log", "rises"} else None
    if event_rate is not None or verb == "log":
        return event_rate or ONE_LOOK
    return _compile_threshold(leaf, scope)


def _compile_threshold(leaf: Leaf | None, scope: Scope) -> LookThreshold:
    """Return a threshold. The default is one look."""
    if leaf is None:
        return ONE_LOOK
    number = parse_looks(leaf.value)
    if number is not None:
        return LookCount(number)
    time = parse_duration(leaf.value) if isinstance(leaf.value, str) else None
    if time is None:
        message = "events in a window are of log and rises; what holds is looked at"
        scope.report(leaf.spot.make_error("type", message, 'write looks ("2 looks") or a time ("10s")'))
        return ONE_LOOK
    return LookDuration(time)


def _compile_recovery_threshold(branch: Branch, verb: str, scope: Scope) -> LookThreshold | None:
    """Return the recovery threshold (`recover`). None: an administrator must clear the failure."""
    leaf = branch.get_leaf("recover")
    is_latching = branch.is_on("latch")
    if leaf is not None and is_latching:
        message = "latch = true is never healthy again by itself, and recover says when it is; say one of them only"
        scope.report(leaf.spot.make_error("type", message, 'take latch out; recover = "never" is the same'))
    if is_latching or (leaf is not None and leaf.value == "never") or (leaf is None and verb in {"log", "rises"}):
        return None
    return _compile_threshold(leaf, scope)
