import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.toml.finding import (
    Finding,
    Severity,
    build_json,
    find_nearest,
    format_check_summary,
    render,
    sort_findings,
)
from agent.core.struct import replace

ERROR = Finding(
    file="resources.d/cam.toml",
    line=4,
    column=9,
    end_column=20,
    severity=Severity.ERROR,
    code="toml",
    message="text needs quotes; nothing else in this file could be read",
    write='write "/dev/video*"',
    source_line="path  = /dev/video*",
)
WARNING = replace(ERROR, severity=Severity.WARNING, code="unstable-id")


def at(line, column, end_column, **more):
    return replace(ERROR, line=line, column=column, end_column=end_column, **more)


def test_rendered_as_in_the_manual():
    assert render(ERROR) == (
        "resources.d/cam.toml:4:9: error[toml]: text needs quotes; nothing else in this file could be read\n"
        "   4 | path  = /dev/video*\n"
        '     |         ^^^^^^^^^^^ write "/dev/video*"'
    )


def test_a_mark_inside_a_value():
    finding = at(11, 50, 53, source_line='nodes = [{ path = "/dev/ttyUSB*", permissions = "rwx" }]', write='write "rw"')
    assert render(finding).splitlines()[1:] == [
        '  11 | nodes = [{ path = "/dev/ttyUSB*", permissions = "rwx" }]',
        '     |                                                  ^^^ write "rw"',
    ]


@pytest.mark.parametrize(
    ("finding", "lines"),
    [
        (at(12345, 1, 2, source_line="x", write=""), ["12345 | x", "      | ^"]),
        (at(1, 2, 3, source_line="\tx = 1", write="w"), ["   1 |     x = 1", "     |     ^ w"]),
        (at(1, 5, 6, source_line="a\x1b = 1", write="w"), [r"   1 | a\x1b = 1", "     |        ^ w"]),
        (at(1, 3, 5, source_line="漢\u202eab", write="w"), [r"   1 | 漢\u202eab", "     |         ^^ w"]),
        (at(1, 1, 3, source_line="漢字 = 1", write="w"), ["   1 | 漢字 = 1", "     | ^^^^ w"]),
        (at(1, 6, 6, source_line="ab = ", write="w"), ["   1 | ab = ", "     |      ^ w"]),
        (at(1, 3, 900, source_line="abcd", write="w"), ["   1 | abcd", "     |   ^^ w"]),
    ],
)
def test_source_line_and_caret(finding, lines):
    assert render(finding).splitlines()[1:] == lines


def test_without_a_source_line_only_the_first():
    assert render(at(1, 1, 1, source_line="")).count("\n") == 0


def test_what_others_wrote_is_escaped_everywhere():
    finding = replace(ERROR, file="a\x1b.toml", message="no \x1b[2J", write="write \u202e")
    assert render(finding).isascii()
    assert "\x1b" not in render(finding)


@given(
    st.text(st.sampled_from("ab\t漢\x1b\u202e"), min_size=100, max_size=600),
    st.integers(1, 620),
    st.integers(0, 300),
)
def test_long_lines_are_cut_around_the_mark(line, column, length):
    _, source, caret = render(at(7, column, column + length, source_line=line, write="")).splitlines()
    shown = source.partition(" | ")[2]
    start = min(column - 1, len(line))
    assert len(shown) <= 111
    assert caret.rstrip().endswith("^")
    if len(line) < 110 and line.isascii() and line.isprintable():
        assert shown == line
        assert caret.index("^") - 7 == start


def test_a_long_line_keeps_its_mark():
    line = "x" * 300 + "MARK" + "y" * 300
    _, source, caret = render(at(1, 301, 305, source_line=line)).splitlines()
    first = caret.index("^")
    assert source[first : first + 4] == "MARK"
    assert caret.count("^") == 4
    assert source.startswith("   1 | …x")
    assert source.endswith("y…")


def test_json_has_all_keys_always():
    assert build_json(ERROR) == {
        "file": "resources.d/cam.toml",
        "line": 4,
        "column": 9,
        "severity": "error",
        "code": "toml",
        "message": "text needs quotes; nothing else in this file could be read",
        "write": 'write "/dev/video*"',
    }
    assert build_json(replace(ERROR, write=""))["write"] is None
    assert type(build_json(ERROR)["severity"]) is str


def test_sorted_by_place_and_stable():
    one, two, three = at(2, 9, 9), at(10, 1, 1), at(10, 1, 1, message="later")
    other = replace(ERROR, file="classes/a.toml", line=99)
    assert sort_findings([two, one, three, other]) == [other, one, two, three]


@pytest.mark.parametrize(
    ("findings", "files", "text"),
    [
        (
            [*[ERROR] * 9, replace(ERROR, file="b")],
            6,
            "10 errors in 2 of 6 files. A running agent keeps what it has; a fresh start would serve the other 4.",
        ),
        (
            [ERROR],
            1,
            "1 error in 1 of 1 file. A running agent keeps what it has; a fresh start would serve nothing.",
        ),
        (
            [replace(ERROR, file="agent.toml")],
            4,
            "1 error in 1 of 4 files. A running agent keeps what it has; a fresh start would serve nothing.",
        ),
        (
            [ERROR, WARNING, replace(WARNING, file="b")],
            2,
            (
                "1 error in 1 of 2 files, 2 warnings. A running agent keeps what it has; "
                "a fresh start would serve the other one."
            ),
        ),
        (
            [WARNING] * 4,
            6,
            '4 warnings in 6 files. To accept one: accept = { unstable-id = "why" } in the entry.',
        ),
        ([replace(WARNING, code="unreadable")], 0, "1 warning in 0 files."),  # of no entry: nothing can accept it
        ([], 1, "No errors in 1 file."),
        ([], 1200, "No errors in 1,200 files."),
    ],
)
def test_summary(findings, files, text):
    assert format_check_summary(findings, files) == text


def test_summary_with_what_this_host_gets():
    got = "7 resources, 142 devices on this host"
    assert format_check_summary([], 6, got) == f"No errors in 6 files; {got}."
    assert format_check_summary([WARNING], 6, got).startswith(f"1 warning in 6 files; {got}. To accept one:")


@pytest.mark.parametrize(
    ("word", "candidates", "meant"),
    [
        ("permision", ["path", "permissions", "to"], "permissions"),
        ("nmae", ["name", "node", "numa"], "name"),
        ("stats", ["status", "scan"], "status"),
        ("seriall", ["serial", "series"], "serial"),
        ("nvidia-gpus", ["nvidia-gpu", "nvidia-mig"], "nvidia-gpu"),
        ("DRIVER", ["driver"], "driver"),
        ("bar", ["baz", "bat", "bax"], "bat"),
        ("colour", ["name", "match"], None),
        ("x", [], None),
        ("", ["match"], None),
        ("ab", ["ba"], "ba"),
        ("ab", ["cd"], None),
        ("a" * 100_000, ["a"], None),
    ],
)
def test_nearest(word, candidates, meant):
    assert find_nearest(word, candidates) == meant
    assert find_nearest(word, reversed(candidates)) == meant
