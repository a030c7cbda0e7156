"""docs/kubelet-compatibility.md: the tests that it names are there, and so are the versions."""

import re

import pytest

from tests.cli.conftest import TOP

PAGE = (TOP / "docs/kubelet-compatibility.md").read_text()
TESTS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)


@pytest.mark.parametrize(("path", "name"), TESTS)
def test_a_named_test_is_there(path, name):
    assert re.search(rf"^(?:async )?def {name}\(", (TOP / path).read_text(), re.MULTILINE)


def test_every_section_names_one():
    behaviours = PAGE.partition("\n## What to know\n")[2].split("\n### ")[1:]
    assert behaviours
    for text in behaviours:
        assert "::test_" in text, text.partition("\n")[0]


def test_its_versions_are_those_that_are_built():
    built = {
        re.search(r"^\tk8s\.io/kubernetes v(\S+)$", module.read_text(), re.MULTILINE)[1]
        for module in (TOP / "tests/kubelet").glob("v1_*/go.mod")
    }
    assert set(re.findall(r"^\| (1\.\d+\.\d+) \|", PAGE, re.MULTILINE)) == built


def test_its_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (TOP / "docs" / target).exists(), target
