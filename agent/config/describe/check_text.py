"""Descriptions of preconditions, programs and checks: `gate`, `prepare`, `prestart`, `health`."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config.describe.clause_text import describe_clause, describe_line, shorten_test, split_added_lines
from agent.config.describe.description_clause import (
    DescriptionClause,
    describe_replaced,
    format_list,
    format_value,
    get_text,
    walk_leaves,
)
from agent.config.language.value_checks import parse_looks
from agent.config.merge.config_tree import Branch, Leaf
from agent.config.resource.health import CHECK_KINDS

_UNKNOWN = {
    "healthy": "healthy while unknown",
    "unhealthy": "unhealthy while unknown",
    "keep": "as it was while unknown",
}


def describe_clauses(branch: Branch | None, prefix: str) -> Iterator[DescriptionClause]:
    """Yield one description clause for each named clause, for example `once NAME: …`."""
    for name, member in branch.list_branches() if branch else ():
        first_clause, added_lines = split_added_lines(member)
        spot = next(walk_leaves(first_clause)).spot if added_lines.members and first_clause.members else member.spot
        yield DescriptionClause(
            f"{prefix} {name}: {describe_clause(first_clause)}",
            spot,
            note=describe_replaced(*walk_leaves(first_clause), formatter=shorten_test),
        )
        yield from _describe_added_lines(added_lines)


def describe_programs(branch: Branch | None, prefix: str) -> Iterator[DescriptionClause]:
    """Yield one description clause for each program."""
    for _, program in branch.list_branches() if branch else ():
        condition = describe_clause(program.get_branch("when"))
        optional = ", if there is such a program" if program.is_on("optional") else ""
        timeout = program.get_leaf("timeout")
        bound = f", {format_value(timeout.value)} at most" if timeout else ""
        text = f"{prefix} {_describe_argv(program)}{bound}{f', when {condition}' if condition else ''}{optional}"
        yield DescriptionClause(text, program.spot, note=describe_replaced(program.get_leaf("run"), timeout))


def describe_checks(health: Branch | None) -> Iterator[DescriptionClause]:
    """Yield the description of `health`: one line for each check.

    Settings from another file follow on lines of their own, each with its file position.
    """
    for name, check in health.list_branches() if health else ():
        verb = next(iter(check.verbs), "")
        first_clause, added_lines = split_added_lines(check.get_branch(verb) or Branch({}, check.spot))
        criterion_leaves = list(_list_criterion_leaves(check, verb, first_clause))
        files = {
            spot.document.name
            for leaf in criterion_leaves or walk_leaves(check)
            for spot in (leaf.spot, *leaf.replaced_spots)
        }
        course = [
            (leaf, text)
            for key in _COURSE
            if (leaf := check.get_leaf(key)) and (text := _describe_course(key, leaf.value))
        ]
        separate_settings = [
            (leaf, text) for leaf, text in course if _has_replaced_value(leaf) or leaf.spot.document.name not in files
        ]
        inline_text = "".join(f"; {text}" for leaf, text in course if (leaf, text) not in separate_settings)
        spot = next(
            (leaf.spot for leaf in criterion_leaves if leaf.replaced_spots),
            criterion_leaves[0].spot if criterion_leaves else check.spot,
        )
        yield DescriptionClause(
            f"healthy while {name}: {_describe_criterion(check, verb, first_clause)}{inline_text}",
            spot,
            note=describe_replaced(*criterion_leaves, formatter=shorten_test),
        )
        yield from _describe_added_lines(added_lines)
        for leaf, text in separate_settings:
            say = _describe_looks if leaf.spot.path[-1] in {"trip", "recover"} else format_value
            yield DescriptionClause(text, leaf.spot, level=1, note=describe_replaced(leaf, formatter=say))
        reason = check.get_leaf("reason")
        if reason is not None and (_has_replaced_value(reason) or reason.spot.document.name not in files):
            yield DescriptionClause(
                f"saying {format_value(reason.value)}", reason.spot, level=1, note=describe_replaced(reason)
            )


_COURSE = ("every", "trip", "recover", "on_unknown")


def _has_replaced_value(leaf: Leaf) -> bool:
    return bool(describe_replaced(leaf))


def _describe_added_lines(added_lines: Branch) -> Iterator[DescriptionClause]:
    """Yield the lines that another file added to a clause, each with its file position."""
    for address, node in added_lines.members.items():
        if isinstance(node, (Leaf, Branch)):
            yield DescriptionClause(f"and {describe_line(address, added_lines)}", node.spot, level=1)


def _list_criterion_leaves(check: Branch, verb: str, first_clause: Branch) -> Iterator[Leaf]:
    """Yield the values of the criterion of a check."""
    if first_clause.members:
        yield from (leaf for leaf in first_clause.members.values() if isinstance(leaf, Leaf))
    elif (leaf := check.get_leaf(verb)) is not None:
        yield leaf


def _describe_criterion(check: Branch, verb: str, first_clause: Branch) -> str:
    syntax = CHECK_KINDS.get(verb)
    if syntax is None:
        text = "its IOMMU group is viable (see give)" if check.spot.path[-1] == "vfio" else "nothing is said"
    else:
        leaf = check.get_leaf(verb)
        text = syntax.description.format(format_list(leaf.value, " ") if leaf else describe_clause(first_clause))
        for key, key_text in syntax.own_keys.items():
            value = "" if check.is_on(key) else get_text(check, key) or describe_clause(check.get_branch(key))
            text += key_text.format(value) if value else ""
    latch = ", until cleared by a person" if check.is_on("latch") else ""
    condition = describe_clause(check.get_branch("when"))
    return f"{text}{latch}{f', asked when {condition}' if condition else ''}"


def _describe_course(key: str, setting: object) -> str:
    match key:
        case "every":
            return f"looked at every {format_value(setting)}"
        case "trip" if isinstance(setting, str) and " in " in setting:
            return f"failing at {setting}"
        case "trip":
            return f"failing after {_describe_looks(setting)}"
        case "recover" if setting == "never":
            return "never well again by itself"
        case "recover":
            return f"well again after {_describe_looks(setting)}"
    return _UNKNOWN.get(str(setting), f"{format_value(setting)} while unknown")


def _describe_looks(threshold: object) -> str:
    number = parse_looks(threshold)
    return format_value(threshold) if number is None else f"{number} look{'s' * (number != 1)}"


def _describe_argv(program: Branch) -> str:
    leaf = program.get_leaf("run")
    return format_list(leaf.value, " ") if leaf else "nothing"
