"""Annotations of a container, as a device plugin may give them."""

from __future__ import annotations

import re

RESERVED = "io.kubernetes."  # the kubelet's own, which go over a plugin's

_KEY = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def is_annotation_key(text: str) -> bool:
    """Return whether a text can be the key of an annotation of the agent: `domain/name`, as in Kubernetes."""
    return _KEY.fullmatch(text) is not None and not text.startswith(RESERVED)
