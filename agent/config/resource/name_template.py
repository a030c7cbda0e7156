"""The resource name of an entry: constant, with words, or the name of the entry in `adds_to`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from agent.config.merge.config_tree import Branch, Leaf
from agent.config.scope import Scope
from agent.config.toml.file_position import TextPiece
from agent.config.values.templates import compile_template
from agent.core.entry.dependencies import add_dependencies, list_dependencies
from agent.core.entry.joins import DerivedWord
from agent.core.language.template import Template
from agent.core.language.value import FormError

VENDOR_LIMIT = 244  # characters; the kubelet checks "requests." + name, and a prefix has at most 253
NAME_LIMIT = 63

_VENDOR = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


def parse_name(name: str) -> str:
    """Return the resource name.

    Raises:
        FormError: the kubelet refuses it.
    """
    vendor, slash, name_part = name.partition("/")
    if not slash:
        raise FormError('a resource name is VENDOR/NAME, and this has no "/"', 0, len(name), _suggest_name(name))
    if "/" in name_part:
        raise FormError(
            'a resource name has one "/"', len(vendor) + 1 + name_part.index("/"), 1, "write one of - _ . instead"
        )
    if (at := name.find("kubernetes.io/")) >= 0:
        raise FormError(
            "names with kubernetes.io/ are Kubernetes' own", at, len("kubernetes.io/"), _suggest_name(name_part)
        )
    if name.startswith("requests."):
        raise FormError(
            'a name beginning with "requests." is a quota to the kubelet', 0, len("requests."), "leave it out"
        )
    _check_vendor(vendor)
    _check_name_part(name_part, len(vendor) + 1)
    return name


def _check_vendor(vendor: str) -> None:
    if len(vendor) > VENDOR_LIMIT:
        raise FormError(
            f'before the "/" the kubelet takes {VENDOR_LIMIT} characters, these are {len(vendor)}', 0, len(vendor)
        )
    if _VENDOR.fullmatch(vendor):
        return
    if _VENDOR.fullmatch(vendor.lower()):
        raise FormError('the kubelet refuses capitals before the "/"', 0, len(vendor), f'write "{vendor.lower()}"')
    repaired_vendor = ".".join(
        label for part in vendor.lower().split(".") if (label := re.sub(r"[^a-z0-9-]+", "-", part).strip("-"))
    )
    raise FormError(
        'before the "/" stands a domain: a-z, 0-9, - and dots, each part beginning and ending with a letter or digit',
        0,
        len(vendor),
        f'write "{repaired_vendor}"' if repaired_vendor else 'write for example "example.com"',
    )


def _check_name_part(name_part: str, at: int) -> None:
    if len(name_part) > NAME_LIMIT:
        raise FormError(
            f'behind the "/" the kubelet takes {NAME_LIMIT} characters, these are {len(name_part)}', at, len(name_part)
        )
    if _NAME.fullmatch(name_part):
        return
    repaired_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name_part).strip("-._")
    raise FormError(
        'behind the "/" stand A-Z, a-z, 0-9, "-", "_" and ".", beginning and ending with a letter or digit',
        at if name_part else 0,
        len(name_part) or at,
        f'write "{repaired_name}"' if repaired_name else 'write for example "gpu"',
    )


def _suggest_name(name: str) -> str:
    repaired_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "gpu"
    return f'write for example "example.com/{repaired_name}"'


class NameTemplate(NamedTuple):
    """A resource name.

    name: the name as written.
    template: the name, parsed, if the name has words.
    is_addition: the entry adds devices to the resource of another entry.
    """

    name: str
    template: Template | None = None
    is_addition: bool = False


def get_name_leaf(tree: Branch) -> Leaf | None:
    """Return the value of `name` or `adds_to`. An entry has only one of them."""
    return tree.get_leaf("name") or tree.get_leaf("adds_to")


def compile_name(tree: Branch, scope: Scope) -> NameTemplate | None:
    """Return the name, or None if the kubelet rejects it. Faults are reported."""
    leaf = get_name_leaf(tree)
    if leaf is None:
        return None
    name = leaf.value
    if not isinstance(name, str):
        scope.report_error(leaf.spot, "type", "a resource's name is text", 'write "example.com/…"')
        return None
    adds = leaf is tree.get_leaf("adds_to")
    if "{" in name or "}" in name:
        return _compile_with_words(leaf, name, scope, adds=adds)
    if scope.parse_text(leaf.spot, "resource-name", lambda: parse_name(name)) is None:
        return None
    return NameTemplate(name, is_addition=adds)


def _compile_with_words(leaf: Leaf, name: str, scope: Scope, *, adds: bool) -> NameTemplate | None:
    """Return a name with words of the device. Words can only follow the "/"."""
    template = compile_template(leaf.spot, name, scope, "a resource's name")
    if template is None:
        return None
    if template.is_list:
        message = "a device has one name, and this has a list in it"
        scope.report_error(leaf.spot, "resource-name", message, "take a word that says one thing", mark="text")
        return None
    first_slot = template.template.slots[0] if template.template.slots else None
    if first_slot is not None and "/" not in name[: first_slot.at]:
        message = 'up to the "/" a name is written out: a device does not say whose resource it is'
        mark = TextPiece(first_slot.at, name.find("}", first_slot.at) + 1 - first_slot.at)
        scope.report_error(
            leaf.spot, "resource-name", message, f'write "example.com/{name[first_slot.at :]}"', mark=mark
        )
        return None
    literal = "".join(piece if isinstance(piece, str) else "x" for piece in template.template.pieces)
    try:
        parse_name(literal)
    except FormError as error:
        write = f'write for example "example.com/{{{first_slot.word}}}"' if first_slot else error.write
        scope.report_error(leaf.spot, "resource-name", error.message, write, mark="text")
        return None
    return NameTemplate(name, template.template if first_slot else None, adds)


def warn_of_unstable_name(
    name_template: NameTemplate | None, tree: Branch, derived_words: Mapping[str, DerivedWord], scope: Scope
) -> None:
    """Warn of a name that changes when one of its words gets a value.

    At boot, its devices would have one name first and another name later. The devices that a pod uses by then would
    become Unhealthy. `else` beside `by` is safe, because it replaces a missing map key.
    """
    let = tree.get_branch("let")
    if name_template is None or name_template.template is None or let is None:
        return
    for word in add_dependencies(list_dependencies(name_template.template), derived_words):
        word_branch = let.get_branch(word)
        if word_branch is None:
            continue
        leaf = word_branch.get_leaf("if_absent") or (
            None if "by" in word_branch.verbs else word_branch.get_leaf("else")
        )
        if leaf is not None:
            message = f"{word} is in the name, and its devices have another name until it is there"
            write = "leave it out: a device waits for its name"
            scope.report_warning(leaf.spot, "unsettled-name", message, write, mark="key")
