"""The last changes of devices: the right ones, up to the limit."""

from agent.core.inventory.device import Health
from agent.core.lists.transitions import Transition
from agent.status.history import CHANGES, DEVICES, History

A = "example.com/a"


def make_transition(name, healthy):
    old, new = (Health.UNHEALTHY, Health.HEALTHY) if healthy else (Health.HEALTHY, Health.UNHEALTHY)
    return Transition(A, name, old, new, "why")


def test_the_last_changes_stay_oldest_first():
    history = History()
    for at in range(CHANGES + 10):
        history.record([make_transition("one", bool(at % 2))], float(at))
    changes = history.changes[A, "one"]
    assert [change.time for change in changes] == [float(at) for at in range(10, CHANGES + 10)]
    assert (changes[-1].new_health, changes[-1].reason) == (Health.HEALTHY, "why")


def test_since_when_it_is_ill_outlasts_any_number_of_reasons():
    history = History()
    history.record([make_transition("one", healthy=True)], 0.0)
    history.record([make_transition("one", healthy=False)], 1.0)
    for at in range(2, 2 * CHANGES):
        history.record([Transition(A, "one", Health.UNHEALTHY, Health.UNHEALTHY, f"why {at}")], float(at))
        assert history.find_change_time(A, "one") == 1.0
    changes = history.changes[A, "one"]
    assert len(changes) == CHANGES
    assert [change.time for change in changes[-2:]] == [2 * CHANGES - 2.0, 2 * CHANGES - 1.0]
    history.record([make_transition("one", healthy=True)], 200.0)
    assert history.find_change_time(A, "one") == 200.0


def test_what_flaps_takes_nothing_from_others_and_no_more_room():
    history = History()
    history.record([make_transition("quiet", healthy=False)], 0.0)
    for at in range(100):
        history.record([make_transition(f"dev{n}", bool(at % 2)) for n in range(1000)], float(at))
    assert len(history.changes) == 1001
    assert sum(map(len, history.changes.values())) == 1 + 1000 * CHANGES


def test_the_devices_that_changed_last_are_remembered():
    history = History()
    for n in range(DEVICES + 5):
        history.record([make_transition(f"dev{n}", healthy=True), make_transition("dev0", healthy=True)], float(n))
    names = [name for _, name in history.changes]
    assert len(names) == DEVICES
    assert "dev0" in names
    assert "dev1" not in names


def test_what_was_captured_does_not_change():
    history = History()
    history.record([make_transition("one", healthy=True)], 0.0)
    before = history.changes
    history.record([make_transition("one", healthy=False)], 1.0)
    assert len(before[A, "one"]) == 1
