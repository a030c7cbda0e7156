"""Options: what a class may ask, what an entry may answer, and the words that come of it."""

from __future__ import annotations

import pytest

from agent.core.entry.derived_words import Constant

CLASS = """about  = "x"
source = { node = "/dev/kvm" }
[options.root]
about   = "where"
type    = "path"
default = "/opt/x"
[options.inject]
about   = "how"
one_of  = ["preload", "script"]
[options.strategy]
about   = "which"
some_of = ["nodes", "cdi"]
default = ["nodes"]
[give.nodes]
x = "{options.root}/dev"
[give.env]
A = "{options.inject}"
"""
ENTRY = '[[resource]]\nname = "a/b"\nclass = "c"\n'


def resource(configure, answers: str, device_class: str = CLASS):
    found = configure({"classes/c.toml": device_class, "resources.d/a.toml": ENTRY + answers})
    assert found.findings == ()
    return found.resources[0]


def test_an_answer_and_a_default_are_words_equal_for_all_devices(configure):
    made = resource(configure, 'options.inject = "script"\noptions.strategy = ["cdi", "nodes", "cdi"]\n')
    assert made.derived_words == {
        "options.root": Constant("/opt/x"),
        "options.inject": Constant("script"),
        "options.strategy": Constant(("cdi", "nodes")),
    }


def test_an_answer_replaces_an_answer_and_a_default_stays_a_default(configure):
    used = CLASS.replace('"how"', '"how"\nvalue = "preload"')
    assert resource(configure, "", used).derived_words["options.inject"] == Constant("preload")
    assert resource(configure, 'options.inject = "script"\n', used).derived_words["options.inject"] == Constant(
        "script"
    )
    assert resource(configure, 'options.inject.default = "script"\n').derived_words["options.inject"] == Constant(
        "script"
    )


@pytest.mark.parametrize(("kind", "value"), [("int", 5), ("bool", False), ("text", "x"), ("hex", "15b3")])
def test_types(configure, kind, value):
    written = str(value).lower() if isinstance(value, (bool, int)) else f'"{value}"'
    made = resource(
        configure,
        f"options.x = {written}\n",
        f'about = "x"\nsource = {{ node = "/dev/kvm" }}\noptions.x = {{ about = "y", type = "{kind}" }}\n',
    )
    assert made.derived_words == {"options.x": Constant(value)}


ANSWERS = [
    ("", 1, 1, "missing", 'write options.inject = "preload"'),
    ('options.inject = "scrip"', 4, 18, "type", "nearest: script"),
    ("options.inject = 5", 4, 18, "type", ""),
    ('options.inject = "script"\noptions.injct = "x"', 5, 9, "unknown-key", "nearest: inject"),
    ('options.inject = "script"\noptions.strategy = "cdi"', 5, 20, "type", 'write ["cdi"]'),
    ('options.inject = "script"\noptions.strategy = ["cdi", "env"]', 5, 28, "type", ""),
    ('options.inject = "script"\noptions.root = "opt/x"', 5, 17, "path", 'write "/opt/x"'),
    ('options.inject = "script"\noptions.root = 5', 5, 16, "type", ""),
    ('options.inject = "script"\ngive.env.B = "{options.rot}"', 5, 16, "unknown-word", "nearest: options.root"),
]


@pytest.mark.parametrize(("answers", "line", "column", "code", "write"), ANSWERS)
def test_a_wrong_answer(configure, answers, line, column, code, write):
    (finding,) = configure({"classes/c.toml": CLASS, "resources.d/a.toml": ENTRY + answers}).findings
    assert (finding.file, finding.line, finding.column, finding.code) == ("resources.d/a.toml", line, column, code)
    assert finding.write == write


ASKED = [
    ('options.x.one_of = ["a"]', 9, "missing", 'write about = "…"'),
    ('options.x.about = "y"', 9, "missing", 'write for example one_of = ["…", "…"]'),
    ('options.x = { about = "y", type = "text", one_of = ["a"] }', 28, "type", "leave one out"),
    ('options.x = { about = "y", one_of = ["a", "b", "a"] }', 48, "type", "leave one out"),
    ('options.x = { about = "y", one_of = ["a", "b"], default = "c" }', 59, "type", None),
    ('options.x = { about = "y", some_of = ["a"], default = "a" }', 55, "type", 'write ["a"]'),
    ('options.x = { about = "y", type = "int", default = "5" }', 52, "type", "write 5, without quotes"),
    ('options.a-b = { about = "y", one_of = ["a"] }', 9, "type", "write for example vhost_net"),
    ('options.x = "y"', 13, "unknown-key", "take it out, or name the class that asks it"),
]


@pytest.mark.parametrize(("text", "column", "code", "write"), ASKED, ids=[row[0] for row in ASKED])
def test_a_wrong_question(configure, text, column, code, write):
    (finding,) = configure({"classes/c.toml": f'about = "x"\n{text}\n'}).findings
    assert (finding.line, finding.code) == (2, code)
    if write is not None:
        assert finding.write == write


def test_a_class_by_itself_need_not_be_answered(configure):
    assert configure({"classes/c.toml": CLASS}).findings == ()
