"""What a device waits for and what keeps it healthy, as it is said: `gate`, `prepare`, `prestart`, `health`."""

from __future__ import annotations

from collections.abc import Iterator

from agent.config.describe.clause_text import clause, line, short, split
from agent.config.describe.description_clause import DescriptionClause, instead, leaves, listed, text_of, value
from agent.config.language.value_checks import parse_looks
from agent.config.merge.config_tree import Branch, Leaf

_UNKNOWN = {
    "healthy": "healthy while unknown",
    "unhealthy": "unhealthy while unknown",
    "keep": "as it was while unknown",
}


def clauses(branch: Branch | None, words: str) -> Iterator[DescriptionClause]:
    """Named clauses: `once NAME: …`."""
    for name, member in branch.list_branches() if branch else ():
        first, added = split(member)
        spot = next(leaves(first)).spot if added.members and first.members else member.spot
        yield DescriptionClause(f"{words} {name}: {clause(first)}", spot, note=instead(*leaves(first), say=short))
        yield from _added(added)


def programs(branch: Branch | None, words: str) -> Iterator[DescriptionClause]:
    """Programs that are run."""
    for _, program in branch.list_branches() if branch else ():
        when = clause(program.get_branch("when"))
        optional = ", if there is such a program" if program.is_on("optional") else ""
        timeout = program.get_leaf("timeout")
        bound = f", {value(timeout.value)} at most" if timeout else ""
        text = f"{words} {_argv(program)}{bound}{f', when {when}' if when else ''}{optional}"
        yield DescriptionClause(text, program.spot, note=instead(program.get_leaf("run"), timeout))


def checks(health: Branch | None) -> Iterator[DescriptionClause]:
    """`health`: a line each; what another file says of its course stands below, with its own place."""
    for name, check in health.list_branches() if health else ():
        verb = next(iter(check.verbs), "")
        first, added = split(check.get_branch(verb) or Branch({}, check.spot))
        told = list(_told(check, verb, first))
        files = {spot.document.name for leaf in told or leaves(check) for spot in (leaf.spot, *leaf.replaced_spots)}
        course = [
            (leaf, said) for key in _COURSE if (leaf := check.get_leaf(key)) and (said := _course(key, leaf.value))
        ]
        own = [(leaf, said) for leaf, said in course if _differs(leaf) or leaf.spot.document.name not in files]
        plain = "".join(f"; {said}" for leaf, said in course if (leaf, said) not in own)
        spot = next((leaf.spot for leaf in told if leaf.replaced_spots), told[0].spot if told else check.spot)
        yield DescriptionClause(
            f"healthy while {name}: {_holding(check, verb, first)}{plain}", spot, note=instead(*told, say=short)
        )
        yield from _added(added)
        for leaf, said in own:
            say = _looked if leaf.spot.path[-1] in {"trip", "recover"} else value
            yield DescriptionClause(said, leaf.spot, level=1, note=instead(leaf, say=say))
        reason = check.get_leaf("reason")
        if reason is not None and (_differs(reason) or reason.spot.document.name not in files):
            yield DescriptionClause(f"saying {value(reason.value)}", reason.spot, level=1, note=instead(reason))


_COURSE = ("every", "trip", "recover", "on_unknown")


def _differs(leaf: Leaf) -> bool:
    return bool(instead(leaf))


def _added(clause_of: Branch) -> Iterator[DescriptionClause]:
    """The lines that another file added to a clause, each with its own place."""
    for address, node in clause_of.members.items():
        if isinstance(node, (Leaf, Branch)):
            yield DescriptionClause(f"and {line(address, clause_of)}", node.spot, level=1)


def _told(check: Branch, verb: str, first: Branch) -> Iterator[Leaf]:
    """The values that say what is looked at."""
    if first.members:
        yield from (leaf for leaf in first.members.values() if isinstance(leaf, Leaf))
    elif (leaf := check.get_leaf(verb)) is not None:
        yield leaf


def _holding(check: Branch, verb: str, first: Branch) -> str:
    what = text_of(check, verb)
    said = {
        "holds": clause(first),
        "log": f'the kernel log says no "{what}"{_counted(check)}',
        "rises": f"{what} does not grow",
        "run": f"{_argv(check)} ends well",
        "socket": f"the service at {what} says so{_served(check)}",
        "probe": f"the probe {what} says so",
    }.get(verb, "its IOMMU group is viable (see give)" if check.spot.path[-1] == "vfio" else "nothing is said")
    timeout = check.get_leaf("timeout")
    bound = f" within {value(timeout.value)}" if timeout else ""
    when = clause(check.get_branch("when"))
    return f"{said}{bound}{_latched(check)}{f', asked when {when}' if when else ''}"


def _served(check: Branch) -> str:
    """Of what it is asked, and in which language, where that is said."""
    of, speaks = check.get_leaf("of"), check.get_leaf("speaks")
    return (f" of {value(of.value)}" if of else "") + (f", in {value(speaks.value)}" if speaks else "")


def _counted(check: Branch) -> str:
    only, ignore = clause(check.get_branch("only")), clause(check.get_branch("ignore"))
    return (f", only if {only}" if only else "") + (f", unless {ignore}" if ignore else "")


def _latched(check: Branch) -> str:
    if check.is_on("latch"):
        return ", until cleared by a person"
    latch = clause(check.get_branch("latch"))
    return f", until cleared by a person if {latch}" if latch else ""


def _course(key: str, of: object) -> str:
    match key:
        case "every":
            return f"looked at every {value(of)}"
        case "trip" if isinstance(of, str) and " in " in of:
            return f"failing at {of}"
        case "trip":
            return f"failing after {_looked(of)}"
        case "recover" if of == "never":
            return "never well again by itself"
        case "recover":
            return f"well again after {_looked(of)}"
    return _UNKNOWN.get(str(of), f"{value(of)} while unknown")


def _looked(of: object) -> str:
    number = parse_looks(of)
    return value(of) if number is None else f"{number} look{'s' * (number != 1)}"


def _argv(program: Branch) -> str:
    leaf = program.get_leaf("run")
    return listed(leaf.value, " ") if leaf else "nothing"
