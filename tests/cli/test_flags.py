"""The flags that every command knows: what is asked for is done, or refused."""

import json

import pytest

from agent.cli import main
from agent.cli.time_text import Times, format_duration
from tests.cli.test_main import COMMANDS

NOW = "2027-03-11T03:18:20.412Z"


def has(name, what, default=()):
    return getattr(main._import_command(name), what, default)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_form_that_a_command_does_not_have_is_refused(cli, name, config):
    needed = {
        "allocate": ("a/b", "--dry-run"), "class": ("list",), "import": ("squat", "-"), "completion": ("bash",),
        "drain": ("x",), "undrain": ("x",), "clear": ("x",), "record": ("x",),
    }.get(name, ())  # fmt: skip
    for form in main.OUTPUTS[1:]:
        if form not in has(name, "OUTPUTS"):
            code, out, err = cli(name, *needed, "-o", form, "--config", config())
            assert (code, out) == (2, ""), form
            assert f"no output as {form}: it" in (json.loads(err)["error"] if form.startswith("json") else err)
    if not has(name, "VERBOSE", default=False):
        code, out, err = cli("-v", name, *needed, "--config", config())
        assert (code, out) == (2, "")
        assert "-v: " in err


def test_only_the_exit_code(cli, config, tree):
    name = ("--config", config(), "--root", tree.top)
    assert cli("scan", "-q", *name) == (0, "", "")
    assert cli("--quiet", "check", *name)[:2] == (0, "")
    assert cli("-q", "scan", "nothing", *name) == (4, "", "")
    assert cli("scan", "-q", "--bogus")[2]  # a wrong command line is said all the same
    for command in ("run", "top"):
        code, out, err = cli("-q", command, *name)
        assert (code, out) == (2, "")
        assert "-q: " in err


def test_how_long_the_agent_may_take(cli, config):
    code, _, err = cli("status", "--timeout", "5", "--config", config())
    assert code == 2
    assert "--timeout: 5: write for example 5s" in err
    (config() / "agent.toml").write_text('[paths]\ncontrol = "/nonexistent/c.sock"\n')
    assert cli("status", "--timeout", "5s", "--config", config())[0] == 3


def test_why_there_is_no_answer_is_told_to_a_program_as_json(cli, config):
    (config() / "agent.toml").write_text('[paths]\ncontrol = "/nonexistent/c.sock"\n')
    for command in (("status",), ("clear", "x"), ("drain", "x"), ("rescan",), ("reload",)):
        code, out, err = cli(*command, "--config", config(), "-o", "json")
        assert (code, out) == (3, "")
        assert json.loads(err) == {
            "error": "no agent is running: nobody listens at /nonexistent/c.sock; systemctl status device-agent",
            "exit": 3,
        }


@pytest.mark.parametrize(
    "words",
    [
        ("scan", "nothing"),
        ("scan", "--words", "nothing"),
        ("explain", "nothing"),
        ("check", "--aloud", "nothing"),
        ("class", "show", "nothing"),
        ("allocate", "nothing", "--dry-run"),
        ("schema", "nothing"),
    ],
)
def test_that_there_is_no_such_thing_is_told_to_a_program_as_json(cli, config, tree, words):
    source = '[[resource]]\nname = "a.example/null"\nsource = { node = "/dev/null" }\n'
    code, out, err = cli(*words, "--config", config(source), "--root", tree.top, "-o", "json")
    assert (code, out) == (4, "")
    said = json.loads(err)
    assert said["exit"] == 4
    assert "nothing" in said["error"]


@pytest.mark.parametrize("words", [("status", "nothing"), ("rescan", "nothing")])
def test_what_the_agent_refuses_has_the_exit_code_that_is_told(cli, config, words, monkeypatch):
    monkeypatch.setattr("agent.cli.agent_client.send_request", lambda *_: {"error": "no such thing"})
    code, _, err = cli(*words, "--config", config(), "-o", "json")
    assert (code, json.loads(err)) == (4, {"error": "no such thing", "exit": 4})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("class", "show", "kvm", "--here"), "--here is only for class list"),
        (("scan", "/dev/null", "--words", "pci"), "use DEVICE or --words SOURCE"),
        (("scan", "/dev/null", "--all"), "--all is only for the overview"),
        (("scan", ""), "DEVICE is empty"),
        (("explain", "--history"), "--history needs a device"),
        (("class", "list", "--toml"), "--aloud and --toml are only for class show NAME"),
        (("class", "show", "kvm", "--toml", "-o", "json"), "prints the file of the class"),
    ],
)
def test_flags_that_mean_nothing_together_are_refused(cli, config, words, said):
    code, out, err = cli(*words, "--config", config())
    assert (code, out) == (2, "")
    assert said in err


def test_lists_have_a_form_of_a_line_each(cli, config, tree):
    where = ("--config", config("[[resource]]\nnam = 1\n"), "--root", tree.top)
    whole = json.loads(cli("check", *where, "-o", "json")[1])
    assert [json.loads(line) for line in cli("check", *where, "-o", "jsonl")[1].splitlines()] == whole
    assert whole
    names = cli("class", "list", *where, "-o", "name")[1].splitlines()
    assert [one["name"] for one in json.loads(cli("class", "list", *where, "-o", "json")[1])] == names
    assert "kvm" in names


@pytest.mark.parametrize(
    ("stamp", "said"),
    [
        ("2027-03-11T03:07:12.000Z", "03:07:12Z (11 min)"),
        ("2027-03-08T11:02:00.000Z", "Mon 11:02Z (2 d 16 h)"),
        ("2027-03-04T11:02:00.000Z", "2027-03-04Z (6 d 16 h)"),
        ("2027-03-11T03:18:20.412Z", "03:18:20Z (0 s)"),
        ("2027-03-11T05:00:00.000Z", "05:00:00Z (0 s)"),
        (None, "?"),
    ],
)
def test_times_in_utc(stamp, said):
    assert Times(NOW, utc=True).format_since(stamp) == said


def test_times_of_this_host_have_no_mark():
    assert not Times(NOW).format_time(NOW).endswith("Z")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_661, "1 h 1 min"), (86_400, "1 d"), (90_061, "1 d 1 h")],
)
def test_ages_have_two_units_at_most(seconds, said):
    assert format_duration(seconds) == said
