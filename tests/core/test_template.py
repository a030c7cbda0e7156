import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.language.template import (
    ID_LIMIT,
    Slot,
    TemplateError,
    clean_id,
    compute_digest,
    has_control,
    make_env_name,
    parse,
)
from agent.core.language.value import Absent

WORDS = {
    "serial": "A1",
    "n": 3,
    "on": True,
    "ports": ("a", "b"),
    "none": (),
    "gone": Absent("no such file"),
    "dark": Absent("EIO", unreadable=True),
    "node": "/dev/bus/usb/001/002",
    "shm": "/proc/self/mem",
    "up": "../../etc",
    "slash": "a/b",
    "dots": "a..b",
    "dot": ".",
    "bell": "a\x07",
    "empty": "",
    "given.port": "/opt/x",
}


def fact(word):
    return WORDS.get(word, Absent("unknown"))


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{serial}", "A1"),
        ("x-{serial}-{n}{on}", "x-A1-3true"),
        ("{{{serial}}}", "{A1}"),
        ("{{}}", "{}"),
        ('{{"a": {{}}}}', '{"a": {}}'),
        ("{serial|lower}", "a1"),
        ("{serial|first:1}", "A"),
        ("{serial|last:1}", "1"),
        ("{serial|digest:8}", compute_digest("A1", 8)),
        ("{node|env}", "_DEV_BUS_USB_001_002"),
        ("{serial|lower|upper}", "A1"),
    ],
)
def test_what_is_written(source, written):
    assert parse(source).write(fact) == written


@pytest.mark.parametrize(
    ("source", "reason", "unread"),
    [
        ("x{gone}", "gone: no such file", False),
        ("{serial}{dark}", "dark: EIO", True),
        ("{ports}", "{ports} has 2 values", False),
        ("{none}", "none is empty", False),
    ],
)
def test_an_absent_word_makes_the_text_absent_with_its_reason(source, reason, unread):
    assert parse(source).write(fact) == Absent(reason, unread)


def test_a_list_word_gives_one_text_for_each_element():
    assert parse("/dev/{ports}{n}").write_all(fact) == ("/dev/a3", "/dev/b3")


def test_slots_know_where_they_stand():
    assert parse("a{x}{y.z|lower|env:-}").slots == (Slot("x", (), 1), Slot("y.z", ("lower", "env:-"), 4))


@pytest.mark.parametrize(
    ("source", "at", "length"),
    [
        ("a{b", 1, 2),
        ("a}b", 1, 1),
        ("{a}}", 3, 1),
        ("{}", 0, 2),
        ("{a b}", 0, 5),
        ("{./file}", 0, 8),
        ("{a..b}", 0, 6),
        ("{a.}", 0, 4),
        ("{a|shout}", 0, 9),
        ("{a|first:0}", 0, 11),
        ("{a|lower|}", 0, 10),
    ],
)
def test_what_cannot_be_parsed_is_marked(source, at, length):
    with pytest.raises(TemplateError) as refused:
        parse(source)
    assert (refused.value.at, refused.value.length) == (at, length)


@given(st.text("ab{}", max_size=12))
def test_doubled_braces_are_what_they_were(text):
    assert parse(text.replace("{", "{{").replace("}", "}}")).write(fact) == text


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("/dev/{serial}", ("/dev/A1",)),
        ("{node}", ("/dev/bus/usb/001/002",)),
        ("/dev/{ports}", ("/dev/a", "/dev/b")),
        ("{given.port}/x", ("/opt/x/x",)),
        ("/dev/x/", ("/dev/x/",)),
        ("/dev/{n}", ("/dev/3",)),
    ],
)
def test_paths(source, paths):
    assert parse(source).write_paths(fact) == paths


@pytest.mark.parametrize(
    ("source", "said", "path"),
    [
        ("{options.x}/lib", "/opt/x", "/opt/x/lib"),
        ("/opt/{options.x}/lib", "a/b", "/opt/a/b/lib"),
        ("/opt/{options.x}/lib", "a/../b", None),
        ("/opt/{options.x}", "a\0", None),
        ("/run/{resource}/pipe", "example.com/gpu.shared", "/run/example.com/gpu.shared/pipe"),
        ("/run/{resources}/pipe", "example.com/gpu.shared", None),
    ],
)
def test_what_the_configuration_says_may_lead_through_directories(source, said, path):
    written = parse(source).write_paths(lambda _: said)
    assert written == (path,) if path else isinstance(written, Absent)


@pytest.mark.parametrize(
    "source",
    [
        "/dev/{up}", "/dev/{slash}", "/dev/{dots}", "/dev/{dot}", "/dev/.{dot}", "/dev/{bell}", "/dev/{empty}",
        "/dev/{node}", "{shm}", "{slash}", "/dev/x{given.port}", "/dev/{up|first:1}",
    ],
)  # fmt: skip
def test_what_hardware_says_of_itself_leads_out_of_no_directory(source):
    assert isinstance(parse(source).write_paths(fact), Absent)


@given(st.text(max_size=8), st.sampled_from(["/dev/{w}", "/dev/.{w}", "/dev/{w}/x", "/dev/a{w|first:2}"]))
def test_no_text_of_a_device_leads_a_path_away(said, source):
    written = parse(source).write_paths(lambda _: said)
    if not isinstance(written, Absent):
        (path,) = written
        assert path.startswith("/dev/")
        assert path.count("/") == source.count("/")
        assert not {"", ".", ".."} & set(path.split("/")[1:])
        assert not has_control(path)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("0000:3b:00.0", "0000:3b:00.0"),
        ("A b/ü", "A_b__"),
        ("X::0", "X:_0"),
        (":::", ":_:"),
        ("::::", ":_:_"),
        ("x" * 63, "x" * 63),
        ("x" * 64, "x" * 54 + "-" + compute_digest("x" * 64, 8)),
    ],
)
def test_ids_are_cleaned(text, cleaned):
    assert clean_id(text) == cleaned


@given(st.text(min_size=1, max_size=200), st.sampled_from([0, 8]))
def test_an_id_is_never_too_long_and_never_looks_like_a_share(text, room):
    cleaned = clean_id(text, room)
    assert 0 < len(cleaned) <= ID_LIMIT - room
    assert "::" not in cleaned
    assert cleaned.isascii()
    assert cleaned.isprintable()


def test_names_of_variables():
    assert make_env_name("nvidia.com/gpu-a") == "NVIDIA_COM_GPU_A"
    assert make_env_name("a-b.c", keep="-") == "A-B_C"
    assert make_env_name("é١") == "__"


def test_control_characters():
    assert [text for text in ("\x00", "\x1f", "\x7f", "\x85", "\udcff", "\n") if not has_control(text)] == []
    assert not has_control("aé漢 ")
