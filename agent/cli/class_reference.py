"""The shipped device classes as a page, from their files: `python -m agent.cli.class_reference`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agent.config.aloud.manual import Manual, lines_of, manual
from agent.config.load import SHIPPED, study

_HEAD = """# Device classes

Printed from the classes themselves (`make docs`): what comes with device-agent, each as one TOML file in
`agent/classes` and on a node where the package is. `device-agent class list --here` shows which find something on a
host, `class show NAME --toml` the file. An entry names a class and says what is different, as
[configuration](configuration.md) has it; any key of a class may be said anew.
"""


def page() -> str:
    """The page, as Markdown."""
    studied = study(os.devnull)
    manuals = [manual(studied, name) for name in sorted(studied.shelf.names())]
    lines = [_HEAD, "| class | serves |", "| --- | --- |"]
    lines += [f"| [{one.name}](#{one.name}) | {one.about} |" for one in manuals]
    for one in manuals:
        lines += ["", f"## {one.name}", "", *_section(one)]
    return "\n".join(lines) + "\n"


def _section(one: Manual) -> Iterator[str]:
    title, _file, *said = lines_of(one, None)
    yield "```text"
    yield title
    yield from said[: len(said) - len(one.example.splitlines())]
    yield from ("```", "")
    with open(os.path.join(SHIPPED, f"{one.name}.toml"), encoding="utf-8") as file:
        yield from _prose(file.read())
    yield from ("```toml", *one.example.splitlines(), "```")


def _prose(text: str) -> Iterator[str]:
    """What stands at the top of a class for its users; what is further in than the rest is TOML."""
    before = ""
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        said = line.removeprefix("#").removeprefix(" ")
        fence = said.startswith("  ") != before.startswith("  ")
        if fence:
            yield "```toml" if said.startswith("  ") else "```"
        yield said.strip()
        before = said
    if before.startswith("  "):
        yield "```"
    if before:
        yield ""


if __name__ == "__main__":
    print(page(), end="")
