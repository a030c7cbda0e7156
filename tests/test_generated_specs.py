"""Generated CDI specs on a slow disk."""

import threading
from types import SimpleNamespace

from agent.core.entry.generated_cdi import make_file_name, make_header
from agent.core.lists.list_inputs import HeldIds
from agent.host.cdi_specs import SpecDirectories
from agent.host.root import Root
from agent.specs import generated_specs
from agent.specs.generated_specs import GeneratedSpecs

OLD, NEW = "example.com/old", "example.com/new"


async def test_what_a_slow_sweep_finds_counts_once_it_ends(tmp_path, monkeypatch):
    """Lists are not kept waiting, what is new meanwhile stays, and then everything is looked at again."""
    monkeypatch.setattr(generated_specs, "ANSWER_SECONDS", 0.0)
    for resource in (OLD, NEW):
        (tmp_path / make_file_name(resource)).write_bytes(make_header("me"))
    slow, stirred = threading.Event(), threading.Event()
    files = GeneratedSpecs(Root(), "me", SpecDirectories([str(tmp_path)]), stirred.set)
    sweep = files._files.remove_except

    def sweep_slowly(kept):
        slow.wait()
        return sweep(kept)

    monkeypatch.setattr(files._files, "remove_except", sweep_slowly)

    async def renew(*resources):
        now = SimpleNamespace(lists=dict.fromkeys(resources), written_names={})
        monkeypatch.setattr(files, "_start_refresh", lambda *_: [])
        return await files.refresh(now, (), {}, HeldIds(frozenset()))

    assert await renew() == {}
    assert await renew(NEW) == {}  # a resource has come while that lasts
    assert not stirred.is_set()
    slow.set()
    sweeping = files._cleanup
    await sweeping
    assert stirred.is_set()
    assert await renew(NEW) == {}
    assert [path.name for path in tmp_path.iterdir()] == [make_file_name(NEW)]
    assert files._has_file(NEW)
    assert not files._has_file(OLD)
