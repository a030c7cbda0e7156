"""The grant that a container would get now: looked for, chosen and checked exactly as the agent does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent.core.entry.generated_cdi import build_spec, make_device_name, make_file_name
from agent.core.entry.resource_spec import ResourceSpec
from agent.core.grants.build_grant import build_grant, edits_of
from agent.core.grants.choice_pool import stock_of
from agent.core.grants.grant import Grant, GrantRefusedError, RefusalCause, RereadDevice
from agent.core.grants.limit import exceeded
from agent.core.grants.parse_request import parse_ids
from agent.core.grants.prefer import prefer
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
from agent.tracker.look_thread import run_look


class GeneratedSpec(NamedTuple):
    """What the CDI spec of the agent's own says of some devices, and its file."""

    file: str
    document: Mapping[str, Any]


class DryRun(Struct):
    """One look at the host, as the agent has it when the kubelet asks."""

    root: Root
    cdi: SpecDirectories
    specs: tuple[ResourceSpec, ...]
    look: Inventory
    offers: ResourceCandidates
    lists: DeviceLists

    @property
    def device_lists(self) -> Mapping[str, DeviceList]:
        """The lists by the names of resources."""
        return self.lists.lists

    def list_healthy_ids(self, resource: str) -> list[str]:
        """The ids that a container could get."""
        devices = self.device_lists[resource].devices
        return [id for device in devices if device.health is Health.HEALTHY for id in device.list_ids()]  # noqa: A001

    def choose_ids(self, resource: str, count: int, among: Sequence[str], state: str = "Healthy") -> tuple[str, ...]:
        """So many of these ids, as preferred. state: what they all are.

        Raises:
            Refused: there are not so many, or the limit is below that.
        """
        spec = self.find_entry(resource)
        device_list = self.device_lists[resource]
        if len(set(among)) < count:
            devices = "device is" if len(set(among)) == 1 else "devices are"
            text = f"{resource}: {len(set(among))} {devices} {state}, and {count} wanted"
            raise GrantRefusedError(RefusalCause.UNHEALTHY, f"{text}; why: device-agent explain {resource}")
        candidates = self.look.get_resource_candidates().get((resource, spec.written_name), {})
        chosen = prefer(among, (), count, spec.limit, stock_of(device_list, spec, candidates, self.specs))
        return chosen or tuple(among[:count])  # then the limit is why, and says so when it is judged

    def preview_grant(self, resource: str, ids: Sequence[str], *, with_generated_spec: bool = True) -> Grant:
        """What a container that is given these ids gets. Without `by_spec` that is said itself, also where the agent
        would put it into a CDI spec of its own and name that.

        Raises:
            Refused: with the reason, as the kubelet would be told.
        """
        spec, device_list = self.find_entry(resource), self.device_lists[resource]
        if excess := exceeded(spec.limit, parse_ids(device_list, ids), len(ids)):
            raise GrantRefusedError(RefusalCause.LIMIT, f"{resource}: {excess.text}", device=excess.device)
        chosen = self._reread_devices(resource, ids)
        if not with_generated_spec:
            chosen = [replace(device, spec=_without_spec(device.spec or spec)) for device in chosen]
        return build_grant(spec, ids, chosen, device_list.id_count, resource=resource)

    def map_paths_to_ids(self, resource: str, ids: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Of which of these ids each host path is, of nodes and mounts; of all of them what comes out once."""
        ids_by_path: dict[str, list[str]] = {}
        for id in ids:  # noqa: A001  the API's own word
            grant = self.preview_grant(resource, [id], with_generated_spec=False)
            for path in {*(node.host for node in grant.nodes), *(mount.host for mount in grant.mounts)}:
                ids_by_path.setdefault(path, []).append(id)
        return {path: tuple(path_ids) for path, path_ids in ids_by_path.items()}

    def build_generated_spec(self, resource: str, ids: Sequence[str]) -> GeneratedSpec | None:
        """The CDI spec by which the agent gives these devices; none if it does not."""
        edits = {
            make_device_name(resource, device.device.id): edits_of(device.spec, device, resource)
            for device in self._reread_devices(resource, ids)
            if device.spec is not None and device.spec.via
        }
        directories = self.cdi.directories
        if not edits or not directories:
            return None
        return GeneratedSpec(f"{directories[-1]}/{make_file_name(resource)}", build_spec(resource, edits))

    def _reread_devices(self, resource: str, ids: Sequence[str]) -> list[RereadDevice]:
        devices = parse_ids(self.device_lists[resource], ids)
        return reread_devices(
            self.root, find_device_requests(resource, self.find_entry(resource), devices, self), self.cdi
        )

    def find_entry(self, resource: str) -> ResourceSpec:
        """The entry that a resource is of."""
        written = self.lists.written_names[resource] or resource
        return next(spec for spec in self.specs if spec.name == written)


def _without_spec(spec: ResourceSpec) -> ResourceSpec:
    """The same entry, of which no CDI spec of our own says anything."""
    return replace(
        spec,
        via="",
        nodes=tuple(replace(node, in_spec=False) for node in spec.nodes),
        mounts=tuple(replace(mount, in_spec=False) for mount in spec.mounts),
        env=tuple(replace(variable, in_spec=False) for variable in spec.env),
    )


def take_dry_run(root: Root, specs: Sequence[ResourceSpec], cdi: Sequence[str]) -> DryRun:
    """Look at the host."""
    directories = SpecDirectories(cdi)
    inventory, _ = run_look(root, specs, Inventory(), ALL_DIRTY, directories)
    candidates = evaluate_one_look(inventory.get_resource_candidates())
    lists = build_lists(inventory, specs, frozenset(), {}, 0.0, candidates=candidates)
    return DryRun(root, directories, tuple(specs), inventory, candidates, lists)
