"""Preferred devices: each rule, several rules, required devices, and that no choice is better."""

import itertools
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.entry.prefer import Cost, DistanceRule, Links, WordRule
from agent.core.entry.resource_spec import Limit
from agent.core.grants import preference_costs
from agent.core.grants.choose import Costs, choose, is_exact
from agent.core.grants.prefer import NO_LIMIT, ChoicePool, build_choice_pool, prefer
from agent.core.grants.preference_costs import PreferenceCosts, compute_pcie_distance
from agent.core.inventory.affinity import LinkDistances, PciePath, find_pci_path
from agent.core.inventory.device import Device, DeviceList, Health
from agent.core.language.value import ValueType, make_sort_key
from tests.core.builders import candidate, host, make_listed, snapshot, spec

LINKS = Links("xgmi", None, {}, "to", "number", ValueType.INT, Cost(default=1))
PCIE, XGMI = DistanceRule(), DistanceRule(LINKS)


def make_rule(verb, word="word"):
    return WordRule(verb, word)


def stock(rules, devices, shares=None, sick=()):
    """A stock of devices by id, each with its traits; one rule may have its trait bare."""
    made = [
        Device(one, one, one, Health.UNHEALTHY if one in sick else Health.HEALTHY, shares=shares)
        for one in sorted(devices, key=make_sort_key)
    ]
    traits = {one: traits if isinstance(traits, tuple) else (traits,) for one, traits in devices.items()}
    return ChoicePool(DeviceList("example.com/a", tuple(made)), rules, traits)


def make_links(costs):
    """Return the affinities of devices 0, 1, … with these distances of pairs."""
    names = sorted({name for pair in costs for name in pair})
    return {
        name: (
            LinkDistances(
                name,
                {end: cost for pair, cost in costs.items() if name in pair for end in pair if end != name},
            ),
        )
        for name in names
    }


def choose_ids(of, size, available=None, must=(), limit=NO_LIMIT):
    """Return the preferred IDs, which do not depend on the order of the offer."""
    available = (
        [one for device in of.device_list.devices for one in device.list_ids()] if available is None else available
    )
    one = prefer(available, must, size, limit, of)
    assert one == prefer(available[::-1], [*must][::-1], size, limit, of)
    return " ".join(one)


NUMA = {"a0": 0, "a1": 0, "b0": 1, "b1": 1, "b2": 1}
BOARDS = {"a0": "A", "b0": "B", "b1": "B", "b2": "B", "b3": "B", "c0": "C", "c1": "C"}


@pytest.mark.parametrize(
    ("rule", "devices", "size", "must", "expected"),
    [
        # same: all of one value, where there are most; else as many as can be of one
        ("same", NUMA, 1, "", "b0"),
        ("same", NUMA, 2, "", "b0 b1"),
        ("same", NUMA, 2, "a1", "a0 a1"),
        ("same", NUMA, 4, "", "a0 b0 b1 b2"),
        ("same", NUMA, 3, "a0", "a0 b0 b1"),
        ("same", {"a": None, "b": None, "c": 1, "d": 1}, 2, "", "c d"),
        ("same", {"a": None, "b": None, "c": 1}, 2, "", "a c"),
        # packed: where fewest are free, so that the others stay whole; a whole board where that is as good
        ("packed", BOARDS, 1, "", "a0"),
        ("packed", BOARDS, 2, "", "c0 c1"),
        ("packed", BOARDS, 2, "b3", "a0 b3"),
        ("packed", BOARDS, 3, "", "a0 c0 c1"),
        ("packed", {"a0": "A", "b0": "B", "b1": "B", "b2": "B"}, 3, "", "b0 b1 b2"),
        ("packed", {"a0": "A", "a1": "A", "b0": "B", "b1": "B", "b2": "B", "c": "C", "d": None}, 4, "", "b0 b1 b2 c"),
        # balanced: where most are free, each time anew
        ("balanced", BOARDS, 1, "", "b0"),
        ("balanced", BOARDS, 3, "", "b0 b1 c0"),
        ("balanced", BOARDS, 4, "", "b0 b1 b2 c0"),
        ("balanced", {"a": 0, "b": 0, "c": 1, "d": 1}, 2, "", "a c"),
        ("balanced", {"a": 0, "b": 0, "c": 1, "d": 1}, 2, "c", "a c"),
        # order: the least first, in natural order
        ("order", {"a": "x10", "b": "x9", "c": None}, 1, "", "b"),
        ("order", {"a": 10, "b": 9, "c": 8, "d": 8}, 3, "", "b c d"),
    ],
)
def test_a_rule(rule, devices, size, must, expected):
    assert choose_ids(stock([make_rule(rule)], devices), size, must=must.split()) == " ".join(sorted(expected.split()))


def test_the_first_rule_decides_and_the_next_breaks_ties():
    rules = [make_rule("same"), make_rule("order")]
    assert choose_ids(stock(rules, {"a": (0, 9), "b": (0, 8), "c": (1, 1), "d": (0, 7), "e": (1, 2)}), 2) == "c e"
    assert choose_ids(stock(rules[::-1], {"a": (9, 0), "b": (1, 0), "c": (1, 1), "d": (1, 1)}), 2) == "c d"
    assert (
        choose_ids(stock([make_rule("packed"), make_rule("same")], {"a": ("A", 0), "b": ("B", 1), "c": ("C", 1)}), 2)
        == "b c"
    )


def test_what_same_leaves_open_is_for_the_next_rule():
    """Two groups that fit: which of them is what the second rule says, and only then where most are free (ADR 17)."""
    rules = [make_rule("same"), make_rule("packed")]
    cards = {"a": (0, "A"), "b": (0, "A"), "c": (0, "A"), "d": (1, "D"), "e": (1, "D")}
    assert choose_ids(stock(rules, cards), 2) == "d e"
    assert choose_ids(stock(rules, cards), 1) == "d"


def test_the_order_of_ids_is_the_end_of_it():
    assert choose_ids(stock([make_rule("same")], dict.fromkeys(("x10", "x9", "x2"), 0)), 2) == "x2 x9"
    assert choose_ids(stock([], {"x10": (), "x9": (), "x2": ()}), 2) == "x2 x9"


def test_shares_of_a_device_count_as_devices():
    of = stock([make_rule("packed")], {"a": "A", "b": "B"}, shares=3)
    assert choose_ids(of, 2, ["a::0", "a::1", "a::2", "b::1", "b::2"]) == "b::1 b::2"
    of = stock([make_rule("balanced")], {"a": "A", "b": "B"}, shares=3)
    assert choose_ids(of, 2, ["a::0", "a::1", "a::2", "b::1", "b::2"]) == "a::0 b::1"
    assert choose_ids(of, 3, ["a::0", "a::1", "a::2", "b::1", "b::2"]) == "a::0 a::1 b::1"


def test_a_limit_holds_whatever_the_rules_prefer():
    of = stock([make_rule("same")], {"a": 0, "b": 1, "c": 1}, shares=4)
    assert choose_ids(of, 2, limit=Limit(distinct=True)) == "b::0 c::0"
    assert choose_ids(of, 2, must=["a::2"], limit=Limit(distinct=True)) == "a::2 b::0"
    assert choose_ids(of, 4, limit=Limit(distinct=True)) == ""
    assert choose_ids(of, 3, limit=Limit(per_container=2)) == ""


def test_what_the_list_no_longer_has_is_taken_last_and_still_satisfies():
    of = stock([make_rule("same")], {"a": 0, "b": 0, "c": 0}, sick=["a"])
    assert choose_ids(of, 2) == "b c"
    assert choose_ids(of, 2, ["gone", "c"]) == "c gone"
    assert choose_ids(of, 3, ["gone", "a", "b", "c"]) == "a b c"


# A root port and, behind it, a switch with four ports; a second switch behind one of these; a root port without.
ROOT = "/sys/devices/pci0000:00"
A1 = f"{ROOT}/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0"
A2 = f"{ROOT}/0000:00:01.0/0000:01:00.0/0000:02:01.0/0000:04:00.0"
A3 = f"{ROOT}/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0/0000:06:00.0/0000:07:00.0"
B = f"{ROOT}/0000:00:02.0/0000:08:00.0"
C = "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"
D = "/sys/devices/pci0000:c0/0000:c0:01.0/0000:c1:00.0"


def seat(directory, *numa):
    return PciePath(find_pci_path(directory), numa)


@pytest.mark.parametrize(
    ("one", "other", "far"),
    [
        (A1, f"{A1[:-1]}1", 0),  # two functions of a card
        (A1, f"{A1}/net/eth0", 0),
        (A1, A2, 10),
        (A1, A3, 20),
        (A1, B, 30),
        (f"{ROOT}/0000:00:1f.3", f"{ROOT}/0000:00:1f.4", 0),
        (f"{ROOT}/0000:00:1f.3", f"{ROOT}/0000:00:14.0", 30),
        (A1, C, 40),
        (A1, D, 50),
        ("/sys/devices/virtual/x", "/sys/devices/virtual/y", 50),
    ],
)
def test_how_far_functions_are_apart(one, other, far):
    numa = {C: 0, D: 1}
    seats = seat(one, 0), seat(other, numa.get(other, 0))
    if not one.startswith(ROOT):
        seats = seat(one), seat(other)
    assert compute_pcie_distance(*seats) == compute_pcie_distance(*seats[::-1]) == far


def test_near_on_pcie():
    cards = {"a1": seat(A1, 0), "a2": seat(A2, 0), "a3": seat(A3, 0), "b": seat(B, 0), "c": seat(C, 0), "d": seat(D, 1)}
    of = stock([PCIE], cards)
    assert choose_ids(of, 2) == "a1 a2"
    assert choose_ids(of, 2, must=["b"]) == "a1 b"
    assert choose_ids(of, 3) == "a1 a2 a3"
    assert choose_ids(of, 2, ["b", "c", "d"]) == "b c"


def test_near_by_links():
    """Two pairs by fast links; between the pairs slow ones, and one device that no link leads to."""
    costs = {(1, 2): 10, (3, 4): 10, (1, 3): 40, (1, 4): 40, (2, 3): 40, (2, 4): 40}
    of = stock([XGMI], {str(name): ends for name, ends in make_links(costs).items()} | {"0": (LinkDistances(0),)})
    assert choose_ids(of, 2) == "1 2"
    assert choose_ids(of, 2, must=["3"]) == "3 4"
    assert choose_ids(of, 3, must=["0"]) == "0 1 2"
    assert choose_ids(of, 2, ["0", "1", "3"]) == "1 3"


def test_a_link_that_one_side_tells_of_counts():
    of = stock([XGMI], {"a": (LinkDistances(0, {2: 5}),), "b": (LinkDistances(1, {0: 9}),), "c": (LinkDistances(2),)})
    assert choose_ids(of, 2) == "a c"


def test_traits_are_those_that_the_look_found_whichever_entry_it_is_of():
    """An entry that adds to a resource may know only some of its rules, or have them in another order."""
    rules = (make_rule("same", "numa"), make_rule("order", "slot"))
    first = candidate(host("p0"), "a", affinities=(0, "2"))
    other = candidate(host("p1"), "b", entry=1, affinities=("1", 0))
    third = candidate(host("p2"), "c", entry=2, affinities=(1,))
    specs = [spec(prefer=rules), spec(prefer=rules[::-1], is_addition=True), spec(prefer=rules[:1], is_addition=True)]
    lists = snapshot(make_listed("a", "p0"), make_listed("b", "p1"), make_listed("c", "p2"), make_listed("gone", "p3"))
    of = build_choice_pool(lists, specs[0], {one.device.key: one for one in (first, other, third)}, specs)
    assert of.affinities == [(0, "2"), (0, "1"), (1, None), ()]
    assert choose_ids(of, 1) == "b"
    assert choose_ids(of, 2) == "a b"


# Nothing better is to be had, however that is counted.


def badness(rules, of, ids):
    """How bad a choice is by each rule, worst first, said as the documentation says it."""
    trait = {device.id: traits for device, traits in zip(of.device_list.devices, of.affinities, strict=True)}
    free = [{}, {}, {}]
    for traits in trait.values():
        for n, value in enumerate(traits):
            if not isinstance(value, (PciePath, LinkDistances)):
                free[n][value] = free[n].get(value, 0) + 1
    for n, rule in enumerate(rules):
        taken = [trait[one][n] for one in ids]
        pairs = list(itertools.combinations(taken, 2))
        if isinstance(rule, DistanceRule):
            yield sum(_get_distance(one, other, trait, n) for one, other in pairs)
            continue
        left = dict(free[n])
        steps = []
        for value in sorted(taken, key=str):
            steps.append(left[value])
            left[value] -= 1
        match rule.verb:
            case "same":
                yield sum(one != other for one, other in pairs)
            case "packed":
                yield sum(steps)
                yield sum(one != other for one, other in pairs)
            case "balanced":
                yield -sum(steps)
                yield sum(one == other for one, other in pairs)
            case "order":
                ranks = sorted(free[n], key=lambda value: (value is None, value))
                yield sum(map(ranks.index, taken))
    for n, rule in enumerate(rules):
        if isinstance(rule, WordRule) and rule.verb == "same":
            yield -sum(free[n][trait[one][n]] for one in ids)


def _get_distance(one, other, trait, n):
    if isinstance(one, PciePath):
        return compute_pcie_distance(one, other)
    known = [cost for traits in trait.values() for cost in traits[n].distances.values()]
    return min(one.distances.get(other.name, max(known) + 1), other.distances.get(one.name, max(known) + 1))


SEATS = [seat(path, numa) for path, numa in ((A1, 0), (A2, 0), (A3, 0), (B, 0), (C, 0), (D, 1))]
VALUES = st.integers(0, 2)


@st.composite
def choices(draw, most=8):
    """Rules, devices with traits for each, how many are wanted and which must be among them."""
    rules = draw(
        st.lists(st.sampled_from([*map(make_rule, ("same", "packed", "balanced", "order")), PCIE, XGMI]), max_size=3)
    )
    count = draw(st.integers(1, most))
    links = {
        pair: draw(st.integers(1, 4))
        for pair in itertools.combinations(range(count), 2)
        if XGMI in rules and draw(st.booleans())
    }
    ends = [
        LinkDistances(n, {end: cost for pair, cost in links.items() if n in pair for end in pair if end != n})
        for n in range(count)
    ]
    devices = {}
    for n in range(count):
        traits = []
        for rule in rules:
            if rule == XGMI:
                traits.append(ends[n] if links else LinkDistances(n, {n: 1}))
            else:
                traits.append(draw(st.sampled_from(SEATS)) if rule == PCIE else draw(VALUES))
        devices[f"d{n}"] = tuple(traits)
    size = draw(st.integers(0, count))
    must = draw(st.lists(st.sampled_from(sorted(devices)), unique=True, max_size=size))
    return rules, stock(rules, devices), size, must


@settings(max_examples=150)
@given(choices())
def test_nothing_better_is_to_be_had(choice):
    rules, of, size, must = choice
    ids = sorted(device.id for device in of.device_list.devices)
    found = prefer(ids, must, size, NO_LIMIT, of)
    assert set(must) <= set(found) <= set(ids)
    assert len(set(found)) == len(found) == size
    ways = [way for way in itertools.combinations(ids, size) if set(must) <= set(way)]
    best = min(ways, key=lambda way: ([*badness(rules, of, way)], way))
    assert ([*badness(rules, of, found)], found) == ([*badness(rules, of, best)], best)


@given(st.integers(1, 12), st.data())
def test_of_kinds_the_least_is_found_where_all_ways_are_gone_through(kinds, data):
    room = [data.draw(st.integers(0, 3)) for _ in range(kinds)]
    size = data.draw(st.integers(0, min(sum(room), 5)))
    alone = [data.draw(st.integers(0, 9)) for _ in room]
    rows = [[0] * kinds for _ in room]
    for one in range(kinds):
        for other in range(one + 1):
            rows[one][other] = rows[other][one] = data.draw(st.integers(0, 9))
    costs = Costs(room, alone, rows.__getitem__)
    found = choose(costs, size)
    assert sum(found) == size
    assert all(count <= most for count, most in zip(found, room, strict=True))
    if is_exact(room, size) and size <= 3:
        ways = itertools.combinations_with_replacement(range(kinds), size)
        counts = [[way.count(kind) for kind in range(kinds)] for way in ways]
        assert costs.compute_total(found) == min(
            costs.compute_total(way) for way in counts if all(n <= m for n, m in zip(way, room, strict=True))
        )


@given(st.integers(1, 4), st.data())
def test_to_take_most_is_to_leave_the_others(kinds, data):
    """However many are wanted it is the least, and of equals what has most of the first kinds."""
    room = [data.draw(st.integers(0, 3)) for _ in range(kinds)]
    alone = [data.draw(st.integers(-2, 2)) for _ in room]
    rows = [[0] * kinds for _ in room]
    for one in range(kinds):
        for other in range(one + 1):
            rows[one][other] = rows[other][one] = data.draw(st.integers(0, 2))
    costs = Costs(room, alone, rows.__getitem__)
    ways = list(itertools.product(*(range(most + 1) for most in room)))
    for size in range(sum(room) + 1):
        best = min(
            (way for way in ways if sum(way) == size), key=lambda way: (costs.compute_total(way), [-n for n in way])
        )
        assert is_exact(room, size)
        assert choose(costs, size) == list(best)


@given(choices(), st.data())
def test_what_is_forced_costs_what_each_of_it_does(choice, data):
    """All at once as one after the other: many that must be included are no more work than one."""
    rules, of, _, _ = choice
    kinds = [preference_costs.EqualDevices(traits, 1, 1) for traits in of.affinities]
    costs = PreferenceCosts(rules, kinds, len(kinds))
    taken = data.draw(st.dictionaries(st.integers(0, len(kinds) - 1), st.integers(1, 3)))
    rows = [[count * cost for cost in costs.compute_pair_costs(kind)] for kind, count in taken.items()]
    assert costs.compute_group_costs(taken) == [sum(column) for column in zip([0] * len(kinds), *rows, strict=True)]


def test_eight_of_sixteen_are_gone_through_and_no_more():
    assert is_exact([1] * 16, 8)
    assert not is_exact([1] * 17, 8)
    assert is_exact([1] * 24, 21)
    assert not is_exact([8] * 12, 38)  # not many ways, but much to add up for each
    assert not is_exact([1] * 65, 1)


def greedy(costs, size):
    """Always what costs least next."""
    counts = [0] * len(costs.capacities)
    for _ in range(size):
        open_ = [kind for kind, room in enumerate(costs.capacities) if counts[kind] < room]
        tried = []
        for kind in open_:
            more = list(counts)
            more[kind] += 1
            tried.append((costs.compute_total(more), kind))
        counts[min(tried)[1]] += 1
    return counts


@settings(max_examples=25)
@given(st.integers(17, 40), st.integers(6, 9), st.randoms(use_true_random=False))
def test_never_worse_than_what_takes_the_nearest_next(kinds, size, chance):
    rows = [[0] * kinds for _ in range(kinds)]
    for one, other in itertools.combinations(range(kinds), 2):
        rows[one][other] = rows[other][one] = chance.randrange(1, 60)
    costs = Costs([1] * kinds, [chance.randrange(4) for _ in range(kinds)], rows.__getitem__)
    assert comb(kinds, size) > 12_870 or kinds == 17
    assert costs.compute_total(choose(costs, size)) <= costs.compute_total(greedy(costs, size))


@settings(max_examples=30)
@given(st.integers(1, 400), st.data())
def test_many_are_chosen_from_too(count, data):
    verbs = data.draw(st.lists(st.sampled_from(["same", "packed", "balanced", "order"]), max_size=3))
    chance = data.draw(st.randoms(use_true_random=False))
    devices = {f"d{n}": tuple(chance.choice([0, 1, 2, None]) for _ in verbs) for n in range(count)}
    of = stock([*map(make_rule, verbs)], devices)
    size = data.draw(st.integers(0, count))
    must = chance.sample(sorted(devices), chance.randint(0, size))
    found = choose_ids(of, size, sorted(devices), must).split()
    assert len(found) == size
    assert set(must) <= set(found) <= set(devices)
