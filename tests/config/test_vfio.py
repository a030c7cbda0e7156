"""`give.vfio`: which nodes it means, where they come out, and the check that it brings."""

import pytest

from agent.core.entry.check import LookCount, LookDuration
from tests.config.marks import marked_by

HEAD = '[[resource]]\nname = "example.com/vf"\nsource = "pci"\n'
CONTROL, GROUP = ("vfio.control", "/dev/vfio/vfio"), ("vfio.group", "{vfio.group}")
IOMMUFD, CDEV = ("vfio.iommufd", "/dev/iommu"), ("vfio.cdev", "{vfio.cdev}")
NONE, THERE = ("vfio.cdev", "{ exists = false }"), ("vfio.cdev", "{ exists = true }")


def compile_give(configure, text, head=HEAD):
    made = configure({"resources.d/a.toml": f"{head}{text}\n"})
    assert made.findings == ()
    return made.resources[0]


def whens(node):
    return [(line.word, line.source_text) for line in node.condition.walk_lines()] if node.condition else []


def nodes(spec):
    return [(node.name, node.path.source) for node in spec.nodes]


@pytest.mark.parametrize(
    ("text", "legacy", "iommufd"),
    [
        ("true", [NONE], [THERE]),
        ("'auto'", [NONE], [THERE]),
        ("'both'", [], [THERE]),
        ("'legacy'", [], None),
        ("'iommufd'", None, []),
    ],
)
def test_the_nodes_of_each_backend_and_where_they_are_given(configure, text, legacy, iommufd):
    spec = compile_give(configure, f"give.vfio = {text}")
    expected = [*([CONTROL, GROUP] if legacy is not None else []), *([IOMMUFD, CDEV] if iommufd is not None else [])]
    assert nodes(spec) == expected
    for node in spec.nodes:
        assert whens(node) == (legacy if node.name in {"vfio.control", "vfio.group"} else iommufd), node.name
        assert (node.permissions, node.optional, node.per_member) == ("rw", False, False)


def test_where_the_nodes_come_out(configure):
    spec = compile_give(configure, "give.vfio = { backend = 'both', permissions = 'mr' }")
    assert [node.container_paths[0].source for node in spec.nodes] == [
        "/dev/vfio/vfio",
        "/dev/vfio/{iommu.group}",
        "/dev/iommu",
        "{vfio.cdev}",
    ]
    assert {node.permissions for node in spec.nodes} == {"rm"}
    spec = compile_give(configure, "give.vfio = { backend = 'both', to = '/dev/vfio/{n}' }")
    assert spec.nodes[1].container_paths[0].source == "/dev/vfio/{n}"


def test_without_an_iommu_there_is_another_node(configure):
    spec = compile_give(configure, "give.vfio = { backend = 'legacy', noiommu = true, when.driver = 'vfio-pci' }")
    assert nodes(spec) == [CONTROL, GROUP, ("vfio.group", "{vfio.noiommu}")]
    driver = ("driver", "'vfio-pci'")
    assert [whens(node) for node in spec.nodes] == [
        [driver],
        [driver, ("iommu.noiommu", "false")],
        [driver, ("iommu.noiommu", "true")],
    ]


def test_of_several_host_devices_each_gives_its_own(configure):
    text = "group.by = 'iommu.group'\ngive.vfio = 'both'\ngive.env.A = { value = '{given.vfio.cdev}', join = ',' }"
    spec = compile_give(configure, text)
    assert [node.name for node in spec.nodes if node.per_member] == ["vfio.group", "vfio.cdev"]
    spec = compile_give(configure, "give.vfio = true\ngive.also.x = { when.numa = 0, vfio = 'both' }")
    assert len(spec.nodes) == 8


def test_the_check_that_comes_along(configure):
    (check,) = compile_give(configure, "give.vfio = true").checks
    assert (
        check.name,
        check.recheck_on_allocate,
        check.condition,
        check.failure_threshold,
        check.recovery_threshold,
    ) == (
        "vfio",
        True,
        None,
        LookCount(1),
        LookCount(1),
    )
    assert [line.word for line in check.criterion.clause.walk_lines()] == ["iommu.viable"]
    text = "health.vfio = { trip = '2s', recover = 'never' }\nhealth.b.holds.numa = 0\ngive.vfio = 'legacy'"
    first, second = compile_give(configure, text).checks
    assert (first.name, first.failure_threshold, first.recovery_threshold, first.recheck_on_allocate) == (
        "vfio",
        LookDuration(2.0),
        None,
        True,
    )
    assert first.criterion == check.criterion
    assert (second.name, second.recheck_on_allocate) == ("b", False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("give.vfio = { when.driver = 'a' }", ["driver"]),
        ("give.vfio = { when.driver = 'a' }\nhealth.vfio.when.numa = 0", ["driver", "numa"]),
        ("give.vfio = { when.driver = 'a' }\ngive.also.b = { when.numa = 0, vfio = true }", ["driver", "numa"]),
        ("give.vfio = { when.driver = 'a' }\ngive.also.b = { when.numa = 0, nodes.a = '/dev/a' }", ["driver"]),
    ],
)
def test_the_check_is_asked_where_something_is_given(configure, text, words):
    spec = compile_give(configure, text)
    (check,) = spec.checks
    assert [line.word for line in check.condition.walk_lines()] == words
    assert len(spec.vfio) == 1 + ("vfio = true" in text)


def test_what_an_option_rules_out_is_not_there(configure):
    files = {
        "classes/x.toml": 'about = "x"\nsource = "pci"\n[options.how]\nabout = "x"\none_of = ["vfio", "no"]\n'
        'default = "no"\n[give]\nvfio = { when = { options.how = "vfio" } }\n'
        'env = { A = { value = "{given.vfio.group}", join = "," } }\n',
        "resources.d/a.toml": '[[resource]]\nname = "example.com/a"\nclass = "x"\nhealth.vfio.recover = "5s"\n',
    }
    made = configure(files)
    assert made.findings == ()
    assert (made.resources[0].nodes, made.resources[0].checks, made.resources[0].vfio) == ((), (), ())


MISTAKES = [
    ("give.vfio = { backend = 'fast' }", "'fast'", 'write "auto"'),
    ("give.vfio = { to = '/dev/vfio/one' }", "/dev/vfio/one", 'write "/dev/vfio/one{n}"'),
    ("give.vfio = { to = 'dev' }", "dev", None),
    ("give.vfio = { permissions = 'rx' }", "rx", 'write "rw", the default, or "rwm"'),
    ("give.vfio = { backend = 'iommufd', to = '/dev/x{n}' }", "to", 'leave it out, or write backend = "both"'),
    ("give.vfio = { backend = 'iommufd', noiommu = true }", "noiommu", 'leave it out, or write backend = "both"'),
    ("give.vfio = true\nreplicas = 2", "vfio", "take replicas or slots out"),
    ("give.vfio = true\nslots = 2", "vfio", "take replicas or slots out"),
    ("give.vfio = true\nhealth.vfio.holds.numa = 0", "holds", "give yours another name"),
    ("give.vfio = { when.drive = 'a' }", "drive", "nearest: driver"),
    ("give.vfio = { when = {} }", "when", "take it out, or say when"),
    ("give.env.A = { value = '{given.vfio.nod}', join = ',' }\ngive.vfio = true", "given.vfio.nod", None),
    ("give.vfio = true\ngive.env.A = '{given.vfio.group}'", "{given.vfio.group}", 'add join = ","'),
]


@pytest.mark.parametrize(("text", "marked", "write"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_mistakes(configure, text, marked, write):
    (finding,) = configure({"resources.d/a.toml": f"{HEAD}{text}\n"}).findings
    assert marked_by(finding) == marked, finding
    assert write is None or finding.write == write


@pytest.mark.parametrize("source", ['"usb"', '"net"', '{ node = "/dev/x[0-9]" }'])
def test_only_what_vfio_hands_out(configure, source):
    head = f'[[resource]]\nname = "example.com/vf"\nsource = {source}\n'
    (finding,) = configure({"resources.d/a.toml": f"{head}give.vfio = true\n"}).findings
    assert "VFIO hands out PCI functions and mediated devices" in finding.message
    assert compile_give(configure, "give.vfio = 'legacy'", head.replace(source, '"mdev"')).vfio
