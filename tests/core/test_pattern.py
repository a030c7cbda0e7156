import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.pattern import PatternError, literal, parse


@pytest.mark.parametrize(
    ("pattern", "fits", "not_"),
    [
        ("", [""], ["a"]),
        ("abc", ["abc"], ["", "ab", "abcd", "ABC"]),
        ("*", ["", "a", "abc"], ["/", "a/b"]),
        ("a*", ["a", "abc"], ["", "ba", "a/b"]),
        ("*a", ["a", "ba", "aa"], ["", "ab"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("*ab*ab*", ["abab", "xabyabz"], ["ab", "aab"]),
        ("?", ["a", "é"], ["", "ab", "/"]),
        ("a?c", ["abc"], ["ac", "a/c"]),
        ("/dev/tty*", ["/dev/tty", "/dev/ttyS0"], ["/dev/x/tty", "/dev/tty/0"]),
        ("/dev/*/c*", ["/dev/a/c", "/dev//c"], ["/dev/c", "/dev/a/b/c"]),
        ("[a-c]", ["a", "b", "c"], ["", "d", "-"]),
        ("[!a-c]", ["d", "-"], ["a", "", "/"]),
        ("[^a]", ["b"], ["a", "^b"]),
        ("[]a]", ["]", "a"], ["[]a]", "b"]),
        ("[!]a]", ["b"], ["]", "a"]),
        ("[a-]", ["a", "-"], ["b"]),
        ("[-a]", ["a", "-"], ["b"]),
        ("[a-c-e]", ["b", "-", "e"], ["d"]),
        ("[+-9]", ["5", "+"], ["/"]),
        ("[[]x", ["[x"], ["x"]),
        ("[*?]", ["*", "?"], ["a"]),
        ("[0-9][0-9]", ["42"], ["4", "4a"]),
        ("a]", ["a]"], ["a"]),
        ("a}", ["a}"], ["a"]),
    ],
)
def test_matching(pattern, fits, not_):
    parsed = parse(pattern)
    assert [text for text in fits if not parsed.matches(text)] == []
    assert [text for text in not_ if parsed.matches(text)] == []


@pytest.mark.parametrize(
    ("pattern", "at", "length", "write"),
    [
        ("/dev/**/x", 5, 2, '"/dev/*/x"'),
        ("tty{A,B}0", 3, 5, '["ttyA0", "ttyB0"]'),
        ("a{b", 1, 1, '"[{]"'),
        ("x[ab", 1, 3, '"[ab]"'),
        ("x[", 1, 1, '"[[]"'),
        ("[]", 0, 2, '"[]]"'),
        ("[z-a]", 1, 3, '"a-z"'),
        ("[[:digit:]]", 1, 2, "[0-9]"),
        (r"\*", 0, 1, '"[*]"'),
        ("a[/]b", 2, 1, "outside"),
    ],
)
def test_forms_that_are_not_there_are_refused_with_what_to_write(pattern, at, length, write):
    with pytest.raises(PatternError) as refused:
        parse(pattern)
    assert (refused.value.at, refused.value.length) == (at, length)
    assert write in refused.value.write


def test_literal_patterns_know_that_they_are():
    assert [text for text in ("abc", "[a]", "/dev/kvm") if not parse(text).literal] == []
    assert [text for text in ("a*", "?", "[ab]", "[!a]", "[a-b]") if parse(text).literal] == []


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/"), max_size=12), st.text(max_size=12))
def test_what_a_device_says_of_itself_widens_no_pattern(text, other):
    parsed = parse(literal(text))
    assert parsed.matches(text)
    assert parsed.matches(other) == (other == text)


SETS = st.sampled_from(["[ab]", "[!ab]", "[a-c]", "[+-b]"])


@given(
    st.lists(st.one_of(st.sampled_from(["a", "b", "?", "*", "/"]), SETS), max_size=8),
    st.text("abc/+", max_size=10),
)
def test_matching_is_what_the_same_regular_expression_does(pieces, text):
    pattern = "".join(piece for n, piece in enumerate(pieces) if not (piece == "*" and n and pieces[n - 1] == "*"))
    spelled = pattern.replace("[!", "[^").replace("*", "[^/]*").replace("?", "[^/]")
    spelled = spelled.replace("[^ab]", "[^ab/]").replace("[+-b]", "[+-.0-b]")
    assert parse(pattern).matches(text) == bool(re.fullmatch(spelled, text)), spelled


def test_many_stars_end():
    assert not parse("*a" * 30 + "b").matches("a" * 4000)
