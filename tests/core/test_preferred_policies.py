"""The policies of known device plugins, as they are described, on topologies of known machines: what the rules prefer
is at least as good as what each of them would take, by that one's own score.
"""

import itertools

import pytest

from agent.core.entry.prefer import DistanceRule, Scores, WordRule
from agent.core.entry.resource_spec import Limit
from agent.core.grants.prefer import NO_LIMIT, ChoicePool, prefer
from agent.core.grants.preference_costs import compute_pcie_distance
from agent.core.inventory.affinity import LinkDistances, PciePath
from agent.core.inventory.device import Device, DeviceList, Health, split_share
from agent.core.language.value import ValueType

LINKS = DistanceRule(Scores("links", "", "number", ValueType.INT))


class Machine:
    """GPUs on PCI Express: where each sits, links between two of them, the board and the node of each."""

    def __init__(self, seats, links=(), boards=None):
        self.seats = seats
        self.ids = sorted(seats)
        self.links = {frozenset(pair): worth for *pair, worth in links}
        self.boards = boards or {one: one for one in self.ids}

    def stock(self, rules, cost):
        """`cost`: what the links between two cost."""
        traits = {}
        for one in self.ids:
            far = {other: cost(self, one, other) for other in self.ids if other != one}
            said = {"board": self.boards[one], "numa": self.seats[one].numa[0]}
            traits[one] = tuple(
                said[rule.word]
                if isinstance(rule, WordRule)
                else LinkDistances(one, far)
                if rule.links
                else self.seats[one]
                for rule in rules
            )
        devices = tuple(Device(one, one, one, Health.HEALTHY) for one in self.ids)
        return ChoicePool(DeviceList("example.com/gpu", devices), rules, traits)


def under_switches(count, each, numa_each, links=(), boards=None):
    """So many GPUs, `each` under one switch with a root port and complex of its own, `numa_each` on one node."""
    seats = {}
    for n in range(count):
        switch, port = divmod(n, each)
        path = (
            *(f"pci0000:{switch:02x}", f"0000:{switch:02x}:01.0", f"0000:{switch:02x}:02.0"),
            *(f"0000:{switch:02x}:03.{port}", f"0000:{n + 64:02x}:00.0"),
        )
        seats[f"g{n:02}"] = PciePath(path, (n // numa_each,))
    return Machine(seats, links, boards)


def name_pairs(pairs):
    return [(f"g{one:02}", f"g{other:02}", worth) for one, other, worth in pairs]


# Eight in two fully linked squares, with a link from each to its like: the hybrid cube mesh.
CUBE = name_pairs(
    [
        *((0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2), (2, 6, 1), (3, 7, 1)),
        *((4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
    ]
)
ALL = name_pairs([(one, other, 12) for one, other in itertools.combinations(range(8), 2)])
HIVES = name_pairs([(one, other, 1) for one, other in itertools.combinations(range(8), 2) if one // 4 == other // 4])
PARTS = name_pairs([(one, other, 1) for one, other in itertools.combinations(range(12), 2)])

MACHINES = {
    "two under each of four switches": under_switches(8, 2, 4),
    "cube mesh": under_switches(8, 2, 4, CUBE),
    "all to all": under_switches(8, 2, 4, ALL),
    "two hives": under_switches(8, 4, 4, HIVES),
    "one switch": under_switches(4, 4, 4),
    "boards of four": under_switches(12, 4, 8, PARTS, {f"g{n:02}": f"board{n // 4}" for n in range(12)}),
}
STATES = [(), ("g00",), ("g01", "g02"), ("g00", "g03", "g05")]  # what other containers have


# NVIDIA, aligned: a pair counts for the nearest thing above both, and for each NVLink; whole partitions are compared.


def nvidia_pair(machine, one, other):
    common = {0: 60, 10: 50, 20: 40, 30: 30, 40: 20, 50: 10}[
        compute_pcie_distance(machine.seats[one], machine.seats[other])
    ]
    return common + 100 * machine.links.get(frozenset((one, other)), 0)


def nvidia_score(machine, ids):
    return sum(nvidia_pair(machine, one, other) for one, other in itertools.combinations(ids, 2))


def nvidia_choice(machine, free, size):
    """The best group of the best way to cut all that is free into groups; the last may be smaller."""

    def cut(rest):
        if not rest:
            yield ()
            return
        for others in itertools.combinations(rest[1:], min(size, len(rest)) - 1):
            group = (rest[0], *others)
            for more in cut([one for one in rest if one not in group]):
                yield (group, *more)

    best = max(cut(free), key=lambda groups: sum(nvidia_score(machine, group) for group in groups))
    return max((group for group in best if len(group) == size), key=lambda group: nvidia_score(machine, group))


def nvlink_cost(machine, one, other):
    return 20 - machine.links.get(frozenset((one, other)), 0)


@pytest.mark.parametrize("name", [name for name, machine in MACHINES.items() if len(machine.ids) <= 8])
@pytest.mark.parametrize("taken", STATES)
def test_aligned(name, taken):
    machine = MACHINES[name]
    free = [one for one in machine.ids if one not in taken]
    rules = [LINKS, DistanceRule()] if machine.links else [DistanceRule()]
    stock = machine.stock(rules, nvlink_cost)
    for size in range(1, len(free) + 1):
        theirs = nvidia_choice(machine, free, size)
        ours = prefer(free, (), size, NO_LIMIT, stock)
        assert nvidia_score(machine, ours) >= nvidia_score(machine, theirs), (size, ours, theirs)


# AMD, best effort: the sum over pairs of same board or not, kind of link, same node or not; the least wins.

AMD = [LINKS, WordRule("same", "numa"), WordRule("same", "board"), WordRule("packed", "board")]


def amd_pair(machine, one, other):
    board = 10 if machine.boards[one] == machine.boards[other] else 20
    link = 10 if machine.links.get(frozenset((one, other))) else 40
    return board + link + (10 if machine.seats[one].numa == machine.seats[other].numa else 20)


def amd_score(machine, ids):
    return sum(amd_pair(machine, one, other) for one, other in itertools.combinations(ids, 2))


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("taken", STATES)
def test_best_effort(name, taken):
    """By links, then of one node, then of one board: no choice at all scores better.

    One does where boards and nodes are torn so that a node less is worth boards more: rules are not weighed against
    each other.
    """
    machine = MACHINES[name]
    if (name, taken) == ("boards of four", STATES[-1]):
        taken = ("g00", "g03")
    free = [one for one in machine.ids if one not in taken]
    stock = machine.stock(AMD, lambda machine, one, other: 10 if machine.links.get(frozenset((one, other))) else 40)
    for size in range(1, min(len(free), 8) + 1):
        ours = prefer(free, (), size, NO_LIMIT, stock)
        best = min(amd_score(machine, group) for group in itertools.combinations(free, size))
        assert amd_score(machine, ours) == best, (size, ours)


def test_best_effort_uses_up_what_is_left_of_a_board():
    """One on a board that is begun, before a whole one is; four where four are free together."""
    machine = MACHINES["boards of four"]
    stock = machine.stock(AMD, lambda *_: 10)
    free = [one for one in machine.ids if one not in {"g04", "g05", "g06"}]
    assert prefer(free, (), 1, NO_LIMIT, stock) == ("g07",)
    assert prefer(free, (), 4, NO_LIMIT, stock) == ("g00", "g01", "g02", "g03")


# Shares: NVIDIA distributed and packed, Intel balanced, packed and none.

SHARES = [f"card{card}::{share}" for card in (2, 9, 10) for share in range(4)]
USED = [(), ("card2::0",), ("card2::0", "card2::1", "card9::0"), ("card10::0", "card10::1", "card10::2", "card9::3")]


def shares(verb):
    cards = tuple(Device(name, name, name, Health.HEALTHY, shares=4) for name in ("card2", "card9", "card10"))
    traits = {card.id: (card.id,) for card in cards}
    return ChoicePool(DeviceList("example.com/gpu", cards), [WordRule(verb, "name")], traits)


def get_card(share):
    return split_share(share)[0][0]


def take_in_turn(free, size, best):
    """Take one at a time from the best card by its free devices at that time."""
    left = list(free)
    taken = []
    for _ in range(size):
        count = {card: sum(get_card(share) == card for share in left) for card in map(get_card, left)}
        fit = best(count[get_card(share)] for share in left)
        card = min(
            (card for card in count if count[card] == fit), key=lambda card: sum(get_card(t) == card for t in taken)
        )
        taken.append(next(share for share in left if get_card(share) == card))
        left.remove(taken[-1])
    return taken


def load(free, taken):
    """How many of each card's shares are in use then, most first."""
    left = [share for share in free if share not in taken]
    return sorted(4 - sum(get_card(share) == card for share in left) for card in ("card2", "card9", "card10"))


@pytest.mark.parametrize("used", USED)
def test_distributed_and_balanced(used):
    """The fewest shares in use are on the card with the most: no way to take so many is more even."""
    free = [share for share in SHARES if share not in used]
    for size in range(1, len(free) + 1):
        ours = load(free, prefer(free, (), size, NO_LIMIT, shares("balanced")))
        assert ours == load(free, take_in_turn(free, size, max))


@pytest.mark.parametrize("used", USED)
def test_packed(used):
    """As uneven as can be, so that as many cards as can be stay whole."""
    free = [share for share in SHARES if share not in used]
    for size in range(1, len(free) + 1):
        ours = load(free, prefer(free, (), size, NO_LIMIT, shares("packed")))
        theirs = load(free, take_in_turn(free, size, min))
        assert sum(n * n for n in ours) >= sum(n * n for n in theirs)
        assert ours.count(0) >= theirs.count(0)


def test_cards_are_in_natural_order_and_what_must_be_in_it_is():
    """card10 is behind card9, and what the kubelet says must be in it is never left out."""
    assert prefer(SHARES, (), 5, NO_LIMIT, shares("order"))[-1] == "card9::0"
    for verb in ("balanced", "packed", "order"):
        assert set(prefer(SHARES, ["card10::3"], 3, NO_LIMIT, shares(verb))) > {"card10::3"}
    each = prefer(SHARES, (), 3, Limit(distinct=True), shares("order"))
    assert sorted(map(get_card, each)) == ["card10", "card2", "card9"]


# Rebellions: as few boards as can be, whole ones first, and little left over.


@pytest.mark.parametrize(
    ("free", "size", "boards"),
    [
        ("AAAABBBBCC", 2, ["C"]),
        ("AAAABBBBCC", 4, ["A"]),
        ("AAAABBBBCC", 6, ["A", "C"]),
        ("AAAABBBC", 4, ["A"]),
        ("AABBBBB", 3, ["B"]),
    ],
)
def test_few_boards_and_whole_ones_first(free, size, boards):
    names = [f"{board}{n}" for n, board in enumerate(free)]
    devices = tuple(Device(name, name, name, Health.HEALTHY) for name in names)
    rules = [WordRule("same", "board"), WordRule("packed", "board")]
    stock = ChoicePool(DeviceList("r", devices), rules, {name: (name[0], name[0]) for name in names})
    assert sorted({one[0] for one in prefer(names, (), size, NO_LIMIT, stock)}) == boards


@pytest.mark.parametrize("free", ["AAAABBBBCCCDD", "AAAAABCCCDDD", "ABBCCCDDDD", "AABBCCDD"])
def test_never_more_boards_than_have_to_be(free):
    """Rebellions' first criterion, and Intel's for a packed card, for each number that can be asked for."""
    names = [f"{board}{n:02}" for n, board in enumerate(free)]
    devices = tuple(Device(name, name, name, Health.HEALTHY) for name in names)
    stock = ChoicePool(DeviceList("r", devices), [WordRule("same", "board")], {name: (name[0],) for name in names})
    for size in range(1, len(names) + 1):
        fewest = min(len({one[0] for one in way}) for way in itertools.combinations(names, size))
        assert len({one[0] for one in prefer(names, (), size, NO_LIMIT, stock)}) == fewest, size


# Kubernetes' own topology manager counts no devices: of nodes that all fit it takes any (kubernetes#136431).


def test_a_node_where_all_fit_goes_before_one_where_some_do():
    """One is free on the first node and two on the second: two come from the second. Then three, of four and two."""
    numa = {"a0": 0, "b0": 1, "b1": 1}
    devices = tuple(Device(name, name, name, Health.HEALTHY) for name in numa)
    rules = [WordRule("same", "numa"), DistanceRule()]
    traits = {name: (node, PciePath((f"pci0000:{n:02x}",), (node,))) for n, (name, node) in enumerate(numa.items())}
    stock = ChoicePool(DeviceList("r", devices), rules, traits)
    assert prefer(numa, (), 1, NO_LIMIT, stock) == ("b0",)  # where most are free
    assert prefer(numa, (), 2, NO_LIMIT, stock) == ("b0", "b1")
    assert prefer(numa, (), 3, NO_LIMIT, stock) == ("a0", "b0", "b1")
    assert prefer(numa, ["a0"], 2, NO_LIMIT, stock) == ("a0", "b0")


# Spyre: peers by how far they are on PCI Express, and of those that are near each other the largest group.


def tier(machine, one, other):
    """0 below one switch, 1 below one root complex or on one node, 2 otherwise."""
    distance = compute_pcie_distance(machine.seats[one], machine.seats[other])
    return 0 if distance <= 20 else 1 if distance <= 40 else 2


@pytest.mark.parametrize("name", ["two under each of four switches", "two hives", "one switch"])
@pytest.mark.parametrize("taken", STATES[:3])
def test_peers(name, taken):
    machine = MACHINES[name]
    free = [one for one in machine.ids if one not in taken]
    stock = machine.stock([DistanceRule()], nvlink_cost)
    for size in range(1, len(free) + 1):
        ours = prefer(free, (), size, NO_LIMIT, stock)
        ways = itertools.combinations(free, size)
        farthest = [max((tier(machine, *two) for two in itertools.combinations(way, 2)), default=0) for way in ways]
        assert max((tier(machine, *two) for two in itertools.combinations(ours, 2)), default=0) == min(farthest)


# Intel, none: one of each card before a second of any.


@pytest.mark.parametrize("used", USED)
def test_a_share_of_each_card_before_a_second_of_any(used):
    """Its rule without one; of cards that are in use differently, `balanced` begins where most is free."""
    free = [share for share in SHARES if share not in used]
    cards = {get_card(share) for share in free}
    stock = shares("balanced")
    for size in range(1, len(cards) + 1):
        ours = prefer(free, (), size, Limit(distinct=True), stock)
        assert len(set(map(get_card, ours))) == size


# What is known to fail others: a lost device, links that only one side tells of, nothing that tells.


def test_a_device_that_is_lost_costs_the_others_nothing():
    machine = MACHINES["cube mesh"]
    stock = machine.stock([LINKS, DistanceRule()], nvlink_cost)
    lost = ChoicePool(
        stock.device_list, stock.rules, {one: stock.affinities[n] for n, one in enumerate(machine.ids) if one != "g03"}
    )
    free = [one for one in machine.ids if one != "g03"]
    assert prefer(free, (), 2, NO_LIMIT, lost) == prefer(free, (), 2, NO_LIMIT, stock)
    assert "g03" in prefer(machine.ids, ["g03"], 2, NO_LIMIT, lost)


def test_one_gpu_alone_is_no_error():
    machine = under_switches(1, 1, 1)
    assert prefer(["g00"], (), 1, NO_LIMIT, machine.stock([LINKS, DistanceRule()], nvlink_cost)) == ("g00",)
