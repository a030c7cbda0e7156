"""Protobuf messages, and gRPC services of them: what the generated modules of `agent.kubelet.messages` rest on.

As much of proto3 as the kubelet's interfaces have: https://protobuf.dev/programming-guides/encoding. A peer's fields
that a message does not have are passed over. Where a field comes twice that can come once, the last counts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar, Self, TypeVar

from grpclib.client import Channel
from grpclib.const import Cardinality, Handler, Status
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError
from grpclib.server import Stream

from agent.core.struct import Struct

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5  # how what follows a tag is written
_VARINT_BITS = 70  # ten bytes of seven bits

M = TypeVar("M", bound="Message")


@lru_cache(maxsize=1024)
def encode_varint(number: int) -> bytes:
    """Return a number of at least 0 as a varint."""
    if number < 0x80:
        return bytes((number,))
    return bytes((number & 0x7F | 0x80,)) + encode_varint(number >> 7)


def add_length(content: bytes) -> bytes:
    """Return bytes with their length before them."""
    return encode_varint(len(content)) + content


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset after it.

    Raises:
        ValueError: it is cut short or longer than ten bytes.
    """
    number = 0
    for shift in range(0, _VARINT_BITS, 7):
        if at == len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError("a varint is cut short or too long")


def _contents(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and content of each field: an int for a varint, or bytes. Those of fixed size are left out.

    Raises:
        ValueError: it is no protobuf.
    """
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        number, written = tag >> 3, tag & 7
        if not number:
            raise ValueError("a field has the number 0")
        if written == _VARINT:
            value, at = _read_varint(data, at)
            yield number, value
            continue
        if written == _BYTES:
            size, at = _read_varint(data, at)
        elif written in {_FIXED_32, _FIXED_64}:
            size = 4 if written == _FIXED_32 else 8
        else:
            raise ValueError(f"a field is written in way {written}")
        start, at = at, at + size
        if at > len(data):
            raise ValueError("a field is cut short")
        if written == _BYTES:
            yield number, data[start:at]


def _varints(data: bytes) -> Iterator[int]:
    """Yield the varints that stand side by side (a packed field)."""
    at = 0
    while at < len(data):
        number, at = _read_varint(data, at)
        yield number


class FieldType(Struct):
    """How the values of a field are written: the bytes after the tag (and after their length, unless `is_varint`)."""

    encode: Callable[[Any], bytes]
    decode: Callable[[Any], Any]
    is_varint: bool = False


def _signed(number: int, bits: int) -> int:
    """Return the signed number that the lowest bits of an unsigned one are."""
    return ((number & ((1 << bits) - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _encode_int(number: int) -> bytes:
    return encode_varint(number & 0xFFFF_FFFF_FFFF_FFFF)


def _encode_pair(pair: tuple[str, str]) -> bytes:
    key, value = pair
    return b"".join((b"\x0a", add_length(key.encode()), b"\x12", add_length(value.encode())))


def _decode_pair(data: bytes) -> tuple[str, str]:
    texts = {number: content.decode() for number, content in _contents(data) if isinstance(content, bytes)}
    return texts.get(1, ""), texts.get(2, "")


TEXT = FieldType(str.encode, bytes.decode)
BOOL = FieldType(_encode_int, bool, is_varint=True)
INT32 = FieldType(_encode_int, lambda number: _signed(number, 32), is_varint=True)
INT64 = FieldType(_encode_int, lambda number: _signed(number, 64), is_varint=True)
UINT64 = FieldType(_encode_int, int, is_varint=True)
PAIR = FieldType(_encode_pair, _decode_pair)  # an entry of a map of texts


class FieldCount(Enum):
    """How many values a field has."""

    ONE = "one"  # the default of its type is not written
    OPTIONAL = "optional"  # None is not written
    MANY = "many"
    MAP = "map"


class Field(Struct):
    """A field of a message: its number, the attribute that holds it, and how it is written."""

    number: int
    name: str
    type: FieldType
    count: FieldCount = FieldCount.ONE

    def encode(self, value: Any) -> bytes:  # noqa: ANN401  of the field's type
        """Return the field with its tag, once for each value; nothing if there is no value to write."""
        if self.count is FieldCount.ONE:
            values = (value,) if value else ()
        elif self.count is FieldCount.OPTIONAL:
            values = () if value is None else (value,)
        else:
            values = value.items() if self.count is FieldCount.MAP else value
        contents = [self.type.encode(one) for one in values]
        if not self.type.is_varint:
            contents = [add_length(content) for content in contents]
        elif contents and self.count is FieldCount.MANY:  # packed
            contents = [add_length(b"".join(contents))]
        is_varint = self.type.is_varint and self.count is not FieldCount.MANY
        tag = encode_varint(self.number << 3 | (_VARINT if is_varint else _BYTES))
        return b"".join([tag + content for content in contents])

    def decode(self, content: int | bytes) -> list[Any]:
        """Return the values of one occurrence of the field.

        Raises:
            ValueError: it is written as another type is.
        """
        if isinstance(content, bytes) != self.type.is_varint:
            return [self.type.decode(content)]
        if isinstance(content, bytes) and self.count is FieldCount.MANY:
            return [self.type.decode(number) for number in _varints(content)]
        raise ValueError(f"{self.name} is written as another type is")


class Message(Struct):
    """A message; the generated classes have the fields."""

    wire: ClassVar[tuple[Field, ...]] = ()

    def __bytes__(self) -> bytes:
        """Return it as protobuf."""
        return b"".join([field.encode(getattr(self, field.name)) for field in self.wire])

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Return the message that these bytes are.

        Raises:
            ValueError: they are none.
        """
        fields = {field.number: field for field in cls.wire}
        found: dict[str, Any] = {}
        for number, content in _contents(data):
            field = fields.get(number)
            if field is None:
                continue
            values = field.decode(content)
            if field.count is FieldCount.MANY:
                found.setdefault(field.name, []).extend(values)
            elif field.count is FieldCount.MAP:
                found.setdefault(field.name, {}).update(values)
            else:
                found[field.name] = values[0]
        return cls(**found)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields by name, those of the messages in it too; without those that are not written."""
        return {field.name: _plain(value) for field in self.wire if field.encode(value := getattr(self, field.name))}

    def SerializeToString(self) -> bytes:  # noqa: N802  the name that the codec of grpclib calls
        """Return it as protobuf."""
        return bytes(self)

    @classmethod
    def FromString(cls, data: bytes) -> Self:  # noqa: N802  the name that the codec of grpclib calls
        """Return the message that these bytes are."""
        return cls.parse(data)


def _plain(value: Any) -> Any:  # noqa: ANN401  of any field
    if isinstance(value, Message):
        return value.to_dict()
    return [_plain(one) for one in value] if isinstance(value, list) else value


def make_message_type(of: type[Message]) -> FieldType:
    """Return the type of fields that hold such a message."""
    return FieldType(bytes, of.parse)


class EncodedMessage(Struct):
    """A message whose bytes are ready."""

    wire: bytes = b""

    def __bytes__(self) -> bytes:
        return self.wire


class Codec(CodecBase):
    """What turns messages into bytes for grpclib: any that has bytes, so `Ready` too."""

    __content_subtype__ = "proto"

    def encode(self, message: Any, message_type: Any) -> bytes:  # noqa: ANN401  as grpclib has it
        """See `CodecBase`."""
        del message_type
        return bytes(message)

    def decode(self, data: bytes, message_type: Any) -> Any:  # noqa: ANN401  as grpclib has it
        """See `CodecBase`."""
        return message_type.parse(data)


def make_unimplemented_error() -> GRPCError:
    """Return the error of a method that a service does not have."""
    return GRPCError(Status.UNIMPLEMENTED)


class Service:
    """What is served; the generated classes have the methods."""

    def __mapping__(self) -> Mapping[str, Handler]:
        """Return the calls by path."""
        raise NotImplementedError

    async def send_stream(self, method: Callable[[Any], Any], stream: Any, request: Any) -> None:  # noqa: ANN401
        """Send all messages that answer a request."""
        async for answer in method(request):
            await stream.send_message(answer)

    def _unary(self, method: Callable[[Any], Any], request: type[Message], response: type[Message]) -> Handler:
        async def answer(stream: Stream[Any, Any]) -> None:
            await stream.send_message(await method(await stream.recv_message()))

        return Handler(answer, Cardinality.UNARY_UNARY, request, response)

    def _streaming(self, method: Callable[[Any], Any], request: type[Message], response: type[Message]) -> Handler:
        async def answer(stream: Stream[Any, Any]) -> None:
            await self.send_stream(method, stream, await stream.recv_message())

        return Handler(answer, Cardinality.UNARY_STREAM, request, response)


class Stub:
    """A service that is called; the generated classes have the methods."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    async def _unary(self, path: str, request: Message, response: type[M], timeout: float | None) -> M:  # noqa: ASYNC109
        call = self.channel.request(path, Cardinality.UNARY_UNARY, type(request), response, timeout=timeout)
        async with call as stream:
            await stream.send_message(request, end=True)
            answer = await stream.recv_message()
        assert answer is not None  # noqa: S101  grpclib raises the status that comes in its place
        return answer

    async def _streaming(
        self,
        path: str,
        request: Message,
        response: type[M],
        timeout: float | None,  # noqa: ASYNC109  it goes out with the call
    ) -> AsyncIterator[M]:
        call = self.channel.request(path, Cardinality.UNARY_STREAM, type(request), response, timeout=timeout)
        async with call as stream:
            await stream.send_message(request, end=True)
            async for answer in stream:
                yield answer
