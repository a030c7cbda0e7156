"""The rule of the kubelet for names of extended resources, one fault at a time."""

from __future__ import annotations

import re

from agent.core.struct import Struct

VENDOR_LIMIT = 244  # characters; the kubelet checks "requests." + name, and a prefix has at most 253
NAME_LIMIT = 63

_VENDOR = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class NameFault(Struct):
    """The fault of a resource name: the faulty part and its correction."""

    message: str
    at: int
    length: int
    write: str = ""


def find_name_fault(name: str) -> NameFault | None:
    """Return the fault of a resource name, or None if the kubelet accepts it."""
    vendor, slash, name_part = name.partition("/")
    if not slash:
        return NameFault('a resource name is VENDOR/NAME, and this has no "/"', 0, len(name), _suggest_name(name))
    if "/" in name_part:
        return NameFault(
            'a resource name has one "/"', len(vendor) + 1 + name_part.index("/"), 1, "write one of - _ . instead"
        )
    if (at := name.find("kubernetes.io/")) >= 0:
        return NameFault(
            "names with kubernetes.io/ are Kubernetes' own", at, len("kubernetes.io/"), _suggest_name(name_part)
        )
    if name.startswith("requests."):
        return NameFault(
            'a name beginning with "requests." is a quota to the kubelet', 0, len("requests."), "leave it out"
        )
    return _find_vendor_fault(vendor) or _find_name_part_fault(name_part, len(vendor) + 1)


def _find_vendor_fault(vendor: str) -> NameFault | None:
    if len(vendor) > VENDOR_LIMIT:
        return NameFault(
            f'before the "/" the kubelet takes {VENDOR_LIMIT} characters, these are {len(vendor)}', 0, len(vendor)
        )
    if _VENDOR.fullmatch(vendor):
        return None
    if _VENDOR.fullmatch(vendor.lower()):
        return NameFault('the kubelet refuses capitals before the "/"', 0, len(vendor), f'write "{vendor.lower()}"')
    repaired_vendor = ".".join(
        label for part in vendor.lower().split(".") if (label := re.sub(r"[^a-z0-9-]+", "-", part).strip("-"))
    )
    return NameFault(
        'before the "/" stands a domain: a-z, 0-9, - and dots, each part beginning and ending with a letter or digit',
        0,
        len(vendor),
        f'write "{repaired_vendor}"' if repaired_vendor else 'write for example "example.com"',
    )


def _find_name_part_fault(name_part: str, at: int) -> NameFault | None:
    if len(name_part) > NAME_LIMIT:
        return NameFault(
            f'behind the "/" the kubelet takes {NAME_LIMIT} characters, these are {len(name_part)}', at, len(name_part)
        )
    if _NAME.fullmatch(name_part):
        return None
    repaired_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name_part).strip("-._")
    return NameFault(
        'behind the "/" stand A-Z, a-z, 0-9, "-", "_" and ".", beginning and ending with a letter or digit',
        at if name_part else 0,
        len(name_part) or at,
        f'write "{repaired_name}"' if repaired_name else 'write for example "gpu"',
    )


def _suggest_name(name: str) -> str:
    repaired_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "gpu"
    return f'write for example "example.com/{repaired_name}"'
