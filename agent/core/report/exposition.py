"""Metrics as text, in Prometheus' exposition format version 0.0.4. All label values are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from agent.core.report.counter_values import Distribution
from agent.core.struct import Struct

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "device_agent_"

Labels: TypeAlias = Mapping[str, str]
Sample: TypeAlias = tuple[Labels, float]

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class MetricFamily(Struct):
    """One metric with all its series. type: gauge or counter."""

    name: str
    type: str
    help: str
    samples: Sequence[Sample]

    def format_lines(self) -> Iterator[str]:
        """Yield the lines of the metric."""
        yield from _format_head(self.name, self.type, self.help)
        for labels, value in self.samples:
            yield _format_line(self.name, labels, value)


class HistogramFamily(Struct):
    """One histogram, with a series for each set of labels."""

    name: str
    help: str
    samples: Sequence[tuple[Labels, Distribution]]

    def format_lines(self) -> Iterator[str]:
        """Yield the lines of the histogram. The buckets are cumulative, as the format requires."""
        yield from _format_head(self.name, "histogram", self.help)
        for labels, distribution in self.samples:
            count = 0
            for bound, number in zip(
                (*map(_format_number, distribution.bounds), "+Inf"), distribution.counts, strict=True
            ):
                count += number
                yield _format_line(f"{self.name}_bucket", {**labels, "le": bound}, count)
            yield _format_line(f"{self.name}_sum", labels, distribution.sum)
            yield _format_line(f"{self.name}_count", labels, count)


def format_families(families: Iterable[MetricFamily | HistogramFamily]) -> str:
    """Return all metrics as one text."""
    return "".join(f"{line}\n" for family in families for line in family.format_lines())


def _format_head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {PREFIX}{name} {help_text}"
    yield f"# TYPE {PREFIX}{name} {kind}"


def _format_line(name: str, labels: Labels, value: float) -> str:
    label_text = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
    return (
        f"{PREFIX}{name}{{{label_text}}} {_format_number(value)}"
        if label_text
        else f"{PREFIX}{name} {_format_number(value)}"
    )


def _escape(value: str) -> str:
    """Return a label value that is valid UTF-8, as the format requires. Surrogates of invalid bytes are escaped."""
    return value.encode("utf-8", "backslashreplace").decode().translate(_ESCAPES)


def _format_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
