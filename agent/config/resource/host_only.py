"""Conditions about the machine, not about a device: `gate`, and `prepare` with its `when`."""

from __future__ import annotations

from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope


def is_host_word(address: str) -> bool:
    """Return whether an address is about the machine: a word of `host`, an option, or an absolute path."""
    return address.startswith(("host.", "options.", "/"))


def report_device_words(subject: str, clause: Branch, scope: Scope, write: str) -> None:
    """Report the lines of a clause that are about a device."""
    for address, node in clause.members.items():
        if isinstance(node, Leaf) and not is_host_word(address):
            message = f"{subject} is about the machine: host.…, options.…, or a path from the root"
            scope.report_error(node.spot, "unknown-word", message, write, mark="key")
