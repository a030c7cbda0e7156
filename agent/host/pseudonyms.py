"""Pseudonyms for a recording: data that identifies this hardware or its owner is replaced, equal values by equal
values.

Serial numbers, UUIDs, MAC addresses, GUIDs and the host name are replaced everywhere: in files, names and links. A
replacement has the same shape, so that everything is parsed as before. It depends on a key that nobody keeps. Names
below /sys come from the kernel, never from the host name: a machine may be called `node1`, as a NUMA node is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from agent.core.language.value import Absent
from agent.core.struct import replace
from agent.host.recorder import Recording

# Files with an identifying value. `address` only of network interfaces, because PCI slots have one too.
_FILES = re.compile(
    r".*/(?:serial|serial_number|uniq|unique_id|wwid|wwn|ieee1394_id|node_guid|sys_image_guid|(?:product|board|chassis)_\w*serial"
    r"|product_uuid|net/[^/]+/address|gids/[0-9]+)"
)
_PROPERTY = re.compile(
    r"^E:(?:ID_SERIAL(?:_SHORT)?|ID_USB_SERIAL(?:_SHORT)?|ID_WWN\w*|UNIQ|HID_UNIQ)=(.+)$", re.MULTILINE
)
_LINE = re.compile(r"^(?:HID_UNIQ|UNIQ)=(.+)$", re.MULTILINE)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MAC = re.compile(r"(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5,19}[0-9a-fA-F]{2}(?![0-9a-fA-F:])")
_NAMED_BY_MAC = re.compile(r"\b(?:en|ib|sl|wl|ww)x([0-9a-f]{12})\b")  # systemd.net-naming-scheme(7)
_HOSTNAME = "/proc/sys/kernel/hostname"
_HOST_NAME = "host name"
_INTERFACE = "interface name"
_MIN_LENGTH = 4  # characters: a serial number `1` is in every file
_EMPTY_VALUE = re.compile(r"[0fF:\-. _xX]*")


def replace_identifiers(recording: Recording, key: bytes) -> tuple[Recording, Mapping[str, int]]:
    """Return the recording without the data that identifies its machine, and the number of replaced values of each
    kind.
    """
    kinds = {secret: kind for kind, secret in _find_secrets(recording)}
    if not kinds:
        return recording, {}
    pseudonyms = {secret: _make_pseudonym(secret, key) for secret in kinds}
    pattern = _compile_alternatives(kinds)
    sysfs_pattern = _compile_alternatives(secret for secret, kind in kinds.items() if kind != _HOST_NAME)

    def change(text: str, path: str) -> str:
        secrets_pattern = sysfs_pattern if path.startswith("/sys/") else pattern
        return secrets_pattern.sub(lambda match: pseudonyms[match[0]], text)

    def change_path(path: str) -> str:
        return change(path, path)

    def change_bytes(data: bytes) -> bytes:
        return change(data.decode("utf-8", "surrogateescape"), "").encode("utf-8", "surrogateescape")

    return replace(
        recording,
        directories=frozenset(map(change_path, recording.directories)),
        links={change_path(path): change(target, path) for path, target in recording.links.items()},
        nodes={change_path(path): number for path, number in recording.nodes.items()},
        contents={change_path(path): change_bytes(data) for path, data in recording.contents.items()},
        absent={change_path(path): reason for path, reason in recording.absent.items()},
        kernel_answers={
            change_path(path): answer
            if isinstance(answer, Absent)
            else tuple(change(answer_text, "") for answer_text in answer)
            for path, answer in recording.kernel_answers.items()
        },
    ), Counter(kinds.values())


def _compile_alternatives(secrets: Iterable[str]) -> re.Pattern[str]:
    """Compile a pattern that matches each of them, the longest first. Without secrets it matches nothing."""
    return re.compile("|".join(re.escape(secret) for secret in sorted(secrets, key=len, reverse=True)) or r"(?!)")


def _find_secrets(recording: Recording) -> Iterator[tuple[str, str]]:
    """Yield the values to replace, each after its kind."""
    for path, data in recording.contents.items():
        text = data.decode("utf-8", "surrogateescape")
        secrets = [("serial", serial) for pattern in (_PROPERTY, _LINE) for serial in pattern.findall(text)]
        if _FILES.fullmatch(path):
            secrets.append(("serial", text.strip().strip("\0")))
        secrets += [("MAC", mac) for mac in _MAC.findall(text)]
        if path == _HOSTNAME:
            secrets.append((_HOST_NAME, text.strip()))
        yield from _select_identifying((*secrets, *_find_in_names(text)))
    answer_texts = (
        answer_text
        for answer in recording.kernel_answers.values()
        if not isinstance(answer, Absent)
        for answer_text in answer
    )
    for name in (*recording.directories, *recording.links, *answer_texts):
        yield from _select_identifying(_find_in_names(name))


def _find_in_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield the identifying parts of names."""
    yield from (("UUID", uuid) for uuid in _UUID.findall(text))
    yield from ((_INTERFACE, digits) for digits in _NAMED_BY_MAC.findall(text))


def _select_identifying(secrets: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return (
        (kind, secret) for kind, secret in secrets if len(secret) >= _MIN_LENGTH and not _EMPTY_VALUE.fullmatch(secret)
    )


def _make_pseudonym(secret: str, key: bytes) -> str:
    """Return other characters of the same kinds at the same positions."""
    stream = hmac.digest(key, secret.encode("utf-8", "surrogateescape"), "sha256")
    while len(stream) < len(secret):
        stream += hashlib.sha256(stream).digest()
    hexadecimal = all(c in "0123456789abcdefABCDEF:-. _" for c in secret)
    lower, upper = ("abcdef", "ABCDEF") if hexadecimal else ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    characters: list[str] = []
    for c, byte in zip(secret, stream, strict=False):
        kinds = (("0123456789", c.isdecimal()), (lower, c.islower()), (upper, c.isupper()))
        alphabet = next((choices for choices, fits in kinds if fits and c.isascii()), c)
        characters.append(alphabet[byte % len(alphabet)])
    return "".join(characters)
