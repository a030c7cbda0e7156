"""The making of one CDI spec of our own: what its devices have, read from the host, and its file as that wants it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from agent.anew import Asked, read_anew
from agent.core.entry.own_cdi import Edits, document, file_name, parsed, rendered
from agent.core.grants.allocate import edits_of
from agent.core.grants.grant import Refused
from agent.core.language.value import Absent
from agent.host.cdi import SpecDirectories
from agent.host.root import Root
from agent.host.spec_file import SpecFiles


class Said(NamedTuple):
    """What a device has in its spec, and what that was made of."""

    asked: Asked
    edits: Edits

    def is_of(self, other: Asked) -> bool:
        """Whether nothing of it was looked at again."""
        mine = self.asked
        return mine.candidate is other.candidate and mine.spec is other.spec and mine.device.id == other.device.id


class Plan(NamedTuple):
    """What is to be in a spec.

    known: what need not be read again. asked: what has to be. listed: all that may stay as it was.
    """

    resource: str
    known: Mapping[str, Said]
    asked: Mapping[str, Asked]
    listed: frozenset[str]


class Done(NamedTuple):
    """What a spec says now, by the full names of its devices; why it lacks some, by key; how its file is known."""

    said: Mapping[str, Said]
    edits: Mapping[str, Edits]
    faults: Mapping[str, str]
    version: tuple[int, ...] = ()


class Making:
    """Makes specs, each call in a thread.

    specs: all specs, to see what else has a name of ours. files: ours; none where there is no directory for them.
    """

    def __init__(self, root: Root, specs: SpecDirectories, files: SpecFiles | None) -> None:
        self._root = root
        self._specs = specs
        self._files = files

    def make(self, plan: Plan) -> Done:
        """Read what has to be, and write what has changed."""
        said, faults = self._read(plan)
        keys = {one.device.key for one in plan.asked.values()} | {one.asked.device.key for one in plan.known.values()}
        if self._files is None:
            return Done(said, {}, dict.fromkeys(keys, "its CDI spec: paths.cdi names no directory for it"))
        name = file_name(plan.resource)
        try:
            former = parsed(self._files.read(name) or b"", self._files.owner) or {}
            edits = {one: former[one] for one in former if one in plan.listed} | {
                one: each.edits for one, each in said.items()
            }
            data = rendered(document(plan.resource, edits), self._files.owner) if edits else None
            self._files.put(name, data)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else error.strerror
            reason = f"its CDI spec {self._files.path(name)}: {why}"
            return Done(said, {}, {**dict.fromkeys(keys, reason), **faults})
        specs = self._specs.read(self._root)
        for one, each in said.items():
            if isinstance(found := specs.find(one), Absent):
                faults[each.asked.device.key] = f"its CDI spec: {one} {found.reason}"
        return Done(said, edits, faults, self._files.version(name))

    def _read(self, plan: Plan) -> tuple[dict[str, Said], dict[str, str]]:
        """What each device has, and why that cannot be said of some, by key."""
        said, faults = dict(plan.known), dict[str, str]()
        asked = list(plan.asked.items())
        read = read_anew(self._root, [one for _, one in asked], self._specs)
        for (name, one), chosen in zip(asked, read, strict=True):
            try:
                said[name] = Said(one, edits_of(one.spec, chosen, plan.resource))
            except Refused as refused:
                faults[one.device.key] = f"its CDI spec: {refused.text}"
        return said, faults
