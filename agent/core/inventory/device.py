"""Devices: what the host has, what a resource offers of it, and the list that the kubelet is told."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import NamedTuple, TypeAlias

from agent.core.entry.resource_spec import SHARE_DIGITS, SHARE_MARK
from agent.core.language.glob_parts import CapturedWords
from agent.core.language.value import make_sort_key
from agent.core.reason import NO_REASON, Reason
from agent.core.struct import Struct, replace

ShareBase: TypeAlias = tuple[str, str]

SHARE_SUFFIX = re.compile(rf"{SHARE_MARK}(?:[A-Za-z][A-Za-z_.-]*)?")  # what may stand before the number of a share


class Health(Enum):
    """What the kubelet is told of a device; the values are its words for it."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


class DeviceNode(Struct):
    """A device node as it stands on the host now: canonical path, `c` or `b`, and its number."""

    path: str
    type: str
    major: int
    minor: int


class MatchedPath(NamedTuple):
    """What is there for a mount: its path as the pattern has it, and its canonical one."""

    path: str
    real_path: str


def make_pci_key(address: str) -> str:
    """What a PCI function is known by (`HostDevice.key`)."""
    return f"pci:{address}"


class HostDevice(Struct):
    """A thing seen on the host by one source.

    key: equal for the same thing whoever looks, so that one entry alone can take it.
    name: what people call it (`0000:3b:00.0`, `ttyUSB0`, `/dev/kvm`).
    place: where it sits, the same after a replug or a reboot.
    directory: its canonical directory below /sys; empty where it has none.
    node: its own device node as matched; empty where it has none.
    stamp: differs when another thing now has this key (inode of the directory, number of the node).
    captures: what the source's pattern took of its path, as words (`{card:int}`).
    real: the canonical path of that node, where a source finds it by name.
    """

    source: str
    key: str
    name: str
    location: str
    directory: str = ""
    node: str = ""
    instance_id: str = ""
    captures: CapturedWords = ()
    real_node: str = ""


class Member(NamedTuple):
    """One of several host devices that are one device; fields as of `HostDevice`.

    part: which of its entry's parts it is; empty if there are none.
    """

    location: str
    key: str
    instance_id: str
    name: str
    member_name: str = ""


class Device(Struct):
    """A host device as a resource offers it; with `shares` it is that many devices of the kubelet's.

    key, stamp: those of the host device that it was last seen as.
    reason: why it is Unhealthy; `NO_REASON` when it is Healthy.
    gone_since: monotonic seconds since when the host does not show it; None while it is there.
    nodes: device nodes as last seen, for comparison at the moment of a grant.
    members: the host devices that it is made of, if its entry puts several together; the fields above tell of the first
        one that matches.
    lost: those that it had and has no more.
    lead: the place of the member whose words gave the id, if that is not this one.
    grouping: a digest of the sentence by which they were put together; while something is lost, of that by which it
        was there.
    shuts: the keys of host devices that no other pod may have while a pod has this: the rest of its IOMMU group.
    carried: which of the words said something that tell of what may leave the host with a pod.
    contested: whether another device was there that would have had the same id.
    """

    id: str
    location: str
    key: str
    health: Health
    reason: Reason = NO_REASON
    numa: tuple[int, ...] = ()
    shares: int | None = None
    first_share: int = 0
    nodes: tuple[DeviceNode, ...] = ()
    absent_since: float | None = None
    instance_id: str = ""
    members: tuple[Member, ...] = ()
    missing_members: tuple[Member, ...] = ()
    id_location: str = ""
    grouping_digest: str = ""
    share_suffix: str = SHARE_MARK
    exclusive_keys: tuple[str, ...] = ()
    moved_words: tuple[str, ...] = ()
    has_contested_id: bool = False

    @property
    def share_mark(self) -> str:
        """What stands between its id and the number of a share; nothing if it is whole."""
        return "" if self.shares is None else self.share_suffix

    @property
    def locations(self) -> tuple[str, ...]:
        """Where it was, first the place of the host device that gave the id."""
        if not self.members and not self.missing_members:
            return (self.location,)
        member_locations = (member.location for member in (*self.members, *self.missing_members))
        return tuple(dict.fromkeys((self.id_location or self.location, self.location, *member_locations)))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all its host devices."""
        return tuple(member.key for member in self.members) or (self.key,)

    @property
    def host_parts(self) -> tuple[Device, ...] | tuple[Member, ...]:
        """Its host devices, as they were last seen."""
        return self.members or (self,)

    @property
    def share_base(self) -> ShareBase:
        """What makes ids collide: the text, and whether it is whole (`X`) or in shares (`X::0`)."""
        return self.id, self.share_mark

    def list_ids(self) -> Iterator[str]:
        """The ids that the kubelet sees: one, or one for each share from `first_share` up to `shares`."""
        if self.shares is None:
            yield self.id
        else:
            for share in range(self.first_share, self.shares):
                yield f"{self.id}{self.share_suffix}{share}"

    def __len__(self) -> int:
        """How many ids that is."""
        return 1 if self.shares is None else self.shares - self.first_share


class DeviceList(Struct, dict=True):
    """All that one resource offers at one moment, in list order (natural order of id)."""

    resource: str
    devices: tuple[Device, ...] = ()

    @cached_property
    def _by_id(self) -> Mapping[str, Sequence[Device]]:
        """The devices by id: of one id there may be a whole one and one in shares."""
        index: dict[str, list[Device]] = {}
        for device in self.devices:
            index.setdefault(device.id, []).append(device)
        return index

    @cached_property
    def _counts(self) -> Mapping[Health, int]:
        """How many ids the kubelet sees, by health."""
        healthy = unhealthy = 0
        for device in self.devices:
            ids = 1 if device.shares is None else len(device)
            if device.health is Health.HEALTHY:
                healthy += ids
            else:
                unhealthy += ids
        return {Health.HEALTHY: healthy, Health.UNHEALTHY: unhealthy}

    def find_device(self, id: str) -> tuple[Device, int | None] | None:  # noqa: A002  the API's own word
        """The device that an id of the kubelet's means, and which share of it; none if it is not listed."""
        (base, mark), share = split_share(id)
        for device in self._by_id.get(base, ()):
            if device.share_mark != mark:
                continue
            if device.shares is None:
                return device, None
            if share is not None and device.first_share <= share < device.shares:
                return device, share
        return None

    @property
    def id_count(self) -> int:
        """How many ids the kubelet sees."""
        return sum(map(self.count_ids, Health))

    def count_ids(self, health: Health) -> int:
        """How many ids the kubelet sees with that health; counted once."""
        return self._counts[health]


def count_ids(devices: Sequence[Device]) -> int:
    """How many ids of the kubelet's these devices are together."""
    return len(devices) + sum(len(device) - 1 for device in devices if device.shares is not None)


def split_share(id: str) -> tuple[ShareBase, int | None]:  # noqa: A002  the API's own word
    """An id of the kubelet's as the form of its device and the number of the share; None for an id that has none."""
    base, mark, ending = id.rpartition(SHARE_MARK)
    word = ending.rstrip("0123456789")
    number = ending[len(word) :]
    if mark and (not word or word[0].isalpha()) and 0 < len(number) <= SHARE_DIGITS and number == str(int(number)):
        return (base, mark + word), int(number)
    return (id, ""), None


def make_list_sort_key(device: Device) -> tuple[str, str, int]:
    """The sort key of a list: natural order of id, a whole device before shares of the same id."""
    return make_sort_key(device.id), device.share_mark, device.first_share


def make_unhealthy(device: Device, reason: str, absent_since: float | None) -> Device:
    """The same device, Unhealthy for that reason and gone since then; itself if it is so already."""
    new_reason = Reason.of(reason)
    if (device.health, device.reason, device.absent_since) == (Health.UNHEALTHY, new_reason, absent_since):
        return device
    return replace(device, health=Health.UNHEALTHY, reason=new_reason, absent_since=absent_since)


def compute_device_bytes(id_length: int, numa_nodes: int = 0) -> int:
    """Bytes of one device in an encoded list, Unhealthy (the longer word), for ids of that length.

    Upper bound by at most two bytes; field layout: deviceplugin v1beta1 `Device`.
    """
    topology = 2 + numa_nodes * 4 if numa_nodes else 0
    return 2 + (2 + id_length) + (2 + len(Health.UNHEALTHY.value)) + topology
