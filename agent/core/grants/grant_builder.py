"""Build a grant, device by device and line by line. A conflict or a missing path ends it with an error."""

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
    """Collects the content of a grant. Its methods raise GrantRefusedError."""

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._paths = ContainerPaths()
        self._env = EnvValues()
        self._annotations = EnvValues()
        self._cdi: dict[str, dict[str, None]] = {"field": {}, "annotation": {}}
        self._devinfo: list[DevInfo] = []
        self._spec_texts: dict[str, str] = {}  # the content of the generated CDI spec, by its target in the container
        self._other_paths: set[str] = set()

    def build_grant(self, ids: Sequence[str]) -> Grant:
        """Return the grant of these IDs."""
        annotations = {**self._annotations.texts}
        if cdi_names := self._cdi["annotation"]:
            annotations[make_annotation_key(self._resource)] = ",".join(cdi_names)
        return Grant(
            self._resource,
            ids=tuple(sorted(ids, key=make_sort_key)),
            nodes=tuple(node for path, node in self._paths.nodes.items() if self._is_for_kubelet(f"node {path}", "")),
            env={name: text for name, text in self._env.texts.items() if self._is_for_kubelet(f"env {name}", text)},
            mounts=tuple(
                mount for path, mount in self._paths.mounts.items() if self._is_for_kubelet(f"mount {path}", "")
            ),
            annotations=annotations,
            cdi=tuple(self._cdi["field"]),
            devinfo=tuple(self._devinfo),
        )

    def build_spec_edits(self, device: Device) -> Edits:
        """Return the container edits for the generated CDI spec of a device."""
        edits = build_container_edits(self._paths.nodes.values(), self._paths.mounts.values(), self._env.texts)
        if not is_unicode(edits):
            raise self._make_conflict_error("a path or text of it is not UTF-8, and cannot be in a CDI spec", device)
        if not edits:
            raise self._make_missing_error(
                RefusalCause.CDI_MISSING, device, "there is nothing that its CDI spec could say"
            )
        return edits

    def add_device(
        self, entry: ResourceSpec, device: RereadDevice, words: GrantWords, *, is_spec: bool = False
    ) -> None:
        """Add the nodes, mounts and variables of a device. With `is_spec`, add only those of the generated CDI spec."""
        for node in entry.nodes:
            if node.in_spec or not is_spec:
                self.add_nodes(node, device, words)
        if not device.is_same_hardware:
            raise self.make_missing_node_error(device.device, "other hardware is in its place now")
        if device.unhealthy_reason:
            raise self.make_missing_node_error(device.device, device.unhealthy_reason)
        for mount in entry.mounts:
            if mount.in_spec or not is_spec:
                self.add_mounts(mount, device, words)
        for variable in entry.env:
            if variable.in_spec or not is_spec:
                self.add_variable(variable, device.device, words)

    def add_generated_cdi(self, entry: ResourceSpec, device: Device) -> None:
        """Add the CDI name of the device in the generated CDI spec."""
        self._cdi["annotation" if entry.via == "cdi-annotation" else "field"][
            make_device_name(self._resource, device.id)
        ] = None

    def _record_path(self, target: str, text: str, *, in_spec: bool) -> None:
        if in_spec:
            self._spec_texts[target] = text
        else:
            self._other_paths.add(target)

    def _is_for_kubelet(self, target: str, text: str) -> bool:
        """Return whether the response to the kubelet contains this, and not only the generated CDI spec."""
        if target not in self._spec_texts:
            return True
        if target in self._other_paths and text != self._spec_texts[target]:
            raise self._make_conflict_error(
                f"{target} would be both {self._spec_texts[target]}, by its CDI spec, and {text}"
            )
        return False

    def add_nodes(self, give: NodeGive, chosen: RereadDevice, words: GrantWords) -> None:
        """Add the nodes of one `give.nodes` line."""
        given_paths: list[tuple[int, str]] = []
        is_list = len(give.container_paths) > 1
        for member, is_match in words.list_members(per_member=give.per_member):
            is_list |= member is not words
            if not self._is_given(give.condition, chosen.device, member):
                continue
            for n, fact in member.list_elements(give.path):
                is_list |= fact is not member
                is_optional = give.optional or not is_match
                node = self._find_node(give, chosen, fact, is_element=fact is not member, is_optional=is_optional)
                if node is None:
                    continue
                fact_with_number = overlay_words(fact, {NODE_NUMBER: f"{node[1].major}:{node[1].minor}"})
                paths = [template.write_paths(fact_with_number) for template in give.container_paths]
                container_paths = [path[0] for path in paths if not isinstance(path, Absent) and len(path) == 1]
                if not container_paths and not is_optional:
                    raise self.make_missing_node_error(
                        chosen.device, f"node {give.name}: {format_path_error(paths[0])}"
                    )
                given_paths += [(n, self._add_node(container_path, give, node)) for container_path in container_paths]
        words.set_given_paths(give.name, tuple(dict.fromkeys(given_paths)), is_list=is_list)
        for name, text in give.given_words if given_paths else ():
            value = text.write(words)
            words.set_given_paths(name, () if isinstance(value, Absent) else ((words.number, value),), is_list=False)

    def add_mounts(self, give: MountGive, chosen: RereadDevice, words: GrantWords) -> None:
        """Add the mounts of one `give.mounts` line."""
        for member, is_match in words.list_members(per_member=give.per_member):
            if not self._is_given(give.condition, chosen.device, member):
                continue
            for _, fact in member.list_elements(give.path):
                host_paths = give.path.write_paths(fact, glob=True)
                name = f"mount {give.name}" if isinstance(host_paths, Absent) else host_paths[0]
                matches = (
                    host_paths
                    if isinstance(host_paths, Absent)
                    else chosen.mounts.get(name, Absent("was not looked at"))
                )
                if isinstance(matches, Absent):
                    if give.optional or not is_match:
                        continue
                    raise self._make_missing_error(
                        RefusalCause.MOUNT_MISSING, chosen.device, f"{name}: {matches.reason}"
                    )
                container_paths = [template.write_paths(fact) for template in give.container_paths]
                if (
                    container_paths
                    and not give.optional
                    and is_match
                    and all(isinstance(container_path, Absent) for container_path in container_paths)
                ):
                    raise self._make_missing_error(
                        RefusalCause.MOUNT_MISSING,
                        chosen.device,
                        f"mount {give.name}: {format_path_error(container_paths[0])}",
                    )
                for match in matches:
                    for container in list_mount_paths(give, container_paths, match):
                        self._add_mount(match, give, container)

    def add_cdi(self, give: CdiGive, chosen: RereadDevice, words: GrantWords) -> None:
        """Add the CDI devices of one `give.cdi` line."""
        if not self._is_given(give.condition, chosen.device, words):
            return
        names = give.name.write_all(words)
        if isinstance(names, Absent):
            raise self._make_missing_error(RefusalCause.CDI_MISSING, chosen.device, f"cdi {give.key}: {names.reason}")
        for name in names:
            if not is_qualified_name(name):
                raise self._make_missing_error(
                    RefusalCause.CDI_MISSING, chosen.device, f"{name} is no full name of a CDI device"
                )
            spec = name if give.unchecked else chosen.cdi.get(name, Absent("was not looked for"))
            if isinstance(spec, Absent):
                raise self._make_missing_error(RefusalCause.CDI_MISSING, chosen.device, f"{name} {spec.reason}")
            self._cdi[give.via][name] = None

    def add_variable(self, give: EnvGive, device: Device, words: GrantWords) -> None:
        """Add the variables of one `give.env` line."""
        for env_value in self._list_values(give, device, words):
            if not env_value.name or "=" in env_value.name or has_control(env_value.name):
                raise self._make_conflict_error(f"{env_value.name!r} cannot be the name of a variable", device)
            self._add_value(self._env, env_value, device)
            self._record_path(f"env {env_value.name}", env_value.value, in_spec=give.in_spec)

    def add_annotation(self, give: EnvGive, device: Device, words: GrantWords) -> None:
        """Add the annotations of one `give.annotations` line."""
        for env_value in self._list_values(give, device, words):
            if not is_annotation_key(env_value.name):
                raise self._make_conflict_error(f"{env_value.name!r} cannot be the key of an annotation", device)
            self._add_value(self._annotations, env_value, device)

    def add_devinfo(self, table: JsonTable, chosen: RereadDevice, words: GrantWords) -> None:
        """Add the device-information file of each requested ID, unless its text is empty."""
        text, device = table.write(words), chosen.device
        ids = (f"{device.id}{device.share_suffix}{share}" for share in chosen.shares) if chosen.shares else (device.id,)
        self._devinfo += (DevInfo(id, make_file_name(self._resource, id), text) for id in ids if text)  # noqa: A001

    def _list_values(self, give: EnvGive, device: Device, words: GrantWords) -> tuple[EnvValue, ...]:
        return tuple(list_env_values(give, words)) if self._is_given(give.condition, device, words) else ()

    def _add_value(self, env_values: EnvValues, env_value: EnvValue, device: Device) -> None:
        if has_control(env_value.value) or has_control(env_value.member or ""):
            raise self._make_conflict_error(f"{env_value.name} has a control character", device)
        if conflict := env_values.add(env_value):
            raise self._make_conflict_error(conflict)

    def _is_given(self, condition: Clause | None, device: Device, words: GrantWords) -> bool:
        """Return whether the condition of a line matches. Raise GrantRefusedError if this is unknown."""
        decision = decide_condition(condition, words)
        if isinstance(decision, str):
            raise self._make_missing_error(RefusalCause.UNHEALTHY, device, decision)
        return decision

    def _find_node(
        self, give: NodeGive, chosen: RereadDevice, fact: FactReader, *, is_element: bool, is_optional: bool
    ) -> tuple[str, DeviceNode] | None:
        """Return the host path as written and its node, or None if an optional node does not exist.

        is_element: the path is one element of a list. The list can have more elements than at the last look.
        """
        host_paths = give.path.write_paths(fact)
        if isinstance(host_paths, Absent):
            path, node = f"node {give.name}", host_paths
        else:
            path = host_paths[0]
            reread_node = chosen.nodes.get(path, Absent("was not looked at"))
            if isinstance(reread_node, DeviceNode):
                self._check_node(path, reread_node, chosen.device, is_required=not is_optional and not is_element)
                return path, reread_node
            node = reread_node
        if is_optional:
            return None
        raise self.make_missing_node_error(chosen.device, f"{path}: {node.reason}")

    def _check_node(self, path: str, node: DeviceNode, device: Device, *, is_required: bool) -> None:
        """Raise GrantRefusedError if the path now leads to another node than in the list.

        is_required: the node was in the list, because the entry requires it.
        """
        listed_node = next((other for other in device.nodes if other.path == node.path), None)
        if listed_node is None and is_required:
            raise self.make_missing_node_error(
                device, f"{path} is {node.path} {_format_number(node)} now, which was not listed"
            )
        if listed_node is not None and listed_node != node:
            raise self.make_missing_node_error(
                device, f"{path} is {_format_number(node)} now, was listed as {_format_number(listed_node)}"
            )

    def _add_node(self, target: str, give: NodeGive, node_path: tuple[str, DeviceNode]) -> str:
        path, node = node_path
        container = make_container_path(target, path)
        if conflict := self._paths.add_node(GrantedNode(node.path, container, give.permissions, node)):
            raise self._make_conflict_error(conflict)
        self._record_path(f"node {container}", "", in_spec=give.in_spec)
        return container

    def _add_mount(self, match: MatchedPath, give: MountGive, container: str) -> None:
        if conflict := self._paths.add_mount(GrantedMount(match.real_path, container, give.read_only)):
            raise self._make_conflict_error(conflict)
        self._record_path(f"mount {container}", "", in_spec=give.in_spec)

    def make_missing_node_error(self, device: Device, reason: str) -> GrantRefusedError:
        """Build the error for a node that is missing or differs from the listed node."""
        return self._make_missing_error(RefusalCause.NODE_MISSING, device, reason)

    def _make_missing_error(self, cause: RefusalCause, device: Device, reason: str) -> GrantRefusedError:
        step = f"on the node: device-agent scan {device.location}"
        return GrantRefusedError(
            cause, f"{self._resource} {device.id}: {reason}; {step}", device=device.id, has_step=True
        )

    def _make_conflict_error(self, reason: str, device: Device | None = None) -> GrantRefusedError:
        if device is None:
            return GrantRefusedError(RefusalCause.CONFLICT, f"{self._resource}: {reason}")
        return GrantRefusedError(RefusalCause.CONFLICT, f"{self._resource}: {device.id}: {reason}", device=device.id)


def _format_number(node: DeviceNode) -> str:
    return f"{'char' if node.type == 'c' else 'block'} {node.major}:{node.minor}"
