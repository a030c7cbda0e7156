import asyncio
import os
import shutil
from pathlib import Path

import pytest

from agent.host import inotify
from agent.host.inotify import PathWatch


class Heard:
    """What a watch told, and waiting for it."""

    def __init__(self):
        self.paths = set()
        self.told = set()
        self.calls = 0
        self.overflowed = asyncio.Event()
        self._told = asyncio.Event()

    def __call__(self, paths, overflow):
        self.paths |= paths
        self.told |= paths
        self.calls += 1
        if overflow:
            self.overflowed.set()
        self._told.set()

    async def of(self, *paths):
        async with asyncio.timeout(60):
            while not set(paths) <= self.paths:
                self._told.clear()
                await self._told.wait()
        self.paths.clear()


def test_what_comes_goes_moves_and_changes_is_told(tree, play):
    async def scene():
        heard = Heard()
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev"})
            tree.file("/dev/a")
            await heard.of("/dev/a")
            tree.at("/dev/a").chmod(0o600)
            await heard.of("/dev/a")
            tree.at("/dev/a").rename(tree.at("/dev/b"))
            await heard.of("/dev/a", "/dev/b")
            tree.at("/dev/b").unlink()
            await heard.of("/dev/b")
            assert not watch.faults

    play(scene())


def test_what_is_written_is_told_but_not_below_dev(tree, play):
    async def scene():
        heard = Heard()
        for path in ("/dev/a", "/etc/cdi/a", "/etc/cdi/below/x"):
            tree.file(path, "1")
        async with PathWatch(tree.root, heard, written=True) as watch:
            for wanted in ({"/etc/cdi", "/dev"}, {"/etc/cdi", "/dev", "/etc/cdi/below"}):  # a way, and wanted itself
                watch.watch(wanted)
                tree.file("/dev/a", "2")
                tree.file("/etc/cdi/a", "2")
                await heard.of("/etc/cdi/a")
                assert heard.told == {"/etc/cdi/a"}
                heard.told.clear()

    play(scene())


def test_a_directory_that_is_missing_comes_goes_and_comes_again(tree, play):
    async def scene():
        heard = Heard()
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev/serial/by-id"})
            for name in ("x", "y"):
                tree.at("/dev/serial/by-id").mkdir(parents=True)
                await heard.of("/dev/serial/by-id")
                tree.file(f"/dev/serial/by-id/{name}")
                await heard.of(f"/dev/serial/by-id/{name}")
                shutil.rmtree(tree.at("/dev/serial"))
                await heard.of("/dev/serial/by-id")

    play(scene())


def test_a_directory_deleted_and_made_again_in_one_go_is_another(tree, play):
    async def scene():
        heard = Heard()
        tree.at("/dev/d").mkdir()
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev/d"})
            tree.at("/dev/d").rmdir()
            tree.at("/dev/d").mkdir()
            await heard.of("/dev/d")
            tree.file("/dev/d/x")
            await heard.of("/dev/d/x")

    play(scene())


def test_a_directory_replaced_by_a_link_and_the_link_turned(tree, play):
    async def scene():
        heard = Heard()
        tree.at("/dev/d").mkdir()
        tree.at("/run/one").mkdir()
        tree.at("/run/two").mkdir()
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev/d"})
            tree.at("/dev/d").rmdir()
            tree.at("/dev/d").symlink_to("/run/one")  # absolute: it stays inside the root
            await heard.of("/dev/d", "/run/one")
            tree.file("/run/one/x")
            await heard.of("/dev/d/x", "/run/one/x")
            tree.at("/dev/new").symlink_to("../run/two")
            tree.at("/dev/new").rename(tree.at("/dev/d"))
            await heard.of("/dev/d", "/run/two")
            tree.file("/run/two/y")
            await heard.of("/dev/d/y")
            tree.file("/run/one/z")
            tree.file("/run/two/end")
            await heard.of("/dev/d/end")
            assert "/dev/d/z" not in heard.paths

    play(scene())


def test_a_parent_moved_away_takes_the_directory_along(tree, play):
    async def scene():
        heard = Heard()
        tree.at("/dev/a/b").mkdir(parents=True)
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev/a/b"})
            tree.at("/dev/a").rename(tree.at("/dev/elsewhere"))
            await heard.of("/dev/a/b")
            tree.at("/dev/a/b").mkdir(parents=True)
            await heard.of("/dev/a/b")

    play(scene())


def test_loops_and_files_on_the_way_are_waited_out(tree, play):
    async def scene():
        heard = Heard()
        tree.at("/dev/l").symlink_to("l")
        tree.file("/dev/f")
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev/l/x", "/dev/f/x"})
            tree.at("/dev/l").unlink()
            tree.at("/dev/l/x").mkdir(parents=True)
            tree.at("/dev/f").unlink()
            tree.at("/dev/f/x").mkdir(parents=True)
            await heard.of("/dev/l/x", "/dev/f/x")

    play(scene())


def test_watching_others_tells_of_these_alone(tree, play):
    async def scene():
        heard = Heard()
        for name in "abc":
            tree.at(f"/dev/{name}").mkdir()
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev/a", "/dev/b"})
            watch.watch({"/dev/b", "/dev/c"})
            watch.watch({"/dev/b", "/dev/c"})
            assert heard.calls == 0
            tree.file("/dev/a/x")
            tree.file("/dev/c/x")
            await heard.of("/dev/c/x")
            assert "/dev/a/x" not in heard.paths

    play(scene())


def test_a_storm_is_taken_in_bounded_pieces(tree, play, monkeypatch):
    async def scene():
        heard = Heard()
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev"})
            for number in range(2000):
                tree.file(f"/dev/n{number}")
            await heard.of("/dev/n1999")
            assert heard.calls >= 2000 * 32 / inotify.READ_SIZE

    play(scene())


@pytest.mark.skipif(not os.access("/proc/sys/fs/inotify/max_queued_events", os.R_OK), reason="no inotify limits here")
def test_a_queue_that_overflowed_is_told(tree, play):
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 50_000:
        pytest.skip(f"the queue takes {limit} events")

    async def scene():
        heard = Heard()
        tree.file("/dev/a")
        tree.file("/dev/b")
        async with PathWatch(tree.root, heard) as watch:
            watch.watch({"/dev"})
            for number in range(limit + 10):  # by turns, as the kernel merges equal ones
                os.utime(tree.at("/dev/a" if number % 2 else "/dev/b"))
            await heard.overflowed.wait()
            heard.paths.clear()
            tree.file("/dev/after")
            await heard.of("/dev/after")

    play(scene())


def test_what_cannot_be_watched_is_a_fault_with_a_reason(tree, play, monkeypatch):
    async def scene():
        def refuse(*args, **kwargs):
            raise OSError(24, "Too many open files")

        monkeypatch.setattr(inotify.inotify_simple, "INotify", refuse)
        async with PathWatch(tree.root, Heard()) as watch:
            watch.watch({"/dev"})
            assert watch.faults == {
                "/dev": "inotify: Too many open files (sysctl fs.inotify.max_user_instances may be too low)"
            }

    play(scene())
