"""`[probe.NAME]`: programs that run on and report, each compiled."""

from __future__ import annotations

from collections.abc import Mapping

from agent.config.language.durations import seconds
from agent.config.merge.config_tree import Branch
from agent.config.scope import Scope
from agent.config.values.program_args import argv_phrases
from agent.core.entry.query import ProbeSpec
from agent.core.language.value import Absent, Value

TIMEOUT = 30.0  # seconds for which a probe may be silent


def compile_probes(tree: Branch, scope: Scope, known: Mapping[str, ProbeSpec | None]) -> dict[str, ProbeSpec | None]:
    """The probes that an entry or a class may speak of: its own, and those of agent.toml, `known`."""
    found: dict[str, ProbeSpec | None] = {**known}
    branch = tree.branch("probe")
    for name, member in branch.branches() if branch else ():
        found[name] = _probe(name, member, scope)
    return found


def _probe(name: str, branch: Branch, scope: Scope) -> ProbeSpec | None:
    run = branch.leaf("run")
    if run is None:
        message = f"probe.{name} does not say what is run"
        scope.error(branch.spot.error("missing", message, 'write run = ["/usr/bin/…"]', mark="key"))
        return None
    argv = argv_phrases(run, scope)
    if argv is None:
        return None
    written: list[str] = []
    for one in argv:
        word = next((slot.word for slot in one.text.slots if slot.word not in scope.chosen), None)
        if word is not None:
            if not word.startswith("options."):
                message = f"one probe runs for all devices, and {word} is of one of them"
                scope.error(one.spot.error("unknown-word", message, "write options.NAME, or take it out", mark="text"))
            return None
        texts = one.text.write_all(lambda word: _chosen(scope, word))
        written += () if isinstance(texts, Absent) else texts
    timeout = branch.leaf("timeout")
    value = seconds(timeout.value) if timeout and isinstance(timeout.value, str) else TIMEOUT
    if timeout is not None and not value:
        scope.error(timeout.spot.error("type", "nothing is heard in no time", 'write for example "30s"'))
    return ProbeSpec(name, tuple(written), value or TIMEOUT)


def _chosen(scope: Scope, word: str) -> Value | Absent:
    return scope.chosen.get(word, Absent("nobody chose"))
