"""Files and directories of a container, with checks for two mounts at one container path."""

from __future__ import annotations

from collections.abc import Sequence

from agent.config.give.give_sections import GiveSection
from agent.config.give.nodes import compile_container_paths, find_collision
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.toml.file_position import TextPiece
from agent.config.values.templates import CompiledTemplate, compile_path
from agent.core.entry.resource_spec import MountGive
from agent.core.language.glob import PatternError, parse

_HIDDEN = 0xE000  # first private character; they replace a `{word}` while the glob is parsed


def compile_mounts(sections: Sequence[GiveSection], scope: Scope) -> tuple[MountGive, ...]:
    """Return the mounts of an entry."""
    mounts = [
        _compile_mount(name, member, section, scope)
        for section in sections
        for name, member in section.branch.list_branches("mounts")
    ]
    return tuple(mount for mount in mounts if mount is not None)


def _compile_mount(name: str, member: Branch, section: GiveSection, scope: Scope) -> MountGive | None:
    condition = section.compile_condition(member, scope)
    leaf = scope.require_leaf(member, "path", f"{section.address}.mounts.{name} has no path", 'write path = "/…"')
    if leaf is None:
        return None
    path = compile_path(leaf.spot, leaf.value, scope, "a mount's path", container=False, example="/opt/x")
    is_several = None if path is None else _can_match_several(path, scope)
    if path is None or is_several is None:
        return None
    to_leaf = member.get_leaf("to")
    container_paths = compile_container_paths(to_leaf, scope) if to_leaf else ()
    if container_paths is None:
        return None
    faults = [
        fault
        for target in container_paths
        if (fault := _find_mount_collision(target, is_several=is_several) or find_collision(path, target, "mounts"))
    ]
    for target, message, write in faults:
        scope.report_error(target.spot, "differs-between-devices", message, write, mark="text")
    if faults or condition.is_never:
        return None
    return MountGive(
        name,
        path.template,
        tuple(target.template for target in container_paths),
        member.is_on("read_only"),
        member.is_on("optional"),
        leaf.spot.origin,
        path.varies_by_member or condition.per_member,
        condition.clause,
    )


def _find_mount_collision(
    container_path: CompiledTemplate, *, is_several: bool
) -> tuple[CompiledTemplate, str, str] | None:
    """Return the fault if all files that match a glob would have one container path. Return None without a fault."""
    if not is_several or container_path.template.source.endswith("/"):
        return None
    directory = f"{container_path.template.source.rpartition('/')[0]}/"
    return (
        container_path,
        "several can fit path, and all would come out here",
        f'write "{directory}": they keep their names',
    )


def _can_match_several(path: CompiledTemplate, scope: Scope) -> bool | None:
    """Return whether a path can match more than one file. Return None for an invalid glob, which is reported."""
    source = path.template.source
    plain = source.replace("{{", "xx").replace("}}", "xx")
    for slot in path.template.slots:
        end = plain.index("}", slot.at) + 1
        plain = plain[: slot.at] + "".join(chr(_HIDDEN + index) for index in range(slot.at, end)) + plain[end:]
    try:
        return not parse(plain).is_literal
    except PatternError as error:
        write = "".join(source[ord(c) - _HIDDEN] if 0 <= ord(c) - _HIDDEN < len(source) else c for c in error.write)
        scope.report_error(path.spot, "glob", error.message, write, mark=TextPiece(error.at, error.length))
        return None
