"""The exit codes, each by a command that ends with it; 70 and 130 are in test_main."""

import os
import re

import pytest

from agent.cli import main
from tests.cli.conftest import device_agent

GOOD = '[[resource]]\nname = "a.example/null"\nsource = { node = "/dev/null" }\n'
WARNED = GOOD.replace('node = "/dev/null"', 'subsystem = "mem"') + 'id = "{name}"\n'
BAD = GOOD.replace("a.example/null", "A.example/null")


@pytest.mark.parametrize(
    ("code", "words", "text"),
    [
        (0, ("check",), GOOD),
        (0, ("scan",), GOOD),
        (0, ("explain", "a.example/null"), GOOD),
        (0, ("check",), WARNED),
        (0, ("explain",), GOOD),
        (0, ("allocate", "a.example/null", "--dry-run"), GOOD),
        (0, ("class", "list"), ""),
        (0, ("schema",), ""),
        (0, ("completion", "bash"), ""),
        (0, ("help", "scan"), ""),
        (0, ("version",), ""),
        (1, ("check",), BAD),
        (1, ("check", "--strict"), WARNED),
        (1, ("doctor",), GOOD),  # a tree without udev
        (1, ("allocate", "a.example/null", "--count", "2", "--dry-run"), GOOD),
        (1, ("import", "squat", os.devnull), ""),
        (1, ("record", os.devnull), ""),
        (2, ("scan", "--bogus"), ""),
        (2, ("stats",), ""),
        (2, ("scan", "-o", "yaml"), ""),
        (2, ("metrics", "-o", "json"), ""),
        (2, ("top",), ""),  # no terminal
        (2, ("allocate", "a.example/null"), GOOD),  # without --dry-run
        (2, ("completion", "tcsh"), ""),
        (2, ("class",), ""),
        (2, ("help", "stats"), ""),
        (2, ("scan", "--root", "/no/such/tree"), ""),
        (2, ("import", "helm", "x"), ""),
        (3, ("status",), ""),
        (3, ("metrics",), ""),
        (3, ("rescan",), ""),
        (3, ("reload",), ""),
        (3, ("drain", "x"), ""),
        (3, ("undrain", "x"), ""),
        (3, ("clear", "x"), ""),
        (4, ("scan", "nothing"), GOOD),
        (4, ("explain", "nothing"), GOOD),
        (4, ("class", "show", "nothing"), ""),
        (4, ("allocate", "a.example/none", "--dry-run"), GOOD),
        (4, ("allocate", "a.example/null", "--id", "/dev/nul", "--dry-run"), GOOD),
        (4, ("check", "--aloud", "nothing"), GOOD),
        (4, ("schema", "/no/such/file"), ""),
        (4, ("import", "squat", "/no/such/file"), ""),
        (78, ("run",), None),
    ],
)
def test_a_command_ends_with(cli, tree, config, code, words, text):
    tree.node("/dev/null", "c 1:3")
    settings = "= [" if text is None else f'[paths]\ncontrol = "{tree.top}/none.sock"\n'
    (config(text or "") / "agent.toml").write_text(settings)
    ended, out, err = cli(*words, "--root", tree.top, "--config", config(text or ""))
    assert ended == code, (out, err)
    if code >= 2:
        assert out == ""
        assert err


def test_who_may_not_ask_ends_with_5(tmp_path, config):
    (tmp_path / "closed").mkdir(mode=0o700)
    (config() / "agent.toml").write_text(f'[paths]\ncontrol = "{tmp_path}/closed/c.sock"\n')
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        if str(parent).startswith("/tmp/pytest"):
            parent.chmod(0o755)
    done = device_agent("status", "--config", str(config()), nobody=True)
    assert (done.returncode, done.stdout) == (5, "")
    assert "only root asks the agent" in done.stderr


def test_there_are_no_others():
    assert re.findall(r"\b(\d+)  ", main.CLOSING) == ["0", "1", "2", "3", "4", "5", "70", "78", "130"]
