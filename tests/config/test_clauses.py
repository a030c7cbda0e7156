"""Clauses from TOML: every operator with what it is for and what to write instead; what they hold of."""

from __future__ import annotations

import importlib.util
import platform

import pytest

from agent.config.clauses.expressions import compile_expression
from agent.core.inventory.facts import Facts
from agent.core.inventory.matching import match_entry
from agent.core.language.value import Absent
from tests.config.marks import marked_by
from tests.core.builders import Facts as Reader
from tests.core.builders import host

# Where pyproject.toml requires google-re2 whatever else is installed: there its absence is a failure.
REQUIRED = {"x86_64", "aarch64"}


def need_expressions():
    if platform.machine() not in REQUIRED and importlib.util.find_spec("re2") is None:
        pytest.skip("google-re2 is not installed, and this machine does not require it")


HEAD = '[[resource]]\nname = "example.com/x"\nsource = "pci"\n'

# A line of `match`: what it says of the words of a device, and whether it holds.
HOLDS = [
    ("driver = { matching = 'mlx[0-9]_(core|en)' }", {"driver": "mlx5_core"}, True),
    ("driver = { matching = 'mlx[0-9]' }", {"driver": "mlx5_core"}, False),
    ("driver = { matching = '\\p{Greek}+' }", {"driver": "αβ"}, True),
    ("driver = { matching = 'a.' }", {"driver": "a\udc80"}, True),
    ("driver = { contains = '5_' }", {"driver": "mlx5_core"}, True),
    ("numa = { in = '0-1, 4, 0x10-' }", {"numa": 17}, True),
    ("numa = { in = '0-1,4,0x10-' }", {"numa": 10}, False),
    ("device = { in = '1572-158b,10ed' }", {"device": "1580"}, True),
    ("device = { in = '10' }", {"device": "000a"}, False),
    ("numa = { at_least = 1 }", {"numa": 1}, True),
    ("numa = { above = 1 }", {"numa": 1}, False),
    ("numa = { above = 1 }", {"numa": 2}, True),
    ("numa = { at_most = 1 }", {"numa": 1}, True),
    ("numa = { below = 1 }", {"numa": 1}, False),
    ("numa = { below = 1 }", {"numa": 0}, True),
    ("numa = { at_least = 1, below = 3 }", {"numa": 2}, True),
    ("numa = { at_least = 1, below = 3 }", {"numa": 3}, False),
    ("numa = [{ below = 1 }, 7]", {"numa": 7}, True),
    ("numa = { not = { below = 1 } }", {"numa": 0}, False),
    ("nodes = { has_all = ['/dev/a', '/dev/b'] }", {"nodes": ("/dev/b", "/dev/a", "/dev/c")}, True),
    ("nodes = { has_all = ['/dev/a', '/dev/b'] }", {"nodes": ("/dev/b",)}, False),
    ("nodes = { has_any = ['/dev/a', '/dev/b'] }", {"nodes": ("/dev/b",)}, True),
    ("nodes = { has_any = ['/dev/a', '/dev/b'] }", {"nodes": ("/dev/c",)}, False),
    ("nodes = { any = { like = '/dev/dri/*' } }", {"nodes": ("/dev/a", "/dev/dri/card0")}, True),
    ("nodes = { every = { like = '/dev/dri/*' } }", {"nodes": ("/dev/a", "/dev/dri/card0")}, False),
    ("nodes = { none = '/dev/a' }", {"nodes": ("/dev/a", "/dev/dri/card0")}, False),
    ("nodes = { none = ['/dev/x', '/dev/y'] }", {"nodes": ("/dev/a", "/dev/dri/card0")}, True),
    ("nodes = { count = 2 }", {"nodes": ("/dev/a", "/dev/dri/card0")}, True),
    ("nodes = { count = { at_least = 3 } }", {"nodes": ("/dev/a", "/dev/dri/card0")}, False),
    ("nodes = { count = 0 }", {}, True),
    ("nodes = [{ count = 0 }, { has = '/dev/a' }]", {"nodes": ("/dev/a",)}, True),
    ("pf = { driver = { contains = 'ice' } }", {"pf.driver": "ice"}, True),
    ("either = { a = { driver = 'ice' }, b = { numa = 1 } }", {"driver": "ice"}, True),
    ("either = { a = { driver = 'ice' }, b = { numa = 1 } }", {"driver": "x", "numa": 1}, True),
    ("either = { a = { driver = 'ice' }, b = { numa = 1 } }", {"driver": "x", "numa": 0}, False),
    ("either = { a = { either = { b = { numa = 1 }, c = { numa = 2 } } } }", {"numa": 2}, True),
    ("either.a.driver = 'ice'\nmatch.numa = 1", {"driver": "ice", "numa": 0}, False),
]


@pytest.mark.parametrize(("line", "facts", "expected"), HOLDS, ids=[f"{row[0]} {row[1]}" for row in HOLDS])
def test_a_line_holds(configure, line, facts, expected):
    if "matching" in line:
        need_expressions()
    found = configure({"resources.d/a.toml": f"{HEAD}match.{line}\n"})
    assert not found.findings
    (spec,) = found.resources
    device = host("0000:3b:00.0")
    assert (match_entry(spec, Facts(spec, device, Reader({device.key: facts}))) is None) is expected


def test_a_clause_on_the_things_of_a_many(configure):
    line = "match.iommu.foreign = { none = { class = '01', driver = { like = 'nvme*' } }, count = { below = 3 } }"
    found = configure({"resources.d/a.toml": f"{HEAD}{line}\n"})
    assert not found.findings
    (spec,) = found.resources
    device, disk, other = host("a"), host("b"), host("c")
    facts = {
        device.key: {"iommu.foreign": ("b", "c"), "things iommu.foreign": (disk, other)},
        disk.key: {"class": "010802", "driver": "nvme"},
        other.key: {"class": "020000", "driver": "ice"},
    }
    refusal = match_entry(spec, Facts(spec, device, Reader(facts)))
    assert (refusal.address, refusal.facts_text) == ("match.iommu.foreign", "b")
    facts[disk.key]["driver"] = "ahci"
    assert match_entry(spec, Facts(spec, device, Reader(facts))) is None
    facts[device.key]["iommu.foreign"] = ("b", "c", "d")
    assert match_entry(spec, Facts(spec, device, Reader(facts))) is not None


def test_either_is_explained_by_each_alternative(configure):
    (spec,) = configure(
        {
            "resources.d/a.toml": f"{HEAD}[resource.match.either]\nintel = {{ vendor = '8086', driver = 'ice' }}\n"
            "other = { numa = 1 }\n"
        }
    ).resources
    device = host("a")
    refusal = match_entry(spec, Facts(spec, device, Reader({device.key: {"vendor": "8086", "numa": 0}})))
    assert (refusal.address, refusal.facts_text) == (
        "match.either",
        "intel: driver is absent (no such file); other: numa is 0",
    )
    assert str(refusal.origin) == "resources.d/a.toml:4"


def test_an_exclusion_by_either_stays_where_it_could_not_be_read(configure):
    (spec,) = configure(
        {"resources.d/a.toml": f"{HEAD}exclude.disk.either = {{ a = {{ driver = 'nvme' }}, b = {{ numa = 1 }} }}\n"}
    ).resources
    device = host("a")
    facts = {"driver": Absent("EIO", unreadable=True), "numa": 0}
    assert "stays excluded" in match_entry(spec, Facts(spec, device, Reader({device.key: facts}))).facts_text
    assert match_entry(spec, Facts(spec, device, Reader({device.key: {**facts, "numa": 1}}))).facts_text == "b"
    assert match_entry(spec, Facts(spec, device, Reader({device.key: {**facts, "driver": "ice"}}))) is None


def test_an_entry_takes_an_alternative_out_and_changes_another(configure):
    found = configure(
        {
            "classes/c.toml": 'about = "x"\nsource = "pci"\n'
            "match.either = { a = { driver = 'x' }, b = { driver = 'y', numa = 0 }, c = { numa = 3 } }\n",
            "resources.d/a.toml": "[[resource]]\nname = 'example.com/x'\nclass = 'c'\n"
            "match.either = { a = false, b = { numa = 1 } }\n",
        }
    )
    assert not found.findings
    (either,) = found.resources[0].match.lines
    assert [one.name for one in either.alternatives] == ["match.either.b", "match.either.c"]
    assert [line.source_text for line in either.alternatives[0].lines] == ["'y'", "1"]


# What stands at `match.` on line 4; the column and the text that is marked, and what to write instead.
MISTAKES = [
    ("driver = { matching = 'a(b' }", 24, "a(b", "matching", 'close it with ")"; a literal one is "[(]"'),
    (
        "driver = { matching = '(a)\\1' }",
        *(27, "\\1", "matching", "no piece can be compared with an earlier one; write the piece out"),
    ),
    (
        "driver = { matching = '(?=a)' }",
        24,
        "(?=",
        "matching",
        "nothing looks ahead or behind; put { not = … } beside it",
    ),
    ("driver = { matching = 'a++' }", 25, "++", "matching", "one repetition for each piece"),
    ("driver = { matching = 'a\\Z' }", 25, "\\Z", "matching", "it fits whole by itself: leave it out"),
    ("driver = { matching = '[a' }", 24, "[a", "matching", 'close it with "]"; a literal one is "[[]"'),
    ("driver = { matching = 'a{2000}' }", 25, "{2000}", "matching", None),
    ("driver = { matching = 'x{name}' }", 25, "{name}", "text", "compare two words by a join's on"),
    ("driver = { matching = ['a'] }", 23, "['a']", "type", None),
    ("driver = { contains = '' }", 23, "''", "type", "write { exists = true }"),
    ("driver = { contains = 5 }", 23, "5", "type", 'write "5"'),
    ("driver = { contains = '{name}' }", 24, "{name}", "text", "compare two words by a join's on"),
    ("class = { contains = '03' }", 11, "contains", "type", 'write = "03"'),
    ("class = { matching = '02.*' }", 11, "matching", "type", 'write for example "0302"'),
    ("address = { like = '3b:*' }", 13, "like", "type", 'write for example "0000:3b:00.0" or "3b:00.0"'),
    ("node = { contains = 'dri' }", 10, "contains", "type", 'write { like = "*dri*" }'),
    ("is_vf = { like = 'y*' }", 11, "like", "type", "write = true, or = false"),
    ("numa = { like = '1*' }", 10, "like", "type", 'write for example { in = "0-3,5" }'),
    ("vendor = { at_least = 8086 }", 12, "at_least", "type", 'write { in = "8086-" }'),
    ("vendor = { below = 8086 }", 12, "below", "type", 'write { in = "0-8086" }'),
    ("driver = { above = 1 }", 12, "above", "type", 'write for example { like = "a*" }'),
    ("numa = { at_least = '1' }", 21, "'1'", "type", "write 1, without quotes"),
    ("numa = { at_most = true }", 20, "true", "type", ""),
    ("numa = { in = 3 }", 15, "3", "type", 'write "3"'),
    ("numa = { in = '0-3,x' }", 20, "x", "type", 'write for example "0-3,5,8-"'),
    ("numa = { in = '0-3,a' }", 20, "a", "type", 'write for example "0-3,5,8-"'),
    ("numa = { in = '3-0' }", 16, "3-0", "type", 'write "0-3"'),
    ("numa = { in = '' }", 15, "''", "type", 'write for example "0-3,5,8-"'),
    ("device = { in = '15g0' }", 18, "15g0", "type", 'write for example "1572-158b"'),
    ("numa = { in = '{vf_index}' }", 16, "{vf_index}", "text", "compare two words by a join's on"),
    ("nodes = '/dev/a'", 9, "'/dev/a'", "type", "write { has = '/dev/a' }"),
    ("nodes = ['/dev/a', '/dev/b']", 9, "['/dev/a', '/dev/b']", "type", "write { has_any = ['/dev/a', '/dev/b'] }"),
    ("nodes = { like = '/dev/*' }", 11, "like", "type", "write { any = { like = '/dev/*' } }"),
    ("nodes = { has = ['/dev/a'] }", 17, "['/dev/a']", "type", "write { has_any = ['/dev/a'] }, or has_all"),
    ("nodes = { has_any = '/dev/a' }", 21, "'/dev/a'", "type", "write ['/dev/a']"),
    ("nodes = { has_all = [] }", 21, "[]", "type", "write one value at least"),
    ("nodes = { count = '2' }", 19, "'2'", "type", "write 2, without quotes"),
    ("nodes = { any = { has = '/dev/a' } }", 19, "has", "type", "write = '/dev/a'"),
    ("driver = { any = 'x' }", 12, "any", "type", "write = 'x'"),
    ("driver = { none = 'x' }", 12, "none", "type", "write = { not = 'x' }"),
    ("driver = { count = 1 }", 12, "count", "type", "write = { exists = true }"),
    ("driver = { has_any = ['x', 'y'] }", 12, "has_any", "type", "write = ['x', 'y']"),
    ("iommu.foreign = 'x'", 17, "'x'", "type", "write { any = { name = 'x' } }"),
    ("iommu.foreign = { has = 'x' }", 19, "has", "type", "write { any = { name = 'x' } }"),
    ("iommu.foreign = { like = 'x*' }", 19, "like", "type", "write { any = { name = { like = 'x*' } } }"),
    ("iommu.foreign = { any = 'x' }", 25, "'x'", "type", "write { any = { name = 'x' } }"),
    ("iommu.foreign = { any = { vendro = '8086' } }", 27, "vendro", "unknown-word", "nearest: vendor"),
    ("iommu.foreign = { any = { vendor = 8086 } }", 36, "8086", "hex-id", 'write "8086"'),
    ("either = { a = { drivr = 'x' } }", 18, "drivr", "unknown-word", "nearest: driver"),
    ("either = { a = {} }", 12, "a", "type", "take it out, or say what holds"),
    ("either = { driver = 'x' }", 21, "'x'", "type", "each alternative has a name: either.NAME = { … }"),
    ("either = 'x'", 10, "'x'", "type", "each alternative has a name: either.NAME = { … }"),
    ("pf.either.a.driver = 'x'", 4, "either", "type", "write the relation in each alternative"),
    ("either = { 'a b' = { driver = 'x' } }", 12, "'a b'", "type", "write for example my-part"),
    ("either = { a = false }", 12, "a", "nothing-to-take-out", "leave it out"),
]


@pytest.mark.parametrize(("line", "column", "marked", "code", "write"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_in_a_clause(configure, line, column, marked, code, write):
    if code == "matching":
        need_expressions()
    found = configure({"resources.d/a.toml": f"{HEAD}[resource.match]\n{line}\n"}).findings
    assert len(found) == 1, found
    (finding,) = found
    assert (finding.line, finding.column, finding.code) == (5, column, code)
    assert (finding.source_line, marked_by(finding)) == (line, marked)
    if write is not None:
        assert finding.write == write


# As the language's own page has them.
@pytest.mark.parametrize(
    ("line", "address", "said"),
    [
        (
            'nodes = "/dev/x"',
            "resource[1].match.nodes",
            'a list: say { has = "/dev/x" }, or has_all, has_any, every, none, count',
        ),
        (
            'pf.netdev.nmae = "x"',
            "resource[1].match.pf.netdev.nmae",
            "no word 'nmae' of pf.netdev; nearest: name",
        ),
        (
            '"qat/cfg" = "x"',
            "resource[1].match.qat/cfg",
            '"qat/cfg" begins with no relation; "./qat/cfg" is the device\'s own',
        ),
    ],
)
def test_errors_of_the_page(configure, line, address, said):
    (finding,) = configure({"resources.d/a.toml": f"{HEAD}[resource.match]\n{line}\n"}).findings
    text = f"{finding.message}; {finding.write}" if finding.write.startswith("nearest") else finding.message
    assert (finding.key_path_text, text) == (address, said)


def test_an_expression_is_asked_in_linear_time():
    need_expressions()
    asked = compile_expression("(a|a)*b|a*a*a*a*c")  # of a backtracking matcher this would take years
    assert not asked.fits("a" * 4096)
    assert asked.fits("a" * 4096 + "c")


def test_without_the_library_an_expression_is_an_error_that_says_so(configure, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "re2", None)
    (finding,) = configure({"resources.d/a.toml": f"{HEAD}match.driver = {{ matching = 'a' }}\n"}).findings
    assert finding.code == "matching"
    assert "google-re2" in finding.write
    assert not configure({"resources.d/a.toml": f"{HEAD}match.driver = {{ like = 'a' }}\n"}).findings
