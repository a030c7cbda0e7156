"""The state file: what must survive a restart. Ids given (so that they are given again) and ids that pods may hold.

JSON, written whole and renamed into place. A file that is missing, of another version or damaged is reported and
taken as empty: nothing in it is needed to serve what is there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiofiles

from agent.core.device import Device, Health, Snapshot

VERSION = 1
FILE = "state.json"
NOT_SEEN = "not seen since the agent started"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class State:
    """The lists as last told, and the ids that pods may hold."""

    lists: Mapping[str, Snapshot] = field(default_factory=dict)
    held: frozenset[str] = frozenset()


def load(directory: str) -> State:
    """The state of the agent's last life."""
    path = os.path.join(directory, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return State()
    except (OSError, ValueError) as error:
        log.warning("state: %s is of no use (%s): starting without it", path, error)
        return State()
    try:
        return _from_json(content)
    except (KeyError, TypeError, ValueError) as error:
        log.warning("state: %s is not as this version writes it (%r): starting without it", path, error)
        return State()


class StateFile:
    """Writes the newest state after each change; while it writes, further changes become one."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._wanted: State | None = None
        self._written: State | None = None
        self._changed = asyncio.Event()
        self._failing = False

    def save(self, state: State) -> None:
        """Have a state written soon."""
        self._wanted = state
        self._changed.set()

    async def run(self) -> None:
        """Write whatever is saved, until cancelled; the last one is written even then."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._write()
        finally:
            self._write_now()

    async def _write(self) -> None:
        state = self._wanted
        if state is None or state == self._written:
            return
        path = os.path.join(self._directory, FILE)
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            async with aiofiles.open(f"{path}.new", "w", encoding="utf-8") as file:
                await file.write(_to_json(state))
                await file.flush()
                await asyncio.to_thread(os.fsync, file.fileno())
            os.replace(f"{path}.new", path)
        except OSError as error:
            self._report(error)
            return
        self._failing = False
        self._written = state

    def _write_now(self) -> None:
        """The same without waiting, for the way out."""
        state = self._wanted
        if state is None or state == self._written:
            return
        path = os.path.join(self._directory, FILE)
        try:
            os.makedirs(self._directory, mode=0o700, exist_ok=True)
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(_to_json(state))
            os.replace(f"{path}.new", path)
        except OSError as error:
            self._report(error)
            return
        self._written = state

    def _report(self, error: OSError) -> None:
        if not self._failing:
            log.warning("state: cannot be written (%s): ids held by pods will not be remembered over a restart", error)
        self._failing = True


def _to_json(state: State) -> str:
    lists = {
        name: [
            {
                "id": device.id,
                "place": device.place,
                "key": device.key,
                "numa": list(device.numa),
                "shares": device.shares,
                "first_share": device.first_share,
            }
            for device in snapshot.devices
        ]
        for name, snapshot in state.lists.items()
    }
    return json.dumps({"version": VERSION, "lists": lists, "held": sorted(state.held)}, indent=1)


def _from_json(content: Any) -> State:  # noqa: ANN401  JSON is anything
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}")
    lists = {
        str(name): Snapshot(str(name), tuple(_device(entry) for entry in devices))
        for name, devices in content["lists"].items()
    }
    return State(lists, frozenset(str(id) for id in content["held"]))  # noqa: A001  the API's own word


def _device(entry: Mapping[str, Any]) -> Device:
    shares = entry["shares"]
    return Device(
        id=str(entry["id"]),
        place=str(entry["place"]),
        key=str(entry["key"]),
        health=Health.UNHEALTHY,
        reason=NOT_SEEN,
        numa=tuple(int(node) for node in entry["numa"]),
        shares=None if shares is None else int(shares),
        first_share=int(entry["first_share"]),
    )
