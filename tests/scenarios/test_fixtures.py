"""The machine of each class's scenario has what it has to: two good devices on different NUMA nodes, one faulty in the
way that the class is known for, and one that must not be selected. That it has, the scenario itself proves by its
marks (fixture.py), or says why it goes without one.
"""

from pathlib import Path

import pytest

from agent.config.load import SHIPPED
from agent.core.inventory.device import Device, Health
from agent.core.reason import Reason
from tests.scenarios.fixture import MARKS, Shown, check
from tests.scenarios.scenario import read

HERE = Path(__file__).parent
CLASSES = sorted(path.stem for path in Path(SHIPPED).glob("*.toml"))

SINGLE = "the host has one node"  # so begins why there are not two
# That one is pulled out is the fault that these are known for; of others it says nothing.
PULLED_OUT = {"camera", "gpio", "hidraw", "i2c", "instrument", "printer", "sound-card", "spi", "tty"}


@pytest.mark.parametrize("name", CLASSES)
def test_the_machine_of_a_class_has_what_it_has_to(name):
    fixture = read(HERE / f"class-{name}.toml").get("fixture", {})
    without = fixture.get("without", "")
    assert bool(without) == (not fixture.keys() >= set(MARKS)), "why does it go without a mark?"
    pulled = "absent" in fixture.get("faulty", {}).values()
    assert pulled == (name in PULLED_OUT or without.startswith(SINGLE)), "what is it known for?"


def test_only_classes_are_named():
    assert set(CLASSES) >= PULLED_OUT


def device(id_: str, health: Health = Health.HEALTHY, numa: tuple[int, ...] = (0,), reason: str = "") -> Device:
    return Device(id_, "", id_, health, Reason.from_text(reason), numa)


GOOD = {"a": device("a"), "b": device("b", numa=(1,))}
BAD = {"a": device("a", Health.UNHEALTHY, reason="ecc: it has two errors")}


@pytest.mark.parametrize(
    ("said", "lists"),
    [
        ({"good": ["a"]}, [GOOD]),
        ({"good": []}, [GOOD]),
        ({"good": ["a", "c"]}, [GOOD]),
        ({"good": ["a", "b"]}, [{"a": device("a"), "b": device("b")}]),
        ({"good": ["a", "b"]}, [{"a": device("a"), "b": device("b", numa=())}]),
        ({"good": ["a", "b"]}, [{"a": device("a")}, {"b": device("b", numa=(1,))}]),
        ({"good": ["a", "b"]}, [GOOD | BAD]),
        ({"faulty": {}}, [BAD]),
        ({"faulty": {"a": "two errors"}}, [GOOD]),
        ({"faulty": {"a": "three errors"}}, [BAD]),
        ({"faulty": {"a": ""}}, [BAD]),
        ({"left": {}}, []),
        ({"left": {"c": "match.x"}}, []),
        ({"left": {"d": "match.driver"}}, []),
        ({"tree": "somewhere"}, []),
        ({"tree": "published: a forum"}, []),
        ({"god": []}, []),
    ],
)
def test_a_mark_that_is_not_so_fails(said, lists):
    seen = Shown("x", frozenset(), lists, {("c", "match.driver")})
    check({"fixture": {"tree": "published: a/b#1, c/d.e#22", "left": {"c": "match.driver"}}}, seen)
    check(
        {"fixture": {"tree": "built", "good": ["a", "b"], "faulty": {"a": "two errors"}}},
        Shown("x", frozenset(), [GOOD, BAD]),
    )
    with pytest.raises(AssertionError, match="fixture"):
        check({"fixture": {"tree": "built"} | said}, seen)
