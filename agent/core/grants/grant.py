"""The grant of one container, and the causes of refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from agent.core.entry.devinfo import DevInfo
from agent.core.entry.fact_copy import FactCopy
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.inventory.device import Device, DeviceNode, HostDevice, MatchedPath
from agent.core.language.safe_text import escape, shorten
from agent.core.language.template import ID_LIMIT, FactReader
from agent.core.language.value import Absent, Value
from agent.core.struct import Struct, field

REFUSAL_LIMIT = 200  # characters
_STEP_LIMIT = 120  # of these, for what to do next


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
    """No grant. `text` is for the pod's status: device, reason, next step, in one printable line of at most 200.

    device: the ID of the device that the reason is about; empty if it is not about one device.
    has_step: the text ends with a next step of its own, for the very node that is missing.
    """

    def __init__(self, cause: RefusalCause, text: str, *, device: str = "", has_step: bool = False) -> None:
        self.cause = cause
        self.device = device
        self.has_step = has_step
        self.text = shorten(escape(text), REFUSAL_LIMIT)
        super().__init__(self.text)

    def add_next_step(self, resource: str) -> GrantRefusedError:
        """Return the refusal with a command for the node: about the device, or else about the resource.

        A complete reason is not shortened for the command; a reason that is cut anyway makes room. A refusal with a
        next step of its own stays unchanged.
        """
        if self.has_step:
            return self
        # The kubelet may ask for an ID that no device can have.
        is_typeable = 0 < len(self.device) <= ID_LIMIT and escape(self.device) == self.device
        name = self.device if is_typeable else resource
        for step in (f"; on the node: device-agent explain {name}", f"; device-agent explain {name}"):
            if len(self.text) + len(step) <= REFUSAL_LIMIT:
                return GrantRefusedError(self.cause, self.text + step)
        if len(self.text) < REFUSAL_LIMIT or len(step) > _STEP_LIMIT:
            return self
        return GrantRefusedError(self.cause, shorten(self.text, REFUSAL_LIMIT - len(step)) + step)


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
    """The content of one ContainerAllocateResponse. Each format of a runtime is rendered from this value.

    cdi: full names of CDI devices for the field of the API. Other names are in an annotation.
    devinfo: the device-information files that must exist before the answer.
    """

    resource: str
    ids: tuple[str, ...] = ()
    nodes: tuple[GrantedNode, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[GrantedMount, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    cdi: tuple[str, ...] = ()
    devinfo: tuple[DevInfo, ...] = ()


class RereadMember(Struct):
    """One member of a group device: the facts for nodes and mounts, and whether the member matched its entry.

    A member without a match gives the nodes that it has, and need not have them.
    """

    facts: Mapping[str, Value | Absent]
    is_match: bool
    related_facts: Mapping[str, tuple[FactCopy, ...] | Absent] = MappingProxyType({})


class RereadDevice(Struct):
    """One device of a request, with facts that were read again.

    shares: the numbers of the requested shares; empty for a whole device.
    facts: the words in templates of the entry.
    nodes: the device node at each path of the entry's nodes.
    mounts: the matching paths of each glob of the entry's mounts.
    cdi: the CDI spec that contains each named CDI device.
    is_same_hardware: the device is the listed hardware, not other hardware in its place.
    unhealthy_reason: the reason of a check that is evaluated again; empty if the checks pass.
    members: the members, if this is a group device.
    spec: the entry of the device; None for the entry of the resource.
    related_facts: facts of related devices, for the clauses under `give`.
    host: the host device; for a group device the first member that matched.
    """

    device: Device
    shares: tuple[int, ...]
    facts: Mapping[str, Value | Absent]
    nodes: Mapping[str, DeviceNode | Absent]
    is_same_hardware: bool = True
    mounts: Mapping[str, tuple[MatchedPath, ...] | Absent] = field(default_factory=dict)
    cdi: Mapping[str, str | Absent] = field(default_factory=dict)
    members: tuple[RereadMember, ...] = ()
    spec: ResourceSpec | None = None
    related_facts: Mapping[str, tuple[FactCopy, ...] | Absent] = field(default_factory=dict)
    unhealthy_reason: str = ""
    host: HostDevice | None = None


def list_node_paths(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """Return the host paths of the nodes of an entry. Paths with absent words are left out."""
    return _list_texts(give.path.write_paths(fact) for give in spec.nodes)


def list_mount_globs(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """Return the globs of the mounts of an entry. Globs with absent words are left out."""
    return _list_texts(give.path.write_paths(fact, glob=True) for give in spec.mounts)


def list_cdi_names(spec: ResourceSpec, fact: FactReader) -> tuple[str, ...]:
    """Return the CDI names that a spec must contain. Names with absent words are left out."""
    return _list_texts(give.name.write_all(fact) for give in spec.cdi if not give.unchecked)


def _list_texts(results: Iterable[tuple[str, ...] | Absent]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for texts in results if not isinstance(texts, Absent) for text in texts))
