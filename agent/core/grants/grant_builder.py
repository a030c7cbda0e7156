"""A grant while it is made: device after device, line after line, until two want one thing or something is missing."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.cdi import is_qualified_name, make_annotation_key
from agent.core.entry.devinfo import DevInfo, make_file_name
from agent.core.entry.generated_cdi import Edits, make_device_name
from agent.core.entry.give_conditions import decide_condition
from agent.core.entry.resource_spec import NODE_NUMBER, CdiGive, EnvGive, MountGive, NodeGive, ResourceSpec
from agent.core.grants.annotation import is_annotation_key
from agent.core.grants.container_edits import build_container_edits, is_unicode
from agent.core.grants.container_paths import ContainerPaths, format_path_error, list_mount_paths, make_container_path
from agent.core.grants.env_values import EnvValue, EnvValues, list_env_values
from agent.core.grants.grant import Grant, GrantedMount, GrantedNode, GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.grant_words import GrantWords, overlay_words
from agent.core.inventory.device import Device, DeviceNode, MatchedPath
from agent.core.language.clause import Clause
from agent.core.language.json_template import JsonTable
from agent.core.language.template import FactReader, has_control
from agent.core.language.value import Absent, make_sort_key


class GrantBuilder:
    """A grant while it is made."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._places = ContainerPaths()
        self._env = EnvValues()
        self._annotations = EnvValues()
        self._cdi: dict[str, dict[str, None]] = {"field": {}, "annotation": {}}
        self._devinfo: list[DevInfo] = []
        self._in_spec: dict[str, str] = {}  # what a spec of our own says, by where it comes out in the container
        self._besides: set[str] = set()

    def build_grant(self, ids: Sequence[str]) -> Grant:
        """What it has become."""
        annotations = {**self._annotations.texts}
        if told := self._cdi["annotation"]:
            annotations[make_annotation_key(self._resource)] = ",".join(told)
        return Grant(
            self._resource,
            ids=tuple(sorted(ids, key=make_sort_key)),
            nodes=tuple(node for path, node in self._places.nodes.items() if self._is_told(f"node {path}", "")),
            env={name: text for name, text in self._env.texts.items() if self._is_told(f"env {name}", text)},
            mounts=tuple(mount for path, mount in self._places.mounts.items() if self._is_told(f"mount {path}", "")),
            annotations=annotations,
            cdi=tuple(self._cdi["field"]),
            devinfo=tuple(self._devinfo),
        )

    def build_spec_edits(self, device: Device) -> Edits:
        """What it has become, as a CDI spec has it."""
        said = build_container_edits(self._places.nodes.values(), self._places.mounts.values(), self._env.texts)
        if not is_unicode(said):
            raise self._conflict("a path or text of it is not UTF-8, and cannot be in a CDI spec", device)
        if not said:
            raise self._missing(RefusalCause.CDI_MISSING, device, "there is nothing that its CDI spec could say")
        return said

    def add_device(self, entry: ResourceSpec, device: RereadDevice, words: GrantWords, *, spec: bool = False) -> None:
        """Put in the nodes, mounts and variables of a device; of a spec of our own alone if `spec` says so."""
        for node in entry.nodes:
            if node.in_spec or not spec:
                self.add_nodes(node, device, words)
        if not device.is_same_hardware:
            raise self.make_missing_node_error(device.device, "other hardware is in its place now")
        if device.unhealthy_reason:
            raise self.make_missing_node_error(device.device, device.unhealthy_reason)
        for mount in entry.mounts:
            if mount.in_spec or not spec:
                self.add_mounts(mount, device, words)
        for variable in entry.env:
            if variable.in_spec or not spec:
                self.add_variable(variable, device.device, words)

    def add_generated_cdi(self, entry: ResourceSpec, device: Device) -> None:
        """Put in the device of our own spec."""
        self._cdi["annotation" if entry.via == "cdi-annotation" else "field"][
            make_device_name(self._resource, device.id)
        ] = None

    def _comes_out(self, place: str, text: str, *, in_spec: bool) -> None:
        if in_spec:
            self._in_spec[place] = text
        else:
            self._besides.add(place)

    def _is_told(self, place: str, text: str) -> bool:
        """Whether the kubelet is told of it: what a spec of our own says as well the runtime has from there."""
        if place not in self._in_spec:
            return True
        if place in self._besides and text != self._in_spec[place]:
            raise self._conflict(f"{place} would be both {self._in_spec[place]}, by its CDI spec, and {text}")
        return False

    def add_nodes(self, give: NodeGive, chosen: RereadDevice, words: GrantWords) -> None:
        """Put in what one `give.nodes` line gives of a device."""
        given: list[tuple[int, str]] = []
        many = len(give.container_paths) > 1
        for member, matched in words.list_members(per_member=give.per_member):
            many |= member is not words
            if not self._is_given(give.condition, chosen.device, member):
                continue
            for n, fact in member.list_elements(give.path):
                many |= fact is not member
                optional = give.optional or not matched
                node = self._node(give, chosen, fact, element=fact is not member, optional=optional)
                if node is None:
                    continue
                numbered = overlay_words(fact, {NODE_NUMBER: f"{node[1].major}:{node[1].minor}"})
                paths = [to.write_paths(numbered) for to in give.container_paths]
                places = [path[0] for path in paths if not isinstance(path, Absent) and len(path) == 1]
                if not places and not optional:
                    raise self.make_missing_node_error(
                        chosen.device, f"node {give.name}: {format_path_error(paths[0])}"
                    )
                given += [(n, self._add_node(place, give, node)) for place in places]
        words.set_given_paths(give.name, tuple(dict.fromkeys(given)), is_list=many)
        for name, text in give.given_words if given else ():
            said = text.write(words)
            words.set_given_paths(name, () if isinstance(said, Absent) else ((words.number, said),), is_list=False)

    def add_mounts(self, give: MountGive, chosen: RereadDevice, words: GrantWords) -> None:
        """Put in what one `give.mounts` line gives of a device."""
        for member, matched in words.list_members(per_member=give.per_member):
            if not self._is_given(give.condition, chosen.device, member):
                continue
            for _, fact in member.list_elements(give.path):
                written = give.path.write_paths(fact, glob=True)
                name = f"mount {give.name}" if isinstance(written, Absent) else written[0]
                there = written if isinstance(written, Absent) else chosen.mounts.get(name, Absent("was not looked at"))
                if isinstance(there, Absent):
                    if give.optional or not matched:
                        continue
                    raise self._missing(RefusalCause.MOUNT_MISSING, chosen.device, f"{name}: {there.reason}")
                places = [to.write_paths(fact) for to in give.container_paths]
                if places and not give.optional and matched and all(isinstance(place, Absent) for place in places):
                    raise self._missing(
                        RefusalCause.MOUNT_MISSING, chosen.device, f"mount {give.name}: {format_path_error(places[0])}"
                    )
                for fit in there:
                    for container in list_mount_paths(give, places, fit):
                        self._add_mount(fit, give, container)

    def add_cdi(self, give: CdiGive, chosen: RereadDevice, words: GrantWords) -> None:
        """Put in the CDI devices that one `give.cdi` line names of a device."""
        if not self._is_given(give.condition, chosen.device, words):
            return
        names = give.name.write_all(words)
        if isinstance(names, Absent):
            raise self._missing(RefusalCause.CDI_MISSING, chosen.device, f"cdi {give.key}: {names.reason}")
        for name in names:
            if not is_qualified_name(name):
                raise self._missing(RefusalCause.CDI_MISSING, chosen.device, f"{name} is no full name of a CDI device")
            spec = name if give.unchecked else chosen.cdi.get(name, Absent("was not looked for"))
            if isinstance(spec, Absent):
                raise self._missing(RefusalCause.CDI_MISSING, chosen.device, f"{name} {spec.reason}")
            self._cdi[give.via][name] = None

    def add_variable(self, give: EnvGive, device: Device, words: GrantWords) -> None:
        """Put in what one `give.env` line says of a device."""
        for said in self._said(give, device, words):
            if not said.name or "=" in said.name or has_control(said.name):
                raise self._conflict(f"{said.name!r} cannot be the name of a variable", device)
            self._say(self._env, said, device)
            self._comes_out(f"env {said.name}", said.value, in_spec=give.in_spec)

    def add_annotation(self, give: EnvGive, device: Device, words: GrantWords) -> None:
        """Put in what one `give.annotations` line says of a device."""
        for said in self._said(give, device, words):
            if not is_annotation_key(said.name):
                raise self._conflict(f"{said.name!r} cannot be the key of an annotation", device)
            self._say(self._annotations, said, device)

    def add_devinfo(self, table: JsonTable, chosen: RereadDevice, words: GrantWords) -> None:
        """Put in the file of each id that is asked of a device, if there is anything to say in it."""
        text, device = table.write(words), chosen.device
        ids = (f"{device.id}{device.share_suffix}{share}" for share in chosen.shares) if chosen.shares else (device.id,)
        self._devinfo += (DevInfo(id, make_file_name(self._resource, id), text) for id in ids if text)  # noqa: A001

    def _said(self, give: EnvGive, device: Device, words: GrantWords) -> tuple[EnvValue, ...]:
        return tuple(list_env_values(give, words)) if self._is_given(give.condition, device, words) else ()

    def _say(self, sayings: EnvValues, said: EnvValue, device: Device) -> None:
        if has_control(said.value) or has_control(said.member or ""):
            raise self._conflict(f"{said.name} has a control character", device)
        if conflict := sayings.add(said):
            raise self._conflict(conflict)

    def _is_given(self, when: Clause | None, device: Device, words: GrantWords) -> bool:
        """Whether something is given that is given only where a clause holds."""
        given = decide_condition(when, words)
        if isinstance(given, str):
            raise self._missing(RefusalCause.UNHEALTHY, device, given)
        return given

    def _node(
        self, give: NodeGive, chosen: RereadDevice, fact: FactReader, *, element: bool, optional: bool
    ) -> tuple[str, DeviceNode] | None:
        """The host path as written and what stands there; none if it is optional and nothing does.

        `element`: it is one of the nodes that the hardware has now, of which there may be more than were listed.
        """
        written = give.path.write_paths(fact)
        if isinstance(written, Absent):
            path, node = f"node {give.name}", written
        else:
            path = written[0]
            found = chosen.nodes.get(path, Absent("was not looked at"))
            if isinstance(found, DeviceNode):
                self._check(path, found, chosen.device, known=not optional and not element)
                return path, found
            node = found
        if optional:
            return None
        raise self.make_missing_node_error(chosen.device, f"{path}: {node.reason}")

    def _check(self, path: str, node: DeviceNode, device: Device, *, known: bool) -> None:
        """What stands at the path has to be what was listed: a name may have gone to another device meanwhile.

        `known`: it was there when the device was listed, as it is required.
        """
        listed = next((other for other in device.nodes if other.path == node.path), None)
        if listed is None and known:
            raise self.make_missing_node_error(
                device, f"{path} is {node.path} {_numbered(node)} now, which was not listed"
            )
        if listed is not None and listed != node:
            raise self.make_missing_node_error(
                device, f"{path} is {_numbered(node)} now, was listed as {_numbered(listed)}"
            )

    def _add_node(self, to: str, give: NodeGive, found: tuple[str, DeviceNode]) -> str:
        path, node = found
        container = make_container_path(to, path)
        if conflict := self._places.add_node(GrantedNode(node.path, container, give.permissions, node)):
            raise self._conflict(conflict)
        self._comes_out(f"node {container}", "", in_spec=give.in_spec)
        return container

    def _add_mount(self, fit: MatchedPath, give: MountGive, container: str) -> None:
        if conflict := self._places.add_mount(GrantedMount(fit.real_path, container, give.read_only)):
            raise self._conflict(conflict)
        self._comes_out(f"mount {container}", "", in_spec=give.in_spec)

    def make_missing_node_error(self, device: Device, reason: str) -> GrantRefusedError:
        """That a node is not there, or not the one that was listed."""
        return self._missing(RefusalCause.NODE_MISSING, device, reason)

    def _missing(self, cause: RefusalCause, device: Device, reason: str) -> GrantRefusedError:
        step = f"on the node: device-agent scan {device.location}"
        return GrantRefusedError(
            cause, f"{self._resource} {device.id}: {reason}; {step}", device=device.id, has_step=True
        )

    def _conflict(self, reason: str, device: Device | None = None) -> GrantRefusedError:
        if device is None:
            return GrantRefusedError(RefusalCause.CONFLICT, f"{self._resource}: {reason}")
        return GrantRefusedError(RefusalCause.CONFLICT, f"{self._resource}: {device.id}: {reason}", device=device.id)


def _numbered(node: DeviceNode) -> str:
    return f"{'char' if node.type == 'c' else 'block'} {node.major}:{node.minor}"
