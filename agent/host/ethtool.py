"""Facts of a network driver that only ethtool gives (include/uapi/linux/ethtool.h)."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct

from agent.core.language.value import Absent

_SIOCETHTOOL = 0x8946
_GET_TS_INFO = 0x41  # needs no capability
_TS_INFO = struct.Struct("=IIi")  # command, software capabilities, clock number
_REST = 32  # unused bytes of the answer


def read_clock_number(interface: str) -> int | Absent:
    """Return the number of the PTP clock that stamps the packets of an interface."""
    answer = array.array("B", _TS_INFO.pack(_GET_TS_INFO, 0, -1) + bytes(_REST))
    request = struct.pack("16sP16x", os.fsencode(interface)[:15], answer.buffer_info()[0])
    try:
        # Any socket works, and the unit may forbid AF_INET.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as ethtool_socket:
            fcntl.ioctl(ethtool_socket, _SIOCETHTOOL, request)
    except OSError as error:
        return Absent(f"ethtool: {os.strerror(error.errno or 0)}")
    number = int(_TS_INFO.unpack_from(answer)[2])
    return number if number >= 0 else Absent("it has no clock")
