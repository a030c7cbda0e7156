"""Rules about floors that the import linter cannot check."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[1]
AGENT = TOP / "agent"

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
LIBRARIES = {"msgspec"}  # its structs are what values are made of; the linter holds it to agent.core.struct


def list_imports(source: str) -> Iterator[tuple[int, str]]:
    """Yield every imported module of a file with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or "")


def strange(source: str) -> list[str]:
    """Return the forbidden imports of a file of the core."""
    found = []
    for line, name in list_imports(source):
        top = name.partition(".")[0]
        if name == "agent.core" or name.startswith("agent.core."):
            continue
        if top not in sys.stdlib_module_names | LIBRARIES or top in IMPURE:
            found.append(f"line {line}: {name}")
    return found


@pytest.mark.parametrize("path", sorted((AGENT / "core").rglob("*.py")), ids=lambda path: str(path.relative_to(AGENT)))
def test_core_knows_the_standard_library_and_msgspec_alone(path):
    assert strange(path.read_text()) == []


def test_the_check_sees_what_it_should():
    source = "import json\nfrom agent.core.language.template import x\ndef f():\n    import yaml\nfrom . import y\n"
    assert sorted(strange(source + "import time\n")) == ["line 4: yaml", "line 5: .", "line 6: time"]


def test_the_page_has_the_floors_that_are_checked():
    """Each row of a table is a floor, in their order, with its parts."""
    contracts = tomllib.loads((TOP / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = {contract["id"]: contract["layers"] for contract in contracts if "containers" in contract}
    _, *tables = (TOP / "docs/architecture.md").read_text().split("\n| floor")
    for (name, layers), table in zip(floors.items(), tables, strict=True):
        rows = [re.findall(r"`(\w+)`", row) for row in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", table, re.MULTILINE)]
        assert rows == [re.findall(r"\w+", layer) for layer in layers if "__main__" not in layer], name


def test_the_page_names_files_that_there_are():
    named = re.findall(r"`(\w+(?:/\w+)+\.py)`", (TOP / "docs/architecture.md").read_text())
    assert len(named) > 10
    assert [name for name in named if not (AGENT / name).exists()] == []
