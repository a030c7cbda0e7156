"""The saved state is read again. Other content is reported and ignored."""

import asyncio
import json
import logging
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.health.drain_overlay import Drain, DrainSet
from agent.core.health.saved_checks import SavedChecks
from agent.core.inventory.device import DeviceList, Health, Member
from agent.core.reason import Reason
from agent.core.struct import replace
from agent.state import state_file
from agent.state.state_file import StateFile, load_state
from agent.state.state_format import NOT_FOUND_YET, SavedState
from tests.core.builders import make_listed, node, snapshot

MEMBERS = (Member("p1", "k1", "1", "0000:01:00.0"), Member("p2", "k2", "2", "1-1.2", "dongle"))
FULL = SavedState(
    {
        "example.com/a": snapshot(
            make_listed("w", exclusive_keys=("pci:0000:01:00.1",), has_contested_id=True),
            make_listed("x9", numa=(0, 1), nodes=(node(),)),
            make_listed("x10", absent_since=5.0, reason="absent", health=Health.UNHEALTHY),
            make_listed("y", location="p\udcff", shares=4),
            make_listed("y", shares=8, first_share=4),
            make_listed("z", members=MEMBERS[:1], missing_members=MEMBERS[1:], id_location="p2", grouping_digest="abc"),
            make_listed("z", shares=2, share_suffix="::part-"),
        ),
        "example.com/empty": DeviceList("example.com/empty"),
    },
    frozenset({"x9", "y::7"}),
    {"example.com/empty": "example.com/{model}"},
    saved_checks=SavedChecks(
        {"example.com/a": {"p\udcff": {"link": "no link", "xid": "Xid 79"}}},
        {"example.com/a": {"p\udcff": {"xid": True}}},
        {"example.com/a": {"p1": {"ecc": 7}}},
        {"example.com/a": {"p2": {"xid": 3}}},
        {"example.com/a": {"p1", "p2"}, "example.com/b": {"\udcff"}},
    ),
    boot_id="this one",
    drain_set=DrainSet({"p\udcff": Drain("RMA", 1.5)}, {"example.com/a": Drain("", 2.0)}),
)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """No disk is so slow that what is last is not written."""
    monkeypatch.setattr(state_file, "LAST_WRITE_SECONDS", 60.0)


async def write(directory, *states):
    file = StateFile(str(directory))
    run = asyncio.create_task(file.run())
    for one in states:
        file.save(one)
        await asyncio.sleep(0)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    return file


def as_remembered(device):
    return replace(device, health=Health.UNHEALTHY, reason=NOT_FOUND_YET, absent_since=None, nodes=())


async def test_what_is_written_is_read_back(tmp_path, caplog):
    await write(tmp_path / "new", FULL)
    read = load_state(str(tmp_path / "new"), "this one")
    assert (read.held_ids, read.generated_names, read.drain_set) == (
        FULL.held_ids,
        FULL.generated_names,
        FULL.drain_set,
    )
    assert (read.saved_checks, read.boot_id) == (FULL.saved_checks, "this one")
    assert set(read.lists) == set(FULL.lists)
    for name, list_ in FULL.lists.items():
        assert read.lists[name] == DeviceList(name, tuple(map(as_remembered, list_.devices)))
    assert not caplog.records
    assert os.listdir(tmp_path / "new") == ["state.json"]
    assert os.stat(tmp_path / "new").st_mode & 0o777 == 0o700


async def test_after_a_boot_nobody_was_well_and_what_fails_fails_on(tmp_path):
    await write(tmp_path, FULL)
    read = load_state(str(tmp_path), "the next one")
    assert read.saved_checks == SavedChecks(FULL.saved_checks.failure_reasons, FULL.saved_checks.latches)
    assert read.boot_id == "the next one"


async def test_after_a_boot_the_number_of_a_node_says_nothing(tmp_path):
    stamp = "c188:0 7"
    devices = (
        make_listed("x", "/dev/x", key="node:c188:0", instance_id=stamp),
        make_listed("y", "node:pci-0/tty", key="/sys/devices/tty0", instance_id=stamp),
        make_listed("z", instance_id=stamp),
    )
    await write(tmp_path, SavedState({"example.com/a": snapshot(*devices)}, boot_id="one"))
    read = load_state(str(tmp_path), "two").lists["example.com/a"].devices
    assert [(one.key, one.instance_id) for one in read] == [("/dev/x", ""), ("/sys/devices/tty0", ""), ("key z", stamp)]
    assert [one.instance_id for one in load_state(str(tmp_path), "one").lists["example.com/a"].devices] == [stamp] * 3


@pytest.mark.parametrize(
    "later", [("well",), ("well", "failing", "latched", "counted", "cleared", "boot", "drained", "fanned")]
)
async def test_a_file_of_an_earlier_version_is_read(tmp_path, caplog, later):
    await write(tmp_path, FULL)
    path = tmp_path / "state.json"
    content = json.loads(path.read_text())
    for key in later:
        del content[key]
    path.write_text(json.dumps(content))
    read = load_state(str(tmp_path))
    assert set(read.lists) == set(FULL.lists)
    assert not read.saved_checks.healthy_locations
    assert not caplog.records


async def test_the_newest_is_written_even_on_the_way_out(tmp_path):
    await write(tmp_path, SavedState(), FULL, SavedState(held_ids=frozenset("last")))
    assert load_state(str(tmp_path)).held_ids == frozenset("last")


async def test_a_cancelled_write_is_finished_before_the_last(tmp_path, monkeypatch):
    """Two writes at once would tear the file: the thread of a cancelled one goes on."""
    running = 0

    async def watched(file, real=StateFile._write):
        nonlocal running
        running += 1
        assert running == 1, "two at once"
        await real(file)
        running -= 1

    monkeypatch.setattr(StateFile, "_write", watched)
    for steps in range(1, 12):
        file = StateFile(str(tmp_path))
        run = asyncio.create_task(file.run())
        file.save(FULL)
        for _ in range(steps):
            await asyncio.sleep(0.001 if steps > 8 else 0)
        file.save(SavedState(held_ids=frozenset({f"h{steps}"})))
        run.cancel()
        await asyncio.wait([run])
        assert load_state(str(tmp_path)).held_ids == {f"h{steps}"}


async def test_what_is_equal_on_disk_is_not_written_again(tmp_path):
    file = StateFile(str(tmp_path))
    run = asyncio.create_task(file.run())
    file.save(SavedState({"r": snapshot(make_listed("x"), resource="r")}))
    path = tmp_path / "state.json"
    assert await file.wait_until_saved()
    before = path.stat().st_ino
    file.save(
        SavedState(
            {
                "r": snapshot(
                    replace(make_listed("x"), health=Health.UNHEALTHY, reason=Reason.from_text("f")), resource="r"
                )
            }
        )
    )
    run.cancel()
    await asyncio.wait([run])
    assert path.stat().st_ino == before


@pytest.mark.parametrize(
    "change",
    [
        *({"location": "p2"}, {"key": "k2"}, {"instance_id": "2"}, {"numa": (1,)}, {"id": "y"}),
        {"grouping_digest": "abc", "missing_members": MEMBERS},
    ],
)
async def test_every_change_is_written(tmp_path, change):
    file = StateFile(str(tmp_path))
    run = asyncio.create_task(file.run())
    for device in (make_listed("x"), replace(make_listed("x"), **change)):
        file.save(SavedState({"example.com/a": snapshot(device)}))
        for _ in range(20_000):
            await asyncio.sleep(0.001)
            if load_state(str(tmp_path)).lists.get("example.com/a") == snapshot(as_remembered(device)):
                break
        else:
            pytest.fail(f"{device} is not on disk")
    run.cancel()
    await asyncio.wait([run])


async def test_saved_returns_when_it_is_on_disk_or_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    for directory, written in ((tmp_path, True), (tmp_path / "file", False)):
        file = StateFile(str(directory))
        run = asyncio.create_task(file.run())
        file.save(SavedState())
        file.save(FULL)
        assert await file.wait_until_saved() is written
        assert load_state(str(tmp_path)).held_ids == FULL.held_ids
        run.cancel()
        await asyncio.wait([run])


async def test_it_is_on_disk_before_it_takes_the_place_of_what_was_there(tmp_path, monkeypatch):
    """A machine that loses its power has the old file or the new one."""
    synced, synced_at_once = [], os.fsync

    def fsync(handle):
        synced.append((os.readlink(f"/proc/self/fd/{handle}"), os.fstat(handle).st_size, os.listdir(tmp_path)))
        synced_at_once(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    await write(tmp_path, FULL)
    size = (tmp_path / "state.json").stat().st_size
    assert synced == [(str(tmp_path / "state.json.new"), size, ["state.json.new"])]


async def test_what_is_on_disk_already_is_saved_whatever_failed_between(tmp_path):
    file = StateFile(str(tmp_path))
    run = asyncio.create_task(file.run())
    file.save(FULL)
    assert await file.wait_until_saved()
    (tmp_path / "state.json.new").mkdir()
    file.save(SavedState())
    assert not await file.wait_until_saved()
    file.save(FULL)
    assert await file.wait_until_saved()
    assert load_state(str(tmp_path)).held_ids == FULL.held_ids
    run.cancel()
    await asyncio.wait([run])


async def test_what_cannot_be_written_is_said_once_and_tried_again(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / "below"
    await write(directory, FULL, SavedState(), FULL)
    assert len(caplog.records) == 1
    assert "cannot be written" in caplog.text


async def test_it_is_written_when_the_disk_is_back(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    directory = tmp_path / "blocked"
    directory.write_text("")
    file = StateFile(str(directory))
    run = asyncio.create_task(file.run())
    file.save(FULL)
    assert not await file.wait_until_saved()
    assert file.fault == f"{directory}/state.json: File exists"
    directory.unlink()
    file.save(FULL)
    run.cancel()
    await asyncio.wait([run])
    assert load_state(str(directory)).held_ids == FULL.held_ids
    assert file.fault == ""
    assert caplog.messages[-1] == "state: is written again"


def test_nothing_there_is_nothing_to_report(tmp_path, caplog):
    assert load_state(str(tmp_path)) == SavedState()
    assert not caplog.records


GOOD = {"id": "x", "place": "p", "key": "k", "stamp": "1", "numa": [0], "shares": None, "first_share": 0}


def content(**more):
    return {"version": 1, "lists": {"r": [GOOD]}, "held": ["x"]} | more


def entries(*changes):
    return content(lists={"r": [GOOD | change for change in changes]})


def test_the_good_content_is_good(tmp_path, caplog):
    (tmp_path / "state.json").write_text(json.dumps(content()))
    assert load_state(str(tmp_path)).lists["r"].find_device("x") is not None
    assert not caplog.records


def test_devices_in_another_order_are_put_in_list_order(tmp_path):
    written = entries({"id": "x10"}, {"id": "x9"}, {"shares": 4, "first_share": 2}, {"shares": 2})
    (tmp_path / "state.json").write_text(json.dumps(written))
    devices = load_state(str(tmp_path)).lists["r"].devices
    assert [(device.id, device.first_share) for device in devices] == [("x", 0), ("x", 2), ("x9", 0), ("x10", 0)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        '"version"',
        "[" * 100_000,
        b"\xff\xfe",
        b"\x00" * 100,
        *(
            json.dumps(wrong)
            for wrong in (
                {},
                content(version=2),
                content(version="1"),
                content(lists=[]),
                content(lists={"r": {}}),
                content(lists={"r": ["x"]}),
                content(lists={"r": [{}]}),
                content(held={}),
                content(held=[1]),
                content(held=None),
                entries({"id": ""}),
                entries({"id": "x" * 64}),
                entries({"id": "a b"}),
                entries({"id": 5}),
                entries({"place": None}),
                entries({"key": []}),
                entries({"stamp": 1}),
                entries({"numa": 0}),
                entries({"numa": [-1]}),
                entries({"numa": [True]}),
                entries({"numa": [0.5]}),
                entries({"shares": 0}),
                entries({"shares": -1}),
                entries({"shares": 10**9}),
                entries({"shares": float("inf")}),
                entries({"shares": 2, "first_share": 2}),
                entries({"shares": 2, "first_share": -1}),
                entries({"first_share": 1}),
                entries({"members": {}}),
                entries({"members": [["p", "k"]]}),
                entries({"lost": [["p", "k", "s", "n", 3]]}),
                entries({"lead": None}),
                entries({"grouping": 5}),
                content(failing=[]),
                content(failing={"r": {"p": {"link": None}}}),
                content(latched={"r": {"p": {"xid": 1}}}),
                content(counted={"r": {"p": {"ecc": "7"}}}),
                content(cleared={"r": ["p"]}),
                content(well=["p"]),
                content(well={"r": "p"}),
                content(well={"r": [["p"]]}),
                content(boot=None),
                content(drained=[]),
                content(drained={"places": {"p": "why"}}),
                content(drained={"places": {"p": ["why"]}}),
                content(drained={"places": {"p": [None, 1.0]}}),
                content(drained={"resources": {"r": ["why", "1"]}}),
                entries({}, {}),
                entries({"shares": 2}, {"shares": 4, "first_share": 1}),
                content(lists={"r": [GOOD], "q": [GOOD]}),
            )
        ),
    ],
)
def test_what_is_not_as_it_is_written_is_ignored_with_a_message(tmp_path, caplog, text):
    path = tmp_path / "state.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with caplog.at_level(logging.WARNING):
        assert load_state(str(tmp_path)) == SavedState()
    (record,) = caplog.records
    assert str(path) in record.getMessage()
    assert len(record.getMessage()) < 1000


def test_what_is_too_big_is_not_read_to_its_end(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(state_file, "SIZE_LIMIT", 10)
    (tmp_path / "state.json").write_text(json.dumps(content()))
    assert load_state(str(tmp_path)) == SavedState()
    assert "more than 10 bytes" in caplog.text


def test_what_cannot_be_read_is_ignored_with_a_message(tmp_path, caplog):
    (tmp_path / "state.json").mkdir()
    assert load_state(str(tmp_path)) == SavedState()
    assert "cannot be read" in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "version", "lists"]), inner),
    max_leaves=10,
)


@given(JSON, st.sampled_from([*GOOD]), JSON)
def test_no_content_ends_the_agent(tmp_path_factory, anything, key, value):
    path = tmp_path_factory.mktemp("state") / "state.json"
    for written in (anything, entries({key: value}), content(lists=anything), content(held=anything)):
        path.write_text(json.dumps(written))
        load_state(str(path.parent))
