"""The table of the device-information file of each device (`give.devinfo`)."""

from __future__ import annotations

from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.json_values import compile_json
from agent.core.entry.resource_spec import Slots
from agent.core.language.json_template import JsonTable


def compile_devinfo(tree: Branch, scope: Scope, slots: Slots | None) -> JsonTable | None:
    """Return the JSON template of the file, or None. Faults are reported."""
    give = tree.get_branch("give")
    branch = give.get_branch("devinfo") if give is not None else None
    if branch is None:
        return None
    if slots is not None:
        message = "a slot is of no device, so there is no file of it"
        scope.report_error(branch.spot, "type", message, "write devinfo = false, or replicas for slots", mark="key")
        return None
    table = compile_json(branch, scope, "give.devinfo").text
    return table if isinstance(table, JsonTable) else None
