"""The lists that a kubelet received, in a form that a test compares in one line."""

from collections.abc import Iterator

from agent.core.inventory.dirty_set import DirtySet
from device_agent_lab.simulated.device_table import ReceivedList
from device_agent_lab.simulated.kubelet import Kubelet

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


def map_health(told: ReceivedList | None) -> dict[str, str]:
    """Return a list as {id: health}."""
    return {} if told is None else {device.id: device.health for device in told.devices}


def last(kubelet: Kubelet, resource: str) -> dict[str, str]:
    """The last list of a resource."""
    lists = kubelet.lists.select(resource)
    return map_health(lists[-1] if lists else None)


def story(kubelet: Kubelet, resource: str) -> list[dict[str, str]]:
    """All lists of a resource."""
    return [map_health(told) for told in kubelet.lists.select(resource)]


def moments(kubelet: Kubelet) -> Iterator[dict[str, dict[str, str]]]:
    """What stood in all lists after each message, in the order in which the kubelet had them; anew in each life."""
    now: dict[str, dict[str, str]] = {}
    for event in kubelet.events:
        if event.kind == "bound":
            now = {}
        elif event.kind == "list":
            now[event.resource] = map_health(kubelet.lists[event.detail["list"]])
            yield dict(now)


def never_twice(kubelet: Kubelet) -> None:
    """No id twice in a list, nor in the lists of two resources at one moment."""
    assert not [told for told in kubelet.lists if told.duplicates]
    for now in moments(kubelet):
        ids = [device for listed in now.values() for device in listed]
        assert len(ids) == len(set(ids)), now


def kernel_event(directory: str, subsystem: str) -> DirtySet:
    """What the monitor makes of an event for that device: a tree on disk sends none."""
    return DirtySet(frozenset({directory}), frozenset({subsystem}))
