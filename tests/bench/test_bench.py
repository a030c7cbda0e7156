"""Every measurement runs, small, and its numbers come out. None is judged here."""

import json

import pytest

from bench import __main__ as command
from bench import facts, report
from bench.http2 import Client
from bench.kubelet import strings
from bench.measurements.allocate import ids
from bench.result import Line, Result, quantile
from bench.size import TINY
from bench.subjects import build_go


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", command.ORDER)
async def test_runs(name):
    (result,) = await command.measure([name], TINY, go=False)
    assert result.lines or result.notes  # a note: it cannot be measured here
    for line in result.lines:
        assert "agent" in line.values
        assert all(value >= 0 for value in line.values.values())
    machine = facts.machine()
    json.dumps(report.document(machine, [result]))
    assert all(line.what in report.text(machine, [result]) for line in result.lines)


def test_all_measurements_are_there():
    assert [row.NAME for row in command.rows()] == list(command.ORDER)


def test_the_document_keeps_what_is_around_the_table(tmp_path, monkeypatch):
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "DOCUMENT", document)
    line = Line("x", "a thing", "ms", {"agent": 3.0, "bare Go": 2.0}, 1.0)
    report.write({"date": "today"}, [Result([line], 1.0, 0.1)])
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| a thing | 1 ms ✗ | 3.0 ms |  | 2.0 ms |  | 1.5 |" in text


@pytest.mark.parametrize(
    ("budget", "ratio", "values", "met"),
    [
        (5.0, False, {"agent": 5.0}, True),
        (5.0, False, {"agent": 5.1}, False),
        (4.0, True, {"agent": 8.0, "bare Go": 2.0}, True),
        (4.0, True, {"agent": 8.1, "bare Go": 2.0}, False),
        (4.0, True, {"agent": 8.1}, None),
        (None, False, {"agent": 1.0}, None),
    ],
)
def test_within_its_budget(budget, ratio, values, met):
    assert Line("x", "a thing", "ms", values, budget, ratio).met is met


def test_quantiles():
    assert [quantile([3, 1, 2, 4], part) for part in (0, 0.5, 0.95, 1)] == [1, 3, 4, 4]


async def test_headers_are_indexed_from_the_second_call_on():
    client = Client()
    first, second, other = client._headers("/a"), client._headers("/a"), client._headers("/b")
    assert len(first) > 60
    assert len(second) == 2 + 5
    assert len(other) == 2 + 4 + len(b"\x40\x05:path\x02/b")


def test_small_messages():
    assert strings(b"\x0a\x07v1beta1\x12\x01e\x1a\x01r\x22\x02\x10\x01")[3] == "r"
    assert ids(b"\x0a\x0c\x0a\x01a\x12\x07Healthy\x0a\x0c\x0a\x01b\x12\x07Healthy", 3) == ["a", "b", "a"]


def test_without_go_there_is_no_column(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert build_go() == ""
    assert "no `go` on PATH" in capsys.readouterr().err
