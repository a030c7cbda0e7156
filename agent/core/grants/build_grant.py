"""Build the grant of one container, device by device and line by line. A conflict or a missing path is an error."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.entry.cdi import is_qualified_name, make_annotation_key
from agent.core.entry.devinfo import DevInfo, make_file_name
from agent.core.entry.generated_cdi import Edits, make_device_name
from agent.core.entry.give_conditions import decide_condition
from agent.core.entry.resource_spec import NODE_NUMBER, CdiGive, EnvGive, MountGive, NodeGive, ResourceSpec
from agent.core.grants.container_edits import ContainerPaths, build_container_edits, is_unicode
from agent.core.grants.env_values import EnvValue, EnvValues, is_annotation_key, list_env_values
from agent.core.grants.grant import Grant, GrantedMount, GrantedNode, GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.grant_words import GrantWords, overlay_words
from agent.core.inventory.device import Device, DeviceNode
from agent.core.language.clause import Clause
from agent.core.language.json_template import JsonTable
from agent.core.language.template import FactReader, has_control
from agent.core.language.value import Absent, make_sort_key

_NOT_READ = Absent("was not read")


def build_grant(
    spec: ResourceSpec, ids: Sequence[str], devices: Sequence[RereadDevice], listed_count: int, *, resource: str = ""
) -> Grant:
    """Return the grant of one container.

    Args:
        spec: the entry of the resource.
        ids: the requested IDs. Their order does not matter.
        devices: the reread devices, each once, in list order. The grant keeps this order.
        listed_count: the number of IDs in the list of the resource.
        resource: the generated name, if the name of the entry has words.

    Raises:
        GrantRefusedError: a required node is missing or differs from the list, or two devices need one path or
            variable.
    """
    builder = _GrantBuilder(resource or spec.name)
    element_counts: dict[str, int] = {}
    for number, device in enumerate(devices):
        entry = device.spec or spec
        words = GrantWords(
            builder.resource, device, number, element_counts, requested_count=len(ids), listed_count=listed_count
        )
        builder.add_device(entry, device, words)
        for item in entry.cdi:
            builder.add_cdi(item, device, words)
        for annotation in entry.annotations:
            builder.add_annotation(annotation, device.device, words)
        if entry.devinfo is not None and spec.slots is None:
            builder.add_devinfo(entry.devinfo, device, words)
        if entry.via:
            builder.add_generated_cdi(entry, device.device)
        element_counts = words.add_counts(element_counts)
    return builder.build_grant(ids)


def build_spec_edits(entry: ResourceSpec, device: RereadDevice, resource: str) -> Edits:
    """Return the container edits of a device for its generated CDI spec.

    Raises:
        GrantRefusedError: as for `build_grant`; also if the spec would be empty.
    """
    builder = _GrantBuilder(resource)
    words = GrantWords(resource, device, 0, {}, requested_count=1, listed_count=1)
    builder.add_device(entry, device, words, is_spec=True)
    return builder.build_spec_edits(device.device)


class _GrantBuilder:
    """Collects the content of a grant. Its methods raise GrantRefusedError."""

    def __init__(self, resource: str) -> None:
        self.resource = resource
        self._paths = ContainerPaths()
        self._env = EnvValues()
        self._annotations = EnvValues()
        self._cdi: dict[str, dict[str, None]] = {"field": {}, "annotation": {}}
        self._devinfo: list[DevInfo] = []
        # The content of the generated CDI spec: container paths and variables. The kubelet gets the rest.
        self._spec_paths: set[str] = set()
        self._spec_env: dict[str, str] = {}
        self._kubelet_env: set[str] = set()

    def build_grant(self, ids: Sequence[str]) -> Grant:
        """Return the grant of these IDs."""
        annotations = self._annotations.texts
        if cdi_names := self._cdi["annotation"]:
            annotations[make_annotation_key(self.resource)] = ",".join(cdi_names)
        env = self._env.texts
        for name, text in self._spec_env.items():
            if (full_text := env.pop(name)) != text and name in self._kubelet_env:
                raise self._make_conflict_error(f"env {name} would be both {text}, by its CDI spec, and {full_text}")
        return Grant(
            self.resource,
            ids=tuple(sorted(ids, key=make_sort_key)),
            nodes=tuple(node for node in self._paths.nodes if node.container not in self._spec_paths),
            env=env,
            mounts=tuple(mount for mount in self._paths.mounts if mount.container not in self._spec_paths),
            annotations=annotations,
            cdi=tuple(self._cdi["field"]),
            devinfo=tuple(self._devinfo),
        )

    def build_spec_edits(self, device: Device) -> Edits:
        """Return the container edits for the generated CDI spec of a device."""
        edits = build_container_edits(self._paths.nodes, self._paths.mounts, self._env.texts)
        if not is_unicode(edits):
            raise self._make_conflict_error("a path or text of it is not UTF-8, and cannot be in a CDI spec", device)
        if not edits:
            raise self._make_missing_error(RefusalCause.CDI_MISSING, device, "its CDI spec would be empty")
        return edits

    def add_device(
        self, entry: ResourceSpec, device: RereadDevice, words: GrantWords, *, is_spec: bool = False
    ) -> None:
        """Add the nodes, mounts and variables of a device. With `is_spec`, add only those of the generated CDI spec."""
        for node in entry.nodes:
            if node.in_spec or not is_spec:
                self._add_nodes(node, device, words)
        reason = device.unhealthy_reason if device.is_same_hardware else "other hardware is in its place now"
        if reason:
            raise self._make_missing_error(RefusalCause.NODE_MISSING, device.device, reason)
        for mount in entry.mounts:
            if mount.in_spec or not is_spec:
                self._add_mounts(mount, device, words)
        for variable in entry.env:
            if variable.in_spec or not is_spec:
                self._add_variable(variable, device.device, words)

    def add_generated_cdi(self, entry: ResourceSpec, device: Device) -> None:
        """Add the CDI name of the device in the generated CDI spec."""
        names = self._cdi["annotation" if entry.via == "cdi-annotation" else "field"]
        names[make_device_name(self.resource, device.id)] = None

    def add_cdi(self, give: CdiGive, reread: RereadDevice, words: GrantWords) -> None:
        """Add the CDI devices of one `give.cdi` line."""
        if not self._is_given(give.condition, reread.device, words):
            return
        names = give.name.write_all(words)
        reason = f"cdi {give.key}: {names.reason}" if isinstance(names, Absent) else ""
        for name in () if isinstance(names, Absent) else names:
            spec = name if give.unchecked else reread.cdi.get(name, _NOT_READ)
            if not is_qualified_name(name):
                reason = f"{name} is no full name of a CDI device"
            elif isinstance(spec, Absent):
                reason = f"{name} {spec.reason}"
            if reason:
                break
            self._cdi[give.via][name] = None
        if reason:
            raise self._make_missing_error(RefusalCause.CDI_MISSING, reread.device, reason)

    def add_annotation(self, give: EnvGive, device: Device, words: GrantWords) -> None:
        """Add the annotations of one `give.annotations` line."""
        for env_value in self._list_values(give, device, words):
            if not is_annotation_key(env_value.name):
                raise self._make_conflict_error(f"{env_value.name!r} cannot be the key of an annotation", device)
            self._add_value(self._annotations, env_value, device)

    def add_devinfo(self, table: JsonTable, reread: RereadDevice, words: GrantWords) -> None:
        """Add the device-information file of each requested ID, unless its text is empty."""
        text, device = table.write(words), reread.device
        ids = (f"{device.id}{device.share_suffix}{share}" for share in reread.shares) if reread.shares else (device.id,)
        self._devinfo += (DevInfo(id, make_file_name(self.resource, id), text) for id in ids if text)  # noqa: A001

    def _add_nodes(self, give: NodeGive, reread: RereadDevice, words: GrantWords) -> None:
        """Add the nodes of one `give.nodes` line."""
        given_paths: list[tuple[int, str]] = []
        is_list = len(give.container_paths) > 1
        for member, is_match in words.list_members(per_member=give.per_member):
            is_list |= member is not words
            if not self._is_given(give.condition, reread.device, member):
                continue
            is_optional = give.optional or not is_match
            for n, fact in member.list_elements(give.path):
                is_list |= fact is not member
                found_node = self._find_node(give, reread, fact, is_element=fact is not member, is_optional=is_optional)
                if found_node is None:
                    continue
                path, node = found_node
                fact_with_number = overlay_words(fact, {NODE_NUMBER: f"{node.major}:{node.minor}"})
                targets = [template.write_paths(fact_with_number) for template in give.container_paths]
                paths = [target[0] for target in targets if not isinstance(target, Absent) and len(target) == 1]
                if not paths and not is_optional:
                    raise self._make_target_error(RefusalCause.NODE_MISSING, reread, f"node {give.name}", targets[0])
                for target in paths:
                    container = _make_container_path(target, path)
                    self._add_path(GrantedNode(node.path, container, give.permissions, node), in_spec=give.in_spec)
                    given_paths.append((n, container))
        words.set_given_paths(give.name, tuple(dict.fromkeys(given_paths)), is_list=is_list)
        for name, text in give.given_words if given_paths else ():
            value = text.write(words)
            words.set_given_paths(name, () if isinstance(value, Absent) else ((words.number, value),), is_list=False)

    def _find_node(
        self, give: NodeGive, reread: RereadDevice, fact: FactReader, *, is_element: bool, is_optional: bool
    ) -> tuple[str, DeviceNode] | None:
        """Return the host path as written and its node, or None if an optional node does not exist.

        is_element: the path is one element of a list. The list can have more elements than at the last look.
        """
        host_paths = give.path.write_paths(fact)
        path = f"node {give.name}" if isinstance(host_paths, Absent) else host_paths[0]
        node = host_paths if isinstance(host_paths, Absent) else reread.nodes.get(path, _NOT_READ)
        if isinstance(node, DeviceNode):
            listed_node = next((other for other in reread.device.nodes if other.path == node.path), None)
            if listed_node == node or (listed_node is None and (is_optional or is_element)):
                return path, node
            if listed_node is None:
                reason = f"{path} is {node.path} {_format_number(node)} now, which was not listed"
            else:
                reason = f"{path} is {_format_number(node)} now, was listed as {_format_number(listed_node)}"
        elif is_optional:
            return None
        else:
            reason = f"{path}: {node.reason}"
        raise self._make_missing_error(RefusalCause.NODE_MISSING, reread.device, reason)

    def _add_mounts(self, give: MountGive, reread: RereadDevice, words: GrantWords) -> None:
        """Add the mounts of one `give.mounts` line."""
        for member, is_match in words.list_members(per_member=give.per_member):
            if not self._is_given(give.condition, reread.device, member):
                continue
            is_required = is_match and not give.optional
            for _, fact in member.list_elements(give.path):
                globs = give.path.write_paths(fact, glob=True)
                name = f"mount {give.name}" if isinstance(globs, Absent) else globs[0]
                matches = globs if isinstance(globs, Absent) else reread.mounts.get(name, _NOT_READ)
                if isinstance(matches, Absent):
                    if is_required:
                        text = f"{name}: {matches.reason}"
                        raise self._make_missing_error(RefusalCause.MOUNT_MISSING, reread.device, text)
                    continue
                targets = [template.write_paths(fact) for template in give.container_paths]
                paths = [path for target in targets if not isinstance(target, Absent) for path in target]
                if is_required and targets and all(isinstance(target, Absent) for target in targets):
                    raise self._make_target_error(RefusalCause.MOUNT_MISSING, reread, f"mount {give.name}", targets[0])
                for match in matches:
                    for path in paths if targets else (match.path,):
                        mount = GrantedMount(match.real_path, _make_container_path(path, match.path), give.read_only)
                        self._add_path(mount, in_spec=give.in_spec)

    def _add_path(self, item: GrantedNode | GrantedMount, *, in_spec: bool) -> None:
        if conflict := self._paths.add(item):
            raise self._make_conflict_error(conflict)
        if in_spec:
            self._spec_paths.add(item.container)

    def _add_variable(self, give: EnvGive, device: Device, words: GrantWords) -> None:
        """Add the variables of one `give.env` line."""
        for env_value in self._list_values(give, device, words):
            if not env_value.name or "=" in env_value.name or has_control(env_value.name):
                raise self._make_conflict_error(f"{env_value.name!r} cannot be the name of a variable", device)
            self._add_value(self._env, env_value, device)
            if give.in_spec:
                self._spec_env[env_value.name] = env_value.value
            else:
                self._kubelet_env.add(env_value.name)

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

    def _make_missing_error(self, cause: RefusalCause, device: Device, reason: str) -> GrantRefusedError:
        text = f"{self.resource} {device.id}: {reason}; on the node: device-agent scan {device.location}"
        return GrantRefusedError(cause, text, device=device.id, has_step=True)

    def _make_target_error(
        self, cause: RefusalCause, reread: RereadDevice, name: str, target: tuple[str, ...] | Absent
    ) -> GrantRefusedError:
        """Return the error for a node or mount without a container path."""
        reason = target.reason if isinstance(target, Absent) else f"its `to` is {len(target)} paths"
        return self._make_missing_error(cause, reread.device, f"{name}: no container path: {reason}")

    def _make_conflict_error(self, reason: str, device: Device | None = None) -> GrantRefusedError:
        if device is None:
            return GrantRefusedError(RefusalCause.CONFLICT, f"{self.resource}: {reason}")
        return GrantRefusedError(RefusalCause.CONFLICT, f"{self.resource}: {device.id}: {reason}", device=device.id)


def _make_container_path(target: str, path: str) -> str:
    """Return the container path of a host path: a target that ends in a slash gets the name of the host path."""
    return target + path.rpartition("/")[2] if target.endswith("/") else target


def _format_number(node: DeviceNode) -> str:
    return f"{'char' if node.type == 'c' else 'block'} {node.major}:{node.minor}"
