"""Evaluation: step the states of all checks once for each look, and set the unhealthy reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from agent.core.changes import find_changes
from agent.core.entry.check import StepContext
from agent.core.entry.kernel_log import KernelLogHistory, LogKey
from agent.core.health.check_states import CheckStates, DeviceRef
from agent.core.health.evaluation_step import EvaluationStep, add_check_reasons
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.check_run import find_one_look_failure, list_checks, list_partners
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.struct import Struct, field, replace


class Evaluation(Struct):
    """Candidates with the results of their checks as unhealthy reasons.

    original_candidates: the candidates of the look. candidates: the same with unhealthy reasons.
    subscribers: the candidates that depend on a kernel log key or on the check states of a device.
    result_counts: the number of results of this look, by check name and result.
    """

    check_states: CheckStates = field(default_factory=CheckStates)
    original_candidates: ResourceCandidates = field(default_factory=dict)
    candidates: ResourceCandidates = field(default_factory=dict)
    subscribers: Mapping[LogKey | DeviceRef, frozenset[_CandidateKey]] = field(default_factory=dict)
    result_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def find_partner_refs(self, keys: Iterable[str]) -> frozenset[DeviceRef]:
        """Return the partners whose health the candidates with one of these keys check."""
        key_set = frozenset(keys)
        matches = (
            item
            for by_key in self.original_candidates.values()
            for item in by_key.values()
            if not key_set.isdisjoint(item.keys)
        )
        partners = (partners for item in matches for partners in list_partners(item))
        return frozenset(
            DeviceRef(item.entry, item.device_key) for partner in partners for item in list_checks(partner)
        )


_CandidateKey: TypeAlias = tuple[tuple[str, str], str]
_EMPTY_HISTORY = KernelLogHistory()


def evaluate(
    previous: Evaluation,
    candidates: ResourceCandidates,
    entries: Iterable[str],
    current_time: float,
    look_distance_s: float,
    *,
    log_history: KernelLogHistory = _EMPTY_HISTORY,
    changed_log_keys: Iterable[LogKey] | None = (),
) -> Evaluation:
    """Return the evaluation after a look, or after new kernel log lines.

    A candidate that is the same object as before was not part of the look. Its checks keep their states, except those
    of the kernel log.

    Args:
        previous: the evaluation of the last look.
        candidates: the candidates of this look.
        entries: the names of the active entries. States of other entries are removed.
        current_time: monotonic seconds.
        look_distance_s: see `StepContext`.
        log_history: the history of the kernel log.
        changed_log_keys: the keys with new lines; None: any key can have changed.
    """
    changes = {
        resource_key: find_changes(old or {}, new or {})
        for resource_key, (old, new) in find_changes(previous.original_candidates, candidates).items()
    }
    log_keys = previous.subscribers if changed_log_keys is None else changed_log_keys
    pending = dict.fromkeys(item for log_key in log_keys for item in previous.subscribers.get(log_key, ()))
    if not changes and not pending:
        if not previous.check_states.healthy_refs:
            return previous
        # Only the first look after a start uses them.
        return replace(previous, check_states=replace(previous.check_states, healthy_refs=frozenset()))
    pairs = [pair for by_key in changes.values() for pair in by_key.values()]
    removed = [old for old, _ in pairs if old is not None]
    added = [new for _, new in pairs if new is not None]
    subscribers = _update_subscribers(previous.subscribers, removed, added)
    context = StepContext(current_time, look_distance_s, log_history)
    evaluation_step = EvaluationStep(previous.check_states, removed, added, context)
    evaluation_step.remove_absent_devices(subscribers)
    results = {
        resource_key: {
            key: evaluation_step.evaluate_candidate(new) for key, (_, new) in by_key.items() if new is not None
        }
        for resource_key, by_key in changes.items()
    }
    # Candidates that were not part of the look: those with kernel log lines, then those with a changed partner.
    while pending := pending | {
        item: None for device_ref in evaluation_step.take_changed_refs() for item in subscribers.get(device_ref, ())
    }:
        for resource_key, key in pending:
            candidate = candidates.get(resource_key, {}).get(key)
            if candidate is not None and key not in results.setdefault(resource_key, {}):
                results[resource_key][key] = evaluation_step.evaluate_candidate(candidate, is_look=False)
        pending = {}
    evaluated = {
        resource_key: _replace_failing(
            by_key,
            results[resource_key],
            find_changes(previous.original_candidates.get(resource_key, {}), previous.candidates.get(resource_key, {})),
        )
        if resource_key in results
        else previous.candidates[resource_key]
        for resource_key, by_key in candidates.items()
    }
    return Evaluation(
        evaluation_step.build_check_states(frozenset(entries)),
        {**candidates},
        evaluated,
        subscribers,
        evaluation_step.result_counts,
    )


def _replace_failing(
    candidates: Mapping[str, Candidate],
    results: Mapping[str, Candidate],
    previous_failures: Mapping[str, tuple[Candidate | None, Candidate | None]],
) -> Mapping[str, Candidate]:
    """Return the candidates of one resource, with the results of those that fail. Without failures, `candidates`."""
    previous = {key: failing for key, (_, failing) in previous_failures.items() if failing is not None}
    failures = {
        key: failing for key, failing in {**previous, **results}.items() if candidates.get(key, failing) is not failing
    }
    return {**candidates, **failures} if failures else candidates


def _update_subscribers(
    previous: Mapping[LogKey | DeviceRef, frozenset[_CandidateKey]],
    removed: Iterable[Candidate],
    added: Iterable[Candidate],
) -> Mapping[LogKey | DeviceRef, frozenset[_CandidateKey]]:
    """Return the subscribers without the removed and with the added candidates."""
    current = {**previous}
    for candidates in (removed, added):
        for candidate in candidates:
            item = {((candidate.resource, candidate.written_name), candidate.device.key)}
            for subscription in _list_subscriptions(candidate):
                keys = current.pop(subscription, frozenset())
                if keys := keys | item if candidates is added else keys - item:
                    current[subscription] = keys
    return current


def _list_subscriptions(candidate: Candidate) -> Iterator[LogKey | DeviceRef]:
    for check_result in list_checks(candidate):
        yield DeviceRef(check_result.entry, check_result.device_key)
        log, log_keys = check_result.check.log, check_result.result.log_keys
        if log is not None and log_keys is not None:
            yield from ((log, key) for key in log_keys)


def evaluate_one_look(candidates: ResourceCandidates) -> ResourceCandidates:
    """Return the candidates of a single look, each failure as unhealthy reason: thresholds need several looks."""
    return {
        resource_key: {key: add_check_reasons(candidate, find_one_look_failure) for key, candidate in by_key.items()}
        for resource_key, by_key in candidates.items()
    }
