"""Own words as values: what each says of plain facts, and how often anything is asked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.entry.derived_words import (
    Base64Url,
    Bits,
    CopiedWord,
    DefaultedWord,
    ExtractedText,
    FirstPresent,
    KfdAddress,
    MappedWord,
    TemplateWord,
    is_nonexistent,
)
from agent.core.entry.file_words import FilePath, FileText, FileTexts
from agent.core.inventory.device import HostDevice
from agent.core.inventory.facts import Facts
from agent.core.language.glob import parse as pattern
from agent.core.language.template import parse
from agent.core.language.value import Absent, ValueType
from tests.core.builders import Facts as Plain
from tests.core.builders import spec

GPU = HostDevice("pci", "0000:3b:00.0", "0000:3b:00.0", "0000:3b:00.0", "/sys/devices/3b")
LEAVES = ("vendor", "serial", "./state", "./none")
SAID = {"vendor": "10de", "serial": "S1", "./state": "ready"}


class Counting:
    """An own word that knows how often it was asked."""

    def __init__(self, own):
        self.own = own
        self.asked = 0

    def compute_value(self, facts):
        self.asked += 1
        return self.own.compute_value(facts)


def word(name):
    return CopiedWord(name) if "/" not in name else FileText(FilePath(name), ValueType.TEXT)


@st.composite
def graphs(draw):
    """Own words that need only earlier ones, by name."""
    words = {}
    for index in range(draw(st.integers(1, 8))):
        needed = st.lists(st.sampled_from((*LEAVES, *words)), min_size=1, max_size=3)
        names = draw(needed)
        plain = [name for name in names if "/" not in name]
        verbs = [
            FirstPresent(tuple(map(word, names))),
            DefaultedWord(word(names[0]), "x"),
            MappedWord(word(names[0]), ValueType.TEXT, {"10de": "n"}, ((pattern("*"), "rest"),)),
            ExtractedText(pattern("{x:text}*", allow_captures=True), word(names[0])),
            Base64Url(tuple(map(word, names))),
        ]
        if plain:
            verbs.append(TemplateWord(parse("-".join(f"{{{name}}}" for name in plain)), ValueType.TEXT))
            path = parse("".join(f"{{{name}}}" for name in plain))
            verbs.append(FileText(FilePath("", ("./", *path.pieces)), ValueType.TEXT))
        words[f"w{index}"] = draw(st.sampled_from(verbs))
    return words


@given(graphs(), st.data())
def test_each_word_is_evaluated_once_whatever_asks_for_it(words, data):
    counted = {name: Counting(own) for name, own in words.items()}
    facts = Facts(spec(derived_words=counted), GPU, Plain({GPU.key: SAID}))
    order = data.draw(st.permutations([*words, *words]))
    first = {name: facts(name) for name in order}
    assert all(own.asked <= 1 for own in counted.values())
    assert {name: facts(name) for name in words} == first
    fresh = Facts(spec(derived_words=words), GPU, Plain({GPU.key: SAID}))
    assert {name: fresh(name) for name in words} == first  # the order of asking makes no difference


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 7), st.integers(0, 15))
def test_an_address_of_kfd(domain, bus, device, function, partition):
    location = partition << 28 | bus << 8 | device << 3 | function
    facts = Facts(spec(), GPU, Plain({GPU.key: {"domain": domain, "location": location}}))
    said = KfdAddress(CopiedWord("domain"), CopiedWord("location")).compute_value(facts)
    if location:
        assert said == f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
        assert Bits(((28, 31),), CopiedWord("location")).compute_value(facts) == partition
    else:
        assert is_nonexistent(said)


@given(st.integers(0, 2**64 - 1), st.lists(st.tuples(st.integers(0, 63), st.integers(0, 63)), min_size=1, max_size=4))
def test_bits_stand_side_by_side(value, pairs):
    ranges = tuple((min(pair), max(pair)) for pair in pairs)
    written = format(value, "064b")
    facts = Facts(spec(), GPU, Plain({GPU.key: {"n": value}}))
    wanted = "".join(written[63 - high : 64 - low] for low, high in ranges)
    assert Bits(ranges, CopiedWord("n")).compute_value(facts) == int(wanted, 2)


UNREAD = Absent("EIO", unreadable=True)
COMING = Absent("udev", pending=True)
NONE = Absent("no such file")


@pytest.mark.parametrize("absent", [UNREAD, COMING])
def test_what_is_there_and_cannot_be_read_is_not_missing(absent):
    facts = Facts(spec(), GPU, Plain({GPU.key: {"a": absent, "b": "there", "./x": absent}}))
    assert FirstPresent((CopiedWord("a"), CopiedWord("b"))).compute_value(facts) == absent
    assert FirstPresent((CopiedWord("none"), CopiedWord("b"))).compute_value(facts) == "there"
    assert DefaultedWord(CopiedWord("a"), "x").compute_value(facts) == absent
    assert DefaultedWord(CopiedWord("none"), "x").compute_value(facts) == "x"
    by = MappedWord(CopiedWord("a"), ValueType.TEXT, {}, (), "other", "nothing")
    assert by.compute_value(facts) == absent
    written = TemplateWord(parse("{a}"), ValueType.TEXT).compute_value(facts)
    assert (written.unreadable, written.pending) == (absent.unreadable, absent.pending)
    path = FileText(FilePath("", ("./", *parse("{a}").pieces)), ValueType.TEXT).compute_value(facts)
    assert (path.unreadable, path.pending) == (absent.unreadable, absent.pending)


def test_a_list_that_could_not_be_read_whole_is_none():
    facts = Facts(spec(), GPU, Plain({GPU.key: {"./a*": ("1", NONE, "2"), "./b*": ("1", UNREAD)}}))
    assert FileTexts(FilePath("./a*"), ValueType.INT).compute_value(facts) == (1, 2)
    assert FileTexts(FilePath("./b*"), ValueType.INT).compute_value(facts) == UNREAD
