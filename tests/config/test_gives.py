"""What an entry gives besides nodes and variables, as it is compiled."""

from __future__ import annotations

import pytest

HEAD = '[[resource]]\nname = "example.com/x"\nsource = { node = "/dev/x[0-9]*" }\n'


def given(configure, text):
    made = configure({"resources.d/a.toml": HEAD + text})
    assert made.findings == ()
    return made.resources[0]


def sources(texts):
    return [text.source for text in texts]


def test_mounts(configure):
    spec = given(
        configure,
        "[resource.give.mounts]\n"
        'short = "/opt/{name}"\n'
        'libs  = { path = "/usr/lib/*.so", to = ["/a/", "/b/"], read_only = true, optional = true }\n'
        'own   = { path = "/run/{name}/s", to = "/run/s{n}" }\n',
    )
    short, libs, own = spec.mounts
    assert (short.name, short.path.source, short.to, short.read_only, short.optional) == (
        *("short", "/opt/{name}", ()),
        *(False, False),
    )
    assert (libs.path.source, sources(libs.to), libs.read_only, libs.optional) == (
        *("/usr/lib/*.so", ["/a/", "/b/"]),
        *(True, True),
    )
    assert sources(own.to) == ["/run/s{n}"]
    assert spec.giving_words() == {"name"}


def test_annotations(configure):
    spec = given(
        configure,
        "[resource.give.annotations]\n"
        'plain = { value = "{id}", join = "," }\n'
        'ids   = { name = "example.com/ids", value = "{name}", join = "/" }\n'
        'each  = { name = "{resource}-{n}", value = "{name}" }\n',
    )
    assert [(one.key, one.name.source, one.value.source, one.join) for one in spec.annotations] == [
        ("plain", "plain", "{id}", ","),
        ("ids", "example.com/ids", "{name}", "/"),
        ("each", "{resource}-{n}", "{name}", None),
    ]
    assert spec.env == ()


def test_cdi_devices(configure):
    spec = given(
        configure,
        "[resource.give.cdi]\n"
        'one = "example.com/card={name}"\n'
        'two = { name = "example.com/card=all", via = "annotation", unchecked = true }\n',
    )
    assert [(one.key, one.name.source, one.via, one.unchecked) for one in spec.cdi] == [
        ("one", "example.com/card={name}", "field", False),
        ("two", "example.com/card=all", "annotation", True),
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('give.mounts.a = "/x"', 'give.mounts.a = { path = "/x", read_only = true }'),
        ('give.annotations.a = "x"', 'give.annotations.a = "y"'),
        ('give.cdi.a = "x.y/z=1"', 'give.cdi.a = { name = "x.y/z=1", unchecked = true }'),
    ],
)
def test_what_is_given_is_a_part_of_what_an_entry_means(configure, one, other):
    assert given(configure, one).meaning() != given(configure, other).meaning()
    assert given(configure, one).meaning() == given(configure, f"\n{one}").meaning()


def test_a_class_gives_and_an_entry_takes_out(configure):
    made = configure(
        {
            "classes/c.toml": 'about = "x"\nsource = { node = "/dev/x" }\n[give.cdi]\na = "x.y/z=1"\nb = "x.y/z=2"\n',
            "resources.d/a.toml": '[[resource]]\nname = "a/b"\nclass = "c"\n'
            'give.cdi = { a = false, b = { via = "annotation" } }\n',
        }
    )
    (spec,) = made.resources
    assert [(one.key, one.via) for one in spec.cdi] == [("b", "annotation")]


def test_directories_of_cdi_specs(configure):
    made = configure({"agent.toml": 'paths.cdi = ["/opt/cdi"]\n'})
    assert (made.settings.paths.cdi, made.findings) == (("/opt/cdi",), ())
