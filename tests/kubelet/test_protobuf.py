"""Our messages beside those of protobuf's own library, from the same files; and bytes that are no message."""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc
from hypothesis import given
from hypothesis import strategies as st

from agent.kubelet.messages import metricssvc, pluginregistration, v1, v1beta1
from agent.kubelet.protobuf import BOOL, INT32, INT64, PAIR, TEXT, UINT64, FieldCount, Message, encode_varint

PROTOS = Path(__file__).parents[2] / "protos"
MESSAGES = {
    f"{module.__name__.rpartition('.')[2]}.{name}": one
    for module in (metricssvc, pluginregistration, v1, v1beta1)
    for name, one in vars(module).items()
    if isinstance(one, type) and issubclass(one, Message) and one is not Message
}
VALUES = {
    TEXT: st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    BOOL: st.booleans(),
    INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    INT64: st.integers(-(1 << 63), (1 << 63) - 1),
    UINT64: st.integers(0, (1 << 64) - 1),
}


def of(message):
    """Any message of a class."""
    fields = {}
    for field in message.wire:
        if field.type is PAIR:
            fields[field.name] = st.dictionaries(VALUES[TEXT], VALUES[TEXT], max_size=1)  # several have no order
            continue
        one = VALUES[field.type] if field.type in VALUES else of(field.type.decode.__self__)
        many = {FieldCount.MANY: st.lists(one, max_size=3), FieldCount.OPTIONAL: st.none() | one}
        fields[field.name] = many.get(field.count, one)
    return st.builds(message, **fields)


@pytest.fixture(scope="session")
def theirs(tmp_path_factory):
    """The same messages as classes of protobuf's library, by name."""
    out = tmp_path_factory.mktemp("protos") / "descriptors"
    files = [str(path) for path in sorted(PROTOS.glob("*/*.proto"))]
    assert protoc.main(["protoc", f"-I{PROTOS}", f"--descriptor_set_out={out}", *files]) == 0
    read = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    pool = descriptor_pool.DescriptorPool()
    for file in read:
        pool.Add(file)
    return message_factory.GetMessageClassesForFiles([file.name for file in read], pool)


def test_every_message_of_the_files_is_there(theirs):
    assert set(MESSAGES) == {name for name in theirs if not name.endswith("Entry")}


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
def test_both_write_and_read_the_same(theirs, name, data):
    ours = data.draw(of(MESSAGES[name]))
    other = theirs[name].FromString(bytes(ours))
    other.DiscardUnknownFields()
    assert other.SerializeToString(deterministic=True) == bytes(ours)
    assert MESSAGES[name].parse(bytes(ours)) == ours


@given(st.binary(max_size=64))
def test_any_bytes_are_a_message_or_a_value_error(raw):
    for message in MESSAGES.values():
        try:
            message.parse(raw)
        except ValueError:
            continue


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0a",  # no length
        b"\x0a\x05abc",  # cut short
        b"\x0a\x02\xff\xfe",  # not UTF-8
        b"\x08\x01",  # a number where a text is
        b"\x02\x00",  # the field 0
        b"\x0b\x0c",  # a group
        b"\xff" * 11,  # a varint without an end
    ],
)
def test_what_is_no_message_is_refused(raw):
    with pytest.raises(ValueError):
        v1beta1.Device.parse(raw)


def test_what_a_later_version_adds_is_passed_over():
    later = b"".join(
        encode_varint(99 << 3 | way) + raw for way, raw in ((0, b"\x05"), (1, bytes(8)), (2, b"\x01x"), (5, bytes(4)))
    )
    assert v1beta1.Device.parse(later + b"\x0a\x01a" + later) == v1beta1.Device(id="a")
