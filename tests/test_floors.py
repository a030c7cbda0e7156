"""What the import linter cannot say about the floors."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

AGENT = Path(__file__).parents[1] / "agent"

# Part of the standard library, but I/O, a clock, a log or chance.
IMPURE = {
    "asyncio",
    "concurrent",
    "fcntl",
    "glob",
    "logging",
    "mmap",
    "multiprocessing",
    "random",
    "secrets",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "syslog",
    "tempfile",
    "threading",
    "time",
}


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Every module that is imported, wherever in the file, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def strange(source: str) -> list[str]:
    """The imports that a file of the core may not have."""
    found = []
    for line, name in imported(source):
        top = name.partition(".")[0]
        if name == "agent.core" or name.startswith("agent.core."):
            continue
        if top not in sys.stdlib_module_names or top in IMPURE:
            found.append(f"line {line}: {name}")
    return found


@pytest.mark.parametrize("path", sorted((AGENT / "core").rglob("*.py")), ids=lambda path: str(path.relative_to(AGENT)))
def test_core_knows_the_standard_library_alone(path):
    assert strange(path.read_text()) == []


def test_the_check_sees_what_it_should():
    source = "import json\nfrom agent.core.language.text import x\ndef f():\n    import yaml\nfrom . import y\n"
    assert sorted(strange(source + "import time\n")) == ["line 4: yaml", "line 5: .", "line 6: time"]
