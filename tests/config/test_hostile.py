"""Whatever stands in the files, loading ends with findings, never with an exception; all can be shown and read back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config.describe.class_manual import build_manual, format_manual
from agent.config.describe.descriptions import convert_to_json as reading_as_json
from agent.config.describe.descriptions import describe_config
from agent.config.describe.text_layout import render_description as read
from agent.config.language.key_table import OPERATORS, PLACES
from agent.config.load import SHIPPED, Configuration, load_with_entries
from agent.config.toml.finding import build_json, render

DATA = Path(__file__).parent / "language"
SAMPLES = [
    path.read_text(encoding="utf-8")
    for directory in (Path(SHIPPED), DATA / "classes", DATA / "resources.d")
    for path in sorted(directory.glob("*.toml"))
]


def load_files(files: dict[str, bytes]) -> Configuration:
    with tempfile.TemporaryDirectory() as directory:
        for name, content in files.items():
            path = Path(directory, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        studied = load_with_entries(directory)
        found = studied.configuration
        for reading in describe_config(studied):
            for width in (None, 80):
                assert read(reading, width)[0].startswith(reading.kind)
            assert reading_as_json(reading)
        for name in studied.local_class_names:
            assert format_manual(build_manual(studied, name), 80)
    for finding in found.findings:
        assert render(finding)
        assert build_json(finding)["line"]
        assert finding.line >= 1
        assert finding.end_column >= finding.column >= 1
    bad = {finding.file for finding in found.findings if finding.severity == "error"}
    assert not [resource for resource in found.resources if resource.origin.file in bad]
    return found


@given(st.binary(max_size=200), st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes(agent, entry, device_class):
    load_files({"agent.toml": agent, "resources.d/a.toml": entry, "classes/c.toml": device_class})


@st.composite
def draw_mutation(draw) -> str:
    """Return a sample with parts removed, doubled, moved or taken from others."""
    text = draw(st.sampled_from(SAMPLES))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 40)))
        piece = draw(
            st.sampled_from(["", '"', "{", "}", "[", "]", ".", "=", "false", "8", "-1", "{n}", "\\", "\n", "é", "'"])
        )
        text = text[:start] + piece + text[end:]
    return text


@settings(max_examples=100)
@given(draw_mutation(), draw_mutation())
def test_mutated_files(entry, device_class):
    entry = entry if "[[resource]]" in entry else f"[[resource]]\nname = 'a/b'\n{entry}"
    load_files({"resources.d/a.toml": entry.encode(), "classes/node.toml": device_class.encode()})


KEYS = {key for place in PLACES.values() for key in place.keys}
WORDS = sorted(KEYS | set(OPERATORS) | {"driver", "pf", "x", "./a", "/sys/a"})
SCALARS = st.one_of(
    st.sampled_from(
        ["pci", "{node}", "/dev/x", "/dev/x*", "a/b", "rw", "node", "c", "{address}", "", "./x", "{given.x}"]
    ),
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8).filter(lambda text: text.isprintable()),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=12,
)


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{key}" = {toml(inner)}' for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'''\n" + value.replace("'", "") + "'''"
    return repr(value)


def draw_named_tables(place: str) -> st.SearchStrategy[object]:
    """Return named tables with the keys of their place and any values."""
    inner = st.fixed_dictionaries({}, optional=dict.fromkeys(PLACES[place].keys, VALUES)) | VALUES
    return st.dictionaries(st.sampled_from(["a", "A_b", "x-y", "1", ""]), inner, max_size=2)


def form(place: str, key: str) -> st.SearchStrategy[object]:
    """What a section may look like, holding anything."""
    inner = PLACES[place].keys[key].inner_place
    if not inner:
        return VALUES
    return (
        draw_named_tables(inner)
        | st.fixed_dictionaries({}, optional=dict.fromkeys(PLACES[inner].keys, VALUES))
        | VALUES
    )


GIVE = st.fixed_dictionaries({}, optional={key: form("give", key) for key in PLACES["give"].keys})
OPTIONAL = {key: form("entry", key) for key in PLACES["entry"].keys} | {
    "give": GIVE | VALUES,
    "source": st.sampled_from(["pci", {"node": "/dev/x"}, {"node": ["/dev/x*", "/dev/y"]}, {"subsystem": "tty"}])
    | VALUES,
    "exclude": st.dictionaries(st.sampled_from(WORDS), VALUES, max_size=2),
    "class": st.just("c") | VALUES,
}
SENTENCE = st.fixed_dictionaries({}, optional=OPTIONAL)


@settings(max_examples=150)
@given(SENTENCE, SENTENCE)
def test_any_shape_under_known_keys(entry, device_class):
    one = "[[resource]]\n" + "".join(f'"{key}" = {toml(value)}\n' for key, value in entry.items())
    other = "".join(f'"{key}" = {toml(value)}\n' for key, value in device_class.items())
    load_files({"resources.d/a.toml": (one + one).encode(), "classes/c.toml": other.encode()})


def test_dotted_keys_without_end():
    deep = ".".join(["not"] * 3000)
    found = load_files(
        {
            "resources.d/a.toml": f"[[resource]]\nname = 'a/b'\nsource = 'pci'\nmatch.driver.{deep} = 1\n".encode(),
            "resources.d/b.toml": f"[[resource]]\nsource.{'a.' * 3000}b = 1\n".encode(),
        }
    )
    assert [finding.code for finding in found.findings] == ["type", "type"]
