"""The manual page has every command and every flag, each where it belongs, and none that is not there."""

import re

import pytest

from agent.cli import main
from tests.cli.conftest import TOP

PAGE = (TOP / "man/device-agent.8").read_text()
COMMON = set(main._build_common_parser()._option_string_actions) | {"-h", "--help"}


def plain(text):
    """Without what troff is told."""
    text = re.sub(r"^\.\w+ ?", "", text.replace("\\-", "-"), flags=re.MULTILINE)
    return re.sub(r"\\f.", "", text).replace('"', "").replace(" ", "")


def section(name):
    return re.search(rf"^\.SH {name}\n(.*?)(?=^\.SH |\Z)", PAGE, re.MULTILINE | re.DOTALL)[1]


def entries(text):
    """What stands behind each tag."""
    return text.split("\n.TP\n")


@pytest.mark.parametrize("name", main.COMMANDS)
def test_a_command_is_there_with_its_flags(name):
    tag = re.compile(rf'(\.TP\n)?\.BR? "?{name}\b')
    said = "".join(plain(one) for one in entries(section("COMMANDS")) if tag.match(one))
    assert said, f"no entry of {name}"
    parser = main.build_parser(name)
    flags = {flag for flag in parser._option_string_actions if flag.startswith("--")} - COMMON
    assert {flag for flag in flags if flag not in said} == set()
    for action in parser._actions:
        if not action.option_strings and action.metavar and action.metavar.isalpha():
            assert action.metavar in said, action.metavar


def test_the_flags_of_all_commands_are_there():
    said = plain(section("OPTIONS"))
    assert {flag for flag in COMMON if flag not in said} == set()
    assert "|".join(main.OUTPUTS) in said


def test_no_flag_is_made_up():
    known = COMMON | {"--version"}
    for name in main.COMMANDS:
        known |= set(main.build_parser(name)._option_string_actions)
    assert set(re.findall(r"(?<![\w-])--[a-z-]+[a-z]", PAGE.replace("\\-", "-"))) <= known


def test_the_exit_codes_are_those_of_the_program():
    there = re.findall(r"^\.B (\d+)$", section("EXIT STATUS"), re.MULTILINE)
    assert there == re.findall(r"\b(\d+)  ", main.CLOSING)
