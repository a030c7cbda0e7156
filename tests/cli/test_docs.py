"""What the pages say is done: commands are run, TOML is loaded, tables are compared with those of the program."""

import ast
import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from agent.cli.main import COMMANDS
from agent.config import settings
from agent.config.describe.class_manual import build_manual
from agent.config.language.key_table import EITHER, OPERATORS, PLACES, SOURCE_KINDS, WARNINGS
from agent.config.load import SHIPPED, load, load_with_entries
from agent.config.toml.finding import UNREADABLE
from agent.scanners import source_kinds
from docs import class_reference
from docs.reference import build_keys_page, build_words_page
from tests.cli.conftest import TOP, device_agent
from tests.scenarios.dump import plug
from tests.scenarios.scenario import read
from tests.tree import Tree

PAGES = [
    "README.md",
    "docs/quickstart.md",
    "docs/configuration.md",
    "docs/health.md",
    "docs/operations.md",
    "docs/probes.md",
]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)  # and what is shown of its output


def blocks(name):
    return FENCE.findall((TOP / name).read_text())


def read_page(name):
    return (TOP / name).read_text()


@pytest.mark.timeout(900)  # a page has a dozen commands, each a process
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_true(name, tmp_path):
    """Its TOML is written where it says, and then its commands are run; what it shows of their output is there."""
    (tmp_path / "resources.d").mkdir()
    found = blocks(name)
    assert all(kind in {"toml", "console", "sh", "yaml", "ini", "python"} for kind, _ in found)
    for kind, text in found:
        if kind == "toml":
            file = re.match(r"# /etc/device-agent/(\S+\.toml)\n", text)
            assert file, f"{name}: a TOML block says its file in its first line"
            (tmp_path / file[1]).parent.mkdir(exist_ok=True)
            (tmp_path / file[1]).write_text(text)
    # The entries of one page are examples, not one node: what two of them have in common is nothing to warn of.
    between = {"collides", "nothing-left", "same-id"}
    assert [finding for finding in load(str(tmp_path)).findings if finding.code not in between] == []
    plug(Tree(tmp_path / "machine"), read_page("tests/cli/readme.dump"))
    if not (tmp_path / "agent.toml").exists():  # an agent that runs here is not what a page speaks of
        (tmp_path / "agent.toml").write_text(f'[paths]\ncontrol = "{tmp_path}/control.sock"\n')
    for kind, text in found:
        for line, shown in COMMAND.findall(text) if kind == "console" else ():
            said = run(line, str(tmp_path), *(("--root", str(tmp_path / "machine")) if shown else ()))
            assert shown in said, line


def run(line, directory, *more):
    """What a command says, of this host or as more words have it."""
    before, _, command = line.rpartition("| ")
    given = before.strip().removeprefix("echo ")
    program, *words = shlex.split(command)
    assert program == "device-agent"
    words = [directory if word == "/etc/device-agent" else word for word in (*words, *more)]
    if words[0] != "lab" and "--config" not in words:
        words += ["--config", directory]
    done = device_agent(*words, given=given)
    assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
    return done.stdout


def test_links_lead_somewhere():
    """Each link of each page leads to a file, and to a heading of it if the link has an anchor."""
    for file in (TOP / "README.md", TOP / "CONTRIBUTING.md", *(TOP / "docs").rglob("*.md")):
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)", file.read_text()):
            path = file.parent / target if target else file
            assert path.exists(), f"{file}: {target}"
            assert not anchor or anchor in anchors(path.read_text()), f"{file}: {target}#{anchor}"


def anchors(text):
    """The anchors of a page: its headings in lower case, without punctuation, with - for each space."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"(?ms)^```.*?^```$", "", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_decisions_are_numbered_and_listed_once_each():
    """By number and heading; two branches that take the next number meet here."""
    files = sorted((TOP / "docs/adr").glob("[0-9]*.md"))
    headings = [file.read_text().splitlines()[0].removeprefix("# ") for file in files]
    numbered = zip(range(1, len(files) + 1), files, headings, strict=True)
    listed = []
    for n, file, heading in numbered:
        number, _, title = heading.partition(". ")
        assert (file.name[:5], number) == (f"{n:04}-", str(n))
        listed.append(f"{n}. [{title}]({file.name})")
    assert read_page("docs/adr/README.md").splitlines()[4:] == listed


def test_words_are_printed_from_the_tables():
    assert read_page("docs/words.md") == build_words_page(), "run: make docs"
    assert read_page("docs/keys.md") == build_keys_page(), "run: make docs"
    for kind in source_kinds.KINDS:
        for word in source_kinds.KINDS[kind].TABLE.words:
            assert f"| `{word}` |" in build_words_page()


def test_every_setting_has_its_row_with_its_default():
    text = read_page("docs/configuration.md")
    rows = dict(re.findall(r"^\| `([a-z_.]+)` \| `(.+?)` \|", text, re.MULTILINE))
    for section, (make, readers) in settings._SECTIONS.items():
        made = make()
        assert set(made.__struct_fields__) == {settings.FIELD_NAMES.get(key, key) for key in readers}
        for key in readers:
            assert rows[f"{section}.{key}"] == shown(getattr(made, settings.FIELD_NAMES.get(key, key))), (
                f"{section}.{key}"
            )


def shown(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return {30.0: '"30s"', 0.05: '"50ms"'}[value]
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{each}"' for each in value) + "]"
    return str(value) if isinstance(value, int) else f'"{value}"'


def test_the_configuration_page_has_every_key_operator_and_source_kind():
    page = read_page("docs/configuration.md")
    for name, place in PLACES.items():
        for key in place.keys:
            if name == "file" or (name == "source" and key == "kind"):
                continue
            assert f"`{key}`" in page or f"{{ {key} = " in page or f"`give.{key}`" in page, (name, key)
    for operator in OPERATORS:
        assert f"{{ {operator} = " in page, operator
    assert f"`{EITHER} = " in page
    for kind in SOURCE_KINDS:
        assert f'source = "{kind}"' in page, kind
        assert kind in source_kinds.KINDS
    for code in WARNINGS:
        assert code in page


def test_classes_are_printed_from_their_files():
    """The index and a page for each; no page of a class that is gone."""
    made = class_reference.build_pages(str(TOP / "docs"))
    for name, text in made.items():
        assert read_page(f"docs/{name}") == text, "run: make docs"
    names = {name.removesuffix(".toml") for name in os.listdir(SHIPPED)}
    assert {path.stem for path in (TOP / "docs/classes").glob("*.md")} == names
    for name in names:
        assert made["classes.md"].count(f"](classes/{name}.md) |") == 1


def test_the_page_of_a_class_says_what_the_command_says():
    """Each line of `class show`, and its example, which a test of the classes loads."""
    for name in ("tty", "nvidia-gpu", "kvm"):
        said = build_manual(load_with_entries(os.devnull), name)
        text = read_page(f"docs/classes/{name}.md")
        assert all(line in text.splitlines() for _, line in said.sections)
        assert all(piece in text for _, piece in said.notes)
        assert f"```toml\n{said.example}\n```" in text


def test_the_page_of_a_class_says_what_stands_behind_it():
    text = read_page("docs/classes/dsa-wq.md")
    marks = read(TOP / "tests/scenarios/class-dsa-wq.toml")["fixture"]
    assert f"- good, on different NUMA nodes: {', '.join(f'`{id_}`' for id_ in marks['good'])}" in text
    assert all(f"`{id_}` ({reason})" in text for mark in ("faulty", "left") for id_, reason in marks[mark].items())
    assert "- tried on hardware: " in text
    assert "\n1. " in text


def test_kinds_name_classes_that_there_are():
    kinds = tomllib.loads(read_page("docs/classes/kinds.toml"))
    named = [name for names in kinds.values() for name in names]
    assert len(named) == len(set(named))
    assert {f"{name}.toml" for name in named} <= set(os.listdir(SHIPPED))


def test_the_manual_names_every_command_and_exit_code():
    manual = read_page("man/device-agent.8")
    for command in COMMANDS:
        assert re.search(rf"^\.(?:TP\n)?\.?B[R]? {command}\b", manual, re.MULTILINE) or f"\n.BR {command} " in manual
    codes = set(re.findall(r"^\| (\d+) \|", read_page("docs/operations.md"), re.MULTILINE))
    assert codes == set(re.findall(r"^\.B (\d+)$", manual, re.MULTILINE))


def test_log_lines_are_those_of_the_program():
    """The fixed part of each documented line stands in the source."""
    source = "\n".join(path.read_text() for path in (TOP / "agent").rglob("*.py"))
    for piece in (
        "starting → ready", "→ streaming: %s", "→ waiting: %s", "devices changed at once", "listed again",
        "%s: retired", "refused, %s stays active: %s", "events of %s were lost; looking at everything",
        "only a full rescan finds changes outside of /dev", "back, was: ", "no pod can hold it",
    ):  # fmt: skip
        assert piece in source, piece


def test_the_makefile_knows_its_targets():
    makefile = read_page("Makefile")
    for target in ("demo", "test", "lint", "docs", "install", "uninstall"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_every_code_of_a_finding_has_its_row():
    part = read_page("docs/configuration.md").partition("### Warnings")[2].partition("### Names with words")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", part, re.MULTILINE)
    codes = {*WARNINGS, UNREADABLE, "toml", "unknown-class", "unknown-resource"}
    code_positions = {"make_error": 0, "report_error": 1, "parse_text": 1}  # the argument with the code, by method
    for path in (TOP / "agent/config").rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            position = code_positions.get(getattr(call.func, "attr", "")) if isinstance(call, ast.Call) else None
            if position is not None and len(call.args) > position:
                code = call.args[position]
                values = [code.body, code.orelse] if isinstance(code, ast.IfExp) else [code]
                codes |= {value.value for value in values if isinstance(value, ast.Constant)}
    assert set(rows) == codes


def list_keys(value):
    """Yield all keys of a document, at every depth."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield key
        yield from list_keys(inner)
    for inner in value if isinstance(value, list) else ():
        yield from list_keys(inner)


def test_every_key_stands_in_an_example():
    """In TOML of a page, which is loaded, or in a shipped class."""
    texts = [text for name in PAGES for kind, text in blocks(name) if kind == "toml"]
    texts += [file.read_text("utf-8") for file in Path(SHIPPED).glob("*.toml")]
    written = {key for text in texts for key in list_keys(tomllib.loads(text))}
    keys = {key for place in PLACES.values() for key in place.keys}
    assert keys - written == set()
