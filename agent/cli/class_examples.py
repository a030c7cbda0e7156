"""Test scenario of a class as a section of its page: the test host, its devices and the steps."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from agent.config.load import SHIPPED

SCENARIOS = os.path.normpath(os.path.join(SHIPPED, "..", "..", "tests", "scenarios"))
_TREE_KINDS = {
    "built": "built from the documented layout of the kernel",
    "recorded": "recorded from a machine",
}
_MARKS = {"good": "good, on different NUMA nodes", "faulty": "faulty", "left": "not selected"}
_UNTRIED_TEXT = "not yet, only on this test host"


def format_scenario(name: str) -> list[str]:
    """Return the test scenario of a class as Markdown lines, or an empty list if the class has no scenario."""
    path = os.path.join(SCENARIOS, f"class-{name}.toml")
    try:
        with open(path, "rb") as file:
            scenario = tomllib.load(file)
    except FileNotFoundError:
        return []
    fixture = scenario.get("fixture", {})
    tree = str(fixture.get("tree", "built"))
    lines = [f"[`tests/scenarios/class-{name}.toml`](../../tests/scenarios/class-{name}.toml) tests the class."]
    lines += [f"The test host is {_TREE_KINDS.get(tree, tree)}. Its devices:", "", *_format_devices(fixture)]
    lines += [f"- tried on hardware: {fixture.get('tried', _UNTRIED_TEXT)}", "", "Steps of the scenario:", ""]
    return [
        *lines,
        *(f"{number}. {step['about']}" for number, step in enumerate(scenario["step"], 1) if "about" in step),
    ]


def _format_devices(fixture: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for the good, the faulty and the not selected devices, with the fault or the mismatch of each."""
    for mark, words in _MARKS.items():
        marked_devices = fixture.get(mark, ())
        device_texts = (
            [f"`{name}` ({reason})" for name, reason in marked_devices.items()]
            if isinstance(marked_devices, Mapping)
            else map("`{}`".format, marked_devices)
        )
        if marked_devices:
            yield f"- {words}: {', '.join(device_texts)}"
    if "without" in fixture:
        missing_marks = ", ".join(f'"{words}"' for mark, words in _MARKS.items() if mark not in fixture)
        yield f"- without an example for {missing_marks}: {fixture['without']}"
