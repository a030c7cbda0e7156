"""Patterns of kernel-log lines: what fits, what is compared and taken, and how long that takes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.language.glob import PatternError
from agent.core.language.log_pattern import LIMIT, Brace, LogPattern, make_message_keys, parse
from agent.core.language.value import ValueType

XID = "NVRM: Xid (PCI:{address}): {code:int},"
KINDS = {"address": ValueType.PCI, "name": ValueType.TEXT, "number": ValueType.INT, "id": ValueType.HEX}


def message(text):
    """A pattern in which words that are compared have the kinds above."""
    pieces = [
        piece
        if not isinstance(piece, tuple)
        else Brace(piece[0], KINDS[piece[0]] if piece[1] is None else ValueType(piece[1]), piece[1] is not None)
        for piece in parse(text)
    ]
    return LogPattern(text, tuple(pieces))


@pytest.mark.parametrize(
    ("pattern", "line", "read"),
    [
        pytest.param(XID, "NVRM: Xid (PCI:0000:3b:00): 79, pid=7", (("0000:3b:00",), (("code", 79),)), id="a slot"),
        pytest.param(XID, "NVRM: Xid (PCI:3B:00.1): 8,", (("0000:3b:00.1",), (("code", 8),)), id="any usual form"),
        pytest.param(XID, "x NVRM: Xid (PCI:0000:3b:00): 79,", None, id="at the beginning, or not at all"),
        pytest.param(XID, "NVRM: Xid (PCI:0000:3b:00): 79", None, id="all that is written"),
        pytest.param(XID, "NVRM: Xid (PCI:0000:3b:00): 79x,", None, id="and nothing between"),
        pytest.param(XID, "NVRM: Xid (PCI:0000:3b:00): 999999999999999999999,", None, id="no number is so long"),
        pytest.param(XID, "NVRM: Xid (PCI:0000:3b:00.01): 79,", None, id="no address"),
        pytest.param("npu {number}", "npu 12 is hot", ((12,), ()), id="a number is all of it"),
        pytest.param("npu {number}", "npu -12", ((-12,), ()), id="with its sign"),
        pytest.param("npu {number}", "npu x", None, id="or none"),
        pytest.param("npu {id} {why:text}", "npu 0x00aB too hot", ((0xAB,), (("why", "too hot"),)), id="hexadecimal"),
        pytest.param("{name}: {why:text}:", "a b: c: d: e", (("a b",), (("why", "c"),)), id="text is what fits first"),
        pytest.param("{why:text}", "", None, id="and something"),
        pytest.param("a {x:text}{y:int}", "a b77", ((), (("x", "b"), ("y", 77))), id="text before a number"),
        pytest.param("a * {code:int}!", "a 1 2 34!", ((), (("code", 34),)), id="a star goes as far as it has to"),
        pytest.param("a *{code:int}", "a b 34", ((), (("code", 34),)), id="and a number begins at its first digit"),
        pytest.param("*a*", "bab", ((), ()), id="stars"),
        pytest.param("a", "abc", ((), ()), id="the end is open"),
        pytest.param("a{{{number}}}", "a{7}", ((7,), ()), id="braces"),
        pytest.param("a?[b]", "a?[b]", ((), ()), id="all else is literal"),
        pytest.param("a?[b]", "axb", None, id="all else"),
    ],
)
def test_read(pattern, line, read):
    assert message(pattern).match(line) == read


def test_who_is_spoken_of():
    assert make_message_keys((), ()) == {()}
    assert make_message_keys((ValueType.PCI,), ("0000:3b:00.1",)) == {("0000:3b:00.1",), ("0000:3b:00",)}
    assert make_message_keys((ValueType.HEX, ValueType.TEXT), ("00ab", "x")) == {(0xAB, "x")}


@pytest.mark.parametrize(
    ("pattern", "at", "length"),
    [("a {", 2, 1), ("a {b", 2, 2), ("a }", 2, 1), ("{}", 0, 2), ("{a b}", 0, 5), ("{a:B}", 0, 5), ("{a|env}", 0, 7)],
)
def test_what_is_no_pattern(pattern, at, length):
    with pytest.raises(PatternError) as error:
        parse(pattern)
    assert (error.value.at, error.value.length) == (at, length)


PIECES = st.lists(
    st.sampled_from(["a", "b", " ", "1", "*", "{x:text}", "{y:int}", "{z:hex}"]), min_size=1, max_size=6, unique=True
)


@given(PIECES, st.text("ab 1", max_size=12))
def test_it_is_what_an_expression_says(pieces, line):
    """Of stars and text as little as fits, of numbers all that is there; braces side by side may have several ways."""
    ways = {"*": ".*?", "{x:text}": "(.+?)", "{y:int}": r"(-?\d{1,20})(?!\d)", "{z:hex}": "([0-9a-f]+)(?![0-9a-f])"}
    expression = "".join(ways.get(piece, piece) for piece in pieces)
    if pieces[-1] == "{x:text}":
        expression = expression.removesuffix("(.+?)") + "(.+)"
    found = re.match(expression, line)
    read = message("".join(pieces)).match(line)
    assert (read is None) == (found is None)
    if read is not None:
        assert [str(value) for _, value in read[1]] == [
            str(int(text)) if piece == "{y:int}" else text
            for piece, text in zip((each for each in pieces if each[0] == "{"), found.groups(), strict=True)
        ]


def test_hostile_lines_take_no_time():
    """Every prefix of it nearly fits; with going back this would not end."""
    hostile = message("*a*a*a*a*{x:text}a*{y:text}a{number}*b{c:int}!")
    steps = 0

    class Counting(str):
        __slots__ = ()

        def startswith(self, *arguments):
            nonlocal steps
            steps += 1
            return super().startswith(*arguments)

        def __getitem__(self, index):
            return Counting(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    assert hostile.match(Counting("a1" * 500_000)) is None
    assert steps < 20 * LIMIT
