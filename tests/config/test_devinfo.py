"""`give.devinfo`: a table that becomes a file."""

from __future__ import annotations

import pytest

from agent.core.entry.devinfo import DIRECTORY
from agent.core.language.value import Absent

HEAD = '[[resource]]\nname = "example.com/vf"\nsource = "pci"\n'


def compile_entry(configure, text, head=HEAD):
    found = configure({"resources.d/a.toml": head + text})
    assert found.findings == ()
    return found.resources[0]


def test_what_stands_in_the_file(configure):
    spec = compile_entry(
        configure,
        'give.devinfo = { type = "pci", pci = { pci-address = "{address}", rdma-device = "{rdma.name}" }, n = 1 }',
    )
    said = {"address": "0000:3b:00.2", "rdma.name": Absent("it has no RDMA device")}
    assert spec.devinfo.write(said.__getitem__) == '{"type":"pci","pci":{"pci-address":"0000:3b:00.2"},"n":1}'
    assert spec.find_give_words() == {"address", "rdma.name"}


def test_an_entry_changes_one_thing_of_its_class_or_takes_the_file_out(configure):
    text = 'class = "devinfo-pci"\n'
    spec = compile_entry(configure, text + 'give.devinfo.pci.vhost-net = "/dev/vhost-net"')
    assert '"vhost-net":"/dev/vhost-net"' in spec.devinfo.write(lambda _: Absent("x"))
    assert compile_entry(configure, text + "give.devinfo = false").devinfo is None


def test_the_file_is_a_part_of_what_an_entry_means(configure):
    one, other = (compile_entry(configure, f'give.devinfo.type = "{kind}"') for kind in ("pci", "vdpa"))
    assert one.drop_origin() != other.drop_origin()


@pytest.mark.parametrize(
    ("text", "code", "message", "write"),
    [
        ("give.devinfo = {}", "type", "give.devinfo says nothing", "write what the object has in it"),
        ("give.devinfo.a = '{nmae}'", "unknown-word", "no word 'nmae' of source pci", "nearest: name"),
        ("give.devinfo.'{name}' = 'x'", "text", "names in JSON are as they are written", "member"),
        ("give.devinfo.a = 1979-05-27", "type", "JSON has texts, numbers", "write it as text"),
        ("slots = 2\ngive.devinfo.a = 'x'", "type", "a slot is of no device", "write devinfo = false"),
    ],
)
def test_errors(configure, text, code, message, write):
    (finding, *_) = configure({"resources.d/a.toml": HEAD + text}).findings
    assert (finding.line, finding.code) == (HEAD.count("\n") + 1 + text.count("\n"), code)
    assert message in finding.message
    assert write in finding.write


@pytest.mark.parametrize(("text", "directory"), [("", DIRECTORY), ('[paths]\ndevinfo = "/run/info"', "/run/info")])
def test_the_directory(configure, text, directory):
    found = configure({"agent.toml": text})
    assert (found.findings, found.settings.paths.devinfo) == ((), directory)
