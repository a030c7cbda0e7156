"""agent.toml: exactly these keys, exactly these defaults."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from msgspec import to_builtins

from agent.config.language.value_checks import parse_duration
from agent.config.settings import FIELD_NAMES, Settings, read_settings
from agent.config.toml.document import parse
from agent.kubelet.socket_file import PATH_LIMIT, format_socket_name, make_generation
from tests.config.marks import marked_by

DEFAULT = Path(__file__).parents[2] / "config" / "agent.toml"


def load_settings(text: str):
    return read_settings(parse("agent.toml", text))


def _find_key(field):
    return {name: key for key, name in FIELD_NAMES.items()}.get(field, field)


def test_the_file_we_ship_says_every_key_and_its_default():
    settings, findings = load_settings(DEFAULT.read_text(encoding="utf-8"))
    assert findings == []
    assert settings == Settings()
    written = tomllib.loads(DEFAULT.read_text(encoding="utf-8"))
    assert {name: set(table) for name, table in written.items()} == {
        name: {_find_key(field) for field in table} for name, table in to_builtins(settings).items()
    }


def test_nothing_said_is_the_defaults():
    assert load_settings("") == (Settings(), [])


def test_every_kind_of_value():
    settings, findings = load_settings(
        """
        kubelet = { dir = "/d", registration = "watcher" }
        look = { every = "2m", settle = "1.5s" }
        reload.watch = false
        metrics = { listen = "127.0.0.1:9460", max_devices = 5 }
        paths.classes = ["/a", "/b"]
        log.level = "debug"
        """
    )
    assert findings == []
    assert (settings.kubelet.dir, settings.kubelet.registration) == ("/d", "watcher")
    assert (settings.look.rescan_interval, settings.look.debounce_time) == (120.0, 1.5)
    assert (settings.paths.classes, settings.log.level) == (("/a", "/b"), "debug")
    assert settings.paths.state == Settings().paths.state
    assert (settings.metrics.listen, settings.metrics.max_devices) == ("127.0.0.1:9460", 5)


@pytest.mark.parametrize(
    ("text", "column", "marked", "code", "write"),
    [
        ("kubelt.dir = '/x'", 1, "kubelt", "unknown-key", "nearest: kubelet"),
        ("kubelet.dri = '/x'", 9, "dri", "unknown-key", "nearest: dir"),
        ("dir = '/x'", 1, "dir", "unknown-key", "it belongs under [kubelet]"),
        ("[[resource]]", 3, "resource", "unknown-key", "move it to a file in resources.d"),
        ("look = 5", 8, "5", "type", "write [look]"),
        ("kubelet.dir = 5", 15, "5", "type", 'write for example "/run/device-agent"'),
        ("kubelet.dir = 'x'", 16, "x", "path", 'write "/x"'),
        ("kubelet.dir = '/x/../y'", 16, "/x/../y", "path", 'write "/y"'),
        ("kubelet.dir = '/x/'", 16, "/x/", "path", 'write "/x"'),
        ("kubelet.dir = '//x'", 16, "//x", "path", 'write "/x"'),
        ("kubelet.dir = ''", 15, "''", "path", ""),
        (f"kubelet.dir = '/{'x' * 66}'", 16, f"/{'x' * 66}", "socket-path", "at most 66"),
        (f"kubelet.watcher_dir = '/{'ö' * 33}'", 24, f"/{'ö' * 33}", "socket-path", "at most 66"),
        (f"paths.control = '/{'x' * 107}'", 18, f"/{'x' * 107}", "socket-path", "take a shorter one"),
        ("kubelet.registration = 'sockets'", 24, "'sockets'", "type", 'write "socket"'),
        ("paths.classes = '/x'", 17, "'/x'", "type", 'write ["/x"]'),
        ("paths.classes = ['/x', 'y']", 25, "y", "path", 'write "/y"'),
        ("look.every = 30", 14, "30", "type", 'write "30s"'),
        ("look.every = '30'", 14, "'30'", "type", 'write for example "30s"'),
        ("look.every = '0s'", 14, "'0s'", "type", 'write for example "30s"'),
        ("look.every = '2d'", 14, "'2d'", "type", 'write for example "30s"'),
        ("look.settle = '99999999d'", 15, "'99999999d'", "type", 'write for example "50ms"'),
        ("look.settle = '0.1ms'", 15, "'0.1ms'", "type", 'write for example "50ms"'),
        ("reload.watch = 'yes'", 16, "'yes'", "type", "write true or false"),
        ("metrics.listen = '9460'", 18, "'9460'", "type", 'write "127.0.0.1:9460" or "unix:/run/…"'),
        ("metrics.listen = 'unix:run/x'", 24, "run/x", "path", 'write "/run/x"'),
        ("metrics.max_devices = -1", 23, "-1", "type", "write for example 512"),
        (
            "metrics.listen = '127.0.0.1:99999'",
            18,
            "'127.0.0.1:99999'",
            "type",
            'write "127.0.0.1:9460" or "unix:/run/…"',
        ),
        ("paths.cdi = '/etc/cdi'", 13, "'/etc/cdi'", "type", 'write ["/etc/cdi"]'),
        ("paths.cdi = ['etc/cdi']", 15, "etc/cdi", "path", 'write "/etc/cdi"'),
        ("log.level = 'warn'", 13, "'warn'", "type", 'write "debug"'),
    ],
)
def test_one_mistake(text, column, marked, code, write):
    settings, findings = load_settings(text)
    (finding,) = findings
    assert (finding.line, finding.column, marked_by(finding)) == (1, column, marked)
    assert (finding.code, finding.write) == (code, write)
    assert settings == Settings()


def test_the_longest_socket_directory_fits():
    assert load_settings(f"kubelet.dir = '/{'x' * 65}'")[1] == []


def test_what_is_said_of_sockets_is_what_the_endpoint_makes():
    directory = f"/{'x' * 65}"
    assert load_settings(f"kubelet.dir = '{directory}'")[1] == []
    assert len(f"{directory}/.{format_socket_name('example.com/a', make_generation())}") == PATH_LIMIT


def test_all_mistakes_at_once_and_the_rest_is_taken():
    settings, findings = load_settings("[look]\nevery = 3\nsettle = '20ms'\n[log]\nlevle = 'info'\n")
    assert [(finding.line, finding.code) for finding in findings] == [(2, "type"), (5, "unknown-key")]
    assert settings.look.debounce_time == 0.02


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("50ms", 0.05), ("1.5s", 1.5), ("30s", 30.0), ("10m", 600.0), ("2h", 7200.0), ("1d", 86400.0)],
)
def test_a_duration(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "-1s", "1 s", "1w", "1.s", "1e3s", "٣s", "1s\n"])
def test_no_duration(text):
    assert parse_duration(text) is None
