"""The edge of an Allocate: from ids to a grant that was true on the host a moment ago.

The words that the entry's nodes and variables mention are read anew for the devices asked for, the nodes are looked
at, and only then is the grant decided, by a pure function. Nothing is remembered but that the ids may be held.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from agent.core.allocate import allocate, cdi_names, mount_patterns, node_paths
from agent.core.device import Device, Health, HostDevice, Snapshot, list_order
from agent.core.facts import Facts
from agent.core.grant import MISSING, Cause, Chosen, Grant, Refused
from agent.core.let import Constant
from agent.core.look import Look
from agent.core.partners import Found, Remembered
from agent.core.prefer import prefer
from agent.core.resource import ResourceSpec
from agent.core.text import clean_id
from agent.core.touched import Touched
from agent.core.value import Absent
from agent.host.aside import begin
from agent.host.cdi import SpecDirectories
from agent.host.root import Root
from agent.registry import Registry
from agent.scanners import catalog
from agent.scanners.reading import HostReader, at_hand

DEADLINE_SECONDS = 1.0  # the kubelet has none, and no pod starts while it waits (kubelet-contract §3)
DELIVERY_SECONDS = 1.5  # for the settle time, a look, and as long as pacing may hold a list (`core.pace`)
AT_HAND = 16  # devices that are looked at on the event loop: about a millisecond


class Truth(Protocol):
    """What the tracker knows and can be asked to look at again."""

    look: Look
    specs: tuple[ResourceSpec, ...]

    def nudge(self, touched: Touched) -> None:
        """Say that something may have changed."""

    async def looked(self) -> None:
        """Return when a new look is published."""


class Allocation:
    """Answers what containers get; see `agent.kubelet.plugin.Granting`."""

    def __init__(
        self,
        root: Root,
        registry: Registry,
        truth: Truth,
        granted: Callable[[Iterable[str]], None],
        cdi: SpecDirectories,
    ) -> None:
        """`granted` is told the ids of every request, before it is answered."""
        self._root = root
        self._cdi = cdi
        self._registry = registry
        self._truth = truth
        self._granted = granted
        self._reading: dict[asyncio.Future[list[Chosen]], tuple[frozenset[str], float]] = {}  # keys, since

    async def allocate(self, resource: str, ids: Sequence[str]) -> Grant:
        """The grant for one container.

        Raises:
            Refused: an id is not listed or not Healthy, the host is not as listed, or it did not answer in time.
        """
        snapshot = self._registry.current(resource)
        devices = requested(snapshot, ids)
        spec = next((spec for spec in self._truth.specs if spec.name == resource), None)
        if spec is None:
            raise Refused(Cause.UNHEALTHY, f"{resource}: taken out by configuration")
        self._granted(ids)
        hosts = self._host_devices(spec, devices)
        try:
            if self._at_hand(spec, hosts):
                chosen = read_anew(self._root, spec, devices, hosts, self._cdi, self._partners(hosts))
            else:
                chosen = await self._read_aside(spec, devices, hosts)
            return allocate(spec, ids, chosen, snapshot.offered)
        except Refused as refused:
            if refused.cause in MISSING:
                await self._tell_first(resource, hosts.values())
            raise

    def prefer(self, resource: str, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """Which of the available ids a container had better get; empty where nothing can be preferred."""
        del resource
        return prefer(available, must_include, size)

    def _at_hand(self, spec: ResourceSpec, hosts: Mapping[str, HostDevice]) -> bool:
        """Whether all there is to read is a few names below /dev: they are in memory, and a thread costs far more."""
        if self._root.prefix or len(hosts) > AT_HAND or spec.mounts or spec.cdi:
            return False
        words = spec.giving_words().union(slot.word for text in spec.id for slot in text.slots)
        words -= {word for word, own in spec.own.items() if isinstance(own, Constant)}
        return words.isdisjoint(spec.own) and all(at_hand(host, word) for host in hosts.values() for word in words)

    async def _read_aside(
        self, spec: ResourceSpec, devices: Mapping[Device, tuple[int, ...]], hosts: Mapping[str, HostDevice]
    ) -> list[Chosen]:
        """What the host says now, if it does within the deadline.

        While a read of a device is stuck, others that ask for it are refused at once: each would cost a thread.
        """
        late = time.monotonic() - DEADLINE_SECONDS
        if not any(since <= late and not keys.isdisjoint(hosts) for keys, since in self._reading.values()):
            read = begin(read_anew, self._root, spec, devices, hosts, self._cdi, self._partners(hosts))
            self._reading[read] = frozenset(hosts), time.monotonic()
            read.add_done_callback(self._read)
            await asyncio.wait((read,), timeout=DEADLINE_SECONDS)
            if read.done():
                return read.result()
        device = next(iter(devices)).id
        raise Refused(Cause.DEADLINE, f"{spec.name} {device}: the host did not answer within {DEADLINE_SECONDS:g} s")

    def _read(self, read: asyncio.Future[list[Chosen]]) -> None:
        """A read has come back, perhaps too late for anybody to want what it brings."""
        del self._reading[read]
        read.exception()

    def _host_devices(self, spec: ResourceSpec, devices: Mapping[Device, tuple[int, ...]]) -> Mapping[str, HostDevice]:
        """The host devices behind devices, by key, as the last look saw them."""
        hosts: dict[str, HostDevice] = {}
        for device in devices:
            sighting = self._truth.look.sightings.get(device.key)
            candidate = sighting.candidate if sighting else None
            if candidate is None or candidate.resource != spec.name:
                raise Refused(Cause.UNHEALTHY, f"{spec.name} {device.id}: it is not offered any more")
            hosts[device.key] = candidate.device
        return hosts

    def _partners(self, hosts: Iterable[str]) -> Found:
        """The partners of these host devices, as the last look found them."""
        made = filter(None, map(self._truth.look.candidate, hosts))
        return {who: partner for candidate in made for who, partner in candidate.partners.items()}

    async def _tell_first(self, resource: str, hosts: Iterable[HostDevice]) -> None:
        """Look again and let the kubelet have the list before it has the error, for it will not ask twice."""
        paths = frozenset(path for host in hosts for path in (host.directory, host.node) if path)
        self._truth.nudge(Touched(paths))
        try:
            async with asyncio.timeout(DELIVERY_SECONDS):
                await self._truth.looked()
                await self._registry.delivered([resource])
        except TimeoutError:
            return


def requested(snapshot: Snapshot, ids: Sequence[str]) -> Mapping[Device, tuple[int, ...]]:
    """The devices that ids mean with the shares asked of each, in list order; the order of `ids` makes no difference.

    Raises:
        Refused: an id that is not listed, or that is not Healthy.
    """
    shares: dict[Device, list[int]] = {}
    for id in ids:  # noqa: A001  the API's own word
        found = snapshot.find(id)
        if found is None:
            raise Refused(Cause.UNKNOWN_ID, f"{snapshot.resource}: no device {id!r} is listed")
        device, share = found
        if device.health is not Health.HEALTHY:
            raise Refused(Cause.UNHEALTHY, f"{snapshot.resource} {device.id}: Unhealthy: {device.reason}")
        shares.setdefault(device, []).extend(() if share is None else (share,))
    return {device: tuple(sorted(shares[device])) for device in sorted(shares, key=list_order)}


def read_anew(  # noqa: PLR0917  it is called through `begin`, which knows no keywords
    root: Root,
    spec: ResourceSpec,
    devices: Mapping[Device, tuple[int, ...]],
    hosts: Mapping[str, HostDevice],
    cdi: SpecDirectories,
    partners: Found,
) -> list[Chosen]:
    """What the host says now of the devices asked for. Their partners are looked at, not looked for."""
    reader = HostReader(root, cdi)
    finder = Remembered(reader, partners)
    same_partners = all(catalog.same(root, partner) for partner in partners.values())
    words = spec.giving_words()
    chosen: list[Chosen] = []
    for device, shares in devices.items():
        host = hosts[device.key]
        fact = Facts(spec, host, reader, finder)
        texts = [text.write(fact) for text in spec.id]
        ids = {clean_id(text, spec.suffix_length) for text in texts if not isinstance(text, Absent)}
        same = (
            same_partners and catalog.same(root, host) and device.id in ids
        )  # what is listed Healthy had its id from these words
        chosen.append(
            Chosen(
                device,
                shares,
                {word: fact(word) for word in words},
                nodes={path: reader.node(path) for path in node_paths(spec, fact)},
                same=same,
                mounts={pattern: reader.fits(pattern) for pattern in mount_patterns(spec, fact)},
                cdi={name: reader.cdi(name) for name in cdi_names(spec, fact)},
            )
        )
    return chosen
