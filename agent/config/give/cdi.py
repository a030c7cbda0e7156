"""CDI devices that the container gets, by their qualified names (`give.cdi`)."""

from __future__ import annotations

from collections.abc import Sequence

from agent.config.give.give_sections import GiveSection
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.templates import compile_template
from agent.core.entry.cdi import is_qualified_name
from agent.core.entry.resource_spec import CdiGive


def compile_cdi(sections: Sequence[GiveSection], scope: Scope) -> tuple[CdiGive, ...]:
    """Return the CDI devices of an entry."""
    devices = [
        _compile_device(key, member, section, scope)
        for section in sections
        for key, member in section.list_members("cdi")
    ]
    return tuple(device for device in devices if device is not None)


def _compile_device(key: str, member: Branch, section: GiveSection, scope: Scope) -> CdiGive | None:
    condition = section.compile_condition(member, scope)
    message = f"{section.address}.cdi.{key} has no name"
    leaf = scope.require_leaf(member, "name", message, 'write name = "vendor/class=device"')
    if leaf is None:
        return None
    name = compile_template(leaf.spot, leaf.value, scope, "a CDI device's name")
    if name is None:
        return None
    if not is_qualified_name("".join(piece if isinstance(piece, str) else "x" for piece in name.template.pieces)):
        message = "a CDI device's full name is vendor/class=device"
        scope.report_error(leaf.spot, "cdi-name", message, 'write for example "example.com/card={name}"', mark="text")
        return None
    if condition.is_never:
        return None
    unchecked, via = member.is_on("unchecked"), member.get_leaf("via")
    return CdiGive(
        key, name.template, str(via.value) if via else "field", unchecked, leaf.spot.origin, condition.clause
    )
