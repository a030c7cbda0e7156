"""Drain and undrain of devices in a running agent."""

from __future__ import annotations

import time

from agent.app import Agent
from agent.core.health.drain_overlay import Drain
from agent.core.language.safe_text import escape, shorten
from agent.core.lists.device_lookup import ResourceDevice, find_devices

REASON_LIMIT = 120  # characters; lists, status and log lines contain the reason


async def drain(agent: Agent, name: str, reason: str) -> bool:
    """Drain a resource, or the device of this name. Return whether the drain is saved for the next start."""
    drain_record = Drain(shorten(escape(reason), REASON_LIMIT), round(time.time(), 3))
    previous_drains = agent.tracker.drains
    if name in agent.tracker.device_lists.lists:
        return await agent.drain(previous_drains.add_resource(name, drain_record))
    return await agent.drain(
        previous_drains.add_locations(
            {device.locations[0] for _, device in find_named_devices(agent, name)}, drain_record
        )
    )


async def undrain(agent: Agent, name: str) -> bool:
    """End the drain of a resource, a device, or an empty location. Return whether the change is saved."""
    previous_drains = agent.tracker.drains
    if name in previous_drains.resources:
        return await agent.drain(previous_drains.remove_resource(name))
    places = {place for _, device in find_named_devices(agent, name) for place in device.locations}
    return await agent.drain(previous_drains.remove_locations({name, *places}))


def find_named_devices(agent: Agent, name: str) -> list[ResourceDevice]:
    """Return the devices of this name. For a resource name, return all its devices."""
    lists = agent.tracker.device_lists.lists
    if name in lists:
        return [ResourceDevice(name, device) for device in lists[name].devices]
    return find_devices(name, lists.values(), agent.tracker.candidates)
