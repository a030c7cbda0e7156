"""Host devices, the devices that resources make of them, and the device list for the kubelet."""

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

SHARE_SUFFIX = re.compile(rf"{SHARE_MARK}(?:[A-Za-z][A-Za-z_.-]*)?")  # the text before a share number


class Health(Enum):
    """The health of a device. The values are the words of the kubelet."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


class DeviceNode(Struct):
    """A device node that exists on the host: canonical path, type (`c` or `b`) and number."""

    path: str
    type: str
    major: int
    minor: int


class MatchedPath(Struct):
    """A path that exists for a mount: as the pattern writes it, and canonical."""

    path: str
    real_path: str


def make_pci_key(address: str) -> str:
    """Return the device key of a PCI function (`HostDevice.key`)."""
    return f"pci:{address}"


class HostDevice(Struct):
    """A host device that one source finds.

    key: the device key. All sources give the same key, so that only one entry takes the device.
    name: the usual name (`0000:3b:00.0`, `ttyUSB0`, `/dev/kvm`).
    location: where the device sits. It stays the same after a replug or reboot.
    directory: the canonical directory below /sys, or an empty string.
    node: the device node as the source matched it, or an empty string.
    instance_id: changes when other hardware takes the same key (inode of the directory, number of the node).
    captures: the words that the pattern of the source takes from the path (`{card:int}`).
    real_node: the canonical path of `node`, if the source finds nodes by name.
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
    """One host device of a group. The other fields are those of `HostDevice`.

    member_name: its name in `group.parts`, or an empty string.
    """

    location: str
    key: str
    instance_id: str
    name: str
    member_name: str = ""


class Device(Struct):
    """A device of a resource. With `shares` the kubelet sees one ID per share.

    key, instance_id: those of the host device in the last look.
    reason: why the device is Unhealthy. `NO_REASON` if it is Healthy.
    shares: the number of shares, or None. first_share: the first share that is listed.
    absent_since: since when the host does not show the device, in monotonic seconds. None while the device is present.
    nodes: the device nodes in the last look. A grant compares them with the host.
    members: the host devices of a group. The fields above describe the first member that matches.
    missing_members: members that the device had and has no longer.
    id_location: the location of the ID member, if that is not the location of the device.
    grouping_digest: the digest of the `group` table. While members are missing, the table that found them counts.
    exclusive_keys: keys of host devices that no other pod can get while a pod has this device: the rest of its IOMMU
        group.
    moved_words: the words of `moves_into_pod` that had a value.
    has_contested_id: whether another device was present that gives the same ID.
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
        """The text between the ID and the share number, or an empty string if the device has no shares."""
        return "" if self.shares is None else self.share_suffix

    @property
    def locations(self) -> tuple[str, ...]:
        """The locations of all host devices, the location of the ID member first."""
        if not self.members and not self.missing_members:
            return (self.location,)
        member_locations = (member.location for member in (*self.members, *self.missing_members))
        return tuple(dict.fromkeys((self.id_location or self.location, self.location, *member_locations)))

    @property
    def keys(self) -> tuple[str, ...]:
        """The device keys of all host devices."""
        return tuple(member.key for member in self.members) or (self.key,)

    @property
    def host_parts(self) -> tuple[Device, ...] | tuple[Member, ...]:
        """The host devices of the last look."""
        return self.members or (self,)

    @property
    def share_base(self) -> ShareBase:
        """The ID without share number, and the share mark. Two devices with equal bases collide (`X`, and `X::0`)."""
        return self.id, self.share_mark

    def list_ids(self) -> Iterator[str]:
        """Yield the IDs for the kubelet: one, or one for each share from `first_share` up to `shares`."""
        if self.shares is None:
            yield self.id
        else:
            for share in range(self.first_share, self.shares):
                yield f"{self.id}{self.share_suffix}{share}"

    def __len__(self) -> int:
        """Return the number of IDs."""
        return 1 if self.shares is None else self.shares - self.first_share


class DeviceList(Struct, dict=True):
    """All devices of one resource at one time, in natural order of their IDs."""

    resource: str
    devices: tuple[Device, ...] = ()

    @cached_property
    def _by_id(self) -> Mapping[str, Sequence[Device]]:
        """The devices by ID. A device without shares and one with shares can have the same ID."""
        index: dict[str, list[Device]] = {}
        for device in self.devices:
            index.setdefault(device.id, []).append(device)
        return index

    @cached_property
    def _counts(self) -> Mapping[Health, int]:
        """The number of IDs by health."""
        healthy = unhealthy = 0
        for device in self.devices:
            ids = 1 if device.shares is None else len(device)
            if device.health is Health.HEALTHY:
                healthy += ids
            else:
                unhealthy += ids
        return {Health.HEALTHY: healthy, Health.UNHEALTHY: unhealthy}

    def find_device(self, id: str) -> tuple[Device, int | None] | None:  # noqa: A002  the API's own word
        """Return the device of a kubelet ID and its share number, or None if the ID is not listed.

        The share number is None if the device has no shares.
        """
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
        """The number of IDs."""
        return sum(map(self.count_ids, Health))

    def count_ids(self, health: Health) -> int:
        """Return the number of IDs with that health."""
        return self._counts[health]


def count_ids(devices: Sequence[Device]) -> int:
    """Return the number of IDs of these devices."""
    return len(devices) + sum(len(device) - 1 for device in devices if device.shares is not None)


def split_share(id: str) -> tuple[ShareBase, int | None]:  # noqa: A002  the API's own word
    """Return the share base and the share number of a kubelet ID. The number is None if the ID has none."""
    base, mark, ending = id.rpartition(SHARE_MARK)
    word = ending.rstrip("0123456789")
    number = ending[len(word) :]
    if mark and (not word or word[0].isalpha()) and 0 < len(number) <= SHARE_DIGITS and number == str(int(number)):
        return (base, mark + word), int(number)
    return (id, ""), None


def make_list_sort_key(device: Device) -> tuple[str, str, int]:
    """Return the sort key of a list: natural order of IDs, a device without shares before shares of the same ID."""
    return make_sort_key(device.id), device.share_mark, device.first_share


def make_unhealthy(device: Device, reason: str, absent_since: float | None) -> Device:
    """Return the device as Unhealthy for that reason, absent since that time. An equal device is returned as it is."""
    new_reason = Reason.from_text(reason)
    if (device.health, device.reason, device.absent_since) == (Health.UNHEALTHY, new_reason, absent_since):
        return device
    return replace(device, health=Health.UNHEALTHY, reason=new_reason, absent_since=absent_since)


def compute_device_bytes(id_length: int, numa_nodes: int = 0) -> int:
    """Return the bytes of one device in an encoded list, for IDs of that length and for Unhealthy, the longer word.

    The result is at most two bytes too high. Field layout: deviceplugin v1beta1 `Device`.
    """
    topology = 2 + numa_nodes * 4 if numa_nodes else 0
    return 2 + (2 + id_length) + (2 + len(Health.UNHEALTHY.value)) + topology
