import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.language.glob import PatternError, escape_glob, parse


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
    assert [text for text in ("abc", "[a]", "/dev/kvm") if not parse(text).is_literal] == []
    assert [text for text in ("a*", "?", "[ab]", "[!a]", "[a-b]") if parse(text).is_literal] == []


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/"), max_size=12), st.text(max_size=12))
def test_what_a_device_says_of_itself_widens_no_pattern(text, other):
    parsed = parse(escape_glob(text))
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


@pytest.mark.parametrize(
    ("pattern", "text", "taken"),
    [
        ("wq*.{queue:int}", "wq1.10", {"queue": 10}),
        ("accel{minor:int}", "accel_controlD0", None),
        ("accel{minor:int}", "accel", None),
        ("card{card:int}-{connector:text}", "card0-HDMI-A-1", {"card": 0, "connector": "HDMI-A-1"}),
        ("card{card:int}-{connector:text}", "card12-DP-1", {"card": 12, "connector": "DP-1"}),
        ("{a:text}-{b:text}", "x-y-z", {"a": "x", "b": "y-z"}),
        ("{a:text}*", "xyz", {"a": "x"}),
        ("{n:int}*", "123", {"n": 1}),
        ("*{n:int}", "a12", {"n": 12}),
        ("{n:int}{m:int}", "123", {"n": 1, "m": 23}),
        ("{n:int}", "-1", None),
        ("{n:int}", "٣", None),
        ("{n:int}", "1" * 30, None),
        ("/g/{address:pci}", "/g/0000:3B:00.0", {"address": "0000:3b:00.0"}),
        ("/g/{address:pci}", "/g/3b:00.0", None),
        ("/g/{address:pci}", "/g/10000:3b:00.0", {"address": "10000:3b:00.0"}),
        ("v{id:hex}_*", "v15B3_x", {"id": "15b3"}),
        ("/gpu{minor:int}/gi{gi:int}/ci{ci:int}", "/gpu1/gi2/ci3", {"minor": 1, "gi": 2, "ci": 3}),
        ("/gpu{minor:text}/gi", "/gpu1/x/gi", None),
        ("a{x:text}", "a", None),
        ("[a-c]?{x:text}", "bzq", {"x": "q"}),
        ("abc", "abc", {}),
        ("abc", "abd", None),
    ],
)
def test_captures_take_as_little_as_fits_from_left_to_right(pattern, text, taken):
    parsed = parse(pattern, allow_captures=True)
    found = parsed.extract_words(text)
    assert (found if found is None else dict(found)) == taken
    assert parsed.matches(text) == (taken is not None)


@pytest.mark.parametrize(
    ("pattern", "at", "length", "write"),
    [
        ("card{card:number}", 4, 13, '"card{card:text}"'),
        ("card{card:path}", 4, 11, '"card{card:text}"'),
        ("card{card}", 4, 6, '"card{card:text}"'),
        ("{a,b}", 0, 5, '["a", "b"]'),
        ("{a:int", 0, 6, '"[{]"'),
        ("{a-b:int}", 0, 9, '"{number:int}"'),
        ("{a:int}-{a:int}", 8, 7, "another name"),
        ("x/**/{a:int}", 2, 2, "one pattern for each depth"),
    ],
)
def test_captures_that_are_none_are_refused_with_what_to_write(pattern, at, length, write):
    with pytest.raises(PatternError) as raised:
        parse(pattern, allow_captures=True)
    assert (raised.value.at, raised.value.length) == (at, length)
    assert write in raised.value.write


def test_captures_stand_only_where_a_pattern_may_take():
    with pytest.raises(PatternError, match="not supported"):
        parse("wq{n:int}")


NAME = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="/"), min_size=1, max_size=6)


@given(st.lists(st.tuples(NAME, st.sampled_from(("text", "int"))), min_size=1, max_size=4), st.data())
def test_what_was_taken_makes_the_same_name_again(parts, data):
    pattern, text = "", ""
    for index, (between, kind) in enumerate(parts):
        value = data.draw(st.integers(0, 10**6).map(str) if kind == "int" else NAME)
        pattern += f"{escape_glob(between)}{{w{index}:{kind}}}"
        text += between + value
    taken = parse(pattern, allow_captures=True).extract_words(text)
    assert taken is not None  # what it was made from fits
    again = "".join(f"{between}{value}" for (between, _), (_, value) in zip(parts, taken, strict=True))
    assert again == text or (any(kind == "int" for _, kind in parts) and len(again) < len(text))


@given(
    st.lists(st.sampled_from(("a", "b", "?", "*", "{t:text}", "{n:int}", "[ab1]")), max_size=7).filter(
        lambda pieces: pieces.count("{t:text}") < 2 and pieces.count("{n:int}") < 2 and "**" not in "".join(pieces)
    ),
    st.text("ab12", max_size=8),
)
def test_taking_is_what_the_same_lazy_regular_expression_does(pieces, text):
    one = {"?": "[^/]", "*": "[^/]*?", "{t:text}": "(?P<t>[^/]+?)", "{n:int}": "(?P<n>[0-9]+?)"}
    same = re.fullmatch("".join(one.get(piece, piece) for piece in pieces), text)
    taken = parse("".join(pieces), allow_captures=True).extract_words(text)
    assert (taken is None) == (same is None)
    if same is not None:
        assert dict(taken) == {word: int(value) if word == "n" else value for word, value in same.groupdict().items()}


@pytest.mark.parametrize(
    "pattern", ["*a*a*a*a*{x:text}b", "{a:text}{b:text}{c:text}{d:text}!", "{a:int}{b:int}{c:int}!"]
)
def test_many_captures_end(pattern):
    assert parse(pattern, allow_captures=True).extract_words("1a" * 2000) is None
    assert parse(pattern, allow_captures=True).extract_words("1" * 4000) is None
