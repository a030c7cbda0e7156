"""The one value that says what a container gets, and the reasons for which it gets nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from agent.core.entry.devinfo import DevInfo
from agent.core.entry.fact_copy import FactCopy
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import Device, DeviceNode, HostDevice, MatchedPath, split_share
from agent.core.language.safe_text import cut, escape
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct, field

REFUSAL_LIMIT = 200  # characters
_STEP_LIMIT = 120  # of these, for what to do next
_AS_A_WORD = r"(?<![\w.:@-])%s(?![\w@-])"


class RefusalCause(Enum):
    """Why a grant is refused; the values are the closed set of metric labels."""

    UNKNOWN_ID = "unknown_id"
    UNHEALTHY = "unhealthy"
    NODE_MISSING = "node_missing"
    MOUNT_MISSING = "mount_missing"
    CDI_MISSING = "cdi_missing"
    CONFLICT = "conflict"
    DEADLINE = "deadline"
    LIMIT = "limit"
    DEVINFO = "devinfo"
    HOOK_FAILED = "hook_failed"


MISSING = frozenset(
    {RefusalCause.NODE_MISSING, RefusalCause.MOUNT_MISSING, RefusalCause.CDI_MISSING}
)  # the device is Unhealthy by that


class GrantRefusedError(Exception):
    """No grant. `text` is for the pod's status: device, reason, next step, in one printable line of at most 200."""

    def __init__(self, cause: RefusalCause, text: str) -> None:
        self.cause = cause
        self.text = cut(escape(text), REFUSAL_LIMIT)
        super().__init__(self.text)

    def explained(self, resource: str, ids: Iterable[str]) -> GrantRefusedError:
        """The same, with what to type on the node: of a device that it speaks of, if it does, else of the resource.

        A reason is whole before it says that as well; only one that is cut anyhow gives way to it. One that has a step
        of its own, for the very node that is missing, keeps that.
        """
        if "; on the node: device-agent " in self.text:
            return self
        bases = (split_share(id)[0][0] for id in ids)  # noqa: A001  the API's own word
        name = next((base for base in bases if re.search(_AS_A_WORD % re.escape(base), self.text)), resource)
        for step in (f"; on the node: device-agent explain {name}", f"; device-agent explain {name}"):
            if len(self.text) + len(step) <= REFUSAL_LIMIT:
                return GrantRefusedError(self.cause, self.text + step)
        if len(self.text) < REFUSAL_LIMIT or len(step) > _STEP_LIMIT:
            return self
        return GrantRefusedError(self.cause, cut(self.text, REFUSAL_LIMIT - len(step)) + step)


class GrantedNode(Struct):
    """A device node for a container: canonical host path, container path, permissions (letters r, w, m in order)."""

    host: str
    container: str
    permissions: str
    node: DeviceNode


class GrantedMount(Struct):
    """A file or directory of the host for a container: canonical host path, container path."""

    host: str
    container: str
    read_only: bool


class Grant(Struct):
    """What one container gets of one resource. Every form a runtime wants is rendered from this value.

    cdi: full names of CDI devices that the runtime is told by the field of the API; others are in an annotation.
    devinfo: the device-information files that are to be there before the answer.
    """

    resource: str
    ids: tuple[str, ...] = ()
    nodes: tuple[GrantedNode, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[GrantedMount, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()
    devinfo: tuple[DevInfo, ...] = ()


class RereadMember(NamedTuple):
    """One of several host devices that are one device: the words of nodes and mounts by it; whether it matched.

    What only came along gives what it has, and need not have it.
    """

    facts: Mapping[str, Value | Absent]
    matched: bool
    things: Mapping[str, tuple[FactCopy, ...] | Absent] = MappingProxyType({})


class RereadDevice(Struct):
    """One device in a request, with what the host says of it now.

    shares: the numbers of the shares asked for, empty for a whole device.
    facts: the words that the entry's texts mention, re-read for this grant.
    nodes: what stands at each path that the entry's nodes name for it.
    mounts: what fits each pattern of its mounts.
    cdi: the spec that has each CDI device it names.
    same: whether it is the very thing that was listed, and not another in its place.
    unfit: what a check that is asked again says against it; empty if none does.
    each: its host devices, if several are one device.
    spec: the entry that gives it; the resource's own if none is said.
    things: what the clauses of what is given read of the things that words lead to.
    host: the host device, the first one that matched if several are it.
    """

    device: Device
    shares: tuple[int, ...]
    facts: Mapping[str, Value | Absent]
    nodes: Mapping[str, DeviceNode | Absent]
    same: bool = True
    mounts: Mapping[str, tuple[MatchedPath, ...] | Absent] = field(default_factory=dict)
    cdi: Mapping[str, str | Absent] = field(default_factory=dict)
    each: tuple[RereadMember, ...] = ()
    spec: ResourceSpec | None = None
    things: Mapping[str, tuple[FactCopy, ...] | Absent] = field(default_factory=dict)
    unfit: str = ""
    host: HostDevice | None = None
