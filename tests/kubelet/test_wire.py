"""The model on the wire: lists, refusals. Grants are in test_granted.py."""

import pytest
from grpclib.const import Status
from hypothesis import given
from hypothesis import strategies as st

from agent.core.grants.grant import GrantRefusedError, RefusalCause
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.reason import NO_REASON, Reason
from agent.core.struct import replace
from agent.kubelet.messages import v1beta1
from agent.kubelet.wire import ListEncoder, PluginOptions, format_error_text, make_refusal

devices = st.builds(
    Device,
    id=st.text("abcxyz0189:.-_", min_size=1, max_size=63),
    location=st.just("p"),
    key=st.just("k"),
    health=st.sampled_from(Health),
    reason=st.sampled_from([NO_REASON, Reason.from_text("hot")]),
    numa=st.sampled_from([(), (0,), (1,), (0, 1), (130, 70000)]),
    shares=st.sampled_from([None, 1, 3]),
    first_share=st.just(0),
)
lists = st.lists(devices, max_size=12, unique_by=lambda device: device.id)


def naive(snapshot):
    """The list by generated code alone, as the table of the interface has it."""
    return v1beta1.ListAndWatchResponse(
        devices=[
            v1beta1.Device(
                id=name,
                health=device.health.value,
                topology=v1beta1.TopologyInfo(nodes=[v1beta1.NumaNode(id=node) for node in device.numa])
                if device.numa
                else None,
            )
            for device in snapshot.devices
            for name in device.list_ids()
        ]
    )


@given(st.lists(lists, min_size=1, max_size=4))
def test_lists_are_those_of_the_generated_code_whatever_came_before(history):
    encoder = ListEncoder()
    for some in history:
        snapshot = DeviceList("example.com/a", tuple(some))
        wire = encoder.encode(snapshot)
        assert wire == bytes(naive(snapshot))
        assert v1beta1.ListAndWatchResponse.FromString(wire) == naive(snapshot)


@given(lists, st.data())
def test_the_same_objects_in_another_order_are_not_encoded_again(some, data):
    encoder = ListEncoder()
    encoder.encode(DeviceList("example.com/a", tuple(some)))
    subset = tuple(data.draw(st.permutations(some)))[: data.draw(st.integers(0, len(some)))]
    other = DeviceList("example.com/a", subset)
    assert encoder.encode(other) == bytes(naive(other))
    assert encoder.encoded_count == len(some)


def test_one_change_among_ten_thousand_encodes_one():
    many = [Device(f"d{n}", f"p{n}", f"k{n}", Health.HEALTHY) for n in range(10_000)]
    encoder = ListEncoder()
    before = encoder.encode(DeviceList("example.com/a", tuple(many)))
    assert encoder.encoded_count == 10_000
    many[4711] = replace(many[4711], health=Health.UNHEALTHY, reason=Reason.from_text("hot"))
    after = encoder.encode(DeviceList("example.com/a", tuple(many)))
    assert encoder.encoded_count == 10_001
    assert len(after) == len(before) + 2
    del many[5]
    encoder.encode(DeviceList("example.com/a", tuple(many)))
    assert encoder.encoded_count == 10_001


def test_a_snapshot_is_encoded_once_and_what_the_kubelet_cannot_see_changes_nothing():
    encoder = ListEncoder()
    first = DeviceList("example.com/a", (Device("a", "p", "k", Health.UNHEALTHY, reason=Reason.from_text("hot")),))
    ready = encoder.encode(first)
    assert encoder.encode(first) is ready
    unseen = DeviceList(
        "example.com/a", (replace(first.devices[0], reason=Reason.from_text("hotter"), absent_since=1.0),)
    )
    assert encoder.encode(unseen) is ready
    assert encoder.encoded_count == 1


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (RefusalCause.UNKNOWN_ID, Status.NOT_FOUND),
        (RefusalCause.UNHEALTHY, Status.FAILED_PRECONDITION),
        (RefusalCause.NODE_MISSING, Status.FAILED_PRECONDITION),
        (RefusalCause.MOUNT_MISSING, Status.FAILED_PRECONDITION),
        (RefusalCause.CDI_MISSING, Status.FAILED_PRECONDITION),
        (RefusalCause.CONFLICT, Status.FAILED_PRECONDITION),
        (RefusalCause.DEADLINE, Status.DEADLINE_EXCEEDED),
    ],
)
def test_every_cause_has_its_status_and_keeps_its_text(cause, status):
    error = make_refusal(GrantRefusedError(cause, "example.com/a gpu-1: gone; ü"))
    assert (error.status, error.message) == (status, "example.com/a gpu-1: gone; ü")


def test_every_cause_has_a_status():
    assert all(make_refusal(GrantRefusedError(cause, "x")).status for cause in RefusalCause)


@given(st.text(st.characters(), max_size=400))
def test_texts_are_one_printable_line_of_limited_length(text):
    line = format_error_text(text)
    assert line.isprintable()
    assert len(line) <= 200
    line.encode()


def test_options():
    assert PluginOptions().build_message() == v1beta1.DevicePluginOptions()
    assert PluginOptions(has_prestart=True, has_preference=True).build_message() == v1beta1.DevicePluginOptions(
        pre_start_required=True, get_preferred_allocation_available=True
    )
