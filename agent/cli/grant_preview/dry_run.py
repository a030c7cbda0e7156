"""Dry run: the grant that a container would get now. The choice and the checks are those of the agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent.cli.agent_client import AgentUnreachable, send_request
from agent.core.entry.generated_cdi import build_spec, make_device_name, make_file_name
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.build_grant import build_grant, build_spec_edits
from agent.core.grants.grant import Grant, GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.parse_request import check_limit, parse_ids
from agent.core.grants.prefer import build_choice_pool, prefer
from agent.core.health.evaluation import evaluate_one_look
from agent.core.inventory.device import DeviceList, Health
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.core.inventory.inventory import Inventory
from agent.core.lists.build_lists import DeviceLists, build_lists
from agent.core.lists.resource_names import ResourceCandidates
from agent.core.struct import Struct, replace
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.reread import find_device_requests, reread_devices
from agent.scanners.host_reader import HostView
from agent.tracker.look_thread import run_look


class GeneratedSpec(NamedTuple):
    """The CDI spec that the agent would write for some devices, and its file."""

    file: str
    document: Mapping[str, Any]


class DryRun(Struct):
    """One look at the host, as the agent has it during an Allocate call."""

    host: HostView
    specs: tuple[ResourceSpec, ...]
    inventory: Inventory
    candidates: ResourceCandidates
    lists: DeviceLists

    @property
    def device_lists(self) -> Mapping[str, DeviceList]:
        """The device lists, by resource."""
        return self.lists.lists

    def list_healthy_ids(self, resource: str) -> list[str]:
        """Return the IDs of healthy devices."""
        devices = self.device_lists[resource].devices
        return [id for device in devices if device.health is Health.HEALTHY for id in device.list_ids()]  # noqa: A001

    def choose_ids(self, resource: str, count: int, among: Sequence[str], state: str = "Healthy") -> tuple[str, ...]:
        """Return `count` of these IDs, chosen by preference. state: the state of the IDs, for the error text.

        Raises:
                GrantRefusedError: there are fewer IDs than `count`, or the limit is lower.
        """
        spec = self.find_entry(resource)
        device_list = self.device_lists[resource]
        if len(set(among)) < count:
            devices = "device is" if len(set(among)) == 1 else "devices are"
            text = f"{resource}: {len(set(among))} {devices} {state}, but {count} are requested"
            raise GrantRefusedError(RefusalCause.UNHEALTHY, f"{text}; why: device-agent explain {resource}")
        candidates = self.inventory.get_resource_candidates().get((resource, spec.written_name), {})
        chosen = prefer(among, (), count, spec.limit, build_choice_pool(device_list, spec, candidates, self.specs))
        return chosen or tuple(
            among[:count]
        )  # an empty choice means that the limit is lower, and preview_grant reports the limit

    def preview_grant(self, resource: str, ids: Sequence[str], *, with_generated_spec: bool = True) -> Grant:
        """Return the grant for these IDs.

        Without `with_generated_spec`, the grant contains the content of the generated CDI spec and not its name.

        Raises:
                GrantRefusedError: the agent would refuse the call, with the reason that the kubelet gets.
        """
        spec, device_list = self.find_entry(resource), self.device_lists[resource]
        check_limit(resource, spec.limit, parse_ids(device_list, ids), len(ids))
        chosen = self._reread_devices(resource, ids)
        if not with_generated_spec:
            chosen = [replace(device, spec=_without_spec(device.spec or spec)) for device in chosen]
        return build_grant(spec, ids, chosen, device_list.id_count, resource=resource)

    def map_paths_to_ids(self, resource: str, ids: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the IDs that use a host path, by host path of nodes and mounts. A shared path has all IDs."""
        ids_by_path: dict[str, list[str]] = {}
        for id in ids:  # noqa: A001  the API's own word
            grant = self.preview_grant(resource, [id], with_generated_spec=False)
            for path in {*(node.host for node in grant.nodes), *(mount.host for mount in grant.mounts)}:
                ids_by_path.setdefault(path, []).append(id)
        return {path: tuple(path_ids) for path, path_ids in ids_by_path.items()}

    def build_generated_spec(self, resource: str, ids: Sequence[str]) -> GeneratedSpec | None:
        """Return the CDI spec that the agent would write for these devices, or None if there is none."""
        edits = {
            make_device_name(resource, device.device.id): build_spec_edits(device.spec, device, resource)
            for device in self._reread_devices(resource, ids)
            if device.spec is not None and device.spec.via
        }
        directories = self.host.cdi.directories
        if not edits or not directories:
            return None
        return GeneratedSpec(f"{directories[-1]}/{make_file_name(resource)}", build_spec(resource, edits))

    def _reread_devices(self, resource: str, ids: Sequence[str]) -> list[RereadDevice]:
        devices = parse_ids(self.device_lists[resource], ids)
        return reread_devices(self.host, find_device_requests(resource, self.find_entry(resource), devices, self))

    def find_entry(self, resource: str) -> ResourceSpec:
        """Return the entry of a resource."""
        written = self.lists.written_names[resource] or resource
        return next(spec for spec in self.specs if spec.name == written)


def _without_spec(spec: ResourceSpec) -> ResourceSpec:
    """Return the entry without its part in the generated CDI spec."""
    return replace(
        spec,
        via="",
        nodes=tuple(replace(node, in_spec=False) for node in spec.nodes),
        mounts=tuple(replace(mount, in_spec=False) for mount in spec.mounts),
        env=tuple(replace(variable, in_spec=False) for variable in spec.env),
    )


def take_dry_run(root: Root, specs: Sequence[ResourceSpec], cdi: Sequence[str]) -> DryRun:
    """Look at the host and return the dry run."""
    host = HostView(root, SpecDirectories(cdi))
    inventory, _ = run_look(host, specs, Inventory(), ALL_DIRTY)
    candidates = evaluate_one_look(inventory.get_resource_candidates())
    lists = build_lists(inventory, specs, frozenset(), {}, 0.0, candidates=candidates)
    return DryRun(host, tuple(specs), inventory, candidates, lists)


ANSWER_SECONDS = 2.0


def request_held_ids(control: str, root: Root, resource: str) -> frozenset[str] | None:
    """Return the IDs of a resource that pods use or may use. Return None if no agent that looks at this host answers.

    control: path of the control socket.
    """
    answer = send_request(control, {"do": "explain", "name": resource}, ANSWER_SECONDS)
    if isinstance(answer, AgentUnreachable) or "error" in answer or answer.get("root") != (root.prefix or "/"):
        return None
    ids: set[str] = set()
    for device in (answer["resource"] or {"devices": ()})["devices"]:
        held_ids = [id for holder in device["held_by"] for id in holder["ids"]]  # noqa: A001  the API's own word
        ids.update(held_ids or ([device["id"]] if device["may_be_held"] else []))
    return frozenset(ids)
