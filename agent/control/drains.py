"""Draining and giving back, as a person asks a running agent for it."""

from __future__ import annotations

import time

from agent.app import Agent
from agent.core.health.drain_overlay import Drain
from agent.core.language.safe_text import escape, shorten
from agent.core.lists.device_lookup import ResourceDevice, find_devices

REASON_LIMIT = 120  # characters; it stands in lists, status and log lines


async def drain(agent: Agent, name: str, reason: str) -> bool:
    """Take a resource, or what a name means, out of scheduling; whether that outlasts a restart."""
    drain_record = Drain(shorten(escape(reason), REASON_LIMIT), round(time.time(), 3))
    previous_drains = agent.tracker.drained
    if name in agent.tracker.assembly.lists:
        return await agent.drain(previous_drains.with_resource(name, drain_record))
    return await agent.drain(
        previous_drains.with_places(
            {device.locations[0] for _, device in find_named_devices(agent, name)}, drain_record
        )
    )


async def undrain(agent: Agent, name: str) -> bool:
    """Give back a resource, or what a name means, or a place where nothing is now; whether that outlasts a restart."""
    previous_drains = agent.tracker.drained
    if name in previous_drains.resources:
        return await agent.drain(previous_drains.without_resource(name))
    places = {place for _, device in find_named_devices(agent, name) for place in device.locations}
    return await agent.drain(previous_drains.without_places({name, *places}))


def find_named_devices(agent: Agent, name: str) -> list[ResourceDevice]:
    """The devices that a name means; of a resource, all that it has."""
    lists = agent.tracker.assembly.lists
    if name in lists:
        return [ResourceDevice(name, device) for device in lists[name].devices]
    return find_devices(name, lists.values(), agent.tracker.offers)
