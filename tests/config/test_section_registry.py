"""The sections of an entry: their inputs decide their order, and each is compiled once."""

from __future__ import annotations

import os

import pytest

from agent.config import compile as compiler
from agent.config.load import SHIPPED
from agent.config.scope import Scope
from agent.config.sections import Results, Section, SectionRegistry

CLASSES = sorted(name.removesuffix(".toml") for name in os.listdir(SHIPPED))
FAULTY = """
[[resource]]
name = "example.com/faulty-{nothing}"
source = { node = "/dev/x*" }
options.unknown = 1
match.colour = 1
give.nodes.a = { path = "{node}", to = "/dev/x", when = { given.b = "x" } }
give.env.A = "{given.c}"
health.a = { rises = "colour" }
"""


def test_the_order_of_the_registry_changes_nothing(configure, monkeypatch):
    entry = '[[resource]]\nname = "example.com/{name}"\nclass = "{name}"\n'
    files = {f"resources.d/{name}.toml": entry.format(name=name) for name in CLASSES}
    files["resources.d/faulty.toml"] = FAULTY
    expected = configure(files)
    monkeypatch.setattr(compiler._REGISTRY, "sections", compiler._REGISTRY.sections[::-1])
    result = configure(files)
    assert len(expected.resources) > len(CLASSES) / 2
    assert len({finding.code for finding in expected.findings if finding.file == "resources.d/faulty.toml"}) > 1
    assert set(result.findings) == set(expected.findings)
    assert result.resources == expected.resources


def test_a_section_is_compiled_once_and_after_its_inputs():
    calls = []

    def note(name, result):
        calls.append(name)
        return result

    registry = SectionRegistry()
    given = Section[int]()
    double = registry.declare(lambda number: note("double", number * 2), given)
    total = registry.declare(lambda first, second: note("total", first + second), given, double)
    registry.sections.reverse()
    results = registry.compile_all({given: 2})
    assert (results.get(double), results.get(total)) == (4, 6)
    assert calls == ["double", "total"]


def test_a_result_that_is_not_given_is_an_error():
    with pytest.raises(LookupError):
        Results({}).get(Section[int]())


def test_a_stage_of_the_scope_cannot_change():
    scope = Scope(None, has_all_keys=True, has_all_words=True, accepted_codes=frozenset(), is_single=False, findings=[])
    with pytest.raises(AttributeError):
        scope.is_grouped = True
