"""Tables as JSON."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.grants.build_grant import build_grant
from agent.core.grants.grant import GrantRefusedError, RefusalCause, RereadDevice
from agent.core.language.json_template import JsonArray, JsonLiteral, JsonTable
from agent.core.language.template import parse
from agent.core.language.value import Absent
from tests.core.builders import env, make_listed, spec

FACTS = {"a": "A", "empty": "", "list": ("x", "y"), "none": (), "one": ("z",), "no": Absent("no such file")}


def make_template(value):
    if isinstance(value, dict):
        return JsonTable(tuple((name, make_template(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        return JsonArray(tuple(map(make_template, value)))
    return parse(value) if isinstance(value, str) else JsonLiteral(json.dumps(value))


@pytest.mark.parametrize(
    ("table", "written"),
    [
        ({"x": "-{a}-", "y": "{a}"}, '{"x":"-A-","y":"A"}'),
        ({"i": 1, "b": True, "f": 1.5, "z": 0, "n": False}, '{"i":1,"b":true,"f":1.5,"z":0,"n":false}'),
        ({"b": "1", "a": "2"}, '{"b":"1","a":"2"}'),
        ({"x": "{list}", "y": "{one}", "z": "p{list}"}, '{"x":["x","y"],"y":["z"],"z":["px","py"]}'),
        ({"x": ["{list}", "{no}", "{a}", 1]}, '{"x":["x","y","A",1]}'),
        ({"x": [["{list}"], ["{no}"], {"y": "{no}"}, {"z": "{a}"}]}, '{"x":[["x","y"],{"z":"A"}]}'),
        ({"x": "{no}", "y": {"z": "{no}"}, "e": "{empty}", "n": "{none}", "l": ["{no}"], "a": "{a}"}, '{"a":"A"}'),
        ({"x": "{no}", "y": {"z": {}}}, ""),
    ],
)
def test_tables(table, written):
    assert make_template(table).write(lambda word: FACTS[word]) == written


TEXTS = st.text(st.characters(), max_size=5)
VALUES = st.recursive(
    st.sampled_from(["{w}", "-{w}", "{list}", "{no}", "", 1, True, 0.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def full(value):
    return value not in ("", [], {}) or isinstance(value, (bool, int, float))


def build_expected(value, facts):
    """The same, by what Python makes of it."""
    if isinstance(value, dict):
        return {name: said for name, inner in value.items() if full(said := build_expected(inner, facts))}
    if isinstance(value, list):
        said = [(inner, build_expected(inner, facts)) for inner in value]
        split = [one if isinstance(inner, str) and isinstance(one, list) else [one] for inner, one in said if full(one)]
        return list(itertools.chain(*split))
    if value == "{list}":
        return [item for item in facts["list"] if item]
    if value in ("{w}", "-{w}"):
        return value.replace("{w}", facts["w"])
    return "" if value == "{no}" else value


@given(st.dictionaries(TEXTS, VALUES, max_size=3), TEXTS, st.lists(TEXTS, max_size=3))
def test_it_is_json_in_printable_ascii_whatever_a_device_says(table, word, several):
    facts = {"w": word, "list": tuple(several), "no": Absent("no such file")}
    written = make_template(table).write(lambda name: facts[name])
    wanted = build_expected(table, facts)
    assert json.loads(written or "{}") == wanted
    assert all(0x20 <= ord(letter) < 0x7F for letter in written)
    assert (written == "") == (wanted == {})


def device(name, **facts):
    return RereadDevice(make_listed(name), (), {"w": f"say {name}", "k": name} | facts, {})


INFO = spec(env=(env("INFO", make_template({"say": "{w}", "not": "{no}"}), member_key="{k}"),))


@given(st.permutations(["a1", "a2", "a10"]))
def test_one_object_has_a_member_for_each_device_in_list_order(ids):
    grant = build_grant(INFO, ids, [device(name) for name in ("a1", "a2", "a10")], 3)
    assert grant.env["INFO"] == '{"a1":{"say":"say a1"},"a2":{"say":"say a2"},"a10":{"say":"say a10"}}'


def test_what_has_nothing_or_no_name_is_no_member():
    devices = [device("a", w=""), device("b", k=Absent("no such file")), device("c")]
    assert build_grant(INFO, ["a", "b", "c"], devices, 3).env == {"INFO": '{"c":{"say":"say c"}}'}
    assert build_grant(INFO, ["a"], devices[:1], 3).env == {}


def test_equal_members_are_there_once_and_different_ones_of_one_name_are_refused():
    same = [device("a", k="x", w="1"), device("b", k="x", w="1")]
    assert build_grant(INFO, ["a", "b"], same, 2).env == {"INFO": '{"x":{"say":"1"}}'}
    with pytest.raises(GrantRefusedError) as error:
        build_grant(INFO, ["a", "b"], [same[0], device("b", k="x", w="2")], 2)
    assert error.value.cause is RefusalCause.CONFLICT
    assert "INFO would have both" in error.value.text


def test_without_a_key_it_is_a_text_like_others():
    entry = spec(env=(env("I_{n}", make_template({"w": "{w}"})), env("J", make_template({"w": "{w}"}), separator=" ")))
    assert build_grant(entry, ["a", "b"], [device("a"), device("b")], 2).env == {
        "I_0": '{"w":"say a"}',
        "I_1": '{"w":"say b"}',
        "J": '{"w":"say a"} {"w":"say b"}',
    }


@pytest.mark.parametrize("turned", [False, True])
def test_a_text_and_an_object_of_one_name_are_refused(turned):
    both = (env("I", "text"), env("I", make_template({"w": "{w}"}), member_key="{k}"))
    with pytest.raises(GrantRefusedError, match="I would be both a text and an object"):
        build_grant(spec(env=both[::-1] if turned else both), ["a"], [device("a")], 1)


def test_the_words_of_a_table_are_read_anew_and_its_meaning_is_the_entry_s():
    assert INFO.find_give_words() == {"w", "no", "k"}
    assert (
        spec(env=(env("A", make_template({"x": 1})),)).drop_origin()
        != spec(env=(env("A", make_template({"x": True})),)).drop_origin()
    )
