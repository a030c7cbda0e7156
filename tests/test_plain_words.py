"""The check of names, docstrings and pages finds each kind of fault. Its list of exceptions only gets shorter."""

import ast
import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parent.parent / "lint/plain_words.py"
SPEC = importlib.util.spec_from_file_location("plain_words", PATH)
plain_words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(plain_words)


def rules(faults):
    return sorted({(fault.rule, fault.key) for fault in faults})


def modules(**texts):
    return {f"agent/{name}.py": ast.parse(text) for name, text in texts.items()}


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "def f(said): pass",
        "for one in (): pass",
        "class A:\n    kept: int",
        "a.known = 1",
        "[x for here in ()]",
    ],
)
def test_a_name_that_is_a_bare_stop_word(text):
    assert rules(plain_words.find_name_faults(modules(a=text)))[0] == ("bare-name", "agent/a.py")


@pytest.mark.parametrize("text", ["found_devices = 1", "def find_one_device(value): pass", "is_known = 1"])
def test_a_name_with_a_noun(text):
    assert rules(plain_words.find_name_faults(modules(a=text))) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("def devices_found(): pass", "devices_found"),
        ("class RootSeen: pass", "RootSeen"),
        ("def _each(): pass", "_each"),
    ],
)
def test_a_function_or_class_whose_last_word_is_a_stop_word(text, name):
    assert rules(plain_words.find_name_faults(modules(a=text))) == [("last-word", f"agent/a.py:{name}")]


def test_a_boolean_may_end_in_a_participle():
    assert rules(plain_words.find_name_faults(modules(a="def is_held(): pass"))) == []


def test_a_module_whose_last_word_is_a_stop_word():
    assert rules(plain_words.find_name_faults(modules(anew=""))) == [("last-word", "agent/anew.py:anew")]


def test_a_public_class_name_in_two_modules():
    text = "class Entry: pass"
    assert rules(plain_words.find_name_faults(modules(a=text, b="Entry: TypeAlias = int"))) == [("class-name", "Entry")]
    assert rules(plain_words.find_name_faults(modules(a=text, b="class _Entry: pass"))) == []


def test_a_docstring_that_begins_with_a_question_word():
    text = 'def f():\n    """Whether it is so."""'
    assert rules(plain_words.find_docstring_faults(modules(a=text))) == [("docstring", "agent/a.py")]


def test_a_docstring_in_dialect():
    text = '"""The device that is there, of which nobody said what it is."""'
    assert rules(plain_words.find_docstring_faults(modules(a=text))) == [("docstring-dialect", "agent/a.py")]


GOOD = "The agent sends the list to the kubelet. " * 40


def test_a_page_within_the_limits():
    assert rules(plain_words.find_page_faults({"a.md": GOOD})) == []


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ("Of what is there nobody says anything. " * 3, "page-dialect"),
        ("It stops; it starts. " * 3, "page-semicolons"),
        ("This sentence has many words " + "and more words " * 12 + "in it. ", None),
        (("This sentence has many words " + "and more words " * 12 + "in it. ") * 8, "page-share"),
    ],
)
def test_a_page_that_breaks_a_limit(more, rule):
    broken = [fault.rule for fault in plain_words.find_page_faults({"a.md": GOOD + more})]
    assert (rule in broken) if rule else broken == []


def test_code_tables_and_headings_are_no_prose():
    page = GOOD + "\n\n```\nOf what is; of what was;\n```\n\n| Of what; is |\n\n# Of what nobody; said\n"
    assert rules(plain_words.find_page_faults({"a.md": page})) == []


def test_what_is_allowed_is_no_fault_and_what_is_no_longer_needed_is_one():
    faults = [plain_words.Fault("bare-name", "agent/a.py", 2, "a fault")]
    assert [*plain_words.find_unallowed(faults, {})] == ["a fault"]
    assert [*plain_words.find_unallowed(faults, {"bare-name": {"agent/a.py": 2}})] == []
    assert [*plain_words.find_unallowed(faults, {"bare-name": {"agent/a.py": 1}})] == ["a fault"]
    (text,) = plain_words.find_unallowed(faults, {"bare-name": {"agent/a.py": 3}})
    assert "write 2" in text
