"""The grant of devices that consist of several host devices."""

import pytest

from agent.core.grants.build_grant import build_grant
from agent.core.grants.grant import GrantRefusedError, RefusalCause, RereadDevice, RereadMember
from agent.core.inventory.device import MatchedPath
from agent.core.language.value import Absent
from agent.core.struct import replace
from tests.core.builders import env, give, make_listed, mount, node, spec


def give_per_member(*gives):
    """Return lines that apply to each host device."""
    return tuple(replace(one, per_member=True) for one in gives)


def group(name, *members, facts=None, came_along=(), nodes=None):
    """A device of host devices with these facts; the first says what the device's words say."""
    there = nodes or {
        path: node(path, sum(path.encode()) % 256)
        for said in (*members, *came_along)
        for value in said.values()
        for path in (value if isinstance(value, tuple) else (value,))
        if str(path).startswith("/dev/")
    }
    words = (*(RereadMember(said, True) for said in members), *(RereadMember(said, False) for said in came_along))
    device = make_listed(name, nodes=tuple(found for found in there.values() if not isinstance(found, Absent)))
    return RereadDevice(device, (), members[0] | (facts or {}), there, members=words)


def containers(grant):
    return [(one.host, one.container) for one in grant.nodes]


def test_every_member_gives_its_nodes():
    entry = spec(
        nodes=give_per_member(give("n", "{node}", "/dev/kit/")),
        env=(env("NODES", "{given.n}", ":"), env("FIRST", "{node}", ",")),
    )
    device = group("g", {"node": "/dev/a"}, {"node": "/dev/b"})
    grant = build_grant(entry, ["g"], [device], 1)
    assert containers(grant) == [("/dev/a", "/dev/kit/a"), ("/dev/b", "/dev/kit/b")]
    assert grant.env == {"NODES": "/dev/kit/a:/dev/kit/b", "FIRST": "/dev/a"}


def test_what_comes_out_equal_is_given_once():
    entry = spec(
        nodes=give_per_member(give("ctl", "/dev/ctl{x}"), give("n", "{node}")), env=(env("CTL", "{given.ctl}", ","),)
    )
    nodes = {path: node(path) for path in ("/dev/ctl0", "/dev/a", "/dev/b")}
    device = group("g", {"node": "/dev/a", "x": 0}, {"node": "/dev/b", "x": 0}, nodes=nodes)
    grant = build_grant(entry, ["g"], [device], 1)
    assert containers(grant) == [("/dev/ctl0", "/dev/ctl0"), ("/dev/a", "/dev/a"), ("/dev/b", "/dev/b")]
    assert grant.env == {"CTL": "/dev/ctl0"}


def test_a_line_of_parts_is_given_once_and_numbered_by_device():
    entry = spec(nodes=(give("d", "{dongle.node}", "/dev/dongle{n}"), give("p", "{programmer.tty}", "/dev/ttyKIT{n}")))
    kits = [
        group(
            f"kit{kit}",
            {"x": 1},
            {"x": 2},
            facts={"dongle.node": f"/dev/d{kit}", "programmer.tty": (f"/dev/p{kit}",)},
            nodes={f"/dev/{part}{kit}": node(f"/dev/{part}{kit}") for part in "dp"},
        )
        for kit in (3, 7)
    ]
    assert containers(build_grant(entry, ["kit3", "kit7"], kits, 2)) == [
        ("/dev/d3", "/dev/dongle0"),
        ("/dev/p3", "/dev/ttyKIT0"),
        ("/dev/d7", "/dev/dongle1"),
        ("/dev/p7", "/dev/ttyKIT1"),
    ]


def test_elements_of_every_member_are_counted_on():
    entry = spec(nodes=give_per_member(give("t", "{ttys}", "/dev/tty{n}")), env=(env("N{n}", "{ttys}", ","),))
    devices = [
        group("a", {"ttys": ("/dev/a0", "/dev/a1")}, {"ttys": ("/dev/b0",)}),
        group("c", {"ttys": ("/dev/c0",)}, {"ttys": ("/dev/d0",)}),
    ]
    grant = build_grant(entry, ["a", "c"], devices, 2)
    assert containers(grant) == [
        (f"/dev/{name}", f"/dev/tty{n}") for n, name in enumerate(("a0", "a1", "b0", "c0", "d0"))
    ]
    assert grant.env == {"N0": "/dev/a0", "N1": "/dev/a1", "N2": "/dev/c0"}


def test_all_members_and_those_that_match_are_lists():
    entry = spec(env=(env("ASKED", "{matched.address}", ","), env("ALL", "{members.address}", ",")))
    devices = [
        group(name, {}, facts={"matched.address": (name,), "members.address": (name, f"{name}.1")}) for name in "ab"
    ]
    assert build_grant(entry, ["a", "b"], devices, 2).env == {"ASKED": "a,b", "ALL": "a,a.1,b,b.1"}


@pytest.mark.parametrize("there", [Absent("no such file"), None])
def test_what_only_came_along_need_not_have_a_node_and_what_matched_has_to(there):
    entry = spec(nodes=give_per_member(give("n", "{node}")))
    missing = {} if there is None else {"node": "/dev/gone"}
    nodes = {"/dev/a": node("/dev/a"), "/dev/gone": there or Absent("")}
    device = group("g", {"node": "/dev/a"}, came_along=(missing,), nodes=nodes)
    assert containers(build_grant(entry, ["g"], [device], 1)) == [("/dev/a", "/dev/a")]
    device = group("g", {"node": "/dev/a"}, missing, nodes=nodes)
    with pytest.raises(GrantRefusedError) as error:
        build_grant(entry, ["g"], [device], 1)
    assert error.value.cause is RefusalCause.NODE_MISSING


def test_mounts_are_of_every_member():
    entry = spec(mounts=give_per_member(mount("m", "/sys/{x}")))
    device = replace(
        group("g", {"x": "a"}, {"x": "b"}, came_along=({},)),
        mounts={f"/sys/{x}": (MatchedPath(f"/sys/{x}", f"/sys/{x}"),) for x in "ab"},
    )
    assert [one.container for one in build_grant(entry, ["g"], [device], 1).mounts] == ["/sys/a", "/sys/b"]
