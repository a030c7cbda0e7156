import io

import pytest

from agent.cli.table import Column, Row, format_grid, render
from agent.cli.terminal import Terminal, cut, pad
from agent.core.language.safe_text import count_columns

TITLES = (
    Column("NAME"),
    Column("WHAT", min_width=6, drop_order=1),
    Column("N", right=True, drop_order=2),
    Column("BY"),
)
ROWS = [Row(("first", "a long description of it", "1", "example.com/a")), Row(("2nd", "short", "10", "–"), "dim")]


def test_without_a_width_nothing_is_cut():
    assert render(TITLES, ROWS, Terminal()) == [
        "NAME   WHAT                       N  BY",
        "first  a long description of it   1  example.com/a",
        "2nd    short                     10  –",
    ]


def test_what_may_be_cut_gives_way_first():
    lines = render(TITLES, ROWS, Terminal(width=40))
    assert lines[1] == "first  a long descri…   1  example.com/a"
    assert all(count_columns(line) <= 40 for line in lines)


def test_then_columns_leave_and_what_must_be_pasted_stays():
    lines = render(TITLES, ROWS, Terminal(width=22))
    assert lines[1] == "first  example.com/a"
    assert render(TITLES, ROWS, Terminal(width=3))[1] == "first  example.com/a"


def test_what_is_cut_ends_in_what_can_be_shown():
    lines = render(TITLES, ROWS, Terminal(width=40, has_unicode=False))
    assert lines[1] == "first  a long desc...   1  example.com/a"
    assert cut("abcdef", 4, "...") == "a..."


@pytest.mark.parametrize("width", range(1, 60))
def test_it_never_grows_over_the_width_while_something_can_leave(width):
    lines = render(TITLES, ROWS, Terminal(width=width))
    assert max(map(count_columns, lines)) <= max(width, len("first  example.com/a"))


def test_colour_only_where_it_is_seen():
    plain, coloured = render(TITLES, ROWS, Terminal()), render(TITLES, ROWS, Terminal(has_colours=True))
    assert "\033" not in "".join(plain)
    assert coloured[2] == f"\033[2m{plain[2]}\033[0m"


def test_without_unicode_there_are_other_characters():
    assert render(TITLES, ROWS, Terminal(has_unicode=False))[2].endswith("-")


def test_grid_goes_side_by_side_where_there_is_room():
    cells = [("a", "1"), ("bb", "2"), ("c", "3")]
    assert format_grid(cells, Terminal(), "  ") == ["  a   1", "  bb  2", "  c   3"]
    assert format_grid(cells, Terminal(width=40), "  ") == ["  a   1  bb  2  c   3"]
    assert format_grid([], Terminal(), "  ") == []


def test_wide_characters_count_twice():
    assert cut("日本語", 4) == "日…"
    assert pad("日", 4) == "日  "
    assert cut("abc", 0) == ""


@pytest.mark.parametrize(
    ("screen", "environ", "asked", "colour"),
    [
        (True, {}, "auto", True),
        (True, {"NO_COLOR": "1"}, "auto", False),
        (True, {"TERM": "dumb"}, "auto", False),
        (False, {}, "auto", False),
        (False, {}, "always", True),
        (True, {}, "never", False),
    ],
)
def test_when_there_is_colour(screen, environ, asked, colour):
    class Stream(io.StringIO):
        encoding = "UTF-8"

        def isatty(self):
            return screen

    terminal = Terminal.detect(Stream(), environ, colour=asked)
    assert terminal.has_colours is colour
    assert (terminal.width is None) is not screen
    assert terminal.has_unicode
