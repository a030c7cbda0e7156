"""Naming: the resource names that come out of a text, and which entry's each of them is.

An entry whose name has words is of several resources, which come and go with what its devices say.
The name is then the device's word only behind the `/`; who owns a name keeps it until it has been empty for a while,
and a later entry in whose text it comes out too has to wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList
from agent.core.language.value import make_sort_key
from agent.core.struct import MutableStruct, Struct, replace

MAX_NAMES = 64  # names of one entry
EMPTY_SECONDS = 600.0  # how long a name with no device stays

ResourceCandidates = Mapping[tuple[str, str], Mapping[str, Candidate]]  # by resource and name as written, then by key
_NONE: Mapping[str, Candidate] = {}


class GeneratedName(Struct):
    """One of the names of an entry: the name as written there, and since when (monotonic) nothing wants it."""

    written_name: str
    empty_since: float | None = None

    def mark_empty(self, now: float) -> GeneratedName:
        """The same name, which has no device now."""
        return self if self.empty_since is not None else replace(self, empty_since=now)

    def is_retained(self, now: float) -> bool:
        """Whether it stays although it is empty."""
        return self.empty_since is None or now < self.empty_since + EMPTY_SECONDS


class ResourceNames(MutableStruct):
    """Whose each resource is, and what there is for its list.

    written: of each resource in file order the name as its entry writes it; empty where that has no words.
    candidates: of each of these.
    left_out: candidates that join no list, with the reason.
    fanned: those that came out of words.
    """

    written_names: dict[str, str]
    candidates: dict[str, Mapping[str, Candidate]]
    unlisted_candidates: list[tuple[Candidate, str]]
    generated_names: dict[str, GeneratedName]


def map_names_to_entries(specs: Sequence[ResourceSpec], generated_names: Mapping[str, GeneratedName]) -> dict[str, str]:
    """Every resource in file order, with its name as its entry writes it; empty where that has no words."""
    by_entry: dict[str, list[str]] = {}
    for name, owned in generated_names.items():
        by_entry.setdefault(owned.written_name, []).append(name)
    written: dict[str, str] = {}
    for spec in specs:
        if spec.is_addition:
            continue
        if spec.name_template is None:
            written[spec.name] = ""
        else:
            written.update((name, spec.name) for name in sorted(by_entry.get(spec.name, ()), key=make_sort_key))
    return written


def assign_candidates(
    candidates: ResourceCandidates,
    specs: Sequence[ResourceSpec],
    previous: Mapping[str, DeviceList],
    generated_names: Mapping[str, GeneratedName],
    current_time: float,
) -> ResourceNames:
    """Every resource that there is now, with what is offered to it.

    Args:
        candidates: the candidates of a look.
        specs: the entries, in file order.
        previous: the lists as last told.
        generated_names: the names that came out of words before.
        current_time: monotonic seconds.
    """
    static = {spec.name for spec in specs if spec.name_template is None and not spec.is_addition}
    texts = {spec.name: spec.name_template for spec in specs if spec.name_template is not None}
    names = ResourceNames(dict.fromkeys(static, ""), {}, [], {})
    if texts:
        known = {
            name: known
            for name, known in generated_names.items()
            if known.written_name in texts
            and name not in static
            and (
                (name, known.written_name) in candidates or known.is_retained(current_time) or _devices(previous, name)
            )
        }
        names.generated_names = {**known, **_new(candidates, texts, known, static, names.unlisted_candidates)}
    names.written_names = map_names_to_entries(specs, names.generated_names)
    names.candidates = {name: candidates.get((name, written), _NONE) for name, written in names.written_names.items()}
    for (name, written), found in candidates.items() if texts else ():
        if name in texts:
            _send_home(found, names, previous)
        elif names.written_names.get(name, written) != written:
            said = f"{name} belongs to {names.written_names[name] or 'the entry of that name'}"
            names.unlisted_candidates += [(candidate, said) for candidate in found.values()]
    return names


def _new(
    offers: ResourceCandidates,
    texts: Iterable[str],
    known: Mapping[str, GeneratedName],
    static: Iterable[str],
    left_out: list[tuple[Candidate, str]],
) -> dict[str, GeneratedName]:
    """The names that come out for the first time, each the first entry's, as far as an entry may have them."""
    order = {written: index for index, written in enumerate(texts)}
    fresh: dict[str, GeneratedName] = {}
    count = dict.fromkeys(order, 0)
    for owned in known.values():
        count[owned.written_name] += 1
    for name, written in sorted(offers, key=lambda offer: (order.get(offer[1], -1), make_sort_key(offer[0]))):
        if not written or name == written or name in known or name in fresh or name in static:
            continue
        if count[written] < MAX_NAMES:
            count[written] += 1
            fresh[name] = GeneratedName(written)
        else:
            why = f"{written} has {MAX_NAMES} names already, and {name} would be one more"
            left_out += [(candidate, why) for candidate in offers[name, written].values()]
    return fresh


def _send_home(found: Mapping[str, Candidate], names: ResourceNames, previous: Mapping[str, DeviceList]) -> None:
    """Give candidates that wait, and so have no name now, to the list in which they are; others join none."""
    homes: dict[str, list[tuple[str, Device]]] = {}
    waiting = {place for candidate in found.values() for place in candidate.locations}
    written = next(candidate.written_name for candidate in found.values())
    for name, owner in names.written_names.items():
        for device in previous[name].devices if owner == written and name in previous else ():
            for place in waiting.intersection(device.locations):
                homes.setdefault(place, []).append((name, device))
    sent: dict[str, dict[str, Candidate]] = {}
    for key, candidate in found.items():
        here = [home for place in candidate.locations for home in homes.get(place, ())]
        home = next((name for name, device in here if candidate.has_id_of(device)), here[0][0] if here else None)
        if home is None:
            names.unlisted_candidates.append((candidate, candidate.not_ready_reason))
        else:
            sent.setdefault(home, {})[key] = candidate
    for home, more in sent.items():
        names.candidates[home] = {**names.candidates[home], **more}


def _devices(previous: Mapping[str, DeviceList], name: str) -> bool:
    return name in previous and bool(previous[name].devices)
