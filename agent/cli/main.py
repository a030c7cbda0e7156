"""The command line: the list of commands, the common flags and the exit codes.

A command is a module with `add(parser)` and `run(arguments) -> int`. It is imported only when a user runs it. The
module may have more attributes. `DEFAULTS` replace common defaults. `OUTPUTS` are the forms of its answer for programs
and wide screens. `VERBOSE` means that -v adds lines. `QUIET` is false if -q makes no sense. `SEVERAL_ROOTS` means that
the command accepts --root several times. A flag that the command does not support is an error. It is never ignored.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from types import ModuleType

from agent.cli.output import WRONG_COMMAND_LINE, fail, report_file_error
from agent.config.language.value_checks import parse_duration
from agent.config.toml.finding import find_nearest
from agent.core.language.safe_text import escape

COMMANDS = {
    "scan": ("Look", "devices of this host, and the resource that takes each of them"),
    "explain": ("Look", "explain the state of a device or resource; without NAME, show all problems"),
    "status": ("Look", "state of the agent and its resources, with all problems *"),
    "top": ("Look", "the same on the whole terminal, refreshed every second *"),
    "doctor": ("Look", "faults of host, kubelet, runtime and rights, with the fix"),
    "metrics": ("Look", "metrics in the text format of Prometheus *"),
    "allocate": ("Look", "show what a container would get; try it with docker, podman, ctr or CDI"),
    "check": ("Configure", "check the configuration with the rules of run"),
    "class": ("Configure", "device classes with documentation and an example: list, show NAME"),
    "import": ("Configure", "convert the configuration of another plugin: squat, smarter, sriov, kubevirt"),
    "schema": ("Configure", "the language as a JSON Schema, for editors"),
    "run": ("Operate", "run the agent (systemd starts this)"),
    "reload": ("Operate", "load the configuration again and apply the changes *"),
    "rescan": ("Operate", "read the host again now *"),
    "drain": ("Operate", "no new pod gets a device or resource *"),
    "undrain": ("Operate", "end a drain *"),
    "clear": ("Operate", "clear failing checks of a device *"),
    "record": ("Try", "record this host in a file, for --root and for bug reports"),
    "lab": ("Try", "a simulated kubelet with this host's devices"),
    "completion": ("Try", "completion script of a shell: bash, zsh, fish"),
    "version": ("Try", "version of device-agent"),
}
MODULES = {  # of the commands whose name is not their module's name
    "import": "agent.cli.importing",
    "class": "agent.cli.device_class",
    "lab": "device_agent_lab.command",  # a distribution of its own, which most nodes do not have
}
OPENING = "Gives the hardware of this node to Kubernetes pods, configured by TOML files."
OPENING_OF_LAB = " Without a cluster: device-agent lab"
LAB_MISSING = """\
device-agent lab: the lab is not installed on this node; in a clone of device-agent run: make install LAB=1"""
CLOSING = """*  sends a request to the running agent. Only these commands and run need root.
Exit   0  success                 1  a problem, an error or a failed step
       2  wrong command line      3  no agent is running       4  no such name, or several
       5  no permission
      70  defect in device-agent  78  run: agent.toml unusable       130  Ctrl-C
device-agent COMMAND --help shows the arguments of a command."""

OUTPUTS = ("table", "wide", "json", "jsonl", "name")
CONFIG = "/etc/device-agent"
WRITE_FAILED = 1
DEFECT = 70
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Return its exit code (see CLOSING)."""
    _open_missing_streams()
    program_parser = argparse.ArgumentParser(
        prog="device-agent", parents=[_build_common_parser()], add_help=False, allow_abbrev=False
    )
    program_parser.add_argument("-h", "--help", action="store_true")
    program_parser.add_argument("--version", action="store_true")
    program_parser.add_argument("command", nargs="?")
    program_parser.add_argument("rest", nargs=argparse.REMAINDER)
    arguments = program_parser.parse_args(argv)
    name = "version" if arguments.version else arguments.command
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # any text into any encoding
    command_words = arguments.rest
    if name == "help" and command_words and not command_words[0].startswith("-"):  # help COMMAND is COMMAND --help
        name, command_words = command_words[0], ["--help"]
    if name is None or name == "help":
        print(format_usage())
        return 0
    if name not in COMMANDS:
        nearest_name = find_nearest(name, COMMANDS)
        hint = f"nearest: {nearest_name}" if nearest_name else "device-agent help lists all commands"
        print(f"device-agent: {name!r}: no such command; {hint}", file=sys.stderr)
        return WRONG_COMMAND_LINE
    if not is_installed(name):
        print(LAB_MISSING, file=sys.stderr)
        return WRONG_COMMAND_LINE
    if name == "run":  # a reload that is asked for before it can be done must not kill
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        gc.disable()  # until the agent is ready, see run.py
    module, parser = _import_command(name), build_parser(name)
    command_words = ["--help"] if arguments.help else command_words
    command_arguments = argparse.Namespace(
        **{**_DEFAULTS, **getattr(module, "DEFAULTS", {}), **vars(arguments), "command": name}
    )
    parser.parse_args(command_words, command_arguments)
    command_arguments.root = getattr(command_arguments, "root", ["/"])
    if usage_error := _find_usage_error(module, command_arguments):
        return fail(command_arguments, usage_error, WRONG_COMMAND_LINE)
    try:
        if command_arguments.quiet:
            with (
                open(os.devnull, "w", encoding="utf-8") as null_file,
                redirect_stdout(null_file),
                redirect_stderr(null_file),
            ):
                return _run_command(module, command_arguments)
        code = _run_command(module, command_arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return 0
    except Exception as error:  # noqa: BLE001  the last handler: it prints every unexpected error with its traceback
        if (
            isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None
        ):  # without a file name, the error is of stdout
            _discard_output()
            return fail(command_arguments, "the output cannot be written: no space left on the device", WRITE_FAILED)
        traceback.print_exc()
        return DEFECT
    return code


def _discard_output() -> None:
    """Redirect stdout to /dev/null, because a failed stream accepts no more data.

    Unwritten data then goes to /dev/null, also at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def is_installed(name: str) -> bool:
    """Return whether a command is installed. A node can do without the lab."""
    if name != "lab":
        return True
    from importlib.util import find_spec

    return find_spec(MODULES[name].partition(".")[0]) is not None


def build_parser(name: str) -> argparse.ArgumentParser:
    """Return the argument parser of a command."""
    module = _import_command(name)
    parser = argparse.ArgumentParser(
        prog=f"device-agent {name}",
        description=module.__doc__,
        parents=[_build_common_parser(module)],
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add(parser)
    return parser


def _find_usage_error(module: ModuleType, arguments: argparse.Namespace) -> str:
    """Return the fault of the first flag that the command does not support, or an empty string."""
    missing_root = next((root for root in arguments.root if not os.path.exists(root)), None)
    if missing_root is not None:
        return f"--root {missing_root}: no such directory or file"
    if len(arguments.root) > 1 and not getattr(module, "SEVERAL_ROOTS", False):
        return "this command accepts only one --root"
    outputs = _list_outputs(module)
    if arguments.output not in outputs:
        outputs_text = f"it supports {', '.join(outputs)}" if len(outputs) > 1 else "it has only one form"
        return f"no output as {arguments.output}: {outputs_text}"
    if arguments.verbose and not getattr(module, "VERBOSE", False):
        return "-v: this command has no further output"
    if arguments.quiet and not getattr(module, "QUIET", True):
        return "-q: this command only prints, so it cannot be quiet"
    return ""


def _list_outputs(module: ModuleType) -> tuple[str, ...]:
    """Return the output forms of a command."""
    return ("table", *getattr(module, "OUTPUTS", ()))


def _import_command(name: str) -> ModuleType:
    return importlib.import_module(MODULES.get(name, f"agent.cli.{name}"))


def _run_command(command: ModuleType, arguments: argparse.Namespace) -> int:
    """Run a command on this host, a directory tree or an unpacked recording. Return its exit code."""
    roots: dict[str, str] = {}
    with ExitStack() as recordings:
        for root in arguments.root:
            if os.path.isdir(root):
                roots[root] = root
                continue
            from agent.host.recording import RecordingError, unpack_recording

            try:
                roots[root] = recordings.enter_context(unpack_recording(root))
            except RecordingError as error:
                return fail(arguments, f"--root {root}: {error}", WRONG_COMMAND_LINE)
            except OSError as error:
                return report_file_error(arguments, f"--root {root}", error, WRONG_COMMAND_LINE)
        first_root = next(iter(roots.values()))
        code = int(command.run(argparse.Namespace(**{**vars(arguments), "root": first_root, "roots": roots})))
        sys.stdout.flush()
        return code


def _open_missing_streams() -> None:
    """Open /dev/null for each closed standard stream. Otherwise the next opened file gets the number of that stream."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue
    os.close(descriptor)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  open until the process ends
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _build_common_parser(module: ModuleType | None = None) -> argparse.ArgumentParser:
    """Return the parser of the flags that every command accepts, before or after its name.

    The help of one command shows only the flags that the command supports.
    """
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    common.add_argument("--config", metavar="DIR", help=f"directory of the configuration (default {CONFIG})")
    common.add_argument(
        "--root", metavar="DIR|FILE", action="append", help="a directory tree or recording in place of this host"
    )
    outputs = OUTPUTS if module is None else _list_outputs(module)
    help_text = "for people: table, wide; for programs: json, jsonl (one object per line), name (one name per line)"
    help_text = help_text if len(outputs) > 1 else argparse.SUPPRESS
    common.add_argument("-o", "--output", choices=OUTPUTS, metavar="|".join(outputs), help=help_text)
    help_text = "print nothing; the exit code is the answer" if getattr(module, "QUIET", True) else argparse.SUPPRESS
    common.add_argument("-q", "--quiet", action="store_true", help=help_text)
    has_verbose = module is None or getattr(module, "VERBOSE", False)
    help_text = "show also items without a problem" if has_verbose else argparse.SUPPRESS
    common.add_argument("-v", "--verbose", action="store_true", help=help_text)
    common.add_argument(
        "--color", choices=("auto", "always", "never"), help="auto: colours on a terminal, unless NO_COLOR is set"
    )
    common.add_argument("--utc", action="store_true", help="show times in UTC, with a Z (default: local time)")
    timeout_help = "time limit for an answer of the agent (default 30s)"
    common.add_argument("--timeout", metavar="TIME", type=_parse_seconds, help=timeout_help)
    return common


def _parse_seconds(text: str) -> float:
    """Return the seconds of a duration flag.

    Raises argparse.ArgumentTypeError if the text is no duration above zero.
    """
    seconds = parse_duration(text)
    if not seconds:
        raise argparse.ArgumentTypeError(f"{escape(text)}: write for example 5s")
    return seconds


_DEFAULTS = {
    "config": CONFIG,
    "output": "table",
    "color": "auto",
    "quiet": False,
    "verbose": False,
    "utc": False,
    "timeout": 30.0,
}


def format_usage() -> str:
    """Return the text that `device-agent` without a command prints."""
    lines = [OPENING + OPENING_OF_LAB * is_installed("lab")]
    group = ""
    for name, (command_group, about) in COMMANDS.items():
        if not is_installed(name):
            continue
        lines.append(f"{command_group if command_group != group else '':10} {name:10} {about}")
        group = command_group
    return "\n".join([*lines, CLOSING])


if __name__ == "__main__":
    sys.exit(main())
