"""Encoding for the kubelet: lists, options and refusals.

Lists are encoded by hand. The generated code takes 12-19 us for each device, and would block the event loop with 10,000
devices. A test compares both encodings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress, count
from operator import is_not

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from agent.core.grants.grant import GrantRefusedError, RefusalCause
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.language.safe_text import escape, shorten
from agent.core.struct import Struct
from agent.kubelet.messages.v1beta1 import Device as DeviceMessage
from agent.kubelet.messages.v1beta1 import (
    DevicePluginOptions,
    NumaNode,
    TopologyInfo,
)

VERSION = "v1beta1"
TEXT_LIMIT = 200  # characters of an error, which appears in the status of the pod

_STATUS = {
    RefusalCause.UNKNOWN_ID: Status.NOT_FOUND,
    RefusalCause.UNHEALTHY: Status.FAILED_PRECONDITION,
    RefusalCause.NODE_MISSING: Status.FAILED_PRECONDITION,
    RefusalCause.MOUNT_MISSING: Status.FAILED_PRECONDITION,
    RefusalCause.CDI_MISSING: Status.FAILED_PRECONDITION,
    RefusalCause.CONFLICT: Status.FAILED_PRECONDITION,
    RefusalCause.DEVINFO: Status.FAILED_PRECONDITION,
    RefusalCause.LIMIT: Status.INVALID_ARGUMENT,
    RefusalCause.HOOK_FAILED: Status.FAILED_PRECONDITION,
    RefusalCause.DEADLINE: Status.DEADLINE_EXCEEDED,
}


class PluginOptions(Struct):
    """The options of a plugin for the kubelet. They never change while a stream is open."""

    has_prestart: bool = False
    has_preference: bool = False

    def build_message(self) -> DevicePluginOptions:
        """Return the options as a message."""
        return DevicePluginOptions(
            pre_start_required=self.has_prestart, get_preferred_allocation_available=self.has_preference
        )


class ListEncoder:
    """The encoder of one resource, for all its streams. It encodes each list once, and only changed devices.

    encoded_count: number of encoded devices so far.
    """

    def __init__(self) -> None:
        self.encoded_count = 0
        self._device_list: DeviceList | None = None
        self._devices: tuple[Device, ...] = ()
        self._chunks: list[bytes] = []
        self._message = b""

    def encode(self, device_list: DeviceList) -> bytes:
        """Return the encoded list. Return the same object as before if the kubelet would see no difference."""
        if device_list is not self._device_list:
            self._chunks = self._build_chunks(device_list.devices)
            self._devices = device_list.devices
            self._device_list = device_list
            wire = b"".join(self._chunks)
            if wire != self._message:
                self._message = wire
        return self._message

    def _build_chunks(self, devices: Sequence[Device]) -> list[bytes]:
        """Return one chunk for each device. Reuse the existing chunks if possible.

        An unchanged device is nearly always the same object at the same position, so this is compared first.
        """
        if len(devices) == len(self._devices):
            chunks = list(self._chunks)
            changed_positions = list(compress(count(), map(is_not, devices, self._devices)))
        else:
            chunks = [b""] * len(devices)
            changed_positions = list(range(len(devices)))
        chunks_by_object: dict[int, bytes] | None = None
        for n in changed_positions:
            device = devices[n]
            previous_device = self._devices[n] if n < len(self._devices) else None
            if previous_device is not None and previous_device.id == device.id:
                chunks[n] = (
                    self._chunks[n] if _is_equal_for_kubelet(previous_device, device) else self._encode_device(device)
                )
                continue
            if chunks_by_object is None:  # the last list keeps its objects alive, so their ids are unique
                chunks_by_object = {
                    id(former): chunk for former, chunk in zip(self._devices, self._chunks, strict=True)
                }
            chunks[n] = chunks_by_object.get(id(device)) or self._encode_device(device)
        return chunks

    def _encode_device(self, device: Device) -> bytes:
        """Return the `devices` fields of one device, for all its shares."""
        self.encoded_count += 1
        state = _encode_state(device.health is Health.HEALTHY, device.numa)
        if device.shares is None:
            return _encode_entry(device.id, state)
        return b"".join([_encode_entry(share, state) for share in device.list_ids()])


def make_refusal(refusal: GrantRefusedError) -> GRPCError:
    """Return a refusal as a gRPC error. Its text appears in the status of the pod."""
    return GRPCError(_STATUS[refusal.cause], format_error_text(refusal.text))


def format_error_text(text: str) -> str:
    """Return a printable text on one line, with at most TEXT_LIMIT characters."""
    return shorten(escape(text), TEXT_LIMIT)


def _is_equal_for_kubelet(device: Device, other: Device) -> bool:
    """Return whether the kubelet would see no difference between two devices with the same ID."""
    return (
        device.health is other.health
        and device.numa == other.numa
        and device.shares == other.shares
        and device.share_mark == other.share_mark
        and device.first_share == other.first_share
    )


def _encode_entry(id: str, state: bytes) -> bytes:  # noqa: A002  the API's own word
    """Return one entry of the `devices` field."""
    raw = id.encode()
    length = encode_varint(len(raw))
    return b"".join((b"\x0a", encode_varint(1 + len(length) + len(raw) + len(state)), b"\x0a", length, raw, state))


@lru_cache(maxsize=64)
def _encode_state(healthy: bool, numa: tuple[int, ...]) -> bytes:  # noqa: FBT001  a key of the cache
    """Return the `health` and `topology` fields. Without a NUMA node there is no topology, because "none" is not a
    node.
    """
    topology = TopologyInfo(nodes=[NumaNode(id=node) for node in numa]) if numa else None
    health = Health.HEALTHY if healthy else Health.UNHEALTHY
    return bytes(DeviceMessage(health=health.value, topology=topology))


@lru_cache(maxsize=1024)
def encode_varint(number: int) -> bytes:
    """Encode a length as a protobuf varint."""
    if number < 0x80:
        return bytes((number,))
    return bytes((number & 0x7F | 0x80,)) + encode_varint(number >> 7)
