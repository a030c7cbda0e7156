"""Registration by a socket in plugins_registry."""

import os
from urllib.parse import quote

import pytest

from agent.kubelet.messages import pluginregistration
from tests.simulated.tiny_plugin import device

FOO = "example.com/foo"


def make_sibling_path(plugin, name):
    return os.path.join(os.path.dirname(os.path.normpath(plugin.path)), name)


@pytest.fixture
def watching(started, tmp_path):
    async def make(**how):
        return await started(watcher_directory=tmp_path / "reg", **how)

    return make


async def test_a_socket_is_a_registration_and_its_removal_the_end(watching, plugin):
    kubelet = await watching()
    foo = await plugin(kubelet, devices=[device("a")], name="../reg/foo.sock")
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    (status,) = await kubelet.until(lambda: foo.notified)
    assert (status.plugin_registered, status.error) == (True, "")
    os.unlink(foo.path)
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 0)
    await kubelet.until(lambda: kubelet.connections() == 0)


async def test_a_kubelet_restart_finds_it_again(watching, plugin):
    kubelet = await watching()
    await plugin(kubelet, devices=[device("a")], name="../reg/sub/foo.sock")
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    await kubelet.restart()
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)


async def test_a_socket_made_anew_is_registered_anew(watching, plugin):
    kubelet = await watching()
    foo = await plugin(kubelet, devices=[device("a")], name="../reg/foo.sock")
    await kubelet.until(lambda: len(foo.notified) == 1)
    await foo.close()
    await foo.start()
    await kubelet.until(lambda: len(foo.notified) == 2)
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)


async def test_dot_names_and_other_files_are_passed_over(watching, plugin):
    kubelet = await watching()
    foo = await plugin(kubelet, devices=[device("a")], name="../reg/.foo.sock")
    os.close(os.open(make_sibling_path(foo, "file"), os.O_CREAT))
    with pytest.raises(TimeoutError):
        await kubelet.until(lambda: foo.server.headers, timeout=0.1)
    os.rename(foo.path, make_sibling_path(foo, "foo.sock"))
    await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    assert not kubelet.events.select("plugin_refused")


async def test_authority_is_the_encoded_path_on_these_calls(watching, plugin):
    kubelet = await watching()
    foo = await plugin(kubelet, devices=[device("a")], name="../reg/foo.sock")
    await kubelet.until(lambda: foo.notified and foo.server.of("ListAndWatch"))
    for method in ("GetInfo", "NotifyRegistrationStatus"):
        (headers,) = foo.server.of(method)
        assert headers[":authority"] == quote(make_sibling_path(foo, "foo.sock"), safe="")
        assert "grpc-timeout" in headers
    for method in ("GetDevicePluginOptions", "ListAndWatch"):
        assert foo.server.of(method)[0][":authority"] == "localhost"


async def test_refused_on_demand_with_a_back_off(watching, plugin):
    kubelet = await watching()
    kubelet.faults.refuse_watched("no room", times=2)
    foo = await plugin(kubelet, devices=[device("a")], name="../reg/foo.sock")
    await kubelet.until(lambda: len(foo.notified) == 3)
    assert [(s.plugin_registered, s.error) for s in foo.notified] == [(False, "no room")] * 2 + [(True, "")]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"type": "CSIPlugin", "name": FOO}, "no handler registered for plugin type: CSIPlugin"),
        ({"type": "DevicePlugin", "name": FOO, "supported_versions": ["v1"]}, "v1beta1, is not among"),
        ({"type": "DevicePlugin", "name": "foo", "supported_versions": ["v1beta1"]}, 'the ResourceName "foo"'),
    ],
)
async def test_what_is_refused(watching, plugin, info, text):
    kubelet = await watching()
    foo = await plugin(kubelet, name="../reg/.foo.sock")
    foo.info = pluginregistration.PluginInfo(**info)
    os.rename(foo.path, make_sibling_path(foo, "foo.sock"))
    await kubelet.until(lambda: foo.notified)
    assert not foo.notified[0].plugin_registered
    assert text in foo.notified[0].error


@pytest.mark.parametrize(("release", "again"), [("1.35", False), ("1.36", True)])
async def test_a_failed_registration_is_tried_again_since_1_36(watching, plugin, release, again):
    kubelet = await watching(release=release)
    foo = await plugin(kubelet, devices=[device("a")], name="../reg/.foo.sock")
    foo.failure = RuntimeError()
    os.rename(foo.path, make_sibling_path(foo, "foo.sock"))
    await kubelet.until(lambda: foo.notified)
    assert "plugin registration failed" in foo.notified[0].error
    foo.failure = None
    if again:
        await kubelet.until(lambda: kubelet.allocatable(FOO) == 1)
    else:
        with pytest.raises(TimeoutError):
            await kubelet.until(lambda: kubelet.is_known(FOO), timeout=0.3)
