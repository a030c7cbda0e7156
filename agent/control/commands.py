"""The requests of commands to a running agent, and its answers on the control socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent.app import Agent
from agent.config.toml.finding import build_json, render
from agent.control.active_config import ActiveConfig, ReloadResult
from agent.control.control_socket import CommandHandler, ControlAnswer
from agent.control.take_snapshot import collect_metrics, take_snapshot
from agent.core.health.drain_overlay import Drain
from agent.core.inventory.device import Device, DeviceList
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.language.safe_text import escape, shorten
from agent.core.lists.device_lookup import ResourceDevice, find_devices
from agent.core.lists.transitions import find_transitions
from agent.core.report.device_report import JsonObject, build_device_report
from agent.core.report.explain_report import build_explain_report
from agent.core.report.status_report import build_status_report as status_of
from agent.core.report.status_report import compute_revision

MOST_SECONDS = 60.0  # longest wait of an answer for a change
PAUSE_SECONDS = (
    0.25  # shortest pause between two status reports for one waiting client, and as long as the last report took
)
REASON_LIMIT = 120  # characters; lists, status and log lines contain the reason


def build_commands(active_config: ActiveConfig, agent: Agent) -> Mapping[str, CommandHandler]:
    """Return the handlers of all requests, by name."""

    async def reload(request: Mapping[str, Any]) -> ControlAnswer:
        result = await (active_config.preview_reload() if request.get("dry_run") is True else active_config.reload())
        return format_reload(result)

    async def clear(request: Mapping[str, Any]) -> ControlAnswer:
        name, check = request.get("device"), request.get("check")
        if not isinstance(name, str) or not (check is None or isinstance(check, str)):
            return {"error": "clear needs a device, and can have a check"}
        devices = find_devices(name, agent.tracker.device_lists.lists.values(), agent.tracker.candidates)
        cleared_checks = [await agent.tracker.clear(resource, device, check) for resource, device in devices]
        return {
            "devices": [
                _report_cleared(agent, *listed_device, checks)
                for listed_device, checks in zip(devices, cleared_checks, strict=True)
            ]
        }

    async def status(request: Mapping[str, Any]) -> ControlAnswer:
        return await _wait_for_status(agent, request)

    async def explain(request: Mapping[str, Any]) -> ControlAnswer:
        snapshot = await take_snapshot(agent)
        explanation = await asyncio.to_thread(build_explain_report, snapshot, _get_text(request.get("name")) or "")
        return {**explanation, "root": agent.root.prefix or "/"}

    async def drain(request: Mapping[str, Any]) -> ControlAnswer:
        name = _get_text(request.get("name")) or ""
        is_found = bool(_find_named_devices(agent, name)) or name in agent.tracker.device_lists.lists
        is_saved = await _drain(agent, name, _get_text(request.get("reason")) or "") if is_found else False
        return {"found": is_found, "remembered": is_saved, "devices": await _report_devices(name)}

    async def undrain(request: Mapping[str, Any]) -> ControlAnswer:
        name = _get_text(request.get("name")) or ""
        previous_drains = agent.tracker.drains
        is_saved = await _undrain(agent, name)
        is_found = bool(_find_named_devices(agent, name)) or agent.tracker.drains != previous_drains
        return {"found": is_found, "remembered": is_saved, "devices": await _report_devices(name)}

    async def report_devices(request: Mapping[str, Any]) -> ControlAnswer:
        return {"devices": await _report_devices(_get_text(request.get("name")) or "")}

    async def _report_devices(name: str) -> list[JsonObject]:
        snapshot = await take_snapshot(agent)
        return [
            build_device_report(snapshot, resource, device) for resource, device in _find_named_devices(agent, name)
        ]

    async def metrics(request: Mapping[str, Any]) -> ControlAnswer:
        del request
        return {"text": await collect_metrics(agent)}

    async def rescan(request: Mapping[str, Any]) -> ControlAnswer:
        source_name = _get_text(request.get("source"))
        sources = {source for spec in agent.tracker.specs for source in spec.sources}
        chosen = {source for source in sources if source_name in {None, source.kind, str(source)}}
        if not chosen:
            source_names = ", ".join(sorted(map(str, sources))) or "none"
            return {"error": f"no entry has a source {escape(source_name or '')}. The sources are {source_names}"}
        start_time, previous_lists = time.monotonic(), agent.tracker.device_lists.lists
        agent.tracker.request_look(ALL_DIRTY if source_name is None else DirtySet(sources=frozenset(chosen)))
        await agent.tracker.wait_for_look()
        current_lists = agent.tracker.device_lists.lists
        changes = [
            transition
            for name in current_lists
            for transition in find_transitions(previous_lists.get(name, DeviceList(name)), current_lists[name])
        ]
        return {
            "sources": sorted(map(str, chosen)),
            "host_devices": sum(len(agent.tracker.inventory.listing.devices.get(source, ())) for source in chosen),
            "changes": [escape(str(change)) for change in changes],
            "seconds": round(time.monotonic() - start_time, 3),
        }

    return {
        "reload": reload,
        "clear": clear,
        "status": status,
        "explain": explain,
        "drain": drain,
        "undrain": undrain,
        "held": report_devices,
        "metrics": metrics,
        "rescan": rescan,
    }


async def _drain(agent: Agent, name: str, reason: str) -> bool:
    """Drain a resource, or the device of this name. Return whether the drain is saved for the next start."""
    drain_record = Drain(shorten(escape(reason), REASON_LIMIT), round(time.time(), 3))
    previous_drains = agent.tracker.drains
    if name in agent.tracker.device_lists.lists:
        return await agent.drain(previous_drains.add_resource(name, drain_record))
    return await agent.drain(
        previous_drains.add_locations(
            {device.locations[0] for _, device in _find_named_devices(agent, name)}, drain_record
        )
    )


async def _undrain(agent: Agent, name: str) -> bool:
    """End the drain of a resource, a device, or an empty location. Return whether the change is saved."""
    previous_drains = agent.tracker.drains
    if name in previous_drains.resources:
        return await agent.drain(previous_drains.remove_resource(name))
    places = {place for _, device in _find_named_devices(agent, name) for place in device.locations}
    return await agent.drain(previous_drains.remove_locations({name, *places}))


def _find_named_devices(agent: Agent, name: str) -> list[ResourceDevice]:
    """Return the devices of this name. For a resource name, return all its devices."""
    lists = agent.tracker.device_lists.lists
    if name in lists:
        return [ResourceDevice(name, device) for device in lists[name].devices]
    return find_devices(name, lists.values(), agent.tracker.candidates)


async def _wait_for_status(agent: Agent, request: Mapping[str, Any]) -> ControlAnswer:
    """Return the status. If the request has a revision (`unlike`), wait up to `seconds` for another revision."""
    seconds = request.get("seconds")
    deadline = time.monotonic() + (min(max(0, seconds), MOST_SECONDS) if isinstance(seconds, (int, float)) else 0)
    resource, devices = _get_text(request.get("resource")), _get_text(request.get("devices"))
    while True:
        start_time = time.monotonic()
        change = agent.status.change_event  # taken before the snapshot, so no change is missed
        snapshot = await take_snapshot(agent)
        report = await asyncio.to_thread(status_of, snapshot, resource, devices)
        if report is None:
            return {"error": f"unknown resource. The agent has {', '.join(snapshot.lists.lists) or 'none'}"}
        current_revision = await asyncio.to_thread(compute_revision, report)
        remaining_s = deadline - time.monotonic()
        if current_revision != request.get("unlike") or remaining_s <= 0:
            return {**report, "revision": current_revision}
        pause = max(PAUSE_SECONDS, time.monotonic() - start_time)
        with suppress(TimeoutError):
            async with asyncio.timeout(remaining_s):
                await change.wait()
                await asyncio.sleep(pause)


def _get_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _report_cleared(agent: Agent, resource: str, device: Device, cleared: frozenset[str]) -> ControlAnswer:
    """Return the state of a device after some of its checks were cleared."""
    list_ = agent.tracker.device_lists.lists.get(resource) or DeviceList(resource)
    current_device = next((other for other in list_.devices if other.share_base == device.share_base), None)
    return {
        "resource": resource,
        "id": device.id,
        "cleared": sorted(cleared),
        "health": current_device.health.value if current_device else None,
        "reason": str(current_device.reason if current_device else "") or None,
    }


def format_reload(result: ReloadResult) -> ControlAnswer:
    """Return the result of a reload as JSON."""
    diff = result.diff
    names = (
        {}
        if diff is None
        else {
            "unchanged": list(diff.unchanged_names),
            "changed": [*diff.changed_names, *diff.reregistered_names],
            "added": list(diff.added_names),
            "removed": list(diff.removed_names),
        }
    )
    return {
        "before": result.previous_digest,
        "after": result.current_digest,
        "refused": result.refusal or None,
        "resources": names,
        "changes": {} if diff is None else {name: list(changes) for name, changes in diff.descriptions.items()},
        "findings": [{**build_json(finding), "text": render(finding)} for finding in result.findings],
        "seconds": round(result.seconds, 3),
    }
