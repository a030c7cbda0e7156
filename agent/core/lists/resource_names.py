"""Resource names: the names that templates give, and the entry of each name.

An entry with a name template has several resources, which appear and disappear with the words of its devices. Only the
part after the `/` comes from a device. The owner of a name keeps it until the name has been empty for a while. A later
entry with the same name must wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import Device, DeviceList
from agent.core.language.value import make_sort_key
from agent.core.struct import MutableStruct, Struct, replace

MAX_NAMES = 64  # generated names of one entry
EMPTY_SECONDS = 600.0  # how long a name without devices stays

ResourceCandidates = Mapping[tuple[str, str], Mapping[str, Candidate]]  # by resource and written name, then by key
_NO_CANDIDATES: Mapping[str, Candidate] = {}


class GeneratedName(Struct):
    """A generated name: the written name of its entry, and since when no candidate has the name (monotonic seconds)."""

    written_name: str
    empty_since: float | None = None

    def mark_empty(self, current_time: float) -> GeneratedName:
        """Return the same name without devices since that time."""
        return self if self.empty_since is not None else replace(self, empty_since=current_time)

    def is_retained(self, current_time: float) -> bool:
        """Return whether the name stays although it is empty."""
        return self.empty_since is None or current_time < self.empty_since + EMPTY_SECONDS


class ResourceNames(MutableStruct):
    """The entry of each resource, and the candidates for its list.

    written_names: the written name of each resource, in file order. Empty if the name is no template.
    candidates: the candidates of each of these.
    unlisted_candidates: candidates for no list, with the reason.
    generated_names: the names that come from a template.
    """

    written_names: dict[str, str]
    candidates: dict[str, Mapping[str, Candidate]]
    unlisted_candidates: list[tuple[Candidate, str]]
    generated_names: dict[str, GeneratedName]


def map_names_to_entries(specs: Sequence[ResourceSpec], generated_names: Mapping[str, GeneratedName]) -> dict[str, str]:
    """Return all resource names in file order, with the written name. It is empty if the name is no template."""
    by_entry: dict[str, list[str]] = {}
    for name, generated_name in generated_names.items():
        by_entry.setdefault(generated_name.written_name, []).append(name)
    written_names: dict[str, str] = {}
    for spec in specs:
        if spec.is_addition:
            continue
        if spec.name_template is None:
            written_names[spec.name] = ""
        else:
            written_names.update((name, spec.name) for name in sorted(by_entry.get(spec.name, ()), key=make_sort_key))
    return written_names


def assign_candidates(
    candidates: ResourceCandidates,
    specs: Sequence[ResourceSpec],
    previous: Mapping[str, DeviceList],
    generated_names: Mapping[str, GeneratedName],
    current_time: float,
) -> ResourceNames:
    """Return all current resources with their candidates.

    Args:
        candidates: the candidates of a look.
        specs: the entries, in file order.
        previous: the lists that the kubelet has.
        generated_names: the generated names of the last lists.
        current_time: monotonic seconds.
    """
    static_names = {spec.name for spec in specs if spec.name_template is None and not spec.is_addition}
    templates = {spec.name: spec.name_template for spec in specs if spec.name_template is not None}
    names = ResourceNames(dict.fromkeys(static_names, ""), {}, [], {})
    if templates:
        retained_names = {
            name: generated_name
            for name, generated_name in generated_names.items()
            if generated_name.written_name in templates
            and name not in static_names
            and (
                (name, generated_name.written_name) in candidates
                or generated_name.is_retained(current_time)
                or _has_devices(previous, name)
            )
        }
        names.generated_names = {
            **retained_names,
            **_find_new_names(candidates, templates, retained_names, static_names, names.unlisted_candidates),
        }
    names.written_names = map_names_to_entries(specs, names.generated_names)
    names.candidates = {
        name: candidates.get((name, written_name), _NO_CANDIDATES) for name, written_name in names.written_names.items()
    }
    for (name, written_name), candidates_of_name in candidates.items() if templates else ():
        if name in templates:
            _assign_unnamed_candidates(candidates_of_name, names, previous)
        elif names.written_names.get(name, written_name) != written_name:
            reason = f"{name} belongs to {names.written_names[name] or 'the entry of that name'}"
            names.unlisted_candidates += [(candidate, reason) for candidate in candidates_of_name.values()]
    return names


def _find_new_names(
    candidates: ResourceCandidates,
    written_names: Iterable[str],
    retained_names: Mapping[str, GeneratedName],
    static_names: Iterable[str],
    unlisted_candidates: list[tuple[Candidate, str]],
) -> dict[str, GeneratedName]:
    """Return the new generated names, each for the first entry that gives it, up to the limit of each entry."""
    order = {written_name: index for index, written_name in enumerate(written_names)}
    new_names: dict[str, GeneratedName] = {}
    count = dict.fromkeys(order, 0)
    for generated_name in retained_names.values():
        count[generated_name.written_name] += 1
    for name, written_name in sorted(candidates, key=lambda names: (order.get(names[1], -1), make_sort_key(names[0]))):
        if (
            not written_name
            or name == written_name
            or name in retained_names
            or name in new_names
            or name in static_names
        ):
            continue
        if count[written_name] < MAX_NAMES:
            count[written_name] += 1
            new_names[name] = GeneratedName(written_name)
        else:
            reason = f"{written_name} has {MAX_NAMES} names already, and {name} would be one more"
            unlisted_candidates += [(candidate, reason) for candidate in candidates[name, written_name].values()]
    return new_names


def _assign_unnamed_candidates(
    candidates: Mapping[str, Candidate], names: ResourceNames, previous: Mapping[str, DeviceList]
) -> None:
    """Assign candidates that wait, and so have no name now, to the list that contains them. Others join no list."""
    listed_devices: dict[str, list[tuple[str, Device]]] = {}
    locations = {location for candidate in candidates.values() for location in candidate.locations}
    written_name = next(candidate.written_name for candidate in candidates.values())
    for name, owner in names.written_names.items():
        for device in previous[name].devices if owner == written_name and name in previous else ():
            for location in locations.intersection(device.locations):
                listed_devices.setdefault(location, []).append((name, device))
    assigned: dict[str, dict[str, Candidate]] = {}
    for key, candidate in candidates.items():
        matches = [resource for location in candidate.locations for resource in listed_devices.get(location, ())]
        resource = next(
            (name for name, device in matches if candidate.has_id_of(device)), matches[0][0] if matches else None
        )
        if resource is None:
            names.unlisted_candidates.append((candidate, candidate.not_ready_reason))
        else:
            assigned.setdefault(resource, {})[key] = candidate
    for resource, new_candidates in assigned.items():
        names.candidates[resource] = {**names.candidates[resource], **new_candidates}


def _has_devices(previous: Mapping[str, DeviceList], name: str) -> bool:
    return name in previous and bool(previous[name].devices)
