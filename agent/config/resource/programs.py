"""Programs of an entry: `prepare` for the machine, and `prestart` for a device of a container."""

from __future__ import annotations

from agent.config.clauses.clause import compile_clause, refuse_empty
from agent.config.language.value_checks import parse_duration
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.clauses import is_host_word, report_device_words
from agent.config.scope import Scope
from agent.config.toml.file_position import TextPiece
from agent.config.values.program_args import compile_argv
from agent.config.values.templates import CompiledTemplate
from agent.core.entry.program import START_SECONDS, Program
from agent.core.language.clause import Clause
from agent.core.struct import replace

TIMEOUT = "5s"
_PREPARE_LIMIT = "10m"  # limit of a program of the machine; only its entry waits for it
_SECTIONS = {"prepare": _PREPARE_LIMIT, "prestart": f"{START_SECONDS:g}s"}


def compile_programs(section: str, tree: Branch, scope: Scope) -> tuple[Program, ...]:
    """Return the programs of a section, in order. Faults are reported."""
    branch = tree.get_branch(section)
    if branch is None:
        return ()
    compiled_programs = [_compile_program(section, name, member, scope) for name, member in branch.list_branches()]
    programs = tuple(program for program in compiled_programs if program is not None)
    total_s = sum(program.timeout for program in programs)
    if section == "prestart" and len(programs) > 1 and total_s > START_SECONDS:
        message = f"these may take {total_s:g} s together, and the kubelet waits for a container to start"
        write = f"give them timeouts of {START_SECONDS:g} s together"
        scope.report_error(branch.spot, "type", message, write, mark="key")
    return programs


def _compile_program(section: str, name: str, member: Branch, scope: Scope) -> Program | None:
    address = f"{section}.{name}"
    condition = _compile_condition(section, address, member.get_branch("when"), scope)
    timeout = _compile_timeout(section, member.get_leaf("timeout"), scope)
    leaf = scope.require_leaf(member, "run", f"{address} does not say what is run", 'write run = ["/usr/bin/…"]')
    if leaf is None:
        return None
    run = compile_argv(leaf, scope, in_grant=section == "prestart")
    if run is None or [argument for argument in run if not _has_known_words(section, argument, scope)]:
        return None
    texts = tuple(argument.template for argument in run)
    return Program(name, texts, timeout, member.is_on("optional"), leaf.spot.origin, condition)


def _has_known_words(section: str, template: CompiledTemplate, scope: Scope) -> bool:
    """Return whether the words of an argument have values when the program runs."""
    for slot in template.template.slots:
        mark = TextPiece(slot.at + 1, len(slot.word))
        if section == "prepare" and not is_host_word(slot.word):
            message = "prepare is of the machine, before its devices are looked at: host.… or options.…"
            scope.report_error(template.spot, "unknown-word", message, "for a device write prestart.NAME", mark=mark)
            return False
        if section == "prestart" and slot.word.startswith("given."):
            message = "where a node comes out is said when it is given, and that was before"
            scope.report_error(
                template.spot, "unknown-word", message, "take a word of the device, as {node}", mark=mark
            )
            return False
    return True


def _compile_condition(section: str, address: str, branch: Branch | None, scope: Scope) -> Clause | None:
    if branch is None:
        return None
    refuse_empty(branch, scope, "when says nothing, so it would always hold", "take it out, or say when")
    clause = compile_clause(f"{address}.when", branch, replace(scope, is_reread_at_grant=section == "prestart"))
    if section == "prepare":
        report_device_words(f"{address}.when", branch, scope, "what is asked of a device is prestart.NAME.when")
    return clause if clause.lines else None


def _compile_timeout(section: str, leaf: Leaf | None, scope: Scope) -> float:
    limit = _SECTIONS[section]
    value = parse_duration(str(leaf.value)) if leaf else None
    if leaf is not None and value is not None and not 0 < value <= (parse_duration(limit) or 0):
        message = f"a program of {section} may take {limit} at most, and some time"
        scope.report_error(leaf.spot, "type", message, f'write for example "{TIMEOUT}"')
    return value or parse_duration(TIMEOUT) or 0.0
