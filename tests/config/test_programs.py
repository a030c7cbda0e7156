"""`prepare` and `prestart`: what they become, and what is wrong with them."""

import pytest

from tests.config.marks import marked_by

HEAD = '[[resource]]\nname = "example.com/x"\nsource = "pci"\n'


def load(configure, lines, head=HEAD):
    return configure({"resources.d/a.toml": f"{head}{lines}\n"})


def compile_programs(configure, lines, section="prestart", head=HEAD):
    found = load(configure, lines, head)
    assert found.findings == ()
    return getattr(found.resources[0], section)


@pytest.mark.parametrize("section", ["prepare", "prestart"])
def test_what_is_not_said(configure, section):
    (program,) = compile_programs(configure, f'{section}.a.run = ["/sbin/x", "-v", ""]', section)
    assert (program.name, program.timeout, program.optional, program.condition) == ("a", 5.0, False, None)
    assert [text.source for text in program.run] == ["/sbin/x", "-v", ""]


def test_all_that_can_be_said(configure):
    lines = 'prepare.a = { run = ["/x"], timeout = "2m", optional = true, when = { "/dev/x" = { exists = false } } }'
    (program,) = compile_programs(configure, lines, "prepare")
    assert (program.timeout, program.optional) == (120.0, True)
    assert [line.address for line in program.condition.lines] == ["prepare.a.when./dev/x"]


def test_words(configure):
    lines = 'let.bay = "./bay"\nprestart.a = { run = ["/x", "{bay}", "{id}", "{pci.address}"], when.asked = 1 }'
    (program,) = compile_programs(configure, lines)
    assert set(program.list_words()) == {"bay", "id", "pci.address", "asked"}
    (program,) = compile_programs(configure, 'prepare.a.run = ["/x", "--kernel={host.kernel}"]', "prepare")
    assert set(program.list_words()) == {"host.kernel"}


def test_a_class_brings_them_and_an_entry_takes_them_out(configure):
    files = {
        "classes/card.toml": 'about = "cards"\nsource = "pci"\nprestart.a.run = ["/x"]\nprepare.b.run = ["/y"]\n',
        "resources.d/a.toml": '[[resource]]\nname = "example.com/x"\nclass = "card"\nprestart.a = false\n'
        'prepare.b.timeout = "9s"\n',
    }
    found = configure(files)
    assert found.findings == ()
    (spec,) = found.resources
    assert spec.prestart == ()
    assert [program.timeout for program in spec.prepare] == [9.0]


@pytest.mark.parametrize(
    ("line", "marked", "code", "write"),
    [
        ("prestart.a = {}", "a", "missing", 'write run = ["/usr/bin/…"]'),
        ('prestart.a.run = ["reset"]', '"reset"', "path", 'write for example "/usr/bin/reset"'),
        ('prestart.a.run = ["/usr/../x"]', '"/usr/../x"', "path", 'write "/x"'),
        ('prestart.a.run = ["{node}"]', "{node}", "path", None),
        ('prestart.a.run = ["/bin/{name}"]', "/bin/{name}", "path", None),
        ('prestart.a.run = ["/x", "{sreial}"]', "sreial", "unknown-word", None),
        ('prestart.a.run = ["/x", "{given.x}"]', "given.x", "unknown-word", None),
        ('prestart.a.run = ["/x", "a\\nb"]', '"a\\nb"', "text", "take it out"),
        ('prestart.a.run = "/x"', '"/x"', "type", None),
        ('prestart.a = { run = ["/x"], timeout = "0s" }', '"0s"', "type", 'write for example "5s"'),
        ('prestart.a = { run = ["/x"], timeout = "26s" }', '"26s"', "type", 'write for example "5s"'),
        ('prestart.a = { run = ["/x"], when = {} }', "when", None, None),
        ('prepare.a = { run = ["/x"], timeout = "11m" }', '"11m"', "type", 'write for example "5s"'),
        ('prepare.a.run = ["/x", "{address}"]', "address", "unknown-word", "for a device write prestart.NAME"),
        ('prepare.a.run = ["/x", "{id}"]', "id", "unknown-word", None),
        (
            'prepare.a = { run = ["/x"], when.driver = "x" }',
            "driver",
            "unknown-word",
            "what is asked of a device is prestart.NAME.when",
        ),
        (
            'prestart = { a = { run = ["/x"], timeout = "13s" }, b = { run = ["/y"], timeout = "13s" } }',
            "prestart",
            "type",
            "give them timeouts of 25 s together",
        ),
    ],
)
def test_mistakes(configure, line, marked, code, write):
    (finding,) = load(configure, line).findings
    assert finding.line == 4
    assert marked_by(finding).strip('"') == marked.strip('"')
    if code:
        assert finding.code == code
    if write is not None:
        assert finding.write == write
