"""Message ids of log lines. A program finds a line by its id, because the text can change."""

from __future__ import annotations

from enum import Enum

NOTICE = 25  # a level between INFO and WARNING: what is good news, and rare


class MessageId(Enum):
    """One id for each transition. The values never change (sd-journal(3)); the catalog explains them."""

    READY = "e880285a61d94ba9976e2cfdad59a102"
    STREAMING = "c41035dcdf9241b89353fd5fe477c7d2"
    WAITING = "f64bfa94907143089d3a75b7789dda2f"
    RETIRED = "3eb13a8d061f4d1f8932a8b90914e85c"
    UNHEALTHY = "30c612160cc340f48ab8163f5dd8d6a2"
    HEALTHY = "303a006f379047cd86b0c3bcc2d8cce7"
    BLIP = "ce4cd72d8b2e444591c740a369fc64af"
    LISTED = "34572f1a81ae44ad96854967a91a0303"
    GONE = "899be68dc631420a89e95869fbd04b28"
    AT_ONCE = "7e5ea4ff74b04964a6c4f58a8a1213d8"
    KUBELET_DOWN = "fc3886964b7047cc9afab9310c419247"
    KUBELET_UP = "7df4a4caede740afbdd84288d95a4eb2"
    GRANT_REFUSED = "12490e1586fc4fffaa6b1fe28c464837"
    CONFIGURED = "d30ebcd2c52742b5b4c86b65ed2ea9f0"
    CONFIGURATION_REFUSED = "7ebd9f01b5f74a36bc5b697796f0742e"
    SHORT = "e2f06f9dfb174ea78c3d7ecf9972329d"
    CLEARED = "8fade0e38c2343d48c8e3beb94c3e25e"


def build_log_extra(kind: MessageId, **values: str | None) -> dict[str, dict[str, str]]:
    """Return the `extra` of a log line: the message id and the values, as fields of the journal."""
    journal_fields = {f"DEVICE_AGENT_{name.upper()}": value for name, value in values.items() if value}
    return {"fields": {"MESSAGE_ID": kind.value, **journal_fields}}
