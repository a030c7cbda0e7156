"""docs/glossary.md: each term occurs once, has a meaning, is in use, and its fixed words are those of the program."""

import re

import pytest

from tests.cli.conftest import TOP

ROWS = re.findall(r"^\| (\*\*.+?) \| (.+?) \| (.*?) ?\|$", (TOP / "docs/glossary.md").read_text(), re.MULTILINE)
TERMS = [term for terms, _, _ in ROWS for term in re.findall(r"\*\*(.+?)\*\*", terms)]
FIXED_WORDS = [word for _, _, words in ROWS for word in re.findall(r"`(.+?)`", words)]


def test_each_term_has_one_meaning():
    assert len(TERMS) == len({term.lower() for term in TERMS}) > 100
    assert len(ROWS) == len({meaning for _, meaning, _ in ROWS})


def test_each_term_is_in_use():
    """Each is in a page or in the code, where names of classes and functions count as words."""
    files = [*(TOP / "agent").rglob("*.py"), *(file for file in (TOP / "docs").glob("*.md") if file.stem != "glossary")]
    text = "\n".join(file.read_text() for file in files)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", " ", text).lower()
    assert [term for term in TERMS if re.sub(r"[\W_]+", " ", term).lower() not in words] == []


def test_each_fixed_word_is_of_the_program():
    """Each is in the code, or a key on the page of the configuration, which other tests compare with the code."""
    files = (*(TOP / "agent").rglob("*.py"), TOP / "docs/configuration.md")
    text = "\n".join(file.read_text() for file in files)
    assert [word for word in FIXED_WORDS if word.removeprefix("--as ") not in text] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/configuration.md"])
def test_it_is_linked(name):
    assert "glossary.md)" in (TOP / name).read_text()


def test_make_install_installs_it():
    assert "install -m644 docs/*.md" in (TOP / "Makefile").read_text()
