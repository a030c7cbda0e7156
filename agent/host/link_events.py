"""Events of network interfaces that udev does not send: link, address, alternative names, default routes.

Like udev events they only mark what must be read again (`DirtySet`). When the socket overran, everything may have
changed.
"""

from __future__ import annotations

import array
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from agent.core.inventory.dirty_set import DirtySet
from agent.core.language.value import Absent
from agent.host import rtnetlink
from agent.host.netlink import NetlinkListener
from agent.host.root import Root

ROUTES_PATH = "/proc/net"  # words that read routes depend on this path

_GROUPS = 0x1 | 0x40 | 0x400  # RTMGRP_LINK, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_ROUTE
_RECEIVE = 1 << 20  # bytes of the socket buffer. The kernel limits it to net.core.rmem_max
_ATTACH_FILTER = 26  # SO_ATTACH_FILTER, include/uapi/asm-generic/socket.h

# Attributes that differ in each message, or do not describe the link: counters, wireless, inet6.
_VOLATILE_ATTRIBUTES = frozenset({7, 11, 23, 26})

_NO_STATE = (0, "")


@asynccontextmanager
async def watch_link_events(root: Root, changed: Callable[[DirtySet], None]) -> AsyncIterator[Absent | None]:
    """Call `changed` for every event, from the event loop, until the context ends.

    Yield the reason if that is not possible.
    """
    try:
        listener = _Listener(_open_socket(), root, changed)
    except OSError as error:
        yield Absent(f"no events of network links: {error}")
        return
    try:
        yield None
    finally:
        listener.close()


def _open_socket() -> socket.socket:
    netlink_socket = socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
    )
    try:
        netlink_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE)
        _attach_route_filter(netlink_socket)
        netlink_socket.bind((0, _GROUPS))
    except OSError:
        netlink_socket.close()
        raise
    return netlink_socket


def _attach_route_filter(netlink_socket: socket.socket) -> None:
    """Let the kernel drop messages about other routes: a router has hundreds of thousands (BPF, socket(7))."""
    kinds = [socket.htons(kind) for kind in (rtnetlink.NEWROUTE, rtnetlink.DELROUTE)]  # BPF loads in network order
    steps = (
        (0x28, 0, 0, 4),  # load the message type
        (0x15, 1, 0, kinds[0]),
        (0x15, 0, 2, kinds[1]),
        (0x30, 0, 0, rtnetlink.HEADER.size + 1),  # for a route: load the prefix length
        (0x15, 0, 1, 0),
        (0x06, 0, 0, 0xFFFFFFFF),  # accept the message
        (0x06, 0, 0, 0),  # drop the message
    )
    program = array.array("B", b"".join(struct.pack("=HBBI", *step) for step in steps))
    netlink_socket.setsockopt(
        socket.SOL_SOCKET, _ATTACH_FILTER, struct.pack("HP", len(steps), program.buffer_info()[0])
    )


class _Listener(NetlinkListener):
    event_kind = "network links"

    def __init__(self, bound: socket.socket, root: Root, changed: Callable[[DirtySet], None]) -> None:
        self._root = root
        self._states: dict[int, tuple[int, str]] = {}  # by index: hash of the last message and the directory
        super().__init__(bound, changed)

    def read_event(self) -> DirtySet | None:
        """See `NetlinkListener.read_event`."""
        try:
            data = self._socket.recv(rtnetlink.BUFFER)
        except BlockingIOError:
            return None
        dirty_set = DirtySet()
        for kind, _flags, payload in rtnetlink.parse_messages(data):
            dirty_set |= self._make_dirty_set(kind, payload)
        return dirty_set

    def forget_events(self) -> None:
        """See `NetlinkListener.forget_events`."""
        self._states.clear()

    def _make_dirty_set(self, kind: int, payload: bytes) -> DirtySet:
        """Return what a message marks as dirty: nothing, if it repeats the previous message of the interface."""
        if kind in {rtnetlink.NEWROUTE, rtnetlink.DELROUTE} and len(payload) >= rtnetlink.ROUTE.size:
            is_default = rtnetlink.ROUTE.unpack_from(payload)[1] == 0
            return DirtySet(frozenset({ROUTES_PATH})) if is_default else DirtySet()
        if kind not in {rtnetlink.NEWLINK, rtnetlink.DELLINK} or len(payload) < rtnetlink.LINK.size:
            return DirtySet()
        family, hardware, index, flags, _ = rtnetlink.LINK.unpack_from(payload)
        if family != socket.AF_UNSPEC:  # a bridge sends messages about its ports
            return DirtySet()
        attributes = [
            pair
            for pair in rtnetlink.parse_attributes(payload[rtnetlink.LINK.size :])
            if pair[0] not in _VOLATILE_ATTRIBUTES
        ]
        previous = self._states.pop(index, _NO_STATE)
        directory = self._find_directory(dict(attributes).get(rtnetlink.IFNAME, b""))
        current = (hash((hardware, flags, *attributes)), directory)
        if kind == rtnetlink.NEWLINK:
            self._states[index] = current
            if current == previous:
                return DirtySet()
        paths = {path for path in (previous[1], directory) if path}
        # The interface was added or removed, perhaps by a move between network namespaces.
        lists = frozenset({"net"} if kind == rtnetlink.DELLINK or previous == _NO_STATE else ())
        # An interface that goes down loses its routes, and no message reports that.
        return DirtySet(frozenset(paths | {ROUTES_PATH}), lists)

    def _find_directory(self, name: bytes) -> str:
        """Return the canonical directory of an interface. The result is empty if it has none now."""
        path = f"/sys/class/net/{rtnetlink.decode_name(name)}"
        if not name or not os.path.islink(path):
            return ""
        directory = self._root.resolve_device(path)
        return "" if isinstance(directory, Absent) else directory
