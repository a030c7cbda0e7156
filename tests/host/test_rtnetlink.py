"""Messages of rtnetlink, from the kernel and from nobody."""

import struct
import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from agent.host import rtnetlink
from agent.host.root import Root
from agent.scanners.net_words import NET
from agent.scanners.word_table import LookCache, WordSubject
from tests.namespaces import need_namespaces


@given(st.binary(max_size=200))
def test_junk_is_read_to_its_end(data):
    assert sum(len(payload) for _, _, payload in rtnetlink.parse_messages(data)) <= len(data)
    assert sum(len(value) for _, value in rtnetlink.parse_attributes(data)) <= len(data)
    rtnetlink.decode_name(data)


@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.binary(max_size=20)), max_size=6))
def test_what_is_packed_is_read(pairs):
    packed = b"".join(
        struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4) for kind, value in pairs
    )
    assert list(rtnetlink.parse_attributes(packed)) == pairs
    message = rtnetlink.HEADER.pack(16 + len(packed), rtnetlink.NEWLINK, 0, 1, 0) + packed
    assert list(rtnetlink.parse_messages(message * 2)) == [(rtnetlink.NEWLINK, 0, packed)] * 2


def test_alternative_names_on_a_tree_are_absent(tmp_path):
    said = NET.words["altnames"].read(LookCache(Root(str(tmp_path))), WordSubject("net", "eth0", "/sys/x/net/eth0"))
    assert said.reason == "a running kernel says it, by netlink, and this tree does not"


def test_this_machine_tells_its_interfaces():
    assert isinstance(rtnetlink.read_alternative_names(), dict)


def test_alternative_names_of_a_real_interface():
    need_namespaces("--net", "--mount", tools=["ip"])
    script = """
set -e
mount -t sysfs sysfs /sys
ip link add va type veth peer name vb
ip link property add dev va altname enp1s0f0np0 altname pf-of-rack-7
exec "$0" -c '
from agent.core.entry.resource_spec import Source
from agent.core.inventory.dirty_set import ALL_DIRTY
from agent.host import rtnetlink
from agent.host.root import Root
from agent.scanners import source_kinds
from agent.scanners.host_reader import HostReader, HostView
asked = []
real = rtnetlink.read_alternative_names
rtnetlink.read_alternative_names = lambda: asked.append(1) or real()
root = Root()
reader = HostReader(HostView(root))
source = Source("net")
for device in source_kinds.list_devices(root, [source], None, ALL_DIRTY).devices[source]:
    print(device.name, *reader.read_fact(device, "altnames"))
print(len(asked))
'
"""
    done = subprocess.run(
        ["unshare", "--net", "--mount", "sh", "-c", script, sys.executable], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == ["lo", "va enp1s0f0np0 pf-of-rack-7", "vb", "1", ""]
