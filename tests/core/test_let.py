"""Own words as values: what each says of plain facts, and how often anything is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.let import Base64Url, Bits, By, FirstOf, KfdAddress, OrElse, Same, Take, Written, missing
from agent.core.entry.reads import Path, Read, ReadAll
from agent.core.inventory.device import HostDevice
from agent.core.inventory.facts import Facts
from agent.core.language.pattern import parse as pattern
from agent.core.language.text import parse
from agent.core.language.value import Absent, Kind
from tests.core.building import Facts as Plain
from tests.core.building import spec

GPU = HostDevice("pci", "0000:3b:00.0", "0000:3b:00.0", "0000:3b:00.0", "/sys/devices/3b")
LEAVES = ("vendor", "serial", "./state", "./none")
SAID = {"vendor": "10de", "serial": "S1", "./state": "ready"}


class Counting:
    """An own word that knows how often it was asked."""

    def __init__(self, own):
        self.own = own
        self.asked = 0

    def say(self, facts):
        self.asked += 1
        return self.own.say(facts)


def word(name):
    return Same(name) if "/" not in name else Read(Path(name), Kind.TEXT)


@st.composite
def graphs(draw):
    """Own words that need only earlier ones, by name."""
    words = {}
    for index in range(draw(st.integers(1, 8))):
        needed = st.lists(st.sampled_from((*LEAVES, *words)), min_size=1, max_size=3)
        names = draw(needed)
        plain = [name for name in names if "/" not in name]
        verbs = [
            FirstOf(tuple(map(word, names))),
            OrElse(word(names[0]), "x"),
            By(word(names[0]), Kind.TEXT, {"10de": "n"}, ((pattern("*"), "rest"),)),
            Take(pattern("{x:text}*", taking=True), word(names[0])),
            Base64Url(tuple(map(word, names))),
        ]
        if plain:
            verbs.append(Written(parse("-".join(f"{{{name}}}" for name in plain)), Kind.TEXT))
            path = parse("".join(f"{{{name}}}" for name in plain))
            verbs.append(Read(Path("", ("./", *path.pieces)), Kind.TEXT))
        words[f"w{index}"] = draw(st.sampled_from(verbs))
    return words


@given(graphs(), st.data())
def test_each_word_is_evaluated_once_whatever_asks_for_it(words, data):
    counted = {name: Counting(own) for name, own in words.items()}
    facts = Facts(spec(own=counted), GPU, Plain({GPU.key: SAID}))
    order = data.draw(st.permutations([*words, *words]))
    first = {name: facts(name) for name in order}
    assert all(own.asked <= 1 for own in counted.values())
    assert {name: facts(name) for name in words} == first
    fresh = Facts(spec(own=words), GPU, Plain({GPU.key: SAID}))
    assert {name: fresh(name) for name in words} == first  # the order of asking makes no difference


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7), st.integers(0, 15))
def test_an_address_of_kfd(domain, bus, device, function, partition):
    location = partition << 28 | bus << 8 | device << 3 | function
    facts = Facts(spec(), GPU, Plain({GPU.key: {"domain": domain, "location": location}}))
    said = KfdAddress(Same("domain"), Same("location")).say(facts)
    if location:
        assert said == f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
        assert Bits(((28, 31),), Same("location")).say(facts) == partition
    else:
        assert missing(said)


@given(st.integers(0, 2**64 - 1), st.lists(st.tuples(st.integers(0, 63), st.integers(0, 63)), min_size=1, max_size=4))
def test_bits_stand_side_by_side(value, pairs):
    ranges = tuple((min(pair), max(pair)) for pair in pairs)
    written = format(value, "064b")
    facts = Facts(spec(), GPU, Plain({GPU.key: {"n": value}}))
    wanted = "".join(written[63 - high : 64 - low] for low, high in ranges)
    assert Bits(ranges, Same("n")).say(facts) == int(wanted, 2)


UNREAD = Absent("EIO", unread=True)
COMING = Absent("udev", pending=True)
NONE = Absent("no such file")


@pytest.mark.parametrize("absent", [UNREAD, COMING])
def test_what_is_there_and_cannot_be_read_is_not_missing(absent):
    facts = Facts(spec(), GPU, Plain({GPU.key: {"a": absent, "b": "there", "./x": absent}}))
    assert FirstOf((Same("a"), Same("b"))).say(facts) == absent
    assert FirstOf((Same("none"), Same("b"))).say(facts) == "there"
    assert OrElse(Same("a"), "x").say(facts) == absent
    assert OrElse(Same("none"), "x").say(facts) == "x"
    by = By(Same("a"), Kind.TEXT, {}, (), "other", "nothing")
    assert by.say(facts) == absent
    written = Written(parse("{a}"), Kind.TEXT).say(facts)
    assert (written.unread, written.pending) == (absent.unread, absent.pending)
    path = Read(Path("", ("./", *parse("{a}").pieces)), Kind.TEXT).say(facts)
    assert (path.unread, path.pending) == (absent.unread, absent.pending)


def test_a_list_that_could_not_be_read_whole_is_none():
    facts = Facts(spec(), GPU, Plain({GPU.key: {"./a*": ("1", NONE, "2"), "./b*": ("1", UNREAD)}}))
    assert ReadAll(Path("./a*"), Kind.INT).say(facts) == (1, 2)
    assert ReadAll(Path("./b*"), Kind.INT).say(facts) == UNREAD
