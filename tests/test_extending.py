"""Extensions: a toy of each kind works in a copy of the package, and changes as few files as docs/extending.md says."""

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
KEY_TABLE = "agent/config/language/key_table.py"


def read_limits():
    rows = re.findall(r"(?m)^\| ([a-z ]+) \| (\d+) \|$", (ROOT / "docs/extending.md").read_text())
    return {name: int(number) for name, number in rows}


class Copy:
    """A copy of the package that a toy extends, and the configuration that uses the toy."""

    def __init__(self, directory):
        self.directory = directory
        shutil.copytree(ROOT / "agent", directory / "agent", ignore=shutil.ignore_patterns("__pycache__"))
        (directory / "docs").mkdir()
        shutil.copy(ROOT / "docs/reference.py", directory / "docs")
        (directory / "root").mkdir()
        (directory / "config/resources.d").mkdir(parents=True)

    def add(self, path, text):
        file = self.directory / path
        assert not file.exists()
        file.write_text(text)

    def insert(self, path, anchor, text):
        """Insert text before the one place where the anchor is."""
        file = self.directory / path
        before, after = file.read_text().split(anchor)
        file.write_text(before + text + anchor + after)

    def configure(self, text):
        (self.directory / "config/resources.d/toy.toml").write_text(f'[[resource]]\nname = "example.com/toy"\n{text}')

    def run(self, *words):
        return self.run_module("agent", *words)

    def run_lab(self, *lines):
        """Run the agent of the copy with the simulated kubelet."""
        return self.run_module("agent", "lab", "--config", "config", "--root", "root", lines=lines)

    def run_module(self, module, *words, lines=()):
        command = [sys.executable, "-m", module, *words]
        environment = {**os.environ, "PYTHONPATH": f"{self.directory}:{ROOT / 'lab'}"}
        answer = subprocess.run(
            command,
            cwd=self.directory,
            env=environment,
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert answer.returncode in {0, 1}, answer.stderr
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer.stdout

    def run_here(self, command, *words):
        return self.run(command, *words, "--config", "config", "--root", "root")

    def list_changed_files(self):
        files = {path.relative_to(self.directory) for path in (self.directory / "agent").rglob("*.py")}
        return {
            str(path)
            for path in files
            if not (ROOT / path).exists() or not filecmp.cmp(ROOT / path, self.directory / path, shallow=False)
        }


@pytest.fixture
def copy(tmp_path):
    return Copy(tmp_path)


def test_check_kind(copy):
    """The toy `even` compares the number of letters of a word. The device `abc` is Unhealthy."""
    copy.add(
        "agent/core/entry/even_check.py",
        """
from agent.core.entry.check import Check, CheckResult, CheckVerdict, Criterion
from agent.core.entry.query import QueryFacts


class EvenCheck(Criterion):
    word: str

    def list_words(self) -> tuple[str, ...]:
        return (self.word,)

    def evaluate(self, check: Check, facts: QueryFacts) -> CheckResult:
        value = str(facts(self.word))
        if len(value) % 2 == 0:
            return CheckResult(CheckVerdict.PASS)
        return CheckResult(CheckVerdict.FAIL, check.join_reasons(f"{value} has {len(value)} letters", facts))
""",
    )
    copy.add(
        "agent/config/resource/even_checks.py",
        """
from agent.config.resource.check_syntax import CheckSyntax
from agent.core.entry.even_check import EvenCheck


def _compile_even(source):
    leaf = source.branch.get_leaf("even")
    return EvenCheck(str(leaf.value)), source.scope


EVEN_SYNTAX = CheckSyntax(_compile_even, "{} has an even number of letters", is_read_at_looks=True)
""",
    )
    health = "agent/config/resource/health.py"
    copy.insert(
        health, "from agent.config.resource.fact_checks", "from agent.config.resource.even_checks import EVEN_SYNTAX\n"
    )
    copy.insert(health, '    "log": LOG_SYNTAX', '    "even": EVEN_SYNTAX,\n')
    copy.insert(
        KEY_TABLE,
        '        Key("rises",',
        '        Key("even", _VALUE, "text", "a word with an even number of letters"),\n',
    )
    copy.insert(KEY_TABLE, '"log", "rises", "run"', '"even", ')
    copy.configure('source = { fixed = ["ab", "abc"] }\nhealth.pairs = { even = "name", reason = "odd" }\n')

    devices = json.loads(copy.run_here("scan", "-o", "json"))
    assert [(device["name"], device["health"], device["reason"]) for device in devices] == [
        ("ab", "Healthy", None),
        ("abc", "Unhealthy", "pairs: odd (abc has 3 letters)"),
    ]
    assert "healthy while pairs: name has an even number of letters" in copy.run(
        "check", "--aloud", "--config", "config"
    )
    assert '"even"' in copy.run("schema")
    assert "1 of 2 devices Healthy: example.com/toy abc: pairs: odd (abc has 3 letters)" in copy.run_lab()
    assert len(copy.list_changed_files()) <= read_limits()["check kind"]


def test_source_kind(copy):
    """The toy `toy` finds the lines of a file."""
    copy.add(
        "agent/scanners/toy.py",
        """
from agent.core.inventory.device import HostDevice
from agent.core.language.value import ValueType
from agent.scanners.scanner import SourceListing
from agent.scanners.word_table import make_attribute, make_table

KIND = "toy"
DEFAULT_IDS = ("{name}",)
TABLE = make_table("toy", make_attribute("color", ValueType.TEXT, "its color"))


def scan(root, source, previous, dirty_set):
    return SourceListing(
        tuple(
            HostDevice(KIND, f"toy:{name}", name, f"toy:{name}", f"/sys/toys/{name}")
            for name in sorted(root.list_names("/sys/toys"))
        )
    )


def is_affected(source, previous, dirty_set):
    return True


def is_same_device(root, device):
    return True


def list_directories(root, source, listing):
    return frozenset({"/sys/toys"})
""",
    )
    copy.insert(KEY_TABLE, '"auxiliary", "mdev")', '"toy", ')
    for name, color in (("bear", "red"), ("car", "blue")):
        directory = copy.directory / "root/sys/toys" / name
        directory.mkdir(parents=True)
        (directory / "color").write_text(f"{color}\n")
    copy.configure('source = "toy"\nmatch.color = "blue"\ngive.env.TOY = { value = "{name}", join = "," }\n')

    devices = json.loads(copy.run_here("scan", "-o", "json"))
    assert [(device["name"], device["taken_by"]) for device in devices] == [("bear", None), ("car", "example.com/toy")]
    assert "## Source `toy`" in copy.run_module("docs.reference", "words")
    assert '"toy"' in copy.run("schema")
    assert len(copy.list_changed_files()) <= read_limits()["source kind"]


def test_give_form(copy):
    """The toy `give.greeting` sets a variable."""
    copy.add(
        "agent/config/give/greeting.py",
        """
from agent.core.entry.resource_spec import EnvGive
from agent.core.language.template import parse


def compile_greeting(sections):
    leaves = [(section, leaf) for section in sections if (leaf := section.branch.get_leaf("greeting"))]
    return tuple(
        EnvGive("greeting", parse("GREETING"), parse(f"hello {leaf.value}"), None, leaf.spot.origin, None)
        for section, leaf in leaves
    )
""",
    )
    compiler = "agent/config/compile.py"
    copy.insert(compiler, "from agent.config.give.mounts", "from agent.config.give.greeting import compile_greeting\n")
    variables = "_ENV = _declare(lambda env, greeting: (*env, *greeting), _ENV, _declare(compile_greeting, _GIVE))\n"
    copy.insert(compiler, "_SPEC_GIVES = ", variables)
    copy.insert(
        "agent/config/describe/give_text.py",
        "    if vfio is not None:\n        yield",
        '    if (greeting := give.get_leaf("greeting")) is not None:\n'
        '        yield DescriptionClause(f"greet {greeting.value}", greeting.spot)\n',
    )
    copy.insert(
        KEY_TABLE, '    Key("cdi", _NAMED', '    Key("greeting", _VALUE, "text", "the name in the greeting"),\n'
    )
    copy.configure('source = { fixed = ["ab"] }\ngive.greeting = "world"\n')

    grant = copy.run_here("allocate", "example.com/toy", "--dry-run", "--as", "docker")
    assert "GREETING=hello world" in grant
    assert "greet world" in copy.run("check", "--aloud", "--config", "config")
    assert len(copy.list_changed_files()) <= read_limits()["give form"]


def test_command(copy):
    """The toy `greet` prints a greeting."""
    copy.add(
        "agent/cli/greet.py",
        '''"""Print a greeting."""


def add(parser):
    parser.add_argument("--name", default="world")


def run(arguments):
    print(f"hello {arguments.name}")
    return 0
''',
    )
    copy.insert("agent/cli/main.py", '    "record": (', '    "greet": ("Try", "a greeting"),\n')

    assert copy.run("greet", "--name", "you") == "hello you\n"
    assert re.search(r"\bgreet +a greeting\n", copy.run("--help"))
    assert "Print a greeting." in copy.run("greet", "--help")
    assert all("greet" in copy.run("completion", shell) for shell in ("bash", "zsh", "fish"))
    assert len(copy.list_changed_files()) <= read_limits()["command"]


def test_publisher(copy):
    """The toy `toy` writes each list that the agent publishes."""
    copy.add(
        "agent/publishers/toy.py",
        """
def publish(parts, publication):
    with open("published", "a") as file:
        for name, device_list in publication.lists.lists.items():
            print(name, *(device.id for device in device_list.devices), file=file)
""",
    )
    copy.configure('source = { fixed = ["ab", "abc"] }\ngive.env.TOY = "1"\n')

    assert "1 resource streaming, 2 devices, all Healthy" in copy.run_lab()
    assert "example.com/toy ab abc\n" in (copy.directory / "published").read_text()
    assert len(copy.list_changed_files()) <= read_limits()["publisher"]


def test_no_code_depends_on_the_kind_of_a_check():
    """Only the class of a kind knows its kind: no `isinstance`, no `case` and no `type` names it."""
    texts = {path: path.read_text() for path in (ROOT / "agent").rglob("*.py")}
    kinds = {
        name for text in texts.values() for name in re.findall(r"(?m)^class (\w+)\((?:Criterion|QueryCheck)\)", text)
    }
    assert {"ClauseCheck", "CounterCheck", "KernelLogCheck", "RunTemplate"} <= kinds
    names = "|".join(kinds)
    question = re.compile(
        rf"isinstance\([^)\n]*\b(?:{names})\b|\bcase (?:{names})\(|\btype\([^)\n]*\) is (?:{names})\b"
    )
    assert [str(path) for path, text in texts.items() if question.search(text)] == []
