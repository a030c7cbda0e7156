"""The shipped device classes as pages, from their files: `python -m agent.cli.class_reference docs` writes them.

`classes.md` lists all by kind, as `classes/kinds.toml` beside the pages has them; `classes/NAME.md` is one in full.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator, Sequence

from agent.cli.class_examples import format_scenario
from agent.config.describe.class_manual import ClassManual, build_manual
from agent.config.describe.descriptions import describe_class
from agent.config.describe.text_layout import render_description
from agent.config.load import LoadedConfig, load_with_entries

_HEAD = """# Device classes

What comes with device-agent, printed from the classes themselves (`make docs`): each is one TOML file, here in
`agent/classes`. `device-agent class list --here` shows which find something on a host, `class show
NAME` one in full, `class show NAME --toml` the file. An entry names a class and says what is different, as
[configuration](configuration.md) has it; any key of a class may be said anew. For a card that no class serves there is
[a guide](new-class.md), from `ls /sys` to a class with a test.
"""
_OTHERS = "Others"
_SECTIONS = (
    ("What it looks at", ("takes", "words")),
    ("Name and id", ("name", "id")),
    ("What a container gets", ("gives", "shares")),
    ("Health", ("waits", "health")),
    ("Hints to the kubelet", ("prefers",)),
    ("Options", ("options",)),
    ("Besides", ("besides",)),
)


def build_pages(directory: str) -> dict[str, str]:
    """The pages, each by its name below the directory where they belong, as Markdown."""
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
    """A class in full."""
    yield from (f"# {manual.name}", "", f"{manual.about[:1].upper()}{manual.about[1:]}.")
    used = ", ".join(f"[{name}]({name}.md)" for name in manual.uses)
    yield f"One of the [device classes](../classes.md){f'; it uses {used}' if used else ''}."
    for title, subjects in _SECTIONS:
        texts = [
            text for section_subject in subjects for subject, text in manual.sections if subject == section_subject
        ]
        if texts:
            yield from ("", f"## {title}", "", "```text", *texts, "```")
    if manual.notes:
        yield from ("", "## Notes and traps", "", *_format_notes(manual.notes))
    yield from ("", "## Example", "", "```toml", *manual.example.splitlines(), "```")
    yield from ("", "## Read aloud", "", "Each clause with the file and the line where it stands.", "")
    yield from (
        "```text",
        *render_description(describe_class(manual.name, loaded.library.get_class(manual.name))),
        "```",
    )
    scenario_lines = format_scenario(manual.name)
    if scenario_lines:
        yield from ("", "## What stands behind it", "", *scenario_lines)


def _format_notes(notes: Sequence[tuple[bool, str]]) -> Iterator[str]:
    for index, (toml, text) in enumerate(notes):
        yield from ([""] if index else [])
        yield from ("```toml", *text.splitlines(), "```") if toml else (text,)


def main(directory: str) -> None:
    """Write them, and take away those of classes that are gone."""
    page_texts = build_pages(directory)
    for name in os.listdir(os.path.join(directory, "classes")):
        if name.endswith(".md") and f"classes/{name}" not in page_texts:
            os.unlink(os.path.join(directory, "classes", name))
    for name, text in page_texts.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(sys.argv[1])
