"""The response to an Allocate call, encoded from grants.

The encoding is done by hand, as for lists. The generated code sets up Python's warnings for every field of a message,
which takes as long as the whole decision about a grant. A test compares both encodings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from betterproto2 import Casing

from agent.core.grants.grant import Grant, GrantRefusedError, RefusalCause
from agent.kubelet.messages.v1beta1 import AllocateResponse
from agent.kubelet.wire import encode_varint

# Tags of the fields in deviceplugin/v1beta1: number << 3 | 2 for bytes, | 0 for a number.
_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH = b"\x0a", b"\x12", b"\x1a", b"\x22", b"\x2a"
_READ_ONLY = b"\x18\x01"


def encode_allocate_response(grants: Sequence[Grant]) -> bytes:
    """Return the response to an Allocate call, with one container for each grant, in order.

    Raises:
        GrantRefusedError: a text of a grant is not Unicode. Protobuf cannot carry it.
    """
    return b"".join([_encode_field(_FIRST, _encode_container(grant)) for grant in grants])


def format_allocate_response(grant: Grant) -> str:
    """Return the response for one container as JSON, with the field names of the API."""
    return json.dumps(AllocateResponse.FromString(encode_allocate_response([grant])).to_dict(casing=Casing.SNAKE))


def _encode_container(grant: Grant) -> bytes:
    """Return the fields of a ContainerAllocateResponse."""
    try:
        return b"".join(
            [
                *_encode_map(_FIRST, grant.env),
                *(
                    _encode_field(
                        _SECOND,
                        _encode_text(_FIRST, mount.container)
                        + _encode_text(_SECOND, mount.host)
                        + _READ_ONLY * mount.read_only,
                    )
                    for mount in grant.mounts
                ),
                *(
                    _encode_field(
                        _THIRD,
                        _encode_text(_FIRST, node.container)
                        + _encode_text(_SECOND, node.host)
                        + _encode_text(_THIRD, node.permissions),
                    )
                    for node in grant.nodes
                ),
                *_encode_map(_FOURTH, grant.annotations),
                *(_encode_field(_FIFTH, _encode_text(_FIRST, name)) for name in grant.cdi),
            ]
        )
    except UnicodeEncodeError as error:
        text = f"{grant.resource}: {error.object} is not UTF-8 and cannot be given to a container"
        raise GrantRefusedError(RefusalCause.CONFLICT, text) from None


def _encode_map(tag: bytes, texts: Mapping[str, str]) -> list[bytes]:
    """Return a map of texts: one message with key and value for each, also for empty ones."""
    return [
        _encode_field(tag, _encode_field(_FIRST, key.encode()) + _encode_field(_SECOND, text.encode()))
        for key, text in texts.items()
    ]


def _encode_text(tag: bytes, text: str) -> bytes:
    """Return a text field. An empty text has no field."""
    return _encode_field(tag, text.encode()) if text else b""


def _encode_field(tag: bytes, body: bytes) -> bytes:
    return b"".join((tag, encode_varint(len(body)), body))
