import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.language.safe_text import count_columns, escape, format_count, make_printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("FTDI USB Serial", "FTDI USB Serial"),
        ("Größe 漢字", "Größe 漢字"),
        ("A1\x1b[2J", r'"A1\x1b[2J"'),
        ("a\x00b\x7f\x85", r'"a\x00b\x7f\x85"'),
        ("a\tb\nc\r", r'"a\tb\nc\r"'),
        ("evil\u202egnp", r'"evil\u202egnp"'),
        ("\u2066x\u2069", r'"\u2066x\u2069"'),
        ("a\u200bb\u200d\ufeff", r'"a\u200bb\u200d\ufeff"'),
        ("a\u034f\ufe0f\u3164", r'"a\u034f\ufe0f\u3164"'),
        ("a\u00a0b\u2028", r'"a\xa0b\u2028"'),
        ("tag\U000e0041", r'"tag\U000e0041"'),
        (b"ab\xff\xc3".decode(errors="surrogateescape"), r'"ab\xff\xc3"'),
        ("\ud800", r'"\ud800"'),
        (r"back\slash", r"back\slash"),
        ('a\\b"c\x07', r'"a\\b\"c\x07"'),
        ('"A1"', r'"\"A1\""'),
    ],
)
def test_what_is_shown(text, shown):
    assert make_printable(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 64 + "…(+1)"),
        ("x" * 1000, "x" * 64 + "…(+936)"),
        ("漢" * 40, "漢" * 32 + "…(+8)"),
        ("\x1b" * 20, '"' + r"\x1b" * 15 + '"…(+5)'),
        ("a" * 61 + "\x1b", '"' + "a" * 61 + '"…(+1)'),
        ("e" + "\u0301" * 100, "e" + "\u0301" * 63 + "…(+37)"),
    ],
)
def test_the_limit_cuts_between_characters_and_counts_the_rest(text, shown):
    assert make_printable(text) == shown


def test_the_limit_is_the_callers():
    assert make_printable("abcdef", limit=4) == "abcd…(+2)"
    assert make_printable("x" * 500, limit=None) == "x" * 500
    assert make_printable("\U000e0041" * 50, limit=None) == '"' + r"\U000e0041" * 50 + '"'


@given(st.text(st.characters() | st.characters(categories=["Cs", "Cc", "Cf", "Mn"])))
def test_nothing_that_moves_hides_or_turns_text_is_left(text):
    for shown in (make_printable(text), escape(text)):
        assert shown.isprintable()
        shown.encode()
    assert count_columns(make_printable(text).partition("…(+")[0]) <= 64 or "…" in text


@given(st.lists(st.text(st.sampled_from('a"\\x1b\x1b\u202e'), max_size=6), min_size=2, max_size=2, unique=True))
def test_different_texts_are_shown_differently(texts):
    assert make_printable(texts[0]) != make_printable(texts[1])


@given(st.text(), st.text())
def test_escape_goes_character_by_character(one, two):
    assert escape(one) + escape(two) == escape(one + two)


def test_columns():
    assert count_columns("abc") == 3
    assert count_columns("漢字") == 4
    assert count_columns("e\u0301") == 1


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("device",), "0 devices"),
        (1, ("device",), "1 device"),
        (1000, ("device",), "1,000 devices"),
        (1, ("class", "classes"), "1 class"),
        (2, ("class", "classes"), "2 classes"),
    ],
)
def test_what_is_counted(number, words, said):
    assert format_count(number, *words) == said
