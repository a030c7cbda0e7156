"""Concluding: the conditions of all checks stepped once for each look at a device, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import is_
from typing import TypeAlias

from agent.core.health.check_states import CheckStates, DeviceRef
from agent.core.health.evaluation_step import EvaluationStep
from agent.core.health.kernel_log import KernelLogHistory, LogKey
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.partner_health import find_one_look_failure, find_partner_wait, list_checks, list_partners
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.struct import Struct, field, replace


class Evaluation(Struct):
    """Candidates as their checks leave them: what fails is their fault.

    seen: the candidates of the look that this is of. offers: the same, with what fails.
    listeners: which of them the kernel log speaks of, by what it says, and which have a condition; each by its resource
        and its key.
    answers: what checks said at this look, by name and result, so often.
    """

    check_states: CheckStates = field(default_factory=CheckStates)
    original_candidates: ResourceCandidates = field(default_factory=dict)
    candidates: ResourceCandidates = field(default_factory=dict)
    subscribers: Mapping[LogKey | DeviceRef, frozenset[_Listener]] = field(default_factory=dict)
    result_counts: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def find_partner_refs(self, keys: Iterable[str]) -> frozenset[DeviceRef]:
        """Of whose health it is spoken by what has one of these keys."""
        wanted = frozenset(keys)
        found = (
            one for of in self.original_candidates.values() for one in of.values() if not wanted.isdisjoint(one.keys)
        )
        behind = (behind for one in found for behind in list_partners(one))
        return frozenset(DeviceRef(one.entry, one.device_key) for each in behind for one in list_checks(each))


_Listener: TypeAlias = tuple[tuple[str, str], str]
_SILENCE = KernelLogHistory()


def evaluate(
    previous: Evaluation,
    candidates: ResourceCandidates,
    entries: Iterable[str],
    current_time: float,
    look_distance_s: float,
    *,
    log_history: KernelLogHistory = _SILENCE,
    changed_log_keys: Iterable[LogKey] | None = (),
) -> Evaluation:
    """After a look, or after the kernel log said something. A candidate that is the same object as before was not
    looked at: its checks stand still, but for what they hear.

    Args:
        previous: after the last look.
        candidates: the candidates of this one.
        entries: the names of the entries in force; of others nothing is remembered.
        current_time: monotonic seconds.
        look_distance_s: see `step`.
        log_history: what was heard in the kernel log.
        changed_log_keys: of whom it spoke since; None: it may be of anybody.
    """
    changed = {
        of: None
        for of in {**previous.original_candidates, **candidates}
        if previous.original_candidates.get(of) is not candidates.get(of)
    }
    told_of = previous.subscribers if changed_log_keys is None else changed_log_keys
    listening = {one: None for told in told_of for one in previous.subscribers.get(told, ())}
    if not changed and not listening:
        if not previous.check_states.healthy_refs:
            return previous
        return replace(
            previous, check_states=replace(previous.check_states, healthy_refs=frozenset())
        )  # nobody was there at the start
    gone: list[Candidate] = []
    come: list[Candidate] = []
    for of in changed:
        was, found = previous.original_candidates.get(of, {}), candidates.get(of, {})
        gone += (candidate for key, candidate in was.items() if found.get(key) is not candidate)
        come += (candidate for key, candidate in found.items() if was.get(key) is not candidate)
    listeners = _listeners(previous.subscribers, gone, come)
    made = EvaluationStep(previous.check_states, gone, come, log_history, (current_time, look_distance_s))
    made.remove_absent_devices(listeners)
    told = {id(candidate): made.evaluate_candidate(candidate) for candidate in come}
    # In which resources something fails, or did: of the others the candidates are as they were seen.
    ill = {of for of, found in previous.candidates.items() if found is not previous.original_candidates.get(of)}
    ill.update((one.resource, one.written_name) for one in come if told[id(one)] is not one)
    while listening := listening | {one: None for spot in made.take_changed_refs() for one in listeners.get(spot, ())}:
        for of, key in listening:
            candidate = candidates.get(of, {}).get(key)
            if candidate is not None and id(candidate) not in told:
                told[id(candidate)] = made.evaluate_candidate(candidate, looked=False)
                changed[of] = None
                ill.add(of)
        listening = {}  # and then those of whose partners the health turned here, who were not looked at
    offers = {of: previous.candidates[of] for of in candidates.keys() - changed}
    for of in changed:
        found, offered = candidates.get(of, {}), previous.candidates.get(of, {})
        if of not in ill:
            offers |= {of: found} if found else {}
            continue
        judged = {key: told.get(id(candidate)) or offered[key] for key, candidate in found.items()}
        same = all(map(is_, judged.values(), found.values()))
        offers |= {of: found if same else judged} if found else {}
    return Evaluation(
        made.build_check_states(frozenset(entries)), {**candidates}, offers, listeners, made.result_counts
    )


def _listeners(
    before: Mapping[LogKey | DeviceRef, frozenset[_Listener]], gone: Iterable[Candidate], come: Iterable[Candidate]
) -> Mapping[LogKey | DeviceRef, frozenset[_Listener]]:
    """Of whom the kernel log speaks and who has which condition, after these have gone and those have come."""
    changes = [(one, told, come is these) for these in (gone, come) for one in these for told in _told_by(one)]
    if not changes:
        return before
    after = {**before}
    for candidate, told, is_there in changes:
        one = {((candidate.resource, candidate.written_name), candidate.device.key)}
        others = after.pop(told, frozenset())
        if now := others | one if is_there else others - one:
            after[told] = now
    return after


def _told_by(candidate: Candidate) -> Iterator[LogKey | DeviceRef]:
    for one in list_checks(candidate):
        yield DeviceRef(one.entry, one.device_key)
        if one.check.log is not None and one.result.subscription is not None:
            yield from ((one.check.log, key) for key in one.result.subscription.keys)


def evaluate_one_look(seen: ResourceCandidates) -> ResourceCandidates:
    """The candidates of a single look, what fails in it as their fault: it cannot know for how long it does."""

    def told(candidate: Candidate) -> Candidate:
        reason = find_one_look_failure(candidate.check_results)
        waits, ailing = find_partner_wait(candidate.dependents, find_one_look_failure)
        if not (reason or waits or ailing):
            return candidate
        return replace(
            candidate,
            unhealthy_reason=candidate.unhealthy_reason or reason,
            not_ready_reason=candidate.not_ready_reason or waits,
            unhealthy_partners=ailing,
        )

    return {of: {key: told(candidate) for key, candidate in found.items()} for of, found in seen.items()}
