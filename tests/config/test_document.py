import math
import tomllib
from datetime import UTC, date, datetime, time
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.config.toml.document import DocumentError, Span, decode, parse
from agent.config.toml.finding import render

# ---------------------------------------------------------------- golden tables

TRICKY = """\
title = "x" # comment = 1
a.b . "c.d".'e f' = [ 1, # one
  [ "]", '#' ], { x.y = 1, z = [ { q = true } ] },
]

[ fruit . "ripe \\u0041" ]
date = 1979-05-27 07:32:00 # a date
local = 1979-05-27
[[resource]]
name = '''
it's ''a'' text'''
[resource.give.nodes.tty]
path = "/dev/tty=[#]"
[[resource]]
[[resource.any]]
x={a=1,b={c=2}}
[[resource.any]]
[resource.any.deep.er]
y = \"\"\"\\
  end\\\"\"\"\"\"\"
[resource.any.deep]
z = -inf
"""

PLACES = [
    (("title",), (1, 1, 6), (1, 9, 12)),
    (("a",), (2, 1, 2), (2, 1, 2)),
    (("a", "b"), (2, 3, 4), (2, 3, 4)),
    (("a", "b", "c.d"), (2, 7, 12), (2, 7, 12)),
    (("a", "b", "c.d", "e f"), (2, 13, 18), (2, 21, 31)),
    (("a", "b", "c.d", "e f", 0), (2, 13, 18), (2, 23, 24)),
    (("a", "b", "c.d", "e f", 1, 0), (2, 13, 18), (3, 5, 8)),
    (("a", "b", "c.d", "e f", 2), (2, 13, 18), (3, 17, 50)),
    (("a", "b", "c.d", "e f", 2, "x"), (3, 19, 20), (3, 19, 20)),
    (("a", "b", "c.d", "e f", 2, "x", "y"), (3, 21, 22), (3, 25, 26)),
    (("a", "b", "c.d", "e f", 2, "z", 0, "q"), (3, 36, 37), (3, 40, 44)),
    (("fruit",), (6, 3, 8), (6, 3, 8)),
    (("fruit", "ripe A"), (6, 11, 24), (6, 1, 26)),
    (("fruit", "ripe A", "date"), (7, 1, 5), (7, 8, 27)),
    (("fruit", "ripe A", "local"), (8, 1, 6), (8, 9, 19)),
    (("resource",), (9, 3, 11), (9, 1, 13)),
    (("resource", 0), (9, 3, 11), (9, 1, 13)),
    (("resource", 0, "name"), (10, 1, 5), (10, 8, 11)),
    (("resource", 0, "give"), (12, 11, 15), (12, 11, 15)),
    (("resource", 0, "give", "nodes", "tty"), (12, 22, 25), (12, 1, 26)),
    (("resource", 0, "give", "nodes", "tty", "path"), (13, 1, 5), (13, 8, 22)),
    (("resource", 1), (14, 3, 11), (14, 1, 13)),
    (("resource", 1, "any"), (15, 12, 15), (15, 1, 17)),
    (("resource", 1, "any", 0, "x", "b", "c"), (16, 11, 12), (16, 13, 14)),
    (("resource", 1, "any", 1), (17, 12, 15), (17, 1, 17)),
    (("resource", 1, "any", 1, "deep"), (21, 15, 19), (21, 1, 20)),
    (("resource", 1, "any", 1, "deep", "er", "y"), (19, 1, 2), (19, 5, 9)),
    (("resource", 1, "any", 1, "deep", "z"), (22, 1, 2), (22, 5, 9)),
    # What is not there has the place around it.
    ((), (1, 1, 1), (1, 1, 1)),
    (("nothing", 3), (1, 1, 1), (1, 1, 1)),
    (("resource", 1, "name"), (14, 3, 11), (14, 1, 13)),
    (("resource", 7), (9, 3, 11), (9, 1, 13)),
    (("title", "deeper"), (1, 1, 6), (1, 9, 12)),
]


@pytest.mark.parametrize(("path", "key", "value"), PLACES)
@pytest.mark.parametrize("dress", [str, lambda s: s.replace("\n", "\r\n"), lambda s: "\ufeff" + s])
def test_places(path, key, value, dress):
    document = parse("a.toml", dress(TRICKY))
    assert document.find_key(path) == Span(*key)
    assert document.find_value(path) == Span(*value)


def test_lines_and_what_is_written():
    document = parse("a.toml", TRICKY.replace("\n", "\r\n"))
    assert document.get_line(1) == 'title = "x" # comment = 1'
    assert document.get_line(22) == "z = -inf"
    assert document.get_line(23) == document.get_line(24) == document.get_line(0) == ""
    assert document.get_source(("resource", 0, "name")) == "'''\nit's ''a'' text'''"
    assert document.name == "a.toml"
    assert document.text == TRICKY


@pytest.mark.parametrize(
    "text",
    [
        '""""a""""',
        '"""a"""""',
        '""""""',
        "''''a''''",
        "''''''",
        '""',
        "''",
        '"\\\\"',
        '"""\\\n   a \\" \\\\"""',
        "0x1_F",
        "1979-05-27T07:32:00.5Z",
        "1979-05-27 07:32:00-07:00",
        "07:32:00",
        "+1e-3",
        "-nan",
        "[]",
        "[ # none\n]",
        "[1,2,\n]",
        "{}",
        "{ }",
        "{ 'a' = { b . c = [ { } ] } , \"d\" = 1 }",
    ],
)
@pytest.mark.parametrize("after", ["", " ", "# x", "\t# x\n", "\ny = 1"])
def test_a_value_ends_where_it_ends(text, after):
    assert parse("a.toml", f"x ={text}{after}").get_source(("x",)) == text


# ---------------------------------------------------------------- properties

NAMES = st.sampled_from(["a", "b", "c-d", "1", "é", "x.y", "", 'q"', "l'", "t\tn\n", "#", "=", "[z]"])
SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.text(st.sampled_from("\"'\\#=[]{},. \n\tx"), max_size=8)
    | st.dates(date(1000, 1, 1))
    | st.times().map(lambda t: t.replace(tzinfo=None))
    | st.datetimes(datetime(1000, 1, 1), timezones=st.none() | st.just(UTC))  # noqa: DTZ001
)
DATA = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


def escape(text, *, multi=False):
    kept = {"\n", "\t"} if multi else {"\t"}
    return "".join(
        "\\" + char
        if char in '"\\'
        else char
        if char in kept or (char >= " " and char != "\x7f")
        else f"\\u{ord(char):04x}"
        for char in text
    )


class Writer:
    """Writes data as TOML, each choice of style by chance."""

    def __init__(self, seed):
        self.chance = Random(seed)

    def choose(self, *options):
        return self.chance.choice(options)

    def blank(self):
        return self.choose("", "", " ", "\t ")

    def name(self, name):
        styles = [f'"{escape(name)}"']
        if name and all(char.isascii() and (char.isalnum() or char in "-_") for char in name):
            styles += [name] * 3
        if "'" not in name and "\n" not in name:
            styles.append(f"'{name}'")
        return self.choose(*styles)

    def key(self, names):
        dot = f"{self.blank()}.{self.blank()}"
        return dot.join(self.name(name) for name in names)

    def scalar(self, value):
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return repr(value) if "e" not in repr(value) or math.isinf(value) else f"{value:.17e}"
        if isinstance(value, datetime):
            return value.isoformat(self.choose("T", " "))
        if isinstance(value, date | time):
            return value.isoformat()
        if isinstance(value, int):
            return self.choose(str(value), f"{value:_}", f"{value:#x}" if value >= 0 else str(value))
        styles = [f'"{escape(value)}"', f'"""\n{escape(value, multi=True)}"""', f'"""\\\n  {escape(value)}"""']
        if value[:1] in " \t\n":
            styles.pop()
        clean = all(char >= " " and char != "\x7f" for char in value.replace("\n", "").replace("\t", ""))
        if clean and "'" not in value and "\n" not in value:
            styles.append(f"'{value}'")
        if clean and "'''" not in value + "'" * 2 and not value.endswith("'"):
            styles.append(f"'''\n{value}'''")
        return self.choose(*styles)

    def value(self, value):
        if isinstance(value, list):
            gap = lambda: self.choose("", " ", "\n", " # [{,\n  ")
            body = "".join(f"{gap()}{self.value(item)}{gap()}," for item in value)
            if body and self.choose(True, False):
                body = body[:-1]
            return f"[{body}{gap()}]"
        if isinstance(value, dict):
            pairs = [f"{self.blank()}{pair}{self.blank()}" for pair in self.pairs(value)]
            return "{" + (",".join(pairs) or self.blank()) + "}"
        return self.scalar(value)

    def pairs(self, table, before=()):
        """The pairs of a table: nested ones inline or by dotted keys."""
        for name, value in table.items():
            names = (*before, name)
            if isinstance(value, dict) and value and self.choose(True, False):
                yield from self.pairs(value, names)
            else:
                yield f"{self.key(names)}{self.blank()}={self.blank()}{self.value(value)}"

    def table(self, table, path=()):
        """The lines of a table: pairs first, then headers in any order."""
        headed, lists, rest = {}, {}, {}
        for name, value in table.items():
            if isinstance(value, dict) and self.choose(True, False):
                headed[name] = value
            elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
                lists[name] = value
            else:
                rest[name] = value
        for pair in self.pairs(rest):
            yield self.blank() + pair + self.choose("", " # = [", " ")
        for name, value in headed.items():
            lines = list(self.table(value, (*path, name)))
            # A table that only holds tables needs no header of its own.
            if not lines or not lines[0].startswith("[") or self.choose(True, False):
                yield f"[{self.blank()}{self.key((*path, name))}{self.blank()}]{self.choose('', ' # x')}"
            yield from lines
        for name, items in lists.items():
            for item in items:
                yield f"[[{self.blank()}{self.key((*path, name))}{self.blank()}]]"
                yield from self.table(item, (*path, name))


def write_document(data, seed):
    writer = Writer(seed)
    lines = writer.choose("\n", "\n\n", "\n# [x]\n").join(writer.table(data))
    return lines + writer.choose("", "\n")


def list_paths(data, path=()):
    """Every path of data, and its value."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for step, value in items:
        yield (*path, step), value
        yield from list_paths(value, (*path, step))


def list_positions(place, path=()):
    for step, below in place.children.items():
        yield (*path, step)
        yield from list_positions(below, (*path, step))


def agrees(text):
    """The document has the paths of tomllib's data, and each leaf, as written, is its value."""
    document = parse("a.toml", text)
    assert document.data == tomllib.loads(text.removeprefix("\ufeff")) or "nan" in text
    leaves = dict(list_paths(document.data))
    assert set(list_positions(document._root)) == set(leaves)
    for path, value in leaves.items():
        key, span = document.find_key(path), document.find_value(path)
        assert key.end_column > key.column
        assert span.end_column > span.column
        if isinstance(path[-1], str):
            written = document.get_line(key.line)[key.column - 1 : key.end_column - 1]
            assert tomllib.loads(f"{written} = 0") == {path[-1]: 0}
        if not isinstance(value, dict | list):
            again = tomllib.loads(f"x = {document.get_source(path)}")["x"]
            assert again == value or value != value
            assert type(again) is type(value)


@settings(max_examples=300)
@given(DATA, st.integers(0, 1_000_000), st.booleans())
def test_every_path_has_its_place(data, seed, windows):
    text = write_document(data, seed)
    assert tomllib.loads(text) == data
    agrees(text.replace("\n", "\r\n") if windows else text)


MARKS = "ab\"'\\[]{}=.,# \n\t-1é\r\x00\ufeff"
PIECES = ("true", "1.5", "1979-05-27", " 07:32:00", "\\u00e9", "{a=1}", "[1]", "{a.b=1,", "a=[{", "inf", "x ")
TOKENS = ('"""', "'''", "[[", "]]", "{uuid}", "/dev/*", "\r\n")
LINES = ("\na = ", "\nb.a=", "\n[a]\n", "\n[[a]]\n", "\n[a.b]\n", "\n[[a.b]]\n")
SOUP = st.lists(st.sampled_from([*MARKS, *PIECES, *TOKENS, *LINES]), max_size=14).map("".join)


@settings(max_examples=1000)
@given(SOUP)
@example("a = {b = 1, b")
@example("a = '''\nb = c\x00")
@example("a = 1\n[a.b]\n")
@example("a.b = 1\n[a]\n")
@example("a = [{}]\n[[a]]\n")
def test_any_text_is_a_document_or_one_finding(text):
    try:
        agrees(text)
    except DocumentError as error:
        finding = error.finding
        with pytest.raises(tomllib.TOMLDecodeError):
            tomllib.loads(text.removeprefix("\ufeff"))
        assert 1 <= finding.column <= len(finding.source_line) + 1
        assert finding.end_column > finding.column or not finding.source_line[finding.column - 1 :]
        assert render(finding)


@given(st.binary(max_size=40))
def test_any_bytes_are_text_or_one_finding(content):
    try:
        text = decode("a.toml", content)
    except DocumentError as error:
        assert render(error.finding)  # noqa: PT017
        with pytest.raises(UnicodeDecodeError):
            content.decode()
    else:
        assert text == content.decode().removeprefix("\ufeff")


# ---------------------------------------------------------------- size


def test_a_large_file_is_no_trouble():
    entry = '[[resource]]\nname = "a.b/c"\nmatch = { vendor = "8086", device = ["1", "2"] }\ngive.node = "/dev/x"\n'
    count = 1024 * 1024 // len(entry)
    document = parse("a.toml", entry * count)
    assert document.find_value(("resource", count - 1, "give", "node")) == Span(count * 4, 13, 21)


def test_large_and_odd_files_are_no_trouble():
    for text in (
        "x = " + '"' + "\\n" * 100_000 + '"',
        "x = '''" + "'' " * 70_000 + "'''",
        "x = [" + "1," * 100_000 + "]",
    ):
        assert parse("a.toml", text).get_source(("x",)) == text[4:]


@pytest.mark.parametrize("around", ["[]", ["{a=", "}"]])
def test_whatever_nesting_tomllib_takes(around):
    deepest = 0
    for depth in range(1, 2000):
        text = "x = " + around[0] * depth + "1" * (len(around[0]) > 1) + around[1] * depth
        try:
            parse("a.toml", text)
            deepest = depth
        except DocumentError as error:
            assert "too deeply" in error.finding.message  # noqa: PT017
            break
    assert deepest > 100


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("text", "place", "message", "write"),
    [
        ("path  = /dev/video*", (1, 9, 20), "text needs quotes", 'write "/dev/video*"'),
        ("a = 1\nb = two words # why\n", (2, 5, 14), "text needs quotes", 'write "two words"'),
        ("every = 5s", (1, 9, 11), "text needs quotes", 'write "5s"'),
        ("every = 10 min", (1, 9, 15), "text needs quotes", 'write "10 min"'),
        ("x = [0000:3b:00.0]", (1, 6, 18), "text needs quotes", 'write "0000:3b:00.0"'),
        ("x = { product = 15b3, a = 1 }", (1, 17, 21), "text needs quotes", 'write "15b3"'),
        ('x = ["a",\n /dev/tty[AB]*,\n]', (2, 2, 15), "text needs quotes", 'write "/dev/tty[AB]*"'),
        ("id = {uuid}", (1, 6, 12), "text needs quotes", 'write "{uuid}"'),
        ("id = gpu-{uuid}", (1, 6, 16), "text needs quotes", 'write "gpu-{uuid}"'),
        ("about = it's mine", (1, 9, 18), "text needs quotes", 'write "it\'s mine"'),
        ("x = \\d+", (1, 5, 8), "text needs quotes", "write '\\d+'"),
        ("x = “a”", (1, 5, 8), "text needs quotes", 'write "a"'),
        ("x = truely", (1, 5, 11), "text needs quotes", 'write "truely"'),
        ("x = 2024-13-01", (1, 5, 15), "text needs quotes", 'write "2024-13-01"'),
        ("x = True", (1, 5, 9), "a switch is true or false", "write true"),
        ("x = { a = off }", (1, 11, 14), "a switch is true or false", "write false"),
        ("x =", (1, 4, 4), "a value is missing here", ""),
        ("x = # later\n", (1, 5, 6), "a value is missing here", ""),
        ("x = [1,,2]", (1, 8, 9), "a value is missing here", ""),
        ("x = ]", (1, 5, 6), "a value is missing here", ""),
        ("x == 1", (1, 4, 5), "this is no value of TOML", ""),
        ("x = 0483", (1, 5, 9), "text needs quotes", 'write "0483"'),
        ("x = 1,", (1, 6, 7), "one key and its value fill a line: this is left over", ""),
        ("x = 1 2", (1, 7, 8), "one key and its value fill a line: this is left over", ""),
        ('x = "a" b', (1, 9, 10), "one key and its value fill a line: this is left over", ""),
        ("a = 1\n[t]\nb = 1\nb = [\n2]", (4, 1, 2), "b is defined at line 3 already, and TOML allows it once", "take"),
        ("x = { a = 1, 'a' = 2 }", (1, 14, 17), "a is defined at line 1 already, and TOML allows it once", "take"),
        ("x = { a = 1, a.b = 2 }", (1, 14, 15), "a is defined at line 1 already, and TOML allows it once", "take"),
        ("[a]\nx=1\n[a]\n", (3, 2, 3), "a is defined at line 1 already, and TOML allows it once", "take"),
        ("[a]\n[[a]]\n", (2, 3, 4), "a is defined at line 1 already, and TOML allows it once", "take"),
        ("[a.b]\n[a]\nb.c=1\n", (3, 1, 2), "b is defined at line 1 already, and TOML allows it once", "take"),
        ("a.b = 1\n [a] \n", (2, 2, 4), "this adds to what is complete where it is first defined", "write it"),
        ("a = 1\n[a.b]\n", (2, 1, 5), "this adds to what is complete where it is first defined", "write it"),
        ('x = "abc\ny = 1', (1, 5, 9), "this text has no closing quote", 'close it with "'),
        ("x = 1\ny = '''a\nb\n", (2, 5, 9), "this text has no closing quote", "close it with '''"),
        ("x = 'abc", (1, 5, 9), "this text has no closing quote", "close it with '"),
        ('x = "a\\d"', (1, 7, 9), "in double quotes a backslash begins an escape", "write \\\\"),
        ('x = "\\u12"', (1, 6, 8), "in double quotes a backslash begins an escape", "write \\\\"),
        ('x = "\\ud800"', (1, 6, 12), "in double quotes a backslash begins an escape", "write \\\\"),
        ('x = """\ny = z\\d"""', (2, 6, 8), "in double quotes a backslash begins an escape", "write \\\\"),
        ("y = 2\nx = [1,\n2\n", (2, 5, 6), "this list has no end", "close it with ]"),
        ("x = [{ a = 1", (1, 6, 7), "this inline table has no end", "close it with }"),
        ('x = [\n"a"\n"b"\n]', (3, 1, 4), 'the list of line 1 goes on with "," or ends with "]"', ""),
        ("x = [1\ny = 2\n", (2, 1, 2), 'the list of line 1 goes on with "," or ends with "]"', ""),
        ("x = [1 2]", (1, 8, 9), 'the list of line 1 goes on with "," or ends with "]"', ""),
        ("x = {\na = 1 }", (1, 5, 6), "an inline table stands on one line", "write it on one"),
        ("x = { a = 1, }", (1, 14, 15), 'an inline table ends without a ","', "take the comma out"),
        ("name: x", (1, 5, 6), 'a key is followed by "=" and its value', 'write "=" instead'),
        ("name", (1, 5, 5), 'a key is followed by "=" and its value', "write key = value"),
        ("[a\nx = 1", (1, 3, 3), 'this header ends with "]"', "close it with ]"),
        ("[[a]\nx = 1", (1, 4, 5), 'this header ends with "]]"', "close it with ]]"),
        ("/dev/x\n", (1, 1, 7), "a line begins with a key, a [header] or #", "write key = value"),
        ("a = 1\x00", (1, 6, 7), 'the character "\\x00" cannot stand here', "take it out"),
        ("# \x1b[2J", (1, 3, 4), 'the character "\\x1b" cannot stand here', "take it out"),
        ("a = 1\rb = 2", (1, 6, 7), 'the character "\\r" cannot stand here', "take it out"),
        ("a = 1\nb = " + "7" * 5000, (2, 5, 4005), "a number is too long", ""),
        (
            "y = ['[', {}]  # [[[\nx = " + "[" * 5000 + "]" * 5000,
            (2, 5004, 5005),
            "lists and tables stand in each other too deeply: 5000 are open here",
            "take out brackets",
        ),
    ],
)
def test_mistakes(text, place, message, write):
    for dressed in (text, "\ufeff" + text.replace("\n", "\r\n")):
        with pytest.raises(DocumentError) as raised:
            parse("a.toml", dressed)
        finding = raised.value.finding
        assert finding.message.startswith(message)
        assert finding.message.endswith("; nothing else in this file could be read")
        assert finding.write.startswith(write)
        assert bool(finding.write) == bool(write)
        assert (finding.line, finding.column, finding.end_column) == place
        assert finding.code == "toml"


def test_the_usual_mistake_reads_as_in_the_manual():
    with pytest.raises(DocumentError) as raised:
        parse("resources.d/cam.toml", "\n\n[[resource]]\npath  = /dev/video*\n")
    assert render(raised.value.finding) == (
        "resources.d/cam.toml:4:9: error[toml]: text needs quotes; nothing else in this file could be read\n"
        "   4 | path  = /dev/video*\n"
        '     |         ^^^^^^^^^^^ write "/dev/video*"'
    )
    assert str(raised.value).startswith("resources.d/cam.toml:4:9: text needs quotes")


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"a = 1\nb = 'x\xff'", (2, 7), "the byte 0xff is not UTF-8"),
        ("é = '".encode() + b"\xc3'", (1, 6), "the byte 0xc3 is not UTF-8"),
        (b"\xef\xbb\xbfa\xfe", (1, 2), "the byte 0xfe is not UTF-8"),
        ("a = 1".encode("utf-16"), (1, 1), "the file is UTF-16"),
    ],
)
def test_not_utf8(content, place, message):
    with pytest.raises(DocumentError) as raised:
        decode("a.toml", content)
    finding = raised.value.finding
    assert (finding.line, finding.column) == place
    assert finding.message.startswith(message)
    assert finding.write == "save the file as UTF-8"
    assert "\\x" in render(finding)


def test_a_byte_order_mark_is_no_column():
    assert decode("a.toml", b"\xef\xbb\xbfa = 1") == "a = 1"
