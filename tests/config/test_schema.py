"""The schema accepts the same files as the loader, as far as shapes are concerned."""

import json
import tomllib

import pytest
from jsonschema import Draft7Validator

from agent.config import schema
from agent.config.language import value_checks
from agent.config.language.key_table import OPERATORS, PLACES
from agent.config.load import SHIPPED, load
from tests.cli.conftest import TOP, device_agent

RESOURCES = Draft7Validator(schema.build_resource_schema())
CLASS = Draft7Validator(schema.build_class_schema())


def faults(text, validator=RESOURCES):
    return [error.json_path for error in validator.iter_errors(tomllib.loads(text))]


def test_it_is_a_schema():
    Draft7Validator.check_schema(schema.build_resource_schema())
    Draft7Validator.check_schema(schema.build_class_schema())


def test_every_key_has_a_meaning():
    assert all(
        key.meaning and not key.meaning.endswith(".") for place in PLACES.values() for key in place.keys.values()
    )


def test_every_kind_of_value_has_a_shape():
    named = {key.type for place in PLACES.values() for key in place.keys.values() if key.type}
    assert named <= value_checks.SCHEMAS.keys()
    assert value_checks.CHOICES.keys() <= value_checks.SCHEMAS.keys()


SAMPLES = ["", "x", "5s", "1.5m", "2 looks", "3 in 10m", "never", "rw", 0, 1, 4, -1, True, False, [], ["a"], [1], {}]
SAMPLES += [
    [{"same": "numa"}],
    [{"same": 1}],
    [0, 1],
    [True],
    ["uverbs"],
    ["x", 1],
    "auto",
    "matched",
    "keep",
    "field",
    "hex",
]


@pytest.mark.parametrize("kind", sorted({*value_checks._FAULTS, *value_checks.CHOICES}))
def test_a_value_is_judged_as_the_loader_judges_it(kind):
    validator = Draft7Validator(value_checks.SCHEMAS[kind])
    for value in SAMPLES:
        fits = value_checks.find_value_fault(kind, "key", value, "written") is None
        assert validator.is_valid(value) == fits, (kind, value)


def test_shipped_classes_fit():
    for path in sorted((TOP / "agent/classes").glob("*.toml")):
        assert faults(path.read_text(), CLASS) == [], path.name
    assert str(TOP / "agent/classes") == SHIPPED


def test_samples_of_the_language_fit():
    for path in sorted((TOP / "tests/config/language").rglob("*.toml")):
        validator = CLASS if path.parent.name == "classes" else RESOURCES
        if path.name != "agent.toml":
            assert faults(path.read_text(), validator) == [], path.name


@pytest.mark.parametrize(
    "text",
    [
        "[[resource]]\nnme = 'a/b'",
        "[[resources]]\nname = 'a/b'",
        "[[resource]]\nname = 3",
        "[[resource]]\nname = 'a/b'\nadds_to = 'a/b'",
        "[[resource]]\nsource = 'pcie'",
        "[[resource]]\nsource = { node = '/dev/x', subsystem = 'tty' }",
        "[[resource]]\nreplicas = 0",
        "[[resource]]\nmatch = { vendor = { lke = 'x' } }\nexclude = 3",
        "[[resource]]\nmatch = { vendor = { at_least = 'x' } }",
        "[[resource]]\ngive = { nodes = { a = { path = '/dev/x', permission = 'r' } } }",
        "[[resource]]\ngive = { nodes = { a = { path = '/dev/x', permissions = 'wr' } } }",
        "[[resource]]\nhealth = { a = { holds = { x = 1 }, trip = 2 } }",
        "[[resource]]\naccept = { unstable = 'why' }",
        "[[resource]]\nlet = { a = { red = './x' } }",
        "[[resource]]\ngive = { vfio = 'both of them' }",
    ],
)
def test_mistakes_are_found(text, tmp_path):
    assert faults(text) != []
    (tmp_path / "resources.d").mkdir()
    (tmp_path / "resources.d/a.toml").write_text(text)
    assert not load(str(tmp_path)).is_valid  # and the loader finds them too


@pytest.mark.parametrize(
    "text",
    [
        "[[resource]]\nname = 'a/b'\nclass = 'kvm'\nreplicas = 8",
        "[[resource]]\nmatch = { pf.netdev.name = 'x', './a/b' = { exists = true } }",
        "[[resource]]\nmatch = { either = { a = { b = 1 }, c = { d = ['x'], e = { in = '0-3' } } } }",
        "[[resource]]\nlet = { a = './f', b = ['./f', './g'], c = { by = 'a', map = { x = 1 }, else = 2 } }",
        "[[resource]]\ngroup = 'serial'\nmatch = false\ngive = { vfio = 'auto', rdma = true, nodes = { a = false } }",
        "[[resource]]\nhealth = { port = { holds = { ports = { any = { state = 'active' } } }, trip = '2 looks' } }",
        "[[resource]]\nhealth = { a = { log = 'x', latch = true }, b = { run = ['/x'], latch = { c = 1 } } }",
        "[[resource]]\noptions = { strategy = ['a'] }\ntopology = [0, 1]\nprefer = [{ near = 'pcie' }]",
    ],
)
def test_what_is_right_fits(text):
    assert faults(text) == []


def test_a_file_s_words_are_known(tmp_path):
    file = tmp_path / "resources.d/a.toml"
    file.parent.mkdir()
    entry = '[[resource]]\nname = "a.example/{0}"\nsource = "pci"\nlet = {{ mine = "./x" }}\nmatch = {{ {1} }}\n'
    file.write_text(
        entry.format("a", 'vendor = "8086", mine = "1"') + "[[resource]]\nname = 'a.example/b'\nclass = 'kvm'\n"
    )
    done = device_agent("schema", str(file), "--config", str(tmp_path))
    assert done.returncode == 0
    validator = Draft7Validator(json.loads(done.stdout))
    assert faults(file.read_text(), validator) == []
    for right in ('"./y" = "1"', 'pf.netdev.name = "x"', "host.iommu = true"):
        assert faults(entry.format("a", right), validator) == [], right
    assert faults(entry.format("a", 'vendr = "8086"'), validator) == ["$.resource[0].match"]


def test_the_command():
    assert json.loads(device_agent("schema").stdout)["title"] == "device-agent: a file of resources"
    assert json.loads(device_agent("schema", "--class").stdout)["required"] == ["about"]
    missing = device_agent("schema", "/nowhere.toml")
    assert (missing.returncode, missing.stdout) == (4, "")


def test_operators_are_all_there():
    table = schema.build_resource_schema()["definitions"]["test"]["anyOf"][2]
    assert set(table["properties"]) == set(OPERATORS)
