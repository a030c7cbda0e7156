"""Structs: what is equal, what can be hashed, what a class may have."""

import importlib
import pkgutil
from functools import cached_property

import pytest

import agent
from agent.core.struct import MutableStruct, Struct, ignore_in_comparison, replace


class Plain(Struct):
    word: str
    number: int = 0


class Twin(Struct):
    word: str
    number: int = 0


@ignore_in_comparison("origin")
class Placed(Struct):
    word: str
    origin: int = 0


def test_two_are_equal_with_equal_fields_of_the_same_class():
    assert Plain("a") == Plain("a", 0)
    assert not Plain("a") != Plain("a", 0)  # noqa: SIM202  `!=` is a method of its own
    assert hash(Plain("a")) == hash(Plain("a", 0))
    assert Plain("a") != Plain("a", 1)
    assert Plain("a") != Twin("a")
    assert Plain("a") != ("a", 0)


def test_a_value_stays_as_it_is():
    with pytest.raises(AttributeError):
        Plain("a").word = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Plain("a").other = "b"  # type: ignore[attr-defined]
    assert replace(Plain("a"), number=1) == Plain("a", 1)


def test_what_is_not_compared_makes_no_difference():
    assert Placed("a", 1) == Placed("a", 2)
    assert not Placed("a", 1) != Placed("a", 2)  # noqa: SIM202  `!=` is a method of its own
    assert len({Placed("a", 1), Placed("a", 2)}) == 1
    assert Placed("a") != Placed("b")
    assert Placed("a") != Plain("a")


def test_only_fields_can_be_left_out():
    with pytest.raises(TypeError, match="Plain has no field origin"):
        ignore_in_comparison("number", "origin")(Plain)


def structs() -> list[type]:
    """All of the agent's."""
    for module in pkgutil.walk_packages(agent.__path__, "agent."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    known = [*Struct.__subclasses__(), *MutableStruct.__subclasses__()]
    return [one for one in known if one.__module__.startswith("agent.")]


def test_every_struct_of_the_agent_can_do_what_its_class_says():
    assert len(structs()) > 200
    for one in structs():
        own = vars(one)
        if "__eq__" in own:
            assert one.__hash__ is not None, one
        cached = [name for name, of in own.items() if isinstance(of, cached_property)]
        assert not cached or one.__struct_config__.dict, f"{one}: {cached} need dict=True"
