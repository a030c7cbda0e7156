"""`prefer` and `links`: what they compile to, and what is wrong with them."""

import pytest

from agent.core.entry.prefer import Cost, DistanceRule, Scores, WordRule
from agent.core.language.value import ValueType
from tests.config.marks import marked_by

PCI = '[[resource]]\nname = "example.com/x"\nsource = "pci"\nid = "{address}"\ngive.env.A = "1"\n'
MAP = ', map = { "11" = 10, "2" = 40 }, else = 50'
LINKS = """[resource.links.fast]
dir = "./links/*"
on = { to = "number" }
cost = { by = "type", map = { "11" = 10, "2" = 40 }, else = 50 }
[resource.links.fast.let]
to   = { read = "./to",   type = "int" }
type = { read = "./type", type = "int" }
"""


def entry(configure, *texts):
    return configure({"resources.d/a.toml": PCI + "\n".join(texts)})


def rules(configure, *texts):
    configuration = entry(configure, *texts)
    assert configuration.findings == ()
    return configuration.resources[0].prefer


def test_rules_in_their_order(configure):
    said = (
        '{ same = "numa" }, { packed = "pf.address" }, { balanced = "slot" }, { order = "number" }, { near = "pcie" }'
    )
    assert rules(configure, f"prefer = [{said}]") == (
        *(
            WordRule("same", "numa"),
            WordRule("packed", "pf.address"),
            WordRule("balanced", "slot"),
            WordRule("order", "number"),
        ),
        DistanceRule(),
    )
    assert rules(configure, "prefer = []") == rules(configure) == ()


def test_links_are_directories_with_words(configure):
    (rule,) = rules(configure, 'prefer = [{ near = "fast" }]', LINKS)
    links = rule.links
    assert (links.name, links.directory.constant, links.link_word, links.device_word, links.kind) == (
        *("fast", "./links/*", "to", "number", ValueType.INT),
    )
    assert links.cost == Cost("type", ValueType.INT, {"11": 10, "2": 40}, 50)
    assert set(links.derived_words) == {"to", "type"}


def test_links_are_lines_of_a_file(configure):
    text = '[resource.links.nv]\nfile = "/etc/device-agent/nv"\non = { end = "address" }\n'
    (rule,) = rules(configure, 'prefer = [{ near = "nv" }]', text)
    assert rule.links == Scores("nv", "/etc/device-agent/nv", "address", ValueType.PCI)
    (rule,) = rules(configure, 'prefer = [{ near = "nv" }]', f'{text}cost = {{ by = "score", map = {{ NV4 = 1 }} }}')
    assert rule.links.cost == Cost("score", ValueType.TEXT, {"NV4": 1})


def test_slots_are_all_alike(configure):
    assert rules(configure, 'prefer = [{ same = "numa" }]', "slots = 4") == ()


def test_what_is_added_is_preferred_as_far_as_the_rules_can_be_asked_of_it(configure):
    first = f'prefer = [{{ same = "numa" }}, {{ packed = "pf.address" }}, {{ near = "fast" }}]\n{LINKS}'
    adding = '[[resource]]\nadds_to = "example.com/x"\nsource = { subsystem = "net" }\nid = "{path_id}"\n'
    configuration = entry(configure, first, f"{adding}give.env.A = '1'")
    assert configuration.findings == ()
    assert configuration.resources[1].prefer == (WordRule("same", "numa"),)


@pytest.mark.parametrize(
    ("text", "marked", "write"),
    [
        ('prefer = [{ same = "nmua" }]', "nmua", "nearest: numa"),
        ('prefer = [{ packed = "nodes" }]', "nodes", "take a word that says one thing"),
        ('prefer = [{ same = "members" }]', "members", "ask it where something is given, or in health"),
        ('prefer = [{ near = "pci" }]', "pci", "nearest: pcie"),
        ('prefer = [{ near = "xgmi" }]', "xgmi", 'write "pcie", or say in [links.NAME] where the links are'),
        ('prefer = [{ near = "fats" }]\n' + LINKS, "fats", "nearest: fast"),
        (LINKS.replace("links.fast", "links.pcie"), "pcie", "give the links another name"),
        ("[resource.links.a]\n", "a", 'write for example dir = "./links/*"'),
        ('[resource.links.a]\ndir = "./l/*"\n', "a", 'write on = { word of the link = "word of the device" }'),
        (LINKS.replace('to = "number"', 'to = "numbre"'), "numbre", "nearest: number"),
        (LINKS.replace("{ to =", "{ ot ="), "ot", "nearest: to"),
        (LINKS.replace('to = "number"', 'to = "driver"'), "driver", "take words of one type"),
        (LINKS.replace('{ to = "number" }', '{ to = "number", type = "number" }'), None, "leave one pair"),
        (LINKS.replace('by = "type"', 'by = "tpye"'), "tpye", "nearest: type"),
        (LINKS.replace('"11"', '"fast"'), "fast", 'write for example "1"'),
        (LINKS.replace("10", '"10"'), None, "write it without quotes"),
        (LINKS.replace(MAP, ""), "cost", 'write map = { "value" = 10 }, or else = 50'),
        (LINKS.replace("./links/*", "links/*"), None, 'write "./links/*"'),
        ('[resource.links.a]\nfile = "nv"\non.end = "address"', "nv", 'write for example "/etc/device-agent/nvlink"'),
        ('[resource.links.a]\nfile = "/nv"\non.to = "address"', None, 'write on = { end = "word of the device" }'),
        ('[resource.links.a]\nfile = "/nv"\non.end = "nodes"', "nodes", "take a word that says one thing"),
        ('[resource.links.a]\nfile = "/nv"\non.end = "address"\ncost.by = "speed"', "speed", 'write "score"'),
        ('[resource.links.a]\nfile = "/nv"\non.end = "address"\nlet.x = "./x"', "let", "take let out"),
    ],
)  # fmt: skip
def test_mistakes(configure, text, marked, write):
    (found,) = entry(configure, text).findings
    assert found.severity.value == "error"
    assert found.write == write
    if marked is not None:
        assert marked in marked_by(found)
