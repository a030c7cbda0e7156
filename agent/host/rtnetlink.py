"""The kernel's own list of network interfaces, by rtnetlink(7): what sysfs does not say, and how its messages are read.

Numbers are those of include/uapi/linux/rtnetlink.h and if_link.h; all are of the machine's byte order.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator, Mapping

from agent.core.language.value import Absent

NEWLINK, DELLINK, GETLINK = 16, 17, 18
NEWROUTE, DELROUTE = 24, 25
IFNAME = 3  # attributes of a link: its name, and one that holds its alternative names

HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, change
ROUTE = struct.Struct("=BBBBBBBBI")  # rtmsg: family, length of the destination's prefix, ...
BUFFER = 1 << 16  # the kernel fills at most 32 KiB of it

_PROP_LIST, _ALT_IFNAME, _EXT_MASK = 52, 53, 29
_SKIP_STATS = 8  # RTEXT_FILTER_SKIP_STATS: the counters are most of a message
_REQUEST, _DUMP, _INTERRUPTED = 0x1, 0x300, 0x10
_ERROR, _DONE = 2, 3
_ATTRIBUTE = struct.Struct("=HH")
_SECONDS = 2.0  # for a list of any length
_TRIES = 3  # a list during which something changed is asked for again


def read_alternative_names() -> Mapping[str, tuple[str, ...]] | Absent:
    """The alternative names of every network interface of our network namespace that has some, by its name."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE) as asking:
            asking.settimeout(_SECONDS)
            for _ in range(_TRIES):
                found = _dump(asking)
                if found is not None:
                    return found
    except OSError as error:
        return Absent(f"netlink: {os.strerror(error.errno) if error.errno else error}", unreadable=True)
    return Absent("netlink: interfaces come and go", unreadable=True)


def parse_messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The messages of one datagram: type, flags and what follows the header. What is cut off ends it."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, flags, _, _ = HEADER.unpack_from(data, at)
        if length < HEADER.size or at + length > len(data):
            return
        yield kind, flags, data[at + HEADER.size : at + length]
        at += length + 3 & ~3


def parse_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The attributes in a piece of a message, by number. What is cut off ends them."""
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size or at + length > len(data):
            return
        yield kind & 0x3FFF, data[at + _ATTRIBUTE.size : at + length]  # the two highest bits are marks
        at += length + 3 & ~3


def decode_name(value: bytes) -> str:
    """A name as the kernel sends it."""
    return value.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _dump(asking: socket.socket) -> Mapping[str, tuple[str, ...]] | None:
    """One list; none if it was interrupted by a change."""
    body = LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + struct.pack("=HHI", 8, _EXT_MASK, _SKIP_STATS)
    asking.send(HEADER.pack(HEADER.size + len(body), GETLINK, _REQUEST | _DUMP, 1, 0) + body)
    names: dict[str, tuple[str, ...]] = {}
    whole = True
    while True:
        for kind, flags, payload in parse_messages(asking.recv(BUFFER)):
            whole = whole and not flags & _INTERRUPTED
            if kind == _DONE:
                return names if whole else None
            if kind == _ERROR:
                (code,) = struct.unpack_from("=i", payload)
                raise OSError(-code or errno.EIO, os.strerror(-code or errno.EIO))
            if kind == NEWLINK:
                _take(payload, names)


def _take(payload: bytes, names: dict[str, tuple[str, ...]]) -> None:
    name, others = "", []
    for kind, value in parse_attributes(payload[LINK.size :]):
        if kind == IFNAME:
            name = decode_name(value)
        elif kind == _PROP_LIST:
            others += [decode_name(each) for inner, each in parse_attributes(value) if inner == _ALT_IFNAME]
    if name and others:
        names[name] = tuple(others)
