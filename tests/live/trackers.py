"""A tracker by itself, without a kubelet and without the other parts of an agent."""

from agent.config.settings import LookSettings
from agent.core.health.drain_overlay import DrainSet
from agent.core.health.saved_checks import SavedChecks
from agent.host.cdi_specs import SpecDirectories
from agent.registry import Registry
from agent.scanners.host_reader import HostView
from agent.specs.generated_specs import GeneratedSpecs
from agent.state.state_format import SavedState
from agent.tracker.check_evaluator import CheckEvaluator
from agent.tracker.list_publisher import ListPublisher
from agent.tracker.tracker import Tracker


class HeldIds:
    """The IDs that pods use: the same set, whatever is granted."""

    def __init__(self, ids=()):
        self._ids = ids

    @property
    def ids(self):
        return frozenset(self._ids)

    confirmed_ids = ids


def make_list_publisher(specs, on_published, *, lists=None, generated_specs=None, held=()):
    """Return the publisher of an agent whose last process left these lists."""
    return ListPublisher(
        Registry(),
        specs,
        SavedState(lists or {}),
        HeldIds(held),
        generated_specs=generated_specs,
        on_published=on_published,
    )


def make_tracker(root, specs, on_published, *, every=3600.0, held=()):
    """Return a tracker without debounce time. It rescans after `every` seconds, and pods use the IDs in `held`."""
    generated_specs = GeneratedSpecs(root, "test", SpecDirectories(), lambda: None)
    return Tracker(
        HostView(root),
        specs,
        CheckEvaluator(SavedChecks(), 0.0, DrainSet()),
        make_list_publisher(specs, on_published, generated_specs=generated_specs, held=held),
        timing=LookSettings(every, 0.0),
    )
