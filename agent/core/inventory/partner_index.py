"""Find partners: one index for each pool of partners."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from agent.core.entry.give_conditions import KNOWN_LATER
from agent.core.entry.joins import Join, PartnerPool, RelativeDirectory
from agent.core.entry.resource_spec import ResourceSpec, Source
from agent.core.inventory.candidate import Candidate
from agent.core.inventory.device import HostDevice
from agent.core.inventory.dirty_set import PathIndex
from agent.core.inventory.facts import Facts, Reader
from agent.core.inventory.partner_words import KeyValues, read_key_values
from agent.core.language.clause import format_fact
from agent.core.language.logic import PLAIN
from agent.core.language.value import Absent, make_sort_key
from agent.core.struct import MutableStruct, field, replace

_MAX_NAMES = 3  # devices in a reason

PartnerDevices: TypeAlias = Mapping[tuple[str, Join], HostDevice]  # by key of the device that has the partner
# The pool of the device that searches, None if an entry has the device, and the device key.
_SearchOrigin: TypeAlias = tuple[PartnerPool | None, str]


class _Index(MutableStruct):
    """The devices of one pool by their key values.

    keys: the key values of each device. None if the device is not in the pool.
    pending_reasons: why the key values of a device are not known yet.
    searches: where a search for key values came from. Looks only add to it.
    dirty_keys: devices to read again, each with whether more than its key values may differ.
    """

    devices_by_key: dict[KeyValues, dict[str, HostDevice]] = field(default_factory=dict)
    keys: dict[str, KeyValues | None] = field(default_factory=dict)
    devices: dict[str, HostDevice] = field(default_factory=dict)
    pending_reasons: dict[str, Absent] = field(default_factory=dict)
    searches: dict[KeyValues, set[_SearchOrigin]] = field(default_factory=dict)
    dirty_keys: dict[str, bool] = field(default_factory=dict)


class PartnerIndex:
    """The partner of each device in one look.

    Looks pass the indexes on. `refresh` returns the devices whose partner can change.
    """

    def __init__(
        self,
        listing: Mapping[Source, tuple[HostDevice, ...]],
        reader: Reader,
        path_index: PathIndex,
        previous: PartnerIndex | None,
    ) -> None:
        """Take the indexes of the previous look. `path_index` gets the paths that the partners were read from."""
        self._listing = listing
        self._reader = reader
        self._path_index = path_index
        self._indexes: dict[PartnerPool, _Index] = {} if previous is None else previous._indexes  # noqa: SLF001  same class
        # By identity of the pool. The value keeps the pool, so that the identity stays valid.
        self._equal_pools: dict[int, tuple[PartnerPool, PartnerPool]] = {}
        self._facts: dict[tuple[int, str], Facts] = {}
        self._affected_searches: set[_SearchOrigin] = set()

    def find_partner(self, join: Join, facts: Facts) -> Facts | Absent:
        """Return the facts of the partner of a device. Absent with the reason if there is none or more than one."""
        key = read_key_values(join.list_key_words(), facts)
        if isinstance(key, Absent):
            return self._make_missing(join, key.reason, key)
        if join.pool.directory is not None:
            return self._find_partner_below(join, join.pool.directory, key, facts)
        pool = self._get_equal_pool(join.pool)
        index = self._get_index(pool)
        index.searches.setdefault(key, set()).add((facts.pool, facts.device.key))
        devices = index.devices_by_key.get(key, {})
        if len(devices) == 1:
            (device,) = devices.values()
            return self._get_facts(pool, device)
        return self._make_no_partner(
            join,
            key,
            devices.values(),
            index.pending_reasons[min(index.pending_reasons)] if index.pending_reasons else None,
        )

    def get_unhealthy_reason(self, join: Join, facts: Facts) -> Absent:
        """Return that the health of a partner is known only after the look."""
        del join, facts
        return KNOWN_LATER

    def _find_partner_below(
        self, join: Join, directory: RelativeDirectory, key: KeyValues, facts: Facts
    ) -> Facts | Absent:
        """Return the partner among the directories below a directory of the device."""
        directories = list_partner_directories(directory, facts)
        if isinstance(directories, Absent):
            return self._make_missing(join, directories.reason, directories)
        partners: list[Facts] = []
        pending_reason: Absent | None = None
        for device in directories:
            facts.related_devices[device.key] = device  # a change of any directory can change the partner
            partner = Facts(join.pool, device, self._reader, self)
            partner_key = _find_key(join.pool, partner)
            facts.related_devices.update(partner.list_dependencies())
            if partner_key == key:
                partners.append(partner)
            elif isinstance(partner_key, Absent) and partner_key.pending:
                pending_reason = pending_reason or partner_key
        if len(partners) == 1:
            return partners[0]
        return self._make_no_partner(join, key, [partner.device for partner in partners], pending_reason)

    def _make_no_partner(
        self, join: Join, key: KeyValues, devices: Collection[HostDevice], pending_reason: Absent | None
    ) -> Absent:
        """Build the absent value for no partner or several partners."""
        if devices:
            names = sorted((device.name for device in devices), key=make_sort_key)
            ending = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
            return self._make_missing(
                join, f"several are: {', '.join(names[:_MAX_NAMES])}{ending}", Absent("", unreadable=True)
            )
        if pending_reason is not None:
            return self._make_missing(join, pending_reason.reason, pending_reason)
        values = ", ".join(
            f"{key_word.word} = {format_fact(value)}" for key_word, value in zip(join.pool.keys, key, strict=True)
        )
        return self._make_missing(
            join, f"no {join.pool.source} has {values}" if values else f"no {join.pool.source} fits"
        )

    def refresh(self, dirty_keys: AbstractSet[str], reread_keys: AbstractSet[str] = frozenset()) -> set[str]:
        """Read the partners with these keys again, and return the keys of devices whose partner can change.

        reread_keys: keys of devices of which any fact can differ without another sign.
        """
        for pool, index in self._indexes.items():
            for key in dirty_keys & index.keys.keys():
                index.dirty_keys[key] = key in reread_keys
            for device in self._listing.get(pool.source, ()):
                if device.key in dirty_keys:
                    index.dirty_keys[device.key] = device.key in reread_keys
        affected_keys: set[str] = set()
        while any(index.dirty_keys for index in tuple(self._indexes.values())):
            for pool in tuple(self._indexes):
                self._get_index(pool)
            searches, self._affected_searches = self._affected_searches, set()
            for origin_pool, key in searches:
                if origin_pool is None:
                    affected_keys.add(key)
                else:
                    self._indexes[origin_pool].dirty_keys[key] = True
        return affected_keys

    def _make_missing(self, join: Join, reason: str, cause: Absent | None = None) -> Absent:
        """Build the absent value for a missing partner. A device that needs the partner waits for it."""
        is_unreadable = cause is not None and cause.unreadable
        is_pending = not join.optional or (cause is not None and cause.pending)
        return Absent(f"no {join.name}: {reason}", is_unreadable, is_pending)

    def _get_equal_pool(self, pool: PartnerPool) -> PartnerPool:
        """Return the pool that represents all equal pools."""
        pools = self._equal_pools.get(id(pool))
        if pools is None:
            equal_pool = next((other for other in self._indexes if other == pool), pool)
            pools = self._equal_pools[id(pool)] = pool, equal_pool
        return pools[1]

    def _get_index(self, pool: PartnerPool) -> _Index:
        """Return the current index of a pool."""
        index = self._indexes.get(pool)
        if index is None:
            index = self._indexes[pool] = _Index()
            for device in self._listing.get(pool.source, ()):
                self._add_device(pool, index, device)
        elif index.dirty_keys:
            dirty_keys, index.dirty_keys = index.dirty_keys, {}
            devices = {device.key: device for device in self._listing.get(pool.source, ()) if device.key in dirty_keys}
            for key, is_reread in dirty_keys.items():
                self._update_device(pool, index, key, devices.get(key), is_reread=is_reread)
        return index

    def _update_device(
        self, pool: PartnerPool, index: _Index, key: str, device: HostDevice | None, *, is_reread: bool
    ) -> None:
        """Read one device of a pool again, and record the searches that this can affect."""
        old_state = index.devices.pop(key, None), index.keys.pop(key, None), index.pending_reasons.pop(key, None)
        old_key = old_state[1]
        if old_key is not None:
            del index.devices_by_key[old_key][key]
        self._facts.pop((id(pool), key), None)
        if device is not None:
            self._add_device(pool, index, device)
        new_state = index.devices.get(key), index.keys.get(key), index.pending_reasons.get(key)
        if old_state == new_state and not is_reread and pool.partner_checks is None:
            return
        if old_state[2] != new_state[2]:
            self._affected_searches.update(*index.searches.values())
        for changed_key in (old_key, new_state[1]):
            if changed_key is not None:
                self._affected_searches |= index.searches.get(changed_key, set())

    def _add_device(self, pool: PartnerPool, index: _Index, device: HostDevice) -> None:
        facts = self._get_facts(pool, device)
        key = _find_key(pool, facts)
        if isinstance(key, Absent):
            if key.pending:
                index.pending_reasons[device.key] = key
            key = None
        index.devices[device.key] = device
        index.keys[device.key] = key
        if key is not None:
            index.devices_by_key.setdefault(key, {})[device.key] = device
        for read_device in (device, *facts.list_dependencies().values()):
            self._path_index.add(device.key, self._reader.get_read_paths(read_device))

    def _get_facts(self, pool: PartnerPool, device: HostDevice) -> Facts:
        """Return the facts of a partner, the same object for all searches."""
        facts = self._facts.get((id(pool), device.key))
        if facts is None:
            facts = self._facts[id(pool), device.key] = Facts(pool, device, self._reader, self)
        return facts


def list_partner_directories(directory: RelativeDirectory, facts: Facts) -> Sequence[HostDevice] | Absent:
    """Return the directories below which a partner is searched: those of the device or of its partner."""
    path = directory.path.write(facts)
    owner_facts = facts if directory.path.join is None else facts.find_partner(directory.path.join)
    if isinstance(path, Absent):
        return path
    if isinstance(owner_facts, Absent):
        return owner_facts
    return owner_facts.reader.list_directories(owner_facts.device, path, directory.pattern)


def _find_key(pool: PartnerPool, facts: Facts) -> KeyValues | Absent | None:
    """Return the key values of a device of a pool. Absent while unknown, None if the device is not in the pool."""
    failed_line = pool.match.find_failed_line(facts, PLAIN)
    if failed_line is None:
        return read_key_values(pool.keys, facts)
    return failed_line.undecided_fact


class KnownPartners:
    """The partners of the last look. Each is read again to confirm it, but no other partner is searched.

    unhealthy_partners: those of the candidate, after that look.
    """

    def __init__(
        self, reader: Reader, partners: PartnerDevices, unhealthy_partners: Mapping[tuple[str, str], str]
    ) -> None:
        self._reader = reader
        self._partners = partners
        self._unhealthy_partners = unhealthy_partners

    def find_partner(self, join: Join, facts: Facts) -> Facts | Absent:
        """See `PartnerFinder`."""
        device = self._partners.get((facts.device.key, join))
        if device is None:
            return Absent(f"no {join.name}: none was there when it was last looked for")
        partner = Facts(join.pool, device, self._reader, self)
        device_key = read_key_values(join.list_key_words(), facts)
        if isinstance(device_key, Absent) or device_key != read_key_values(join.pool.keys, partner):
            return Absent(f"no {join.name}: {device.name} is it no more")
        return partner

    def get_unhealthy_reason(self, join: Join, facts: Facts) -> str:
        """See `PartnerFinder`."""
        return self._unhealthy_partners.get((facts.device.key, join.name), "")


def add_partners(candidate: Candidate, spec: ResourceSpec, members: Iterable[Facts]) -> Candidate:
    """Return a candidate with its partners and those of its members.

    The candidate waits for a required partner that is missing.
    """
    if not spec.joins:
        return candidate
    partners: dict[tuple[str, Join], HostDevice] = {}
    missing_reasons = [_collect_partners(facts, spec.joins, partners) for facts in members]
    return replace(
        candidate,
        partners=partners,
        not_ready_reason=candidate.not_ready_reason or next(filter(None, missing_reasons), ""),
    )


def _collect_partners(facts: Facts, joins: Iterable[Join], partners: dict[tuple[str, Join], HostDevice]) -> str:
    """Add the partners of a device and their partners, and return why a required one is missing."""
    missing_reason = ""
    for join in joins:
        partner = facts.find_partner(join)
        if isinstance(partner, Facts):
            partners[facts.device.key, join] = partner.device
            reason = _collect_partners(partner, join.pool.joins, partners)
        else:
            reason = partner.reason
        missing_reason = missing_reason or ("" if join.optional else reason)
    return missing_reason
