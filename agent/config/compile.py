"""Compiling: from a merged sentence to a `ResourceSpec`, everything wrong with it reported on the way."""

from __future__ import annotations

from agent.config import names
from agent.config.cdi import compile_cdi
from agent.config.clauses import compile_clause
from agent.config.finding import Finding
from agent.config.give import compile_nodes
from agent.config.groups import compile_group, declare_parts
from agent.config.ids import compile_ids
from agent.config.language import WARNINGS, hint, not_yet
from agent.config.later import left_for_later
from agent.config.mounts import compile_mounts
from agent.config.options import compile_options
from agent.config.own import OwnWords
from agent.config.sayings import compile_annotations, compile_env
from agent.config.scope import Scope
from agent.config.shares import compile_shares
from agent.config.shelf import Sentence
from agent.config.sources import compile_every, compile_source, is_single
from agent.config.spot import Piece, Spot
from agent.config.tree import Branch, Leaf
from agent.core.clause import Clause
from agent.core.resource import ResourceSpec

_NAME_HINT = 'write name = "example.com/…", as pods ask for it'
_SOURCE_HINT = 'write class = "…", or source = …'


def compile_entry(sentence: Sentence, spot: Spot, registration: str, findings: list[Finding]) -> ResourceSpec | None:
    """The resource that an entry makes, or none if it lacks a name, a source or an id.

    If errors are added to the findings the spec is not to be served. `registration` is the agent's default.
    """
    spec = _compile(sentence, spot, registration, findings, entry=True)
    for key, write in (("name", _NAME_HINT), ("source", _SOURCE_HINT)):
        told = sentence.tree.members.keys() & ({key, "adds_to"} if key == "name" else {key})
        if sentence.keys_known and not told:
            findings.append(spot.error("missing", f"this resource has no {key}", write))
    return spec


def check_class(sentence: Sentence, spot: Spot, findings: list[Finding]) -> None:
    """Report everything wrong with a class by itself, as far as that can be said without an entry."""
    if sentence.keys_known and "about" not in sentence.tree.members:
        findings.append(spot.error("missing", "a class says what it is about", 'write about = "every …"'))
    _compile(sentence, spot, "socket", findings, entry=False)


def _compile(
    sentence: Sentence, spot: Spot, registration: str, findings: list[Finding], *, entry: bool
) -> ResourceSpec | None:
    tree = sentence.tree
    later = left_for_later(tree)
    scope = Scope(
        None,
        keys_known=sentence.keys_known and not later,
        words_known=sentence.words_known and not any(part.brings_words for part in later),
        accepted=_accepted(tree, findings),
        single=False,
        findings=findings,
        library=sentence.shelf,
    )
    _about(tree, scope)
    source_leaf = tree.leaf("source")
    scope.source = compile_source(source_leaf, scope) if source_leaf else None
    every = compile_every(source_leaf, scope) if source_leaf else None
    scope.single = scope.source is not None and is_single(scope.source)
    constants = compile_options(tree, scope, spot, demanded=entry)
    own = OwnWords(tree, scope, constants)
    scope.own = own
    declare_parts(tree, scope)
    scope.judging = True
    group = compile_group(tree, scope)
    scope.judging = False
    scope.grouped = group is not None
    scope.single = scope.single or (group is not None and not group.by)
    name = _name(tree.leaf("name"), scope)
    ids = compile_ids(tree, scope, spot, demanded=scope.keys_known)
    shares = compile_shares(tree, scope, ids)
    match = tree.branch("match")
    give = tree.branch("give")
    nodes = compile_nodes(give, scope)
    mounts = compile_mounts(give, scope)
    env = compile_env(give, scope, name)
    annotations = compile_annotations(give, scope)
    cdi = compile_cdi(give, scope)
    scope.judging = True
    clause = compile_clause("match", match, scope) if match else Clause("match", (), spot.origin)
    exclude = _exclude(tree.branch("exclude"), scope)
    scope.judging = False
    own_registration = _registration(tree.leaf("registration"), scope)
    words = own.all()
    findings += [not_yet(part.spot, part.address, mark="key") for part in later]
    if name is None or scope.source is None or not ids:
        return None
    class_leaf = tree.leaf("class")
    return ResourceSpec(
        name=name,
        origin=spot.origin,
        class_name=str(class_leaf.value) if class_leaf else None,
        source=scope.source,
        match=clause,
        exclude=exclude,
        id=tuple(made.text for made in ids),
        shares=shares,
        nodes=nodes,
        env=env,
        registration=own_registration or registration,
        own={**constants, **words},
        every=every,
        mounts=mounts,
        annotations=annotations,
        cdi=cdi,
        group=group,
        joins=own.joins(),
    )


def _exclude(branch: Branch | None, scope: Scope) -> tuple[Clause, ...]:
    """The exclusions. One without lines would exclude everything, and is reported."""
    clauses: list[Clause] = []
    for name, member in branch.branches() if branch else ():
        if not member.members and member.spot.data == {}:
            message = f"exclude.{name} says nothing, so it would exclude everything"
            scope.error(member.spot.error("type", message, "take it out, or say what it excludes", mark="key"))
        clauses.append(compile_clause(f"exclude.{name}", member, scope))
    return tuple(clause for clause in clauses if clause.lines)


def _name(leaf: Leaf | None, scope: Scope) -> str | None:
    """The resource's name, if the kubelet takes it."""
    if leaf is None:
        return None
    name = leaf.value
    if not isinstance(name, str):
        scope.error(leaf.spot.error("type", "a resource's name is text", 'write "example.com/…"'))
        return None
    if "{" in name:
        scope.error(not_yet(leaf.spot, "a {word} in a name", mark=Piece(name.index("{"), len(name))))
        return None
    fault = names.judge(name)
    if fault is not None:
        scope.error(leaf.spot.error("resource-name", fault.message, fault.write, mark=Piece(fault.at, fault.length)))
        return None
    return name


def _about(tree: Branch, scope: Scope) -> None:
    """Report what is wrong with the keys that only people read."""
    about = tree.leaf("about")
    if about is not None and not isinstance(about.value, str):
        scope.error(about.spot.error("type", "about is text, for people", 'write "…"'))
    part = tree.leaf("part")
    if part is not None and not isinstance(part.value, bool):
        scope.error(part.spot.error("type", "part is true or false, without quotes"))


def _registration(leaf: Leaf | None, scope: Scope) -> str | None:
    if leaf is None or leaf.value in ("socket", "watcher"):  # no set: it may have no hash
        return str(leaf.value) if leaf else None
    scope.error(leaf.spot.error("type", "registration is socket or watcher", 'write "socket", the default'))
    return None


def _accepted(tree: Branch, findings: list[Finding]) -> frozenset[str]:
    """The codes of warnings that the entry accepts, with a reason."""
    branch = tree.branch("accept")
    accepted: set[str] = set()
    for code, node in branch.members.items() if branch else ():
        if not isinstance(node, Leaf):
            continue
        if code not in WARNINGS:
            message = f"no warning has the code {code}; there are {', '.join(sorted(WARNINGS))}"
            findings.append(node.spot.error("unknown-key", message, hint(code, WARNINGS), mark="key"))
        elif not isinstance(node.value, str) or not node.value.strip():
            findings.append(node.spot.error("type", "accept says why, in text", 'write "why"'))
        else:
            accepted.add(code)
    return frozenset(accepted)
