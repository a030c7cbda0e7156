"""The kernel's list of network interfaces by rtnetlink(7): facts that are not in sysfs, and the format of its messages.

Numbers are those of include/uapi/linux/rtnetlink.h and if_link.h, in the byte order of the machine.
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
IFNAME = 3  # attribute of a link: its name

HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
LINK = struct.Struct("=BxHiII")  # ifinfomsg: family, type, index, flags, change
ROUTE = struct.Struct("=BBBBBBBBI")  # rtmsg: family, length of the destination's prefix, ...
BUFFER = 1 << 16  # the kernel fills at most 32 KiB of it

_PROP_LIST, _ALT_IFNAME, _EXT_MASK = 52, 53, 29
_SKIP_STATS = 8  # RTEXT_FILTER_SKIP_STATS: the counters are most of a message
_REQUEST, _DUMP, _INTERRUPTED = 0x1, 0x300, 0x10
_ERROR, _DONE = 2, 3
_ATTRIBUTE = struct.Struct("=HH")
_SECONDS = 2.0  # time limit for a list
_TRIES = 3  # a list that a change interrupted is requested again


def read_alternative_names() -> Mapping[str, tuple[str, ...]] | Absent:
    """Return the alternative names of the network interfaces of this network namespace, by interface name."""
    try:
        with socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
        ) as netlink_socket:
            netlink_socket.settimeout(_SECONDS)
            for _ in range(_TRIES):
                names = _request_links(netlink_socket)
                if names is not None:
                    return names
    except OSError as error:
        return Absent(f"netlink: {os.strerror(error.errno) if error.errno else error}", unreadable=True)
    return Absent("netlink: interfaces come and go", unreadable=True)


def parse_messages(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield type, flags and payload of the messages in one datagram. A truncated message ends the list."""
    offset = 0
    while offset + HEADER.size <= len(data):
        length, kind, flags, _, _ = HEADER.unpack_from(data, offset)
        if length < HEADER.size or offset + length > len(data):
            return
        yield kind, flags, data[offset + HEADER.size : offset + length]
        offset += length + 3 & ~3


def parse_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and value of the attributes in part of a message. A truncated attribute ends the list."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size or offset + length > len(data):
            return
        yield kind & 0x3FFF, data[offset + _ATTRIBUTE.size : offset + length]  # the two highest bits are flags
        offset += length + 3 & ~3


def decode_name(value: bytes) -> str:
    """Decode a name that the kernel sent."""
    return value.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _request_links(netlink_socket: socket.socket) -> Mapping[str, tuple[str, ...]] | None:
    """Return one list, or None if a change interrupted it."""
    body = LINK.pack(socket.AF_UNSPEC, 0, 0, 0, 0) + struct.pack("=HHI", 8, _EXT_MASK, _SKIP_STATS)
    netlink_socket.send(HEADER.pack(HEADER.size + len(body), GETLINK, _REQUEST | _DUMP, 1, 0) + body)
    names: dict[str, tuple[str, ...]] = {}
    is_complete = True
    while True:
        for kind, flags, payload in parse_messages(netlink_socket.recv(BUFFER)):
            is_complete = is_complete and not flags & _INTERRUPTED
            if kind == _DONE:
                return names if is_complete else None
            if kind == _ERROR:
                (code,) = struct.unpack_from("=i", payload)
                raise OSError(-code or errno.EIO, os.strerror(-code or errno.EIO))
            if kind == NEWLINK:
                _add_names(payload, names)


def _add_names(payload: bytes, names: dict[str, tuple[str, ...]]) -> None:
    name, alternatives = "", []
    for kind, value in parse_attributes(payload[LINK.size :]):
        if kind == IFNAME:
            name = decode_name(value)
        elif kind == _PROP_LIST:
            alternatives += [
                decode_name(text) for text_kind, text in parse_attributes(value) if text_kind == _ALT_IFNAME
            ]
    if name and alternatives:
        names[name] = tuple(alternatives)
