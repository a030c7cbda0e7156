"""The times of the next look at sources with their own interval."""

from math import inf

from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import SourceTimers
from tests.core.builders import spec

A, B = Source("pci"), Source("usb")


def test_each_source_has_its_own_time_and_the_more_frequent_entry_counts():
    specs = [spec(source=A, interval=5.0), spec(source=A, interval=2.0), spec(source=A), spec(source=B, interval=3.0)]
    rounds = SourceTimers()
    assert rounds.take_due_sources(specs, 100.0) == frozenset()
    assert rounds.next_at == 102.0
    assert rounds.take_due_sources(specs, 102.0) == {A}
    assert rounds.take_due_sources(specs, 102.5) == frozenset()
    assert rounds.next_at == 103.0
    assert rounds.take_due_sources(specs, 104.0) == {A, B}
    assert rounds.next_at == 106.0


def test_other_entries_have_other_times():
    rounds = SourceTimers()
    rounds.take_due_sources([spec(source=A, interval=60.0)], 0.0)
    assert rounds.take_due_sources([spec(source=A, interval=1.0)], 10.0) == frozenset()
    assert rounds.next_at == 11.0
    assert rounds.take_due_sources([spec(source=B)], 12.0) == frozenset()
    assert rounds.next_at == inf
