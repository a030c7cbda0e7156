import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.language.value import (
    Absent,
    OperandError,
    ValueType,
    format_scalar,
    is_equal,
    make_sort_key,
    parse_kernel_text,
    parse_operand,
)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ValueType.TEXT, "0x10", "0x10"),
        (ValueType.INT, "42", 42),
        (ValueType.INT, "-1", -1),
        (ValueType.INT, "0x1F", 31),
        (ValueType.INT, "010", 10),
        (ValueType.BOOL, "Y", True),
        (ValueType.BOOL, "No", False),
        (ValueType.BOOL, "on", True),
        (ValueType.BOOL, "0", False),
        (ValueType.HEX, "0x15B3", "15b3"),
        (ValueType.HEX, "15b3", "15b3"),
        (ValueType.CLASS, "0x030200", "030200"),
        (ValueType.PCI, "0000:3B:00.0", "0000:3b:00.0"),
        (ValueType.PCI, "00000000:3b:00.0", "0000:3b:00.0"),
        (ValueType.PCI, "10000:e1:00.1", "10000:e1:00.1"),
        (ValueType.PATH, "/dev/kvm", "/dev/kvm"),
    ],
)
def test_what_the_kernel_says(kind, text, value):
    read = parse_kernel_text(kind, text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ValueType.INT, ""),
        (ValueType.INT, "ten"),
        (ValueType.INT, "1.5"),
        (ValueType.INT, "9" * 5000),
        (ValueType.INT, "0x" + "f" * 5000),
        (ValueType.INT, "\u0661"),
        (ValueType.BOOL, "2"),
        (ValueType.BOOL, "maybe"),
        (ValueType.HEX, "0x"),
        (ValueType.HEX, "xyz"),
        (ValueType.CLASS, "0x1030200"),
        (ValueType.PCI, "3b:00.0"),
        (ValueType.PCI, "0000:3b:00"),
        (ValueType.PCI, "0000:3b:20.0"),
        (ValueType.PCI, "0000:3b:00.8"),
    ],
)
def test_what_is_no_value_of_its_kind_is_absent_and_says_what_it_was(kind, text):
    read = parse_kernel_text(kind, text)
    assert isinstance(read, Absent)
    assert not read.unreadable
    assert kind.value in read.reason
    assert len(read.reason) < 120


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (ValueType.TEXT, "x", "x"),
        (ValueType.INT, 5, 5),
        (ValueType.BOOL, False, False),
        (ValueType.HEX, "0x15B3", "15b3"),
        (ValueType.CLASS, "0302", "0302"),
        (ValueType.CLASS, "03", "03"),
        (ValueType.PCI, "3B:00.0", "0000:3b:00.0"),
        (ValueType.PCI, "0000:3b:00", "0000:3b:00"),
        (ValueType.PCI, "00000000:3B:00.0", "0000:3b:00.0"),
    ],
)
def test_what_a_person_says(kind, written, value):
    said = parse_operand(kind, written)
    assert said == value
    assert type(said) is type(value)


@pytest.mark.parametrize(
    ("kind", "written", "hint"),
    [
        (ValueType.INT, "5", "write 5, without quotes"),
        (ValueType.INT, True, ""),
        (ValueType.BOOL, 1, "true or false"),
        (ValueType.BOOL, "true", "without quotes"),
        (ValueType.HEX, 1593, 'write "1593"'),
        (ValueType.HEX, "mellanox", "10de"),
        (ValueType.CLASS, "030", "0302"),
        (ValueType.PCI, "3b:0.0", "3b:00.0"),
        (ValueType.TEXT, 5, ""),
        (ValueType.TEXT, ["x"], ""),
        (ValueType.PATH, None, ""),
    ],
)
def test_what_a_person_cannot_say_is_refused_with_what_to_write(kind, written, hint):
    with pytest.raises(OperandError) as refused:
        parse_operand(kind, written)
    assert hint in refused.value.write


@pytest.mark.parametrize(
    ("kind", "value", "operand", "same"),
    [
        (ValueType.HEX, "00a1", "a1", True),
        (ValueType.HEX, "a1", "a2", False),
        (ValueType.CLASS, "030200", "0302", True),
        (ValueType.CLASS, "030200", "030000", False),
        (ValueType.PCI, "0000:3b:00.1", "0000:3b:00", True),
        (ValueType.PCI, "0000:3b:00.1", "0000:3b:00.0", False),
        (ValueType.PCI, "0000:3b:01.1", "0000:3b:0", False),
        (ValueType.INT, 1, 1, True),
        (ValueType.INT, 1, True, False),
        (ValueType.BOOL, True, 1, False),
        (ValueType.TEXT, "A", "a", False),
    ],
)
def test_equality_is_by_kind(kind, value, operand, same):
    assert is_equal(kind, value, operand) is same


def test_how_values_are_written():
    assert [format_scalar(value) for value in ("x", 7, True, False)] == ["x", "7", "true", "false"]


def test_natural_order():
    names = ["a", "tty", "tty0", "tty01", "tty1", "tty9", "tty10", "tty10a", "tty10b2", "tty10b11", "ttyS1"]
    mixed = names[5:] + names[4::-1]
    assert sorted(mixed, key=make_sort_key) == names
    assert min(["1", "a", "-"], key=make_sort_key) == "1"


@given(st.lists(st.text("ab019-", max_size=8), unique=True), st.randoms(use_true_random=False))
def test_natural_order_never_depends_on_the_order_of_the_input(texts, chance: random.Random):
    other = chance.sample(texts, len(texts))
    assert sorted(texts, key=make_sort_key) == sorted(other, key=make_sort_key)


@given(st.integers(0, 10**30), st.integers(0, 10**30))
def test_numbers_in_natural_order_are_in_numeric_order(one, other):
    assert (make_sort_key(f"x{one}") < make_sort_key(f"x{other}")) == (one < other)
