"""The rule for names of extended resources, as the kubelet applies it at registration."""

import re

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def is_accepted(resource: str) -> bool:
    """Return whether v1helper.IsExtendedResourceName accepts the name: `requests.` + name is a qualified name."""
    if "/" not in resource or "kubernetes.io/" in resource or resource.startswith("requests."):
        return False
    prefix, _, name = f"requests.{resource}".partition("/")
    return (
        len(prefix) <= 253
        and _PREFIX.fullmatch(prefix) is not None
        and 1 <= len(name) <= 63
        and _NAME.fullmatch(name) is not None
    )
