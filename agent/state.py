"""The state file: what must survive a restart. Ids given (so that they are given again) and ids that pods may hold.

JSON, written whole and renamed into place. A file that is missing, of another version or damaged is reported and
taken as empty: nothing in it is needed to serve what is there.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from agent.core.entry.resource import SHARE_MARK
from agent.core.health.conditions import By, Memory
from agent.core.health.drained import Drain, Drained
from agent.core.inventory.device import SUFFIX, Device, Health, Member, Snapshot, list_order
from agent.core.language.text import ID_LIMIT

VERSION = 1
FILE = "state.json"
NOT_SEEN = "not seen since the agent started"
SIZE_LIMIT = 64 * 1024 * 1024  # bytes; a hundred times what 10,000 devices take
LAST_WRITE_SECONDS = 2.0  # how long the way out may wait for a disk
_ID = re.compile(rf"[A-Za-z0-9_.:@-]{{1,{ID_LIMIT}}}")
_SHARES_LIMIT = 1_000_000

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """The lists as last told, and the ids that pods may hold.

    fanned: those lists whose name came out of words, with the name as its entry writes it.
    memory: what is known of checks. boot: the boot that this was in.
    drained: what a person has taken out of scheduling.
    """

    lists: Mapping[str, Snapshot] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    fanned: Mapping[str, str] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    boot: str = ""
    drained: Drained = field(default_factory=Drained)


def load(directory: str, boot: str = "") -> State:
    """The state of the agent's last life. `boot` is this one: what counts from boot on does not outlast it."""
    path = os.path.join(directory, FILE)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "no plain file")
            text = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError:
        return State()
    except OSError as error:
        log.warning("state: %s cannot be read (%s): starting without it", path, error)
        return State()
    try:
        if len(text) > SIZE_LIMIT:
            raise ValueError(f"more than {SIZE_LIMIT} bytes")
        state = _from_json(json.loads(text))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        log.warning("state: %s is not as this version writes it (%r): starting without it", path, error)
        return State()
    if state.boot == boot:
        return state
    return replace(state, memory=replace(state.memory, counted={}, cleared={}), boot=boot)


class StateFile:
    """Writes the newest state after each change; while it writes, further changes become one."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._wanted: State | None = None
        self._written = ""
        self._writer = _Writer()
        self._changed = asyncio.Event()
        self._failing = False
        self._tried: State | None = None  # what was written last, or could not be
        self._progress = asyncio.Event()

    def save(self, state: State) -> None:
        """Have a state written soon."""
        self._wanted = state
        self._changed.set()

    async def saved(self) -> bool:
        """Return when what was saved last is written, or cannot be; whether it is."""
        while self._tried is not self._wanted:
            await self._progress.wait()
        return not self._failing

    async def run(self) -> None:
        """Write whatever is saved, until cancelled; what was saved last is written even then."""
        writing: asyncio.Task[None] | None = None
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                # Not to be torn by a cancellation: its thread would go on, beside that of the last write.
                writing = asyncio.create_task(self._write())
                await asyncio.shield(writing)
        finally:
            await self._finish(writing)

    async def _finish(self, writing: asyncio.Task[None] | None) -> None:
        try:
            async with asyncio.timeout(LAST_WRITE_SECONDS):
                if writing is not None:
                    await writing
                await self._write()
        except TimeoutError:
            log.warning("state: the disk does not answer: what changed last is not remembered")

    async def _write(self) -> None:
        state = self._wanted
        if state is None:
            return
        await self._put(state)
        self._tried = state
        self._progress.set()
        self._progress = asyncio.Event()

    async def _put(self, state: State) -> None:
        import aiofiles.os  # the first lists need not wait for it

        path = os.path.join(self._directory, FILE)
        text = await asyncio.to_thread(self._writer.text, state)
        if text == self._written:
            return
        try:
            await aiofiles.os.makedirs(self._directory, mode=0o700, exist_ok=True)
            async with aiofiles.open(f"{path}.new", "w", encoding="utf-8") as file:
                await file.write(text)
                await file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            await aiofiles.os.replace(f"{path}.new", path)
        except OSError as error:
            if not self._failing:
                log.warning("state: cannot be written (%s): ids held by pods will not outlast a restart", error)
            self._failing = True
            return
        self._failing = False
        self._written = text


class _Writer:
    """The text of a state; a list in which nothing of what is remembered has changed is not written anew."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[Snapshot, str]] = {}

    def text(self, state: State) -> str:
        """As the file has it, a line for each resource."""
        self._lists = {name: self._list(name, snapshot) for name, snapshot in state.lists.items()}
        lists = ",\n".join(f" {json.dumps(name)}: {text}" for name, (_, text) in self._lists.items())
        memory = state.memory
        said = {"fanned": dict(sorted(state.fanned.items())), "held": sorted(state.held), "failing": memory.failing}
        said |= {"boot": state.boot, "latched": memory.latched, "counted": memory.counted, "cleared": memory.cleared}
        said |= {"drained": {"places": state.drained.places, "resources": state.drained.resources}}
        others = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in said.items())
        return f'{{"version": {VERSION},\n"lists": {{\n{lists}\n}},\n{others}}}\n'

    def _list(self, name: str, snapshot: Snapshot) -> tuple[Snapshot, str]:
        before, text = self._lists.get(name, (None, ""))
        if before is None or not _alike(before.devices, snapshot.devices):
            text = json.dumps([_remembered(device) for device in snapshot.devices])
        return snapshot, text


def _alike(before: Sequence[Device], now: Sequence[Device]) -> bool:
    """Whether the file would say the same of both. What did not change is the same object (`assemble`)."""
    return len(before) == len(now) and all(
        one is other or _remembered(one) == _remembered(other) for one, other in zip(before, now, strict=True)
    )


def _remembered(device: Device) -> dict[str, object]:
    return {
        "id": device.id,
        "place": device.place,
        "key": device.key,
        "stamp": device.stamp,
        "numa": list(device.numa),
        "shares": device.shares,
        "first_share": device.first_share,
        **({} if not device.grouping else _grouped(device)),
        **({} if not device.carried else {"carried": list(device.carried)}),
        **({} if device.suffix == SHARE_MARK else {"suffix": device.suffix}),
        **({} if not device.shuts else {"shuts": list(device.shuts)}),
    }


def _grouped(device: Device) -> dict[str, object]:
    """What is remembered of a device that is several host devices."""
    return {
        "members": list(map(list, device.members)),
        "lost": list(map(list, device.lost)),
        "lead": device.lead,
        "grouping": device.grouping,
    }


def _from_json(content: Any) -> State:  # noqa: ANN401  JSON is anything
    """The state that a file says.

    Raises:
        KeyError, TypeError, ValueError: it is not as `_Writer` writes it.
    """
    content = _typed(content, dict)
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}")
    lists = {
        name: Snapshot(name, tuple(sorted(map(_device, _typed(devices, list)), key=list_order)))
        for name, devices in _typed(content["lists"], dict).items()
    }
    devices = sorted((device for list_ in lists.values() for device in list_.devices), key=list_order)
    for device, following in pairwise(devices):
        if device.form == following.form and following.first_share < (device.shares or 1):
            raise ValueError(f"{device.id} is in it twice")
    held = frozenset(_typed(id, str) for id in _typed(content["held"], list))  # noqa: A001  the API's own word
    said = _typed(content.get("fanned", {}), dict)
    fanned = {name: _typed(written, str) for name, written in said.items() if name in lists}
    failing, latched = _by(content.get("failing", {}), str), _by(content.get("latched", {}), bool)
    counted, cleared = _by(content.get("counted", {}), int), _by(content.get("cleared", {}), int)
    boot = _typed(content.get("boot", ""), str)
    drained = _drained(content.get("drained", {}))
    return State(lists, held, fanned, Memory(failing, latched, counted, cleared), boot, drained)


def _by(entries: Any, kind: type[T]) -> By[T]:  # noqa: ANN401  JSON is anything
    return {
        entry: {
            place: {check: _typed(said, kind) for check, said in _typed(checks, dict).items()}
            for place, checks in _typed(places, dict).items()
        }
        for entry, places in _typed(entries, dict).items()
    }


def _drained(content: Any) -> Drained:  # noqa: ANN401  JSON is anything
    said = _typed(content, dict)
    places, resources = (_typed(said.get(part, {}), dict) for part in ("places", "resources"))
    return Drained(
        {name: _drain(drain) for name, drain in places.items()},
        {name: _drain(drain) for name, drain in resources.items()},
    )


def _drain(entry: Any) -> Drain:  # noqa: ANN401  JSON is anything
    reason, since = _typed(entry, list)
    return Drain(_typed(reason, str), float(_typed(since, float)))


def _device(entry: Any) -> Device:  # noqa: ANN401  JSON is anything
    entry = _typed(entry, dict)
    id, first = _typed(entry["id"], str), _typed(entry["first_share"], int)  # noqa: A001  the API's own word
    shares = None if entry["shares"] is None else _typed(entry["shares"], int)
    if not _ID.fullmatch(id):
        raise ValueError(f"{id[:ID_LIMIT]!r} is no id")
    if not (first == 0 if shares is None else 0 <= first < shares <= _SHARES_LIMIT):
        raise ValueError(f"{id} has shares from {first} to {shares}")
    numa = tuple(_typed(node, int) for node in _typed(entry["numa"], list))
    if any(node < 0 for node in numa):
        raise ValueError(f"{id} has NUMA nodes {numa}")
    suffix = _typed(entry.get("suffix", SHARE_MARK), str)
    if not SUFFIX.fullmatch(suffix):
        raise ValueError(f"{id} has shares behind {suffix[:ID_LIMIT]!r}")
    return Device(
        id=id,
        place=_typed(entry["place"], str),
        key=_typed(entry["key"], str),
        health=Health.UNHEALTHY,
        reason=NOT_SEEN,
        numa=numa,
        shares=shares,
        first_share=first,
        stamp=_typed(entry["stamp"], str),
        members=_members(entry.get("members", [])),
        lost=_members(entry.get("lost", [])),
        lead=_typed(entry.get("lead", ""), str),
        grouping=_typed(entry.get("grouping", ""), str),
        suffix=suffix,
        shuts=tuple(_typed(key, str) for key in _typed(entry.get("shuts", []), list)),
        carried=tuple(_typed(word, str) for word in _typed(entry.get("carried", []), list)),
    )


def _members(entries: Any) -> tuple[Member, ...]:  # noqa: ANN401  JSON is anything
    return tuple(Member(*(_typed(part, str) for part in _typed(entry, list))) for entry in _typed(entries, list))


def _typed(value: Any, kind: type[T]) -> T:  # noqa: ANN401  JSON is anything
    if type(value) is not kind:
        raise TypeError(f"{kind.__name__} expected, not {value!r:.64}")
    return value
