"""Pages of the device classes in the package: `python -m docs.class_reference docs` writes them.

`classes.md` lists all classes in the order of `classes/kinds.toml`. `classes/NAME.md` describes one class in full.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.config.describe.class_manual import ClassManual, build_manual
from agent.config.describe.descriptions import describe_class
from agent.config.describe.text_layout import render_description
from agent.config.load import SHIPPED, LoadedConfig, load_with_entries

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


_HEAD = """# Device classes

These classes are part of device-agent. `make docs` prints this page and one page per class from the class files. Each
class is one TOML file in `agent/classes`.

- `device-agent class list --here` shows the classes that find a device on this host.
- `device-agent class show NAME` shows one class in full.
- `device-agent class show NAME --toml` shows its file.

An entry names a class and sets only the keys that differ, see [configuration](configuration.md). It can change every
key of the class. If no class serves your card, read [the guide](new-class.md). It goes from `ls /sys` to a class with a
test.
"""
_OTHERS = "Others"
_SECTIONS = (
    ("Devices", ("takes", "words")),
    ("Name and id", ("name", "id")),
    ("What a container gets", ("gives", "shares")),
    ("Health", ("waits", "health")),
    ("Preferred allocation and NUMA nodes", ("prefers",)),
    ("Options", ("options",)),
    ("Other settings", ("besides",)),
)


def build_pages(directory: str) -> dict[str, str]:
    """Return the pages as Markdown, by path below directory."""
    loaded = load_with_entries(os.devnull)
    manuals = {name: build_manual(loaded, name) for name in sorted(loaded.library.list_names())}
    with open(os.path.join(directory, "classes", "kinds.toml"), "rb") as file:
        kinds = tomllib.load(file)
    page_texts = {"classes.md": _join_lines(_format_index(manuals, kinds))}
    return page_texts | {
        f"classes/{name}.md": _join_lines(_format_page(manual, loaded)) for name, manual in manuals.items()
    }


def _join_lines(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _format_index(manuals: dict[str, ClassManual], kinds: dict[str, list[str]]) -> Iterator[str]:
    yield _HEAD.removesuffix("\n")
    other_names = [name for name in manuals if not any(name in names for names in kinds.values())]
    for kind, names in (*kinds.items(), *([(_OTHERS, other_names)] if other_names else ())):
        yield from ("", f"## {kind}", "", "| class | serves |", "| --- | --- |")
        for name in names:
            yield f"| [{name}](classes/{name}.md) | {manuals[name].about} |"


def _format_page(manual: ClassManual, loaded: LoadedConfig) -> Iterator[str]:
    """Yield the lines of the page of a class."""
    yield from (f"# {manual.name}", "", f"{manual.about[:1].upper()}{manual.about[1:]}.")
    base_classes = ", ".join(f"[{name}]({name}.md)" for name in manual.uses)
    yield f"One of the [device classes](../classes.md).{f' It uses {base_classes}.' if base_classes else ''}"
    for title, subjects in _SECTIONS:
        texts = [
            text for section_subject in subjects for subject, text in manual.sections if subject == section_subject
        ]
        if texts:
            yield from ("", f"## {title}", "", "```text", *texts, "```")
    if manual.notes:
        yield from ("", "## Notes", "", *_format_notes(manual.notes))
    yield from ("", "## Example", "", "```toml", *manual.example.splitlines(), "```")
    yield from ("", "## Description", "", "Each clause with its file and line.", "")
    yield from (
        "```text",
        *render_description(describe_class(manual.name, loaded.library.get_class(manual.name))),
        "```",
    )
    scenario_lines = format_scenario(manual.name)
    if scenario_lines:
        yield from ("", "## Test scenario", "", *scenario_lines)


def _format_notes(notes: Sequence[tuple[bool, str]]) -> Iterator[str]:
    for index, (toml, text) in enumerate(notes):
        yield from ([""] if index else [])
        yield from ("```toml", *text.splitlines(), "```") if toml else (text,)


def main(directory: str) -> None:
    """Write the pages to directory, and remove the pages of classes that no longer exist."""
    page_texts = build_pages(directory)
    for name in os.listdir(os.path.join(directory, "classes")):
        if name.endswith(".md") and f"classes/{name}" not in page_texts:
            os.unlink(os.path.join(directory, "classes", name))
    for name, text in page_texts.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
