"""Programs that have to do something: why they did not. What they may do to get away is in test_process."""

import pytest

from agent.core.entry.program import Command
from agent.host.program import ProgramError, run


def sh(script, timeout=30.0, **more):
    return Command(("/bin/sh", "-c", script), timeout, more.get("optional", False))


async def failure(command, environment=None):
    with pytest.raises(ProgramError) as raised:
        await run(command, environment)
    return str(raised.value)


async def test_its_arguments_are_its_own(tmp_path):
    out = tmp_path / "out"
    argv = ("/bin/sh", "-c", 'printf "%s|" "$@" > "$OUT"', "sh", "a b", "$HOME", ";", "")
    assert await run(Command(argv, 30, False), {"OUT": str(out)})
    assert out.read_text() == "a b|$HOME|;||"


async def test_its_environment_is_clean(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/x")
    monkeypatch.setenv("SECRET", "1")
    await run(sh(f"env > {tmp_path}/env; pwd >> {tmp_path}/env; cat >> {tmp_path}/env"), {"DEVICE_AGENT_ID": "a"})
    lines = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert lines == {"PATH", "LC_ALL", "DEVICE_AGENT_ID", "PWD", "/"}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (sh("exit 3"), "/bin/sh ended with 3"),
        (sh("echo one; echo two >&2; echo; exit 1"), "/bin/sh ended with 1: two"),
        (sh("kill -SEGV $$"), "/bin/sh was ended by SIGSEGV"),
        (sh("printf '%0300d' 0; exit 1"), "/bin/sh ended with 1: " + "0" * 99 + "…"),
        (sh("printf 'a\\377b'; exit 1"), "/bin/sh ended with 1: a\ufffdb"),
        (Command(("/no/such",), 1, False), "/no/such: it is not there"),
        (Command(("/etc/passwd",), 1, True), "/etc/passwd: Permission denied"),
        (Command(("/etc",), 1, True), "/etc: Permission denied"),
    ],
)
async def test_what_fails_says_why(command, said):
    assert await failure(command) == said


async def test_a_program_that_need_not_be_there():
    assert not await run(Command(("/no/such",), 1, True))


async def test_a_script_whose_interpreter_is_missing_is_there(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    assert await failure(Command((str(script),), 1, True)) == f"{script}: its interpreter is not there"


async def test_one_that_hangs_says_what_it_said_last():
    assert await failure(sh("echo here; sleep 1000", timeout=2.0)) == "/bin/sh did not end within 2 s: here"


async def test_what_prints_without_end_is_read_and_not_kept():
    said = await failure(sh("head -c 100000000 /dev/zero | tr '\\0' 'x'; exit 1", timeout=120))
    assert said == "/bin/sh ended with 1: " + "x" * 99 + "…"
