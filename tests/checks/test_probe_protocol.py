"""The lines of a probe."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.checks.probe_protocol import (
    ProbeAlive,
    ProbeOff,
    ReportComplete,
    ReportedField,
    ReportedHealth,
    ReportRemoval,
    parse_line,
)
from agent.core.entry.query import QueryStatus


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"place": "a", "healthy": true}', ReportedHealth("a", QueryStatus.HEALTHY)),
        ('{"place": "a", "healthy": false, "reason": "b c"}', ReportedHealth("a", QueryStatus.UNHEALTHY, "b c")),
        ('{"place": "a", "healthy": false, "reason": null}', ReportedHealth("a", QueryStatus.UNHEALTHY)),
        ('{"place": "a", "healthy": null}', ReportedHealth("a", QueryStatus.UNKNOWN)),
        ('{"place": "00000000:3B:00.0", "healthy": true}', ReportedHealth("0000:3b:00.0", QueryStatus.HEALTHY)),
        ('{"place": "/dev/x", "field": "f", "value": "v"}', ReportedField("/dev/x", "f", "v")),
        ('{"place": "a", "field": "f", "value": 7}', ReportedField("a", "f", 7)),
        ('{"place": "a", "field": "f", "value": false}', ReportedField("a", "f", False)),
        ('{"place": "a", "field": "f", "value": null}', ReportedField("a", "f", None)),
        ('{"place": "a", "gone": true}', ReportRemoval("a")),
        ('{"off": "no library"}', ProbeOff("no library")),
        ('{"complete": true}', ReportComplete()),
        ("{}", ProbeAlive()),
        (" {} \r", ProbeAlive()),
    ],
)
def test_a_line(line, said):
    assert parse_line(line.encode()) == said


@pytest.mark.parametrize(
    "line",
    [
        "",
        "healthy",
        "[]",
        "1",
        '{"place": "a"}',
        '{"place": 1, "healthy": true}',
        '{"place": "a", "healthy": 1}',
        '{"place": "a", "healthy": "yes"}',
        '{"place": "a", "healthy": true, "reason": 1}',
        '{"place": "a", "healthy": true, "why": "x"}',
        '{"healthy": true}',
        '{"place": "a", "field": "f"}',
        '{"place": "a", "field": "f", "value": 1.5}',
        '{"place": "a", "field": "f", "value": [1]}',
        '{"place": "a", "field": "f", "value": 1e400}',
        json.dumps({"place": "a", "field": "f", "value": 2**64}),
        '{"place": "a", "gone": false}',
        '{"complete": false}',
        '{"complete": true, "x": 1}',
        '{"place": "a", "healthy": true',
        '{"place": "a\\u0000b", "healthy": true}',
        '{"place": "a\\nb", "healthy": true}',
        '{"place": "\\ud800", "healthy": true}',
        '{"place": "a", "healthy": false, "reason": "\\u001b[2J"}',
        json.dumps({"off": "x" * 5000}),
        "[" * 100_000,
        "9" * 10_000,
        "\udcff",
    ],
)
def test_what_is_no_line(line):
    assert parse_line(line.encode("utf-8", "surrogateescape")) is None


@given(st.binary(max_size=200))
def test_no_bytes_break_it(line):
    parse_line(line)


VALUES = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats() | st.lists(st.integers(), max_size=2)
)
KEYS = st.sampled_from(["place", "healthy", "reason", "field", "value", "gone", "complete", "off", "x"])


@given(st.dictionaries(KEYS, VALUES))
def test_no_object_breaks_it(said):
    parse_line(json.dumps(said).encode())
