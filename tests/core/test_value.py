import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.language.value import Absent, Kind, OperandError, equal, from_kernel, from_person, natural, text_of


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.TEXT, "0x10", "0x10"),
        (Kind.INT, "42", 42),
        (Kind.INT, "-1", -1),
        (Kind.INT, "0x1F", 31),
        (Kind.INT, "010", 10),
        (Kind.BOOL, "Y", True),
        (Kind.BOOL, "No", False),
        (Kind.BOOL, "on", True),
        (Kind.BOOL, "0", False),
        (Kind.HEX, "0x15B3", "15b3"),
        (Kind.HEX, "15b3", "15b3"),
        (Kind.CLASS, "0x030200", "030200"),
        (Kind.PCI, "0000:3B:00.0", "0000:3b:00.0"),
        (Kind.PCI, "00000000:3b:00.0", "0000:3b:00.0"),
        (Kind.PCI, "10000:e1:00.1", "10000:e1:00.1"),
        (Kind.PATH, "/dev/kvm", "/dev/kvm"),
    ],
)
def test_what_the_kernel_says(kind, text, value):
    read = from_kernel(kind, text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (Kind.INT, ""),
        (Kind.INT, "ten"),
        (Kind.INT, "1.5"),
        (Kind.INT, "9" * 5000),
        (Kind.INT, "0x" + "f" * 5000),
        (Kind.INT, "\u0661"),
        (Kind.BOOL, "2"),
        (Kind.BOOL, "maybe"),
        (Kind.HEX, "0x"),
        (Kind.HEX, "xyz"),
        (Kind.CLASS, "0x1030200"),
        (Kind.PCI, "3b:00.0"),
        (Kind.PCI, "0000:3b:00"),
        (Kind.PCI, "0000:3b:20.0"),
        (Kind.PCI, "0000:3b:00.8"),
    ],
)
def test_what_is_no_value_of_its_kind_is_absent_and_says_what_it_was(kind, text):
    read = from_kernel(kind, text)
    assert isinstance(read, Absent)
    assert not read.unread
    assert kind.value in read.reason
    assert len(read.reason) < 120


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (Kind.TEXT, "x", "x"),
        (Kind.INT, 5, 5),
        (Kind.BOOL, False, False),
        (Kind.HEX, "0x15B3", "15b3"),
        (Kind.CLASS, "0302", "0302"),
        (Kind.CLASS, "03", "03"),
        (Kind.PCI, "3B:00.0", "0000:3b:00.0"),
        (Kind.PCI, "0000:3b:00", "0000:3b:00"),
        (Kind.PCI, "00000000:3B:00.0", "0000:3b:00.0"),
    ],
)
def test_what_a_person_says(kind, written, value):
    said = from_person(kind, written)
    assert said == value
    assert type(said) is type(value)


@pytest.mark.parametrize(
    ("kind", "written", "hint"),
    [
        (Kind.INT, "5", "write 5, without quotes"),
        (Kind.INT, True, ""),
        (Kind.BOOL, 1, "true or false"),
        (Kind.BOOL, "true", "without quotes"),
        (Kind.HEX, 1593, 'write "1593"'),
        (Kind.HEX, "mellanox", "10de"),
        (Kind.CLASS, "030", "0302"),
        (Kind.PCI, "3b:0.0", "3b:00.0"),
        (Kind.TEXT, 5, ""),
        (Kind.TEXT, ["x"], ""),
        (Kind.PATH, None, ""),
    ],
)
def test_what_a_person_cannot_say_is_refused_with_what_to_write(kind, written, hint):
    with pytest.raises(OperandError) as refused:
        from_person(kind, written)
    assert hint in refused.value.write


@pytest.mark.parametrize(
    ("kind", "value", "operand", "same"),
    [
        (Kind.HEX, "00a1", "a1", True),
        (Kind.HEX, "a1", "a2", False),
        (Kind.CLASS, "030200", "0302", True),
        (Kind.CLASS, "030200", "030000", False),
        (Kind.PCI, "0000:3b:00.1", "0000:3b:00", True),
        (Kind.PCI, "0000:3b:00.1", "0000:3b:00.0", False),
        (Kind.PCI, "0000:3b:01.1", "0000:3b:0", False),
        (Kind.INT, 1, 1, True),
        (Kind.INT, 1, True, False),
        (Kind.BOOL, True, 1, False),
        (Kind.TEXT, "A", "a", False),
    ],
)
def test_equality_is_by_kind(kind, value, operand, same):
    assert equal(kind, value, operand) is same


def test_how_values_are_written():
    assert [text_of(value) for value in ("x", 7, True, False)] == ["x", "7", "true", "false"]


def test_natural_order():
    names = ["a", "tty", "tty0", "tty01", "tty1", "tty9", "tty10", "tty10a", "tty10b2", "tty10b11", "ttyS1"]
    mixed = names[5:] + names[4::-1]
    assert sorted(mixed, key=natural) == names
    assert min(["1", "a", "-"], key=natural) == "1"


@given(st.lists(st.text("ab019-", max_size=8), unique=True), st.randoms(use_true_random=False))
def test_natural_order_never_depends_on_the_order_of_the_input(texts, chance: random.Random):
    other = chance.sample(texts, len(texts))
    assert sorted(texts, key=natural) == sorted(other, key=natural)


@given(st.integers(0, 10**30), st.integers(0, 10**30))
def test_numbers_in_natural_order_are_in_numeric_order(one, other):
    assert (natural(f"x{one}") < natural(f"x{other}")) == (one < other)
