"""Files as they come from other editors, other machines and tired people: each served, or refused where it is wrong."""

from __future__ import annotations

import os

import pytest

from agent.config.toml.files import ConfigFiles
from agent.config.toml.finding import Severity
from agent.core.language.logic import PLAIN
from tests.config.marks import marked_by

PCI = '[[resource]]\nname = "a.b/x"\nsource = "pci"\n'


def test_a_thousand_resources_are_all_served_and_a_mistake_among_them_is_found(configure):
    entry = '[[resource]]\nname = "a.b/r%d"\nsource = "pci"\nmatch = { vendor = "8086", device = "%04x" }\n'
    many = [entry % (number, number) for number in range(1000)]
    found = configure({"resources.d/a.toml": "".join(many), "resources.d/b.toml": many[7].replace("r7", "again")})
    assert [spec.name for spec in found.resources] == [*(f"a.b/r{number}" for number in range(1000)), "a.b/again"]
    (finding,) = found.findings  # the one that is left nothing, by an entry of which only one line tells
    assert (finding.file, finding.code) == ("resources.d/b.toml", "nothing-left")
    assert "a.b/r7 takes" in finding.message


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "marked"),
    [
        ("\ufeff" + PCI + 'id = "{addres}"\n', "unknown-word", 4, 8, "addres"),
        (PCI.replace("\n", "\r\n") + 'id = "{addres}"\r\n', "unknown-word", 4, 8, "addres"),
        (PCI + '\tmatch.vendro\t=\t"8086"\n', "unknown-word", 4, 8, "vendro"),
        (PCI + 'name = "a.b/y"\n', "toml", 4, 1, "name"),
        (PCI + 'match = { vendor = "8086", vendor = "8087" }\n', "toml", 4, 28, "vendor"),
        (PCI.replace("\n", "\r"), "toml", 1, 13, "\r"),
        (PCI + 'match.label = { matching = "((a{1,100}){1,100}){1,100}" }\n', "matching", 4, 32, "{1,100}"),
        (PCI + 'match.label = { matching = "(?=x)y" }\n', "matching", 4, 29, "(?="),
        (PCI + 'let.a = "b"\nlet.b = "a"\n', "cycle", 4, 5, "a"),
        (PCI + 'class = "one"\n', "cycle", 2, 10, "one"),
    ],
)
def test_what_is_wrong_is_marked_however_the_file_is_written(configure, text, code, line, column, marked):
    pair = (("one", "two"), ("two", "one"))
    uses = {name: f'about = "x"\nuses = ["{other}"]\nsource = "pci"\n' for name, other in pair}
    files = {f"classes/{name}.toml": said for name, said in uses.items()} if 'class = "one"' in text else {}
    found = configure({"resources.d/a.toml": text, **files})
    finding = next(one for one in found.findings if one.severity is Severity.ERROR)
    assert (finding.code, finding.line, finding.column) == (code, line, column)
    assert marked_by(finding)[:1] == marked[:1]
    assert not found.resources


def test_an_expression_that_would_explode_elsewhere_is_served(configure):
    """RE2 takes time that is linear in the text, whatever the expression."""
    found = configure({"resources.d/a.toml": PCI + 'match.label = { matching = "(a|a)*(a*)*b" }\n'})
    assert not found.findings
    (line,) = found.resources[0].match.lines
    assert line.evaluate({"label": "a" * 4096 + "b"}.__getitem__, PLAIN) is True
    assert line.evaluate({"label": "a" * 4096}.__getitem__, PLAIN) is False


def test_of_two_classes_of_one_name_the_first_directory_has_it_and_its_own_goes_over_the_shipped(configure, tmp_path):
    agent = f'[paths]\nclasses = ["{tmp_path}/classes", "{tmp_path}/more"]\n'
    mine = 'about = "mine"\nsource = { node = "/dev/%s" }\n'
    files = {"agent.toml": agent, "classes/kvm.toml": mine % "a"}
    files |= {"more/kvm.toml": mine % "b", "more/fuse.toml": mine % "c"}
    entries = "".join(f'[[resource]]\nname = "a.b/{name}"\nclass = "{name}"\n' for name in ("kvm", "fuse", "tun"))
    found = configure({**files, "resources.d/a.toml": entries})
    assert not found.findings
    sources = [spec.source.arguments for spec in found.resources]
    assert sources == [("/dev/a",), ("/dev/c",), ("/dev/net/tun",)]


@pytest.mark.parametrize("kind", ["directory", "pipe", "loop"])
def test_what_is_no_file_is_said_and_the_others_are_served(configure, tmp_path, kind):
    (tmp_path / "resources.d").mkdir()
    odd = tmp_path / "resources.d" / "b.toml"
    {"directory": odd.mkdir, "pipe": lambda: os.mkfifo(odd), "loop": lambda: odd.symlink_to("b.toml")}[kind]()
    found = configure({"resources.d/a.toml": PCI})
    (finding,) = found.findings
    assert (finding.file, finding.code) == ("resources.d/b.toml", "unreadable")
    assert [spec.name for spec in found.resources] == ["a.b/x"]


def test_a_file_that_would_have_to_be_waited_for_is_said(tmp_path, monkeypatch):
    """/proc/kmsg, and files of FUSE, are regular to fstat, and reading them can come to EAGAIN."""
    reads, writes = os.pipe2(os.O_NONBLOCK)
    monkeypatch.setattr(os, "open", lambda *_: os.dup(reads))
    monkeypatch.setattr("stat.S_ISREG", lambda _: True)
    files = ConfigFiles(str(tmp_path))
    assert files.read_document(str(tmp_path / "b.toml")) is None
    os.close(reads)
    os.close(writes)
    (finding,) = files.findings
    assert (finding.file, finding.code) == ("b.toml", "unreadable")
