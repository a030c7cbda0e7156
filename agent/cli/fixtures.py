"""What stands behind a class: the machine in its scenario, and what is good, faulty and left alone there."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from agent.config.load import SHIPPED

SCENARIOS = os.path.normpath(os.path.join(SHIPPED, "..", "..", "tests", "scenarios"))
_BUILT = "built from the kernel's documented layout"
_UNTRIED = "nothing of it so far: all of the above holds on that tree alone"


def fixture(name: str) -> list[str]:
    """The scenario of a class as a section of a page; nothing of a class that has none."""
    path = os.path.join(SCENARIOS, f"class-{name}.toml")
    try:
        with open(path, "rb") as file:
            said = tomllib.load(file)
    except FileNotFoundError:
        return []
    about = said.get("fixture", {})
    made = f"recorded from a machine (`{said['recording']}`)" if "recording" in said else about.get("made", _BUILT)
    lines = [f"[`tests/scenarios/class-{name}.toml`](../../tests/scenarios/class-{name}.toml), {made}:", ""]
    lines += [f"- {line}" for line in (*_devices(said["step"]), *_beside(about))]
    lines += [f"- tried on hardware: {about.get('tried', _UNTRIED)}", "", "What happens there:", ""]
    return [*lines, *(f"{number}. {step['about']}" for number, step in enumerate(said["step"], 1) if "about" in step)]


def _devices(steps: list[dict[str, Any]]) -> Iterator[str]:
    """Who is well in it, on which NUMA node; who is not, and how."""
    numa: dict[str, list[object]] = {}
    faulty: dict[str, str] = {}
    for step in steps:
        for told in step.get("numa", {}).values():
            numa |= told
        for line in (line for lines in step.get("lists", {}).values() for line in lines):
            id_, _, health = line.partition(" ")
            if health == "Healthy":
                numa.setdefault(id_.partition("::")[0], [])
            else:
                faulty.setdefault(health.partition(": ")[2].replace(id_, "…"), id_)
    for node in sorted({tuple(map(str, nodes)) for nodes in numa.values()}):
        where = f"good, on NUMA node {' and '.join(node)}" if node else "good"
        yield f"{where}: {', '.join(f'`{id_}`' for id_, nodes in numa.items() if tuple(map(str, nodes)) == node)}"
    for reason, id_ in faulty.items():
        if reason:
            yield f"faulty: `{id_}`: {reason}"


def _beside(about: Mapping[str, Any]) -> Iterator[str]:
    for what, why in about.get("spared", {}).items():
        yield f"not selected: `{what}`: {why}"
    if "one" in about:
        yield f"not two on different NUMA nodes: {about['one']}"
