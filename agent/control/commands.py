"""What a running agent is asked by commands, and what it answers: the other side of the control socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agent.app import Agent
from agent.config.toml.finding import build_json, render
from agent.control import drains
from agent.control.active_config import ActiveConfig, ReloadResult
from agent.control.control_socket import CommandHandler, ControlAnswer
from agent.control.drains import find_named_devices
from agent.control.take_snapshot import collect_metrics, take_snapshot
from agent.core.inventory.device import Device, DeviceList
from agent.core.inventory.dirty_set import ALL_DIRTY, DirtySet
from agent.core.language.safe_text import escape
from agent.core.lists.device_lookup import find_devices
from agent.core.lists.transitions import find_transitions
from agent.core.report.device_report import JsonObject, build_device_report
from agent.core.report.explain_report import build_explain_report
from agent.core.report.status_report import build_status_report as status_of
from agent.core.report.status_report import compute_revision

MOST_SECONDS = 60.0  # that an answer may wait for a change
PAUSE_SECONDS = 0.25  # between two reckonings for one who waits, and as long as the last took: storms are not followed


def build_commands(active_config: ActiveConfig, agent: Agent) -> Mapping[str, CommandHandler]:
    """The requests that an agent answers, by name."""

    async def reload(request: Mapping[str, Any]) -> ControlAnswer:
        outcome = await (active_config.preview_reload() if request.get("dry_run") is True else active_config.reload())
        return format_reload(outcome)

    async def clear(request: Mapping[str, Any]) -> ControlAnswer:
        name, check = request.get("device"), request.get("check")
        if not isinstance(name, str) or not (check is None or isinstance(check, str)):
            return {"error": "clear asks for a device, and perhaps for a check"}
        found = find_devices(name, agent.tracker.assembly.lists.values(), agent.tracker.offers)
        cleared = [await agent.tracker.clear(resource, device, check) for resource, device in found]
        return {"devices": [_after(agent, *one, checks) for one, checks in zip(found, cleared, strict=True)]}

    async def status(request: Mapping[str, Any]) -> ControlAnswer:
        return await _status(agent, request)

    async def explain(request: Mapping[str, Any]) -> ControlAnswer:
        moment = await take_snapshot(agent)
        said = await asyncio.to_thread(build_explain_report, moment, _text(request.get("name")) or "")
        return {**said, "root": agent.root.prefix or "/"}

    async def drain(request: Mapping[str, Any]) -> ControlAnswer:
        name = _text(request.get("name")) or ""
        there = bool(find_named_devices(agent, name)) or name in agent.tracker.assembly.lists
        remembered = await drains.drain(agent, name, _text(request.get("reason")) or "") if there else False
        return {"found": there, "remembered": remembered, "devices": await _devices(name)}

    async def undrain(request: Mapping[str, Any]) -> ControlAnswer:
        name = _text(request.get("name")) or ""
        before = agent.tracker.drained
        remembered = await drains.undrain(agent, name)
        found = bool(find_named_devices(agent, name)) or agent.tracker.drained != before
        return {"found": found, "remembered": remembered, "devices": await _devices(name)}

    async def held(request: Mapping[str, Any]) -> ControlAnswer:
        return {"devices": await _devices(_text(request.get("name")) or "")}

    async def _devices(name: str) -> list[JsonObject]:
        moment = await take_snapshot(agent)
        return [build_device_report(moment, resource, device) for resource, device in find_named_devices(agent, name)]

    async def metrics(request: Mapping[str, Any]) -> ControlAnswer:
        del request
        return {"text": await collect_metrics(agent)}

    async def rescan(request: Mapping[str, Any]) -> ControlAnswer:
        named = _text(request.get("source"))
        sources = {source for spec in agent.tracker.specs for source in spec.sources}
        chosen = {source for source in sources if named in {None, source.kind, str(source)}}
        if not chosen:
            there = ", ".join(sorted(map(str, sources))) or "none"
            return {"error": f"no entry has a source {escape(named or '')}; there are {there}"}
        began, before = time.monotonic(), agent.tracker.assembly.lists
        agent.tracker.nudge(ALL_DIRTY if named is None else DirtySet(sources=frozenset(chosen)))
        await agent.tracker.looked()
        after = agent.tracker.assembly.lists
        changes = [one for name in after for one in find_transitions(before.get(name, DeviceList(name)), after[name])]
        return {
            "sources": sorted(map(str, chosen)),
            "host_devices": sum(len(agent.tracker.look.listing.devices.get(source, ())) for source in chosen),
            "changes": [escape(str(change)) for change in changes],
            "seconds": round(time.monotonic() - began, 3),
        }

    answers = (reload, clear, status, explain, drain, undrain, held, metrics, rescan)
    return {answer.__name__: answer for answer in answers}


async def _status(agent: Agent, request: Mapping[str, Any]) -> ControlAnswer:
    """The status; one `unlike` that of a revision within some `seconds`, if they bring one."""
    seconds = request.get("seconds")
    until = time.monotonic() + (min(max(0, seconds), MOST_SECONDS) if isinstance(seconds, (int, float)) else 0)
    resource, devices = _text(request.get("resource")), _text(request.get("devices"))
    while True:
        began = time.monotonic()
        change = agent.status.change_event  # before it is looked at: what changes meanwhile is not missed
        moment = await take_snapshot(agent)
        said = await asyncio.to_thread(status_of, moment, resource, devices)
        if said is None:
            return {"error": f"no such resource; there are {', '.join(moment.lists.lists) or 'none'}"}
        now = await asyncio.to_thread(compute_revision, said)
        left = until - time.monotonic()
        if now != request.get("unlike") or left <= 0:
            return {**said, "revision": now}
        pause = max(PAUSE_SECONDS, time.monotonic() - began)
        with suppress(TimeoutError):
            async with asyncio.timeout(left):
                await change.wait()
                await asyncio.sleep(pause)


def _text(said: object) -> str | None:
    return said if isinstance(said, str) else None


def _after(agent: Agent, resource: str, device: Device, cleared: frozenset[str]) -> ControlAnswer:
    """What a device is like after some checks of it were cleared."""
    list_ = agent.tracker.assembly.lists.get(resource) or DeviceList(resource)
    now = next((other for other in list_.devices if other.share_base == device.share_base), None)
    return {
        "resource": resource,
        "id": device.id,
        "cleared": sorted(cleared),
        "health": now.health.value if now else None,
        "reason": str(now.reason if now else "") or None,
    }


def format_reload(result: ReloadResult) -> ControlAnswer:
    """A reload as JSON."""
    change = result.diff
    names = (
        {}
        if change is None
        else {
            "unchanged": list(change.unchanged_names),
            "changed": [*change.changed_names, *change.reregistered_names],
            "added": list(change.added_names),
            "removed": list(change.removed_names),
        }
    )
    return {
        "before": result.previous_digest,
        "after": result.current_digest,
        "refused": result.refusal or None,
        "resources": names,
        "changes": {} if change is None else {name: list(said) for name, said in change.descriptions.items()},
        "findings": [{**build_json(finding), "text": render(finding)} for finding in result.findings],
        "seconds": round(result.seconds, 3),
    }
