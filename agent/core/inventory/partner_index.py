"""Finding partners: one index for each pool in a look, renewed by what an event touches."""

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

_NAMED = 3  # partners that a reason names where there are several

# Who asked for a partner: a host device by its key, of an entry or, where a partner has partners, of a pool.
PartnerDevices: TypeAlias = Mapping[tuple[str, Join], HostDevice]  # partners by the key of who has one
_Asker: TypeAlias = tuple[PartnerPool | None, str]


class _Index(MutableStruct):
    """The devices of one pool by what they say.

    keys: of each device; None if it is none that may be joined. doubts: why of some that is not known yet.
    asked: who asked for a key, ever; only added to.
    stale: those to be looked at again, each with whether others rest on more than its key.
    """

    found: dict[KeyValues, dict[str, HostDevice]] = field(default_factory=dict)
    keys: dict[str, KeyValues | None] = field(default_factory=dict)
    devices: dict[str, HostDevice] = field(default_factory=dict)
    doubts: dict[str, Absent] = field(default_factory=dict)
    asked: dict[KeyValues, set[_Asker]] = field(default_factory=dict)
    stale: dict[str, bool] = field(default_factory=dict)


class PartnerIndex:
    """Which device is whose partner, in one look.

    The indexes are handed on from look to look: `renew` says who has to be judged again for what became of others.
    """

    def __init__(
        self,
        listing: Mapping[Source, tuple[HostDevice, ...]],
        reader: Reader,
        places: PathIndex,
        before: PartnerIndex | None,
    ) -> None:
        """`places` is told what the partners rest on, under their keys; `before` is of the look before, if any."""
        self._listing = listing
        self._reader = reader
        self._places = places
        self._indexes: dict[PartnerPool, _Index] = {} if before is None else before._indexes  # noqa: SLF001  of its own kind
        self._same: dict[
            int, tuple[PartnerPool, PartnerPool]
        ] = {}  # by identity, with the pool itself so that it stays that
        self._facts: dict[tuple[int, str], Facts] = {}
        self._concerned: set[_Asker] = set()

    def find_partner(self, join: Join, facts: Facts) -> Facts | Absent:
        """The facts of a device's partner; absent, with the reason, if there is none or are several."""
        key = read_key_values(join.list_key_words(), facts)
        if isinstance(key, Absent):
            return self._missing(join, key.reason, key)
        if join.pool.directory is not None:
            return self._of_its_own(join, join.pool.directory, key, facts)
        pool = self._pool(join.pool)
        index = self._index(pool)
        index.asked.setdefault(key, set()).add((facts.pool, facts.device.key))
        found = index.found.get(key, {})
        if len(found) == 1:
            (device,) = found.values()
            return self._facts_of(pool, device)
        return self._not_one(join, key, found.values(), index.doubts[min(index.doubts)] if index.doubts else None)

    def get_unhealthy_reason(self, join: Join, facts: Facts) -> Absent:
        """That it is known after the look whether a partner is well."""
        del join, facts
        return KNOWN_LATER

    def _of_its_own(self, join: Join, below: RelativeDirectory, key: KeyValues, facts: Facts) -> Facts | Absent:
        """The partner among what lies below something that belongs to the device."""
        there = list_partner_directories(below, facts)
        if isinstance(there, Absent):
            return self._missing(join, there.reason, there)
        fitting: list[Facts] = []
        doubt: Absent | None = None
        for device in there:
            facts.related_devices[device.key] = (
                device  # what is read of it, of whichever of them, may make another the partner
            )
            partner = Facts(join.pool, device, self._reader, self)
            said = _key_in(join.pool, partner)
            facts.related_devices.update(partner.list_dependencies())
            if said == key:
                fitting.append(partner)
            elif isinstance(said, Absent) and said.pending:
                doubt = doubt or said
        if len(fitting) == 1:
            return fitting[0]
        return self._not_one(join, key, [partner.device for partner in fitting], doubt)

    def _not_one(self, join: Join, key: KeyValues, found: Collection[HostDevice], doubt: Absent | None) -> Absent:
        """That none is the partner, or several are."""
        if found:
            names = sorted((device.name for device in found), key=make_sort_key)
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            return self._missing(join, f"several are: {', '.join(names[:_NAMED])}{more}", Absent("", unreadable=True))
        if doubt is not None:
            return self._missing(join, doubt.reason, doubt)
        said = ", ".join(f"{each.word} = {format_fact(value)}" for each, value in zip(join.pool.keys, key, strict=True))
        return self._missing(join, f"no {join.pool.source} has {said}" if said else f"no {join.pool.source} fits")

    def refresh(self, doubtful: AbstractSet[str], anew: AbstractSet[str] = frozenset()) -> set[str]:
        """Look again at the partners among these keys, and say which devices may have another partner for it.

        Of those in `anew` any fact may be another, which nothing else says to who rests on that.
        """
        for pool, index in self._indexes.items():
            for key in doubtful & index.keys.keys():
                index.stale[key] = key in anew
            for device in self._listing.get(pool.source, ()):
                if device.key in doubtful:
                    index.stale[device.key] = device.key in anew
        concerned: set[str] = set()
        while any(index.stale for index in tuple(self._indexes.values())):
            for pool in tuple(self._indexes):
                self._index(pool)
            asking, self._concerned = self._concerned, set()
            for asker, key in asking:
                if asker is None:
                    concerned.add(key)
                else:
                    self._indexes[asker].stale[key] = True
        return concerned

    def _missing(self, join: Join, reason: str, why: Absent | None = None) -> Absent:
        """That there is no partner. Who needs one waits for it."""
        unread = why is not None and why.unreadable
        pending = not join.optional or (why is not None and why.pending)
        return Absent(f"no {join.name}: {reason}", unread, pending)

    def _pool(self, pool: PartnerPool) -> PartnerPool:
        """The one pool that stands for all equal ones."""
        known = self._same.get(id(pool))
        if known is None:
            same = next((other for other in self._indexes if other == pool), pool)
            known = self._same[id(pool)] = pool, same
        return known[1]

    def _index(self, pool: PartnerPool) -> _Index:
        """The index of a pool as the host is now."""
        index = self._indexes.get(pool)
        if index is None:
            index = self._indexes[pool] = _Index()
            for device in self._listing.get(pool.source, ()):
                self._add(pool, index, device)
        elif index.stale:
            stale, index.stale = index.stale, {}
            now = {device.key: device for device in self._listing.get(pool.source, ()) if device.key in stale}
            for key, more in stale.items():
                self._again(pool, index, key, now.get(key), more=more)
        return index

    def _again(self, pool: PartnerPool, index: _Index, key: str, device: HostDevice | None, *, more: bool) -> None:
        """Look at one device of a pool again, and note who asked for it if that may matter to them."""
        before = index.devices.pop(key, None), index.keys.pop(key, None), index.doubts.pop(key, None)
        old = before[1]
        if old is not None:
            del index.found[old][key]
        self._facts.pop((id(pool), key), None)
        if device is not None:
            self._add(pool, index, device)
        after = index.devices.get(key), index.keys.get(key), index.doubts.get(key)
        if before == after and not more and pool.partner_checks is None:
            return
        if before[2] != after[2]:
            self._concerned.update(*index.asked.values())
        for each in (old, after[1]):
            if each is not None:
                self._concerned |= index.asked.get(each, set())

    def _add(self, pool: PartnerPool, index: _Index, device: HostDevice) -> None:
        facts = self._facts_of(pool, device)
        key = _key_in(pool, facts)
        if isinstance(key, Absent):
            if key.pending:
                index.doubts[device.key] = key
            key = None
        index.devices[device.key] = device
        index.keys[device.key] = key
        if key is not None:
            index.found.setdefault(key, {})[device.key] = device
        for each in (device, *facts.list_dependencies().values()):
            self._places.add(device.key, self._reader.get_read_paths(each))

    def _facts_of(self, pool: PartnerPool, device: HostDevice) -> Facts:
        """The facts of a partner, the same for all who ask."""
        known = self._facts.get((id(pool), device.key))
        if known is None:
            known = self._facts[id(pool), device.key] = Facts(pool, device, self._reader, self)
        return known


def list_partner_directories(below: RelativeDirectory, facts: Facts) -> Sequence[HostDevice] | Absent:
    """The directories of a device, or of its partner, among which a partner is looked for."""
    path = below.path.write(facts)
    whose = facts if below.path.join is None else facts.find_partner(below.path.join)
    if isinstance(path, Absent):
        return path
    if isinstance(whose, Absent):
        return whose
    return whose.reader.list_directories(whose.device, path, below.pattern)


def _key_in(pool: PartnerPool, facts: Facts) -> KeyValues | Absent | None:
    """By what a device is found among those of a pool; absent while that is not known, None if it is none of them."""
    fits = pool.match.find_failed_line(facts, PLAIN)
    if fits is None:
        return read_key_values(pool.keys, facts)
    return fits.undecided_fact


class KnownPartners:
    """The partners as a look found them, each looked at anew: whether it is the one still, and not which is.

    ailing: as of a candidate, after that look.
    """

    def __init__(self, reader: Reader, partners: PartnerDevices, ailing: Mapping[tuple[str, str], str]) -> None:
        self._reader = reader
        self._partners = partners
        self._ailing = ailing

    def find_partner(self, join: Join, facts: Facts) -> Facts | Absent:
        """See `Partners`."""
        device = self._partners.get((facts.device.key, join))
        if device is None:
            return Absent(f"no {join.name}: none was there when it was last looked for")
        partner = Facts(join.pool, device, self._reader, self)
        ours = read_key_values(join.list_key_words(), facts)
        if isinstance(ours, Absent) or ours != read_key_values(join.pool.keys, partner):
            return Absent(f"no {join.name}: {device.name} is it no more")
        return partner

    def get_unhealthy_reason(self, join: Join, facts: Facts) -> str:
        """See `Finder`."""
        return self._ailing.get((facts.device.key, join.name), "")


def add_partners(candidate: Candidate, spec: ResourceSpec, members: Iterable[Facts]) -> Candidate:
    """A candidate with its partners and those of its other host devices; it waits for one that it lacks."""
    if not spec.joins:
        return candidate
    found: dict[tuple[str, Join], HostDevice] = {}
    lacking = [_partners_of(facts, spec.joins, found) for facts in members]
    return replace(
        candidate, partners=found, not_ready_reason=candidate.not_ready_reason or next(filter(None, lacking), "")
    )


def _partners_of(facts: Facts, joins: Iterable[Join], found: dict[tuple[str, Join], HostDevice]) -> str:
    """Put the partners of a device, and theirs, to those found; and why one is missing that it needs."""
    lacking = ""
    for join in joins:
        partner = facts.find_partner(join)
        if isinstance(partner, Facts):
            found[facts.device.key, join] = partner.device
            why = _partners_of(partner, join.pool.joins, found)
        else:
            why = partner.reason
        lacking = lacking or ("" if join.optional else why)
    return lacking
