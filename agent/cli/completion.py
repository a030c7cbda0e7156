"""Print the completion script of a shell: bash, zsh or fish.

bash: source <(device-agent completion bash)
zsh:  device-agent completion zsh > DIR/_device-agent, where DIR is a directory of fpath
fish: device-agent completion fish > ~/.config/fish/completions/device-agent.fish
The script contains the commands and flags of this program. The shell reads names of resources from the configuration
files, and names of devices from /sys. It needs no root and no agent.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agent.cli import main

_BASH = r"""# bash completion of device-agent
_device_agent_names() {
    case $1 in
        resources) sed -n 's/^ *name *= *"\([^"{]*\)".*/\1/p' "$2"/resources.d/*.toml ;;
        devices) command ls -1 /sys/bus/pci/devices /sys/class/net /sys/class/infiniband | grep -v :$ ;;
    esac 2>/dev/null
}
_device_agent() {
    local cur prev words cword command= config=@CONFIG@ i
    if declare -F _init_completion >/dev/null; then
        _init_completion -n : || return
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    fi
    for ((i = 1; i < cword; i++)); do
        case ${words[i]} in
            --config) config=${words[i+1]} ;;
            --root|-o|--output|--color|--timeout) ((i++)) ;;
            -*) ;;
            *) if [[ -z $command && ${words[i-1]} != --config ]]; then command=${words[i]}; fi ;;
        esac
    done
    case $prev in
        --config|--root|--textfile|--state|--write|--timeout) COMPREPLY=(); return ;;
        -o|--output) COMPREPLY=($(compgen -W "@OUTPUTS@" -- "$cur")); return ;;
        --color) COMPREPLY=($(compgen -W "auto always never" -- "$cur")); return ;;
    esac
    local flags= fixed= kinds= kind name
    case $command in
        "") flags="@COMMON@"; fixed="@COMMANDS@" ;;
@CASES@
    esac
    if [[ $cur == -* ]]; then fixed=$flags kinds=; fi
    COMPREPLY=($(compgen -W "$fixed" -- "$cur"))
    # Names are others' (a pod may have renamed a network interface): compgen -W would run what stands in them.
    while IFS= read -r name; do
        if [[ -n $name && $name == "$cur"* ]]; then
            printf -v name %q "$name"
            COMPREPLY+=("$name")
        fi
    done < <(for kind in $kinds; do _device_agent_names "$kind" "$config"; done)
    if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
}
complete -o default -F _device_agent device-agent
"""

_ZSH = r"""#compdef device-agent
_device_agent_resources() {
    local -a names
    names=(${(f)"$(sed -n 's/^ *name *= *"\([^"{]*\)".*/\1/p' @CONFIG@/resources.d/*.toml 2>/dev/null)"})
    compadd -a names
}
_device_agent_devices() {
    local -a names
    names=(/sys/bus/pci/devices/*(N:t) /sys/class/net/*(N:t) /sys/class/infiniband/*(N:t))
    compadd -a names
    _files
}
_device_agent() {
    local -a commands
    commands=(
@DESCRIBED@
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    case $words[2] in
@CASES@
    esac
}
_device_agent "$@"
"""

_FISH = r"""# fish completion of device-agent
function __device_agent_resources
    sed -n 's/^ *name *= *"\([^"{]*\)".*/\1/p' @CONFIG@/resources.d/*.toml 2>/dev/null
end
function __device_agent_devices
    command ls -1 /sys/bus/pci/devices /sys/class/net /sys/class/infiniband 2>/dev/null | string match -v '*:'
end
@LINES@
"""

# The kinds of names that the argument of a command can have, if the shell can complete them.
_NAMES = {
    "scan": ("devices",),
    "explain": ("devices", "resources"),
    "status": ("resources",),
    "allocate": ("resources",),
    "drain": ("devices", "resources"),
    "undrain": ("devices", "resources"),
    "clear": ("devices",),
}


class _Command(NamedTuple):
    """A command: its purpose, its flags with their help texts, and the fixed words that it accepts as an argument."""

    about: str
    flags: Mapping[str, str]
    words: Sequence[str]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument SHELL."""
    parser.add_argument("shell", choices=sorted(SHELLS), metavar="SHELL", help="bash, zsh or fish")


def run(arguments: argparse.Namespace) -> int:
    """Print the completion script. Return the exit code."""
    print(SHELLS[arguments.shell](), end="")
    return 0


def _describe_commands() -> Mapping[str, _Command]:
    commands = {}
    for name, (_, about) in main.COMMANDS.items():
        if not main.is_installed(name):
            continue
        parser = main.build_parser(name)
        flags: dict[str, str] = {}
        words: list[str] = []
        for action in parser._actions:  # noqa: SLF001  argparse has no public list of the arguments of a parser
            if not action.option_strings:
                words += [str(choice) for choice in action.choices or ()]
            for flag in action.option_strings if action.help != argparse.SUPPRESS else ():
                flags[flag] = action.help or ""
        commands[name] = _Command(about, flags, words)
    return commands


def _format_bash() -> str:
    cases, commands = [], _describe_commands()
    for name, command in commands.items():
        flags, words, kinds = map(" ".join, (command.flags, command.words, _NAMES.get(name, ())))
        cases.append(f'        {name}) flags="{flags}"; fixed="{words}"; kinds="{kinds}" ;;')
    common = " ".join(main.build_parser("version")._option_string_actions)  # noqa: SLF001  as above
    script = _BASH.replace("@CASES@", "\n".join(cases)).replace("@COMMANDS@", " ".join((*commands, "help")))
    script = script.replace("@COMMON@", common).replace("@OUTPUTS@", " ".join(main.OUTPUTS))
    return script.replace("@CONFIG@", main.CONFIG)


def _format_zsh() -> str:
    descriptions, cases = [], []
    for name, command in _describe_commands().items():
        descriptions.append(f"        {_quote(f'{name}:{command.about}')}")
        flags = " ".join(_quote(f"{flag}[{_simplify_help(about)}]") for flag, about in command.flags.items())
        kinds = " ".join(f"_device_agent_{kind};" for kind in _NAMES.get(name, ()))
        argument_rule = f"'*:word:({' '.join(command.words)})'" if command.words else "'*:file:_files'"
        argument_rule = f"'*:name:{{{kinds}}}'" if kinds else argument_rule
        cases.append(f"        {name}) shift words; (( CURRENT-- )); _arguments {flags} {argument_rule} ;;")
    script = _ZSH.replace("@DESCRIBED@", "\n".join(descriptions)).replace("@CASES@", "\n".join(cases))
    return script.replace("@CONFIG@", main.CONFIG)


def _format_fish() -> str:
    lines = []
    for name, command in _describe_commands().items():
        lines.append(f"complete -c device-agent -n __fish_use_subcommand -f -a {name} -d {_quote(command.about)}")
        condition = f"-n '__fish_seen_subcommand_from {name}'"
        for flag, about in command.flags.items():
            option = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            lines.append(f"complete -c device-agent {condition} {option} -d {_quote(_simplify_help(about))}")
        if command.words:
            lines.append(f"complete -c device-agent {condition} -f -a {_quote(' '.join(command.words))}")
        lines += [f"complete -c device-agent {condition} -a '(__device_agent_{kind})'" for kind in _NAMES.get(name, ())]
    return _FISH.replace("@LINES@", "\n".join(lines)).replace("@CONFIG@", main.CONFIG)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _simplify_help(text: str) -> str:
    """Return a help text without the characters that end a zsh description, and with argparse's `%%` as `%`."""
    return text.replace("[", "(").replace("]", ")").replace(":", ",").replace("%%", "%")


SHELLS: Mapping[str, Callable[[], str]] = {"bash": _format_bash, "zsh": _format_zsh, "fish": _format_fish}
