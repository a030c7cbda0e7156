"""What stands behind a class: the machine in its scenario, and what is good, faulty and left alone there."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from agent.config.load import SHIPPED

SCENARIOS = os.path.normpath(os.path.join(SHIPPED, "..", "..", "tests", "scenarios"))
_TREE_KINDS = {
    "built": "built by us from the kernel's documented layout",
    "recorded": "recorded from a machine",
}
_MARKS = {"good": "good, on different NUMA nodes", "faulty": "faulty", "left": "not selected"}
_UNTRIED_TEXT = "nothing of it so far; all of this holds on that tree alone"


def format_scenario(name: str) -> list[str]:
    """The scenario of a class as a section of a page; nothing of a class that has none."""
    path = os.path.join(SCENARIOS, f"class-{name}.toml")
    try:
        with open(path, "rb") as file:
            scenario = tomllib.load(file)
    except FileNotFoundError:
        return []
    fixture = scenario.get("fixture", {})
    tree = str(fixture.get("tree", "built"))
    lines = [f"[`tests/scenarios/class-{name}.toml`](../../tests/scenarios/class-{name}.toml), a machine that is"]
    lines += [f"{_TREE_KINDS.get(tree, tree)}. In it:", "", *_format_devices(fixture)]
    lines += [f"- tried on hardware: {fixture.get('tried', _UNTRIED_TEXT)}", "", "What happens there:", ""]
    return [
        *lines,
        *(f"{number}. {step['about']}" for number, step in enumerate(scenario["step"], 1) if "about" in step),
    ]


def _format_devices(fixture: Mapping[str, Any]) -> Iterator[str]:
    """Who is well in it, who is not, and how; who is there and left alone, and by which clause."""
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
        lacking = " and none ".join(words for mark, words in _MARKS.items() if mark not in fixture)
        yield f"- none {lacking}: {fixture['without']}"
