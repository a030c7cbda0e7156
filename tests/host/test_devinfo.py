"""Device-information files on a disk: whole or not there, ours or left alone."""

import errno
import os
import stat

import pytest

from agent.core.entry.devinfo import DevInfo, make_file_name
from agent.host import devinfo_directory
from agent.host.devinfo_directory import DevInfoDirectory, DevInfoError

NAME = "example.com-vf-0000:3b:00.2-device.json"
ONE = DevInfo("0000:3b:00.2", NAME, '{"type":"pci"}')
TWO = DevInfo("0000:3b:00.3", "example.com-vf-0000:3b:00.3-device.json", '{"type":"pci","n":3}')


@pytest.fixture
def place(tmp_path):
    """The directory that CNI plugins look in, not there yet, and the state's."""
    return tmp_path / "cni/devinfo/dp", tmp_path / "state"


@pytest.fixture
def files(place):
    return DevInfoDirectory(*map(str, place))


def read_directory(place):
    return {path.name: path.read_text() for path in sorted(place[0].iterdir())}


def make_holder(*ids):
    return set(ids).__contains__


@pytest.mark.parametrize(
    ("resource", "id_", "name"),
    [
        ("example.com/vf", "0000:3b:00.2", NAME),
        ("a.b/c", "x::0", "a.b-c-x::0-device.json"),
        ("a.b/c-d", "e/f", "a.b-c-d-e-f-device.json"),
    ],
)
def test_the_name_of_a_file(resource, id_, name):
    assert make_file_name(resource, id_) == name


def test_a_file_is_there_for_whoever_may_read_it(files, place):
    before = os.umask(0o077)
    try:
        files.write([ONE, TWO])
    finally:
        os.umask(before)
    assert read_directory(place) == {ONE.name: ONE.text, TWO.name: TWO.text}
    assert stat.S_IMODE((place[0] / NAME).stat().st_mode) == 0o644
    assert {stat.S_IMODE(path.stat().st_mode) for path in (place[0], place[0].parent)} == {0o755}


def test_it_says_the_newest(files, place):
    files.write([ONE])
    files.write([ONE._replace(text='{"type":"vdpa"}')])
    assert read_directory(place) == {NAME: '{"type":"vdpa"}'}
    assert files.remove_unused(make_holder()) == (False, [])
    assert read_directory(place) == {}


def test_however_much_it_says_it_is_ours(files, place):
    """Written again, written over, and removed."""
    much = ONE._replace(text='"' + "ä" * 200_000 + '"')
    more = ONE._replace(text='"' + "b" * 900_000 + '"')
    for info in (much, much, more, much):
        files.write([info])
        assert read_directory(place) == {NAME: info.text}
    assert DevInfoDirectory(*map(str, place)).remove_unused(make_holder()) == (False, [])
    assert read_directory(place) == {}


def test_ours_stay_while_their_ids_are_held_over_restarts_too(files, place):
    files.write([ONE, TWO])
    again = DevInfoDirectory(*map(str, place))
    assert again.remove_unused(make_holder(ONE.id)) == (True, [])
    assert read_directory(place) == {NAME: ONE.text}
    again.write([ONE._replace(text="{}")])  # it knows it for its own
    assert again.remove_unused(make_holder()) == (False, [])
    assert read_directory(place) == {}
    assert list((place[1] / "devinfo").iterdir()) == []


def test_what_another_program_wrote_is_never_touched(files, place):
    place[0].mkdir(parents=True)
    (place[0] / NAME).write_text("{}")
    with pytest.raises(DevInfoError, match="is another program's, and says something else: remove it"):
        files.write([ONE])
    assert read_directory(place) == {NAME: "{}"}
    assert files.remove_unused(make_holder()) == (False, [])
    assert read_directory(place) == {NAME: "{}"}


def test_what_another_program_wrote_in_the_same_words_serves_and_stays(files, place):
    place[0].mkdir(parents=True)
    (place[0] / NAME).write_text(ONE.text)
    files.write([ONE])
    assert files.remove_unused(make_holder()) == (False, [])
    assert read_directory(place) == {NAME: ONE.text}


def test_what_another_program_wrote_over_ours_is_its_own(files, place):
    files.write([ONE])
    (place[0] / NAME).write_text('{"type":"vdpa"}')
    with pytest.raises(DevInfoError, match="another program's"):
        files.write([ONE])
    assert files.remove_unused(make_holder()) == (False, [])
    assert read_directory(place) == {NAME: '{"type":"vdpa"}'}


@pytest.mark.parametrize("what", ["link", "fifo", "directory", "large"])
def test_what_is_no_file_of_ours_is_in_the_way(files, place, what, tmp_path):
    place[0].mkdir(parents=True)
    path = place[0] / NAME
    if what == "link":
        (tmp_path / "elsewhere").write_text(ONE.text)
        path.symlink_to(tmp_path / "elsewhere")
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "directory":
        path.mkdir()
    else:
        path.write_bytes(b" " * (devinfo_directory.LIMIT + 1))
    with pytest.raises(DevInfoError, match=NAME):
        files.write([ONE])
    assert os.path.lexists(path)


def test_a_file_of_another_id_with_the_same_name_is_not_written_over(files, place):
    files.write([ONE])
    with pytest.raises(DevInfoError, match="remove it"):
        files.write([ONE._replace(id="vf-0000:3b:00.2", text="{}")])
    assert read_directory(place) == {NAME: ONE.text}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_disk_that_is_full_or_cannot_be_written_is_named_and_nothing_is_half_there(files, place, monkeypatch, number):
    files.write([ONE])
    real = os.replace

    def replace(source, target):
        if target.startswith(str(place[0])):
            raise OSError(number, os.strerror(number), source)
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(DevInfoError, match=os.strerror(number)):
        files.write([TWO])
    with pytest.raises(DevInfoError):
        files.write([ONE._replace(text="{}")])
    assert read_directory(place) == {NAME: ONE.text}
    monkeypatch.undo()
    assert files.remove_unused(make_holder()) == (False, [])
    assert read_directory(place) == {}


def test_a_file_where_the_directory_should_be_is_named(files, place):
    place[0].parent.mkdir(parents=True)
    place[0].write_text("")
    with pytest.raises(DevInfoError, match=f"{place[0]}.*(Not a directory|File exists)"):
        files.write([ONE])


def test_one_that_cannot_be_removed_is_said_and_tried_again(files, place, monkeypatch):
    files.write([ONE])
    real = os.unlink

    def unlink(path):
        if path == str(place[0] / NAME):
            raise OSError(errno.EROFS, "", path)
        real(path)

    monkeypatch.setattr(os, "unlink", unlink)
    assert files.remove_unused(make_holder()) == (True, [f"{place[0] / NAME}: {os.strerror(errno.EROFS)}"])
    monkeypatch.undo()
    assert files.remove_unused(make_holder()) == (False, [])
    assert read_directory(place) == {}


def test_what_the_state_says_and_makes_no_sense_is_forgotten(files, place):
    files.write([ONE])
    (place[1] / "devinfo" / NAME).write_text('{"id": ')
    assert files.remove_unused(make_holder(ONE.id)) == (False, [])
    assert read_directory(place) == {NAME: ONE.text}  # perhaps another's, by all that is known
