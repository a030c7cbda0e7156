"""Each error has its code, its position and a correction."""

from __future__ import annotations

import pytest

from agent.config.toml.finding import Severity
from tests.config.marks import marked_by

NODE = 'source = { node = "/dev/kvm" }\n'
NODES = 'source = { node = "/dev/loop[0-9]*" }\n'
HEAD = '[[resource]]\nname = "example.com/x"\n'
PCI = 'source = "pci"\n'
TTY = 'source = { node = "/dev/ttyUSB*" }\n'

# Lines behind `[[resource]]` and a name, so the first is line 3; then: line, column, marked text, code, hint.
ONE = [
    # Keys of the language, of later versions, and of none.
    (PCI + "permision = 1", 4, 1, "permision", "unknown-key", "nearest: permissions, of give.nodes.NAME"),
    (PCI + "replica = 1", 4, 1, "replica", "unknown-key", "nearest: replicas"),
    (PCI + "health = { x = { socket = 'y' } }", 4, 28, "y", "path", 'write "/y"'),
    ('source = { node = "/dev/x{n}" }', 3, 26, "{n}", "glob", 'write "/dev/x{n:text}" to take what is here'),
    ('source = { node = "/dev/x{asked:int}" }', 3, 26, "{asked:int}", "taken", "take another name"),
    ('source = { node = "/dev/x{name:int}" }', 3, 26, "{name:int}", "taken", "take another name"),
    ('source = { node = ["/dev/x{a:int}", "/dev/y{a:hex}"] }', 3, 44, "{a:hex}", "type", "write the same type"),
    ('source = { node = ["/dev/x{a:int}", "/dev/y{a,b}"] }', 3, 44, "{a,b}", "glob", None),
    (
        PCI + "match = { './{xyz}/y' = 'z' }",
        4,
        11,
        "'./{xyz}/y'",
        "unknown-word",
        'if a file says it, let.xyz = "./xyz"',
    ),
    # Sources.
    ("source = 5", 3, 10, "5", "type", 'write "pci"'),
    ('source = "pcie"', 3, 11, "pcie", "type", "nearest: pci"),
    ('source = "node"', 3, 11, "node", "type", "write { node = … }"),
    ('source = "/dev/kvm"', 3, 11, "/dev/kvm", "type", 'write { node = "/dev/kvm" }'),
    (
        'source = { node = "/dev/x", kind = "pci" }',
        3,
        10,
        '{ node = "/dev/x", kind = "pci" }',
        "type",
        "keep node, and take out kind",
    ),
    ("source = {}", 3, 10, "{}", "type", 'write for example source = "pci"'),
    ('source = { subsystem = "a/b" }', 3, 24, '"a/b"', "type", 'write for example "video4linux"'),
    ('source = { nodes = "/dev/x" }', 3, 12, "nodes", "unknown-key", "nearest: node"),
    ('source = { node = "/dev/tty[AU*" }', 3, 28, "[AU*", "glob", 'write "[AU*]"; a literal bracket is "[[]"'),
    ('source = { node = ["/dev/a", "/dev/**"] }', 3, 36, "**", "glob", None),
    ('source = { node = "/dev/{a,b}" }', 3, 25, "{a,b}", "glob", 'write a list: ["/dev/a", "/dev/b"]'),
    ('source = { node = "dev/kvm" }', 3, 20, "dev/kvm", "path", 'write "/dev/kvm"'),
    ('source = { node = "/dev/../x" }', 3, 20, "/dev/../x", "path", 'write for example "/dev/kvm"'),
    ('source = { node = "/dev/a/../x" }', 3, 20, "/dev/a/../x", "path", 'write "/dev/x"'),
    ('source = { node = "/dev" }', 3, 20, "/dev", "path", 'write for example "/dev/kvm"'),
    ('source = { node = "/dev/" }', 3, 20, "/dev/", "path", 'write for example "/dev/kvm"'),
    ('source = { node = "/" }', 3, 20, "/", "path", 'write for example "/dev/kvm"'),
    ('source = { node = "../kvm" }', 3, 20, "../kvm", "path", 'write for example "/dev/kvm"'),
    ('source = { node = "" }', 3, 19, '""', "path", 'write for example "/dev/kvm"'),
    (
        NODE + 'give.nodes.a = { path = "/dev/a", to = "../../x" }',
        4,
        41,
        "../../x",
        "path",
        'write for example "/dev/x"',
    ),
    (NODE + 'give.nodes.a = { path = "/dev/a", to = "/dev/../x" }', 4, 41, "/dev/../x", "path", 'write "/x"'),
    (
        NODE + 'give.nodes.a = { path = "/dev/..", to = "/dev/x" }',
        4,
        26,
        "/dev/..",
        "path",
        'write for example "/dev/x"',
    ),
    ('source = { node = "/tmp/x" }', 3, 20, "/tmp/x", "path", 'write "/dev/x"'),
    ('source = { node = "/dev//x" }', 3, 20, "/dev//x", "path", 'write "/dev/x"'),
    ("source = { node = [] }", 3, 19, "[]", "type", 'write for example "/dev/kvm"'),
    ('source = { dir = "/dev/dri" }', 3, 19, "/dev/dri", "path", 'write { node = "/dev/dri" }'),
    ('source = { dir = "/etc/*" }', 3, 19, "/etc/*", "path", 'write for example "/sys/class/npu/npu*"'),
    ('source = { dir = ["/sys/a", "/sys/**/b"] }', 3, 35, "**", "glob", None),
    ("source = { dir = [] }", 3, 18, "[]", "type", 'write for example "/sys/class/npu/npu*"'),
    ("source = { fixed = [3] }", 3, 21, "3", "type", 'write for example "slot-a"'),
    ('source = { fixed = ["a", "b", "a"] }', 3, 31, '"a"', "twice", "leave one of them out"),
    ('source = { node = ["/dev/a", "/dev/a"] }', 3, 30, '"/dev/a"', "twice", "leave one of them out"),
    ('source = { fixed = ["a", ""] }', 3, 26, '""', "type", 'write for example "slot-a"'),
    ('source = { node = "/dev/x", every = 5 }', 3, 37, "5", "type", 'write for example "5s"'),
    ('source = { kind = "pci", every = "10ms" }', 3, 34, '"10ms"', "type", 'write for example "5s"'),
    ('source = { every = "5s" }', 3, 10, '{ every = "5s" }', "type", 'write for example source = "pci"'),
    ('source = "dir"', 3, 11, "dir", "type", "write { dir = … }"),
    ("source = { node = 3 }", 3, 19, "3", "type", 'write "3"'),
    # Clauses.
    (PCI + "match.vendor = 8086", 4, 16, "8086", "hex-id", 'write "8086"'),
    (PCI + 'match.vendor = ["8086", 1234]', 4, 25, "1234", "hex-id", 'write "1234"'),
    (PCI + 'match.vendor = "intel"', 4, 16, '"intel"', "hex-id", 'write for example "10de"'),
    (PCI + 'match.address = "3b"', 4, 17, '"3b"', "hex-id", 'write for example "0000:3b:00.0" or "3b:00.0"'),
    (PCI + 'match.modalias = "x"', 4, 7, "modalias", "unknown-word", 'if a file says it, let.modalias = "./modalias"'),
    (PCI + 'id = "{parent.wwid}"', 4, 15, "wwid", "unknown-word", 'if a file says it, let.wwid = "parent/wwid"'),
    (PCI + 'match.vendro = "8086"', 4, 7, "vendro", "unknown-word", "nearest: vendor"),
    (PCI + 'match = { pf.netdev.nmae = "x" }', 4, 21, "nmae", "unknown-word", "nearest: name"),
    (PCI + 'match = { driver.liek = "x" }', 4, 18, "liek", "unknown-word", "nearest: like"),
    (PCI + 'match = { driver = { not = { liek = "x" } } }', 4, 30, "liek", "unknown-key", "nearest: like"),
    (PCI + 'match = { "pf.driver" = "x" }', 4, 11, '"pf.driver"', "type", "write pf.driver, without quotes"),
    (PCI + 'match = { "qat/state" = "x" }', 4, 11, '"qat/state"', "unknown-word", 'write "./qat/state"'),
    (PCI + 'match = { "/etc/x" = "x" }', 4, 11, '"/etc/x"', "unknown-word", ""),
    (PCI + 'match = { "/sys/../etc/x" = "x" }', 4, 11, '"/sys/../etc/x"', "path", 'write for example "/sys/class/…"'),
    (PCI + 'match = { "/sys/a/../x" = "x" }', 4, 11, '"/sys/a/../x"', "path", 'write "/sys/x"'),
    (PCI + 'match = { pf = { "/sys/x" = "x" } }', 4, 18, '"/sys/x"', "path", "write it outside"),
    (PCI + 'match = { "./[a" = "x" }', 4, 11, '"./[a"', "glob", None),
    (PCI + 'match = { "./a" = "x", "././a" = "y" }', 4, 24, '"././a"', "type", "make one of both"),
    (PCI + "match.is_vf = 1", 4, 15, "1", "type", "write true or false, without quotes"),
    (PCI + 'match.vf_index = "3"', 4, 18, '"3"', "type", "write 3, without quotes"),
    (PCI + "match.driver = 3", 4, 16, "3", "type", 'write "3"'),
    (PCI + "match.driver = 3.5", 4, 16, "3.5", "type", 'write "3.5"'),
    (PCI + "match.driver = []", 4, 16, "[]", "type", "write one value at least"),
    (PCI + "match.driver = {}", 4, 16, "{}", "type", 'write for example = "x"'),
    (PCI + "match = 'x'", 4, 9, "'x'", "type", "write match = { … }"),
    (PCI + "match = { not = 'x' }", 4, 11, "not", "type", "write WORD = { not = … }"),
    (
        PCI + "match.pf = { not = 'x', driver = 'y' }",
        4,
        25,
        "driver",
        "type",
        "write pf.driver = … on a line of its own",
    ),
    (PCI + 'match.driver = { has = "x" }', 4, 18, "has", "type", 'write = "x"'),
    (PCI + "match.driver = { exists = 'yes' }", 4, 27, "'yes'", "type", "write true"),
    (PCI + "match.class = { like = '02*' }", 4, 17, "like", "type", 'write = "02"'),
    (PCI + "match.driver = { like = 3 }", 4, 25, "3", "type", 'write "3"'),
    (PCI + "match.driver = { like = 'a[' }", 4, 27, "[", "glob", None),
    (PCI + "match.driver = 'x{pf.driver}'", 4, 18, "{pf.driver}", "text", "compare two words by a join's on"),
    (PCI + 'match.host.modules = "vfio"', 4, 22, '"vfio"', "type", 'write { has = "vfio" }'),
    (PCI + 'exclude = { driver = "x" }', 4, 22, '"x"', "type", "an exclusion has a name: exclude.NAME = { … }"),
    (PCI + "exclude.a = {}", 4, 9, "a", "type", "take it out, or say what it excludes"),
    (PCI + "exclude.a = false", 4, 9, "a", "nothing-to-take-out", "leave it out"),
    (PCI + "match = false", 4, 1, "match", "nothing-to-take-out", "leave it out"),
    # Ids.
    (PCI + "id = 5", 4, 6, "5", "type", 'write "5"'),
    (PCI + "id = []", 4, 6, "[]", "type", 'write for example "{pci.address}"'),
    (PCI + 'id = "{addres}"', 4, 8, "addres", "unknown-word", "nearest: address"),
    (PCI + 'id = "{address"', 4, 7, "{address", "text", 'a literal brace is "{{"'),
    (PCI + 'id = "{address|lowr}"', 4, 7, "{address|lowr}", "text", "write for example {address|lower}"),
    (PCI + 'id = "{./x}"', 4, 7, "{./x}", "text", 'let.x = "./x", and write {x} here'),
    (PCI + 'id = "{n}"', 4, 8, "n", "unknown-word", "device-agent scan --words pci shows its words"),
    (PCI + 'id = "{nodes}"', 4, 7, "{nodes}", "type", "make it a word of one value, by let"),
    (PCI + 'id = "card"', 4, 7, "card", "differs-between-devices", 'write "card-{address}"'),
    (PCI + 'id = "{address}-{iommu.group}"', 4, 17, "{iommu.group}", "unstable-id", 'write "{address}"'),
    ('source = "net"\nid = "{name}"', 4, 7, "{name}", "unstable-id", 'write "{pci.address}-net"'),
    (
        'source = "usb"\nid = "{port}"',
        *(4, 7, "{port}", "unstable-id", 'write for example "{path_id}", and this after it'),
    ),
    (
        TTY + 'id = "{usb.hub}-{serial}"\nlet.serial = "usb.serial"',
        *(4, 7, "{usb.hub}", "unstable-id", 'write for example "{usb.parent.path_id}", and this after it'),
    ),
    ('source = "usb"\nid = "{devnum}"', 4, 7, "{devnum}", "unstable-id", None),
    ('source = "infiniband"\nid = "{uverbs}"', 4, 7, "{uverbs}", "unstable-id", None),
    ('source = { subsystem = "npu" }\nid = "{name}"', 4, 7, "{name}", "unstable-id", 'write for example "{path_id}"'),
    ('source = { node = "/dev/ttyUSB*" }', 3, 20, "/dev/ttyUSB*", "unstable-id", 'write for example id = "{path_id}"'),
    ('source = { subsystem = "npu" }', 1, 1, "[[resource]]", "missing", 'write for example id = "{path_id}"'),
    # Shares.
    (PCI + 'replicas = "many"', 4, 12, '"many"', "type", "write for example 4"),
    (PCI + "replicas = 0", 4, 12, "0", "type", "write for example 4"),
    (PCI + "replicas = true", 4, 12, "true", "type", "write for example 4"),
    (PCI + "replicas = { count = 0 }", 4, 22, "0", "type", "write for example 4"),
    (PCI + "replicas = 120000", 4, 12, "120000", "list-size", "at most 119837"),
    (PCI + "replicas = 70000", 4, 12, "70000", "list-size", "write at most 61680, or make a resource of each device"),
    # Nodes.
    (NODE + 'give.nodes.x = { pth = "/dev/x" }', 4, 18, "pth", "unknown-key", "nearest: path"),
    (NODE + 'give.nodes.x = { to = "/dev/x" }', 4, 12, "x", "missing", 'write path = "{node}"'),
    (NODE + 'give.nodes = "x"', 4, 14, '"x"', "type", "each has a name: give.nodes.NAME = …"),
    (NODE + 'give.nodes."a b" = "/dev/x"', 4, 12, '"a b"', "type", "write for example my-part"),
    (NODE + 'give = "x"', 4, 8, '"x"', "type", "write give = { … }"),
    (NODE + 'give.nodes.x = "dev/x"', 4, 17, "dev/x", "path", 'write "/dev/x"'),
    (NODE + 'give.nodes.x = "/dev/../x"', 4, 17, "/dev/../x", "path", 'write "/x"'),
    (NODE + 'give.nodes.x = "/dev/x/"', 4, 17, "/dev/x/", "path", 'write "/dev/x"'),
    (NODE + 'give.nodes.x = "{name}"', 4, 17, "{name}", "path", 'write "/dev/{name}"'),
    (NODE + 'give.nodes.x = "/dev{node}"', 4, 21, "{node}", "path", 'write "{node}"'),
    (NODE + 'give.nodes.x = "/dev/{n}"', 4, 23, "n", "unknown-word", "device-agent scan --words node shows its words"),
    (NODE + 'give.nodes.x = "/dev/x*"', 4, 23, "*", "glob", 'write source = { node = "/dev/x*" }, and path = "{node}"'),
    (
        NODE + 'give.nodes.x = "/dev/{major_minor}"',
        4,
        23,
        "major_minor",
        "unknown-word",
        'write it in "to", or a word of the device',
    ),
    (
        NODE + 'give.env.X = "{major_minor}"',
        4,
        16,
        "major_minor",
        "unknown-word",
        'write it in "to", or a word of the device',
    ),
    (NODE + 'give.nodes.x = ""', 4, 16, '""', "text", "write it, or take the key out"),
    (NODE + 'give.nodes.x = { path = "{node}", to = [] }', 4, 40, "[]", "type", "leave to out, or write a path"),
    (NODE + 'give.nodes.x = { path = "{node}", to = "./x" }', 4, 41, "./x", "path", 'write "/x"'),
    (NODE + 'give.nodes.x = { path = "{node}", permissions = "rwx" }', 4, 50, "rwx", "permissions", None),
    (NODE + 'give.nodes.x = { path = "{node}", permissions = "rr" }', 4, 50, "rr", "permissions", 'write "r"'),
    (NODE + 'give.nodes.x = { path = "{node}", permissions = "" }', 4, 49, '""', "permissions", None),
    (NODE + 'give.nodes.x = { path = "{node}", permissions = 6 }', 4, 49, "6", "type", 'write "rw"'),
    (NODE + 'give.nodes.x = { path = "{node}", optional = "no" }', 4, 46, '"no"', "type", "write true"),
    (
        NODES + 'give.nodes.x = { path = "{node}", to = "/dev/x" }',
        *(4, 41, "/dev/x", "differs-between-devices", 'write "/dev/x{n}"'),
    ),
    (
        NODES + 'give.nodes.x = { path = "{nodes}", to = "/dev/x" }',
        *(4, 42, "/dev/x", "differs-between-devices", 'write "/dev/": they keep their names'),
    ),
    # Variables.
    (NODES + 'give.env.A = "{name}"', 4, 15, "{name}", "differs-between-devices", 'add join = ","'),
    (NODES + 'give.env.A = "{n}"', 4, 15, "{n}", "differs-between-devices", 'add join = ","'),
    (NODE + 'give.env.A = "{nodes}"', 4, 15, "{nodes}", "differs-between-devices", 'add join = ","'),
    (NODE + 'give.env.A-B = "x"', 4, 10, "A-B", "env-name", 'write "A_B"'),
    (NODE + 'give.env.1A = "x"', 4, 10, "1A", "env-name", 'write "_1A"'),
    (NODE + 'give.env.A = { value = "x", name = "{name}" }', 4, 37, "{name}", "env-name", "write {name|env}"),
    (NODE + 'give.env.A = { value = "x", name = "{n}_A" }', 4, 37, "{n}_A", "env-name", "write for example DEVICE_{n}"),
    (NODE + 'give.env.A = { value = "x", join = 1 }', 4, 36, "1", "type", 'write ","'),
    (NODE + "give.env.A = 5", 4, 14, "5", "type", 'write "5"'),
    (NODE + 'give.env.A = "a\\u0007"', 4, 14, '"a\\u0007"', "text", "take it out"),
    (NODE + 'give.env.A = { name = "B" }', 4, 10, "A", "missing", 'write value = "…"'),
    (NODE + 'give.env.A = "{given.tyt}"\ngive.nodes.tty = "{node}"', 4, 16, "given.tyt", "unknown-word", None),
    (NODE + 'give.env = { A = "x", B = { name = "A", value = "y" } }', 4, 36, '"A"', "duplicate-name", None),
    # Mounts.
    (NODE + "give.mounts.a = { to = '/x' }", 4, 13, "a", "missing", 'write path = "/…"'),
    (NODE + "give.mounts.a = 'opt/a'", 4, 18, "opt/a", "path", 'write "/opt/a"'),
    (NODE + "give.mounts.a = '/opt/**'", 4, 23, "**", "glob", None),
    (NODE + "give.mounts.a = '/opt/{name}/x[0-9'", 4, 31, "[0-9", "glob", None),
    (
        NODE + "give.mounts.a = '/opt/{name}/**'",
        4,
        30,
        "**",
        "glob",
        'write "/opt/{name}/*", or a list with one pattern for each depth',
    ),
    (NODE + "give.mounts.a = '/opt/{nmae}'", 4, 24, "nmae", "unknown-word", "nearest: name"),
    (NODE + "give.mounts.a = '/opt/{n}'", 4, 24, "n", "unknown-word", "device-agent scan --words node shows its words"),
    (
        NODE + "give.mounts.a = { path = '/opt/*.so', to = '/lib/a' }",
        4,
        45,
        "/lib/a",
        "differs-between-devices",
        'write "/lib/": they keep their names',
    ),
    (
        NODES + "give.mounts.a = { path = '/opt/{name}', to = '/lib/a' }",
        4,
        47,
        "/lib/a",
        "differs-between-devices",
        'write "/lib/a{n}"',
    ),
    (NODE + "give.mounts.a = { path = '/opt/a', to = ['/b', 'c'] }", 4, 49, "c", "path", 'write "/c"'),
    # Annotations.
    (NODE + 'give.annotations.a = { name = "b" }', 4, 18, "a", "missing", 'write value = "…"'),
    (NODES + 'give.annotations.a = "{name}"', 4, 23, "{name}", "differs-between-devices", 'add join = ","'),
    (
        NODE + 'give.annotations.a = { value = "x", name = "io.kubernetes.a" }',
        4,
        45,
        "io.kubernetes.a",
        "annotation-key",
        "take another key",
    ),
    (
        NODE + 'give.annotations.a = { value = "x", name = "cdi.k8s.io/a" }',
        4,
        45,
        "cdi.k8s.io/a",
        "annotation-key",
        'give.cdi.NAME = { via = "annotation", … }',
    ),
    (NODE + 'give.annotations.a = { value = "x", name = "a/b/c" }', 4, 45, "a/b/c", "annotation-key", None),
    (
        NODE + 'give.annotations.a = { value = "x", name = "{name}-x" }',
        4,
        45,
        "{name}-x",
        "annotation-key",
        'write "example.com/{name}-x"',
    ),
    (NODE + 'give.annotations = { a = "x", b = { name = "a", value = "y" } }', 4, 44, '"a"', "duplicate-name", None),
    # What is given on a condition.
    (NODE + "give.nodes.x = { path = '/dev/x', when = {} }", 4, 35, "when", "type", "take it out, or say when"),
    (NODE + "give.cdi.x = { name = 'a.b/c=d', when.nmae = 'x' }", 4, 39, "nmae", "unknown-word", "nearest: name"),
    (NODE + "give.env.X = { value = 'x', when.given.y = '/a' }", 4, 40, "y", "unknown-word", ""),
    (NODE + "give.env.X = { value = 'x', when.asked = 'x' }", 4, 42, "'x'", "type", None),
    (NODE + "match.asked = 1", 4, 7, "asked", "unknown-word", "device-agent scan --words node shows its words"),
    (NODE + "let.x.holds.asked = 1", 4, 13, "asked", "unknown-word", "device-agent scan --words node shows its words"),
    (
        NODE + "let.x.holds.asked = 1\ngive.env.A = { value = 'x', when.x = true }",
        *(4, 13, "asked", "unknown-word", "device-agent scan --words node shows its words"),
    ),
    (NODE + "give.also.a.nodes.b = '/dev/b'", 4, 11, "a", "missing", None),
    (NODE + "give.also.a.when.name = 'x'", 4, 11, "a", "missing", "write what it gives, for example nodes.NAME = …"),
    (
        NODE + "give.also.a = { when.name = 'x', nodes.b.to = '/dev/b' }",
        *(4, 40, "b", "missing", 'write path = "{node}"'),
    ),
    (
        NODE + "give = { env.X = '1', also.a = { when.name = 'x', env.X = '2' } }",
        *(4, 59, "'2'", "duplicate-name", "take another option, or another name"),
    ),
    # JSON.
    (NODE + "give.env.X.json = {}", 4, 12, "json", "type", "write what the object has in it"),
    (NODE + "give.env.X.json = { a = '{nmae}' }", 4, 27, "nmae", "unknown-word", "nearest: name"),
    (NODE + "give.env.X.json = { a = [1, { b = '{nmae}' }] }", 4, 37, "nmae", "unknown-word", "nearest: name"),
    (NODE + "give.env.X.json = { '{name}' = 1 }", 4, 21, "'{name}'", "text", "key makes a member for each device"),
    (NODE + "give.env.X.json = { a = 1979-05-27 }", 4, 25, "1979-05-27", "type", "write it as text"),
    (NODE + "give.env.X.json = { a = nan }", 4, 25, "nan", "type", "write it as text"),
    (
        NODES + "give.env.X.json = { a = '{name}' }",
        *(4, 12, "json", "differs-between-devices", 'add key = "{id}": one object, with a member for each device'),
    ),
    (
        NODES + "give.env.X = { key = 'x', json.a = '{name}' }",
        *(4, 23, "x", "differs-between-devices", 'write key = "{id}"'),
    ),
    (NODES + "give.env.X = { key = '{name}', json.a = '1', join = ',' }", 4, 46, "join", "type", "leave it out"),
    (NODE + "give.env.X = { key = '{name}', value = '1' }", 4, 16, "key", "type", None),
    # CDI devices.
    (NODE + "give.cdi.a = { via = 'field' }", 4, 10, "a", "missing", 'write name = "vendor/class=device"'),
    (NODE + "give.cdi.a = 'gpu=0'", 4, 15, "gpu=0", "cdi-name", 'write for example "example.com/card={name}"'),
    (NODE + "give.cdi.a = 'a.com/gpu={nmae}'", 4, 26, "nmae", "unknown-word", "nearest: name"),
    (
        NODE + "give.cdi.a = 'a.com/gpu={id}'",
        4,
        26,
        "id",
        "unknown-word",
        "device-agent scan --words node shows its words",
    ),
    # What is left.
    (NODE + 'registration = "sockt"', 4, 16, '"sockt"', "type", 'write "socket"'),
    (NODE + "about = 3", 4, 9, "3", "type", 'write "…"'),
    (NODE + "part = 3", 4, 8, "3", "type", "write true"),
    (NODE + "accept.unstable-ids = 'why'", 4, 8, "unstable-ids", "unknown-key", "nearest: unstable-id"),
    (NODE + "accept.unstable-id = true", 4, 22, "true", "type", 'write "why"'),
    (NODE + "accept = 'x'", 4, 10, "'x'", "type", None),
    ('class = "kvmm"', 3, 10, "kvmm", "unknown-class", 'nearest: "kvm"'),
    ('class = "../kvm"', 3, 10, "../kvm", "unknown-class", None),
    ("class = 3", 3, 9, "3", "type", 'write for example "tty"'),
    (NODE + 'uses = "node"', 4, 8, '"node"', "type", 'write ["node"]'),
    (NODE + 'uses = ["node", "nod"]', 4, 18, "nod", "unknown-class", 'nearest: "node"'),
]


@pytest.mark.parametrize(("lines", "line", "column", "marked", "code", "write"), ONE, ids=[row[0] for row in ONE])
def test_one_mistake(configure, lines, line, column, marked, code, write):
    found = configure({"resources.d/a.toml": HEAD + lines + "\n"}).findings
    assert len(found) == 1, found
    (finding,) = found
    assert (finding.file, finding.line, finding.code) == ("resources.d/a.toml", line, code)
    source = (HEAD + lines).splitlines()[line - 1]
    assert finding.source_line == source
    assert (finding.column, marked_by(finding)) == (column, marked)
    if write is not None:
        assert finding.write == write


NAMES = [
    ("foo", "foo", 'write for example "example.com/foo"'),
    ("kubernetes.io/foo", "kubernetes.io/", 'write for example "example.com/foo"'),
    ("a.kubernetes.io/b", "kubernetes.io/", 'write for example "example.com/b"'),
    ("requests.example.com/foo", "requests.", "leave it out"),
    ("Example.com/foo", "Example.com", 'write "example.com"'),
    ("example.com/foo/bar", "/", "write one of - _ . instead"),
    ("example.com/-x", "-x", 'write "x"'),
    ("example.com/", "example.com/", 'write for example "gpu"'),
    ("example.com/" + "x" * 64, "x" * 64, ""),
    ("a" * 245 + "/x", "a" * 245, ""),
    ("exa_mple.com/x", "exa_mple.com", 'write "exa-mple.com"'),
    ("/x", "/", 'write for example "example.com"'),
    ("example.com/a b", "a b", 'write "a-b"'),
]


@pytest.mark.parametrize(("name", "marked", "write"), NAMES)
def test_a_name_that_the_kubelet_refuses(configure, name, marked, write):
    text = f'[[resource]]\nname = "{name}"\n{NODE}'
    (finding,) = configure({"resources.d/a.toml": text}).findings
    assert (finding.line, finding.code, finding.write) == (2, "resource-name", write)
    assert marked_by(finding) == marked


@pytest.mark.parametrize("name", ["example.com/foo_bar.baz-1", "example.com/FOO", "nodot/x", "a" * 244 + "/x"])
def test_a_name_that_the_kubelet_takes(configure, name):
    found = configure({"resources.d/a.toml": f'[[resource]]\nname = "{name}"\n{NODE}'})
    assert not found.findings
    assert found.resources[0].name == name


def test_ten_mistakes_in_one_run_in_file_order(configure):
    found = configure(
        {
            "resources.d/cam.toml": '[[resource]]\nname = "lab.example/cam"\n[resource.give.nodes.cam]\n'
            "path  = /dev/video*\n",
            "resources.d/lab.toml": (
                "[[resource]]\n"
                'name  = "Example.com/gpu"\n'
                'class = "nvidia-gpus"\n'
                'replicas = "many"\n'
                "[[resource]]\n"
                'name = "lab.example/serial"\n'
                'source = "pci"\n'
                'permision = "rw"\n'
                'id = "{addres}"\n'
                "match = { vendor = 7523 }\n"
                'give.nodes = { x = { path = "/dev/x", permissions = "rwx" } }\n'
                "[[resource]]\n"
                'name = "lab.example/serial"\n'
                'source = { node = ["/dev/tty[AU*"] }\n'
            ),
        }
    ).findings
    assert [(finding.line, finding.column, finding.code) for finding in found] == [
        (4, 9, "toml"),
        (2, 10, "resource-name"),
        (3, 10, "unknown-class"),
        (4, 12, "type"),
        (8, 1, "unknown-key"),
        (9, 8, "unknown-word"),
        (10, 20, "hex-id"),
        (11, 54, "permissions"),
        (13, 9, "duplicate-name"),
        (14, 29, "glob"),
    ]
    assert all(finding.severity is Severity.ERROR for finding in found)
    assert "resources.d/lab.toml:6" in found[8].message


def test_what_only_follows_is_not_printed(configure):
    text = (
        '[[resource]]\nname = "example.com/x"\nsorce = "pci"\n'  # no source: because of its key
        '[[resource]]\nname = "example.com/y"\nsource = { nod = "x" }\nid = "{a}"\nmatch.a = "x"\n'  # none
        '[[resource]]\nname = "example.com/z"\nsource = "pci"\njoin.a.class = "b"\nid = "{a.b}"\n'
        'match.a.b = "x"\ngive.nodes.a = "{a.b}"\ngive.env.A = "{a.b}"\n'  # no such word: because of join
    )
    found = configure({"resources.d/a.toml": text}).findings
    assert [(finding.line, finding.code) for finding in found] == [
        (3, "unknown-key"),
        (6, "unknown-key"),
        (12, "unknown-class"),
    ]


@pytest.mark.parametrize(
    ("text", "line", "column", "code"),
    [
        ("[resource]\nname = 'a/b'\n", 1, 1, "type"),
        ("resource = 1\n", 1, 12, "type"),
        ("resource = [1]\n", 1, 12, "type"),
        ("[[resources]]\n", 1, 3, "unknown-key"),
        ("[[resource]]\nname = 'a/b'\n", 1, 1, "missing"),
        ("[[resource]]\nsource = 'pci'\n", 1, 1, "missing"),
        ("[[resource]]\nname = 5\nsource = 'pci'\n", 2, 8, "type"),
        ("[[resource]]\nname = 'a/{b}'\nsource = 'pci'\n", 2, 12, "unknown-word"),
        ("x = \n", 1, 4, "toml"),
        ("resource = [{ match = " + "{ a = " * 40 + "1" + " }" * 41 + "]\n", 1, 1, "type"),
    ],
)
def test_a_file_that_is_no_list_of_resources(configure, text, line, column, code):
    found = configure({"resources.d/a.toml": text}).findings
    assert [(finding.line, finding.column, finding.code) for finding in found] == [(line, column, code)]


def test_accepted_warnings_are_silent_and_errors_are_not(configure):
    text = HEAD + 'source = "pci"\nid = "{address}-{iommu.group}"\nreplicas = 70000\n'
    accepted = text + 'accept = { unstable-id = "one boot", list-size = "one card" }\n'
    assert [finding.code for finding in configure({"resources.d/a.toml": text}).findings] == [
        "unstable-id",
        "list-size",
    ]
    assert configure({"resources.d/a.toml": accepted}).findings == ()
    too_many = accepted.replace("70000", "700000")
    assert [finding.code for finding in configure({"resources.d/a.toml": too_many}).findings] == ["list-size"]


@pytest.mark.parametrize(
    "id_", ['["{path_id}", "{port}"]', '["{serial}", "x-{parent.path_id}", "{hub}"]', '"{path_id}"']
)
def test_a_port_may_stand_after_a_place(configure, id_):
    assert configure({"resources.d/a.toml": f'{HEAD}source = "usb"\nid = {id_}\n'}).findings == ()


def test_an_own_word_is_not_taken_for_what_has_its_name_elsewhere(configure):
    text = HEAD + 'source = "pci"\nlet.bus = "./bus_id"\nid = "{bus}"\n'
    assert configure({"resources.d/a.toml": text}).findings == ()


def test_the_most_shares_fit_the_list_and_one_more_does_not(configure):
    text = HEAD + 'source = { node = "/dev/kvm" }\nreplicas = %d\n'
    (finding,) = configure({"resources.d/a.toml": text % 1_000_000}).findings
    most = int(finding.write.removeprefix("at most "))
    assert configure({"resources.d/a.toml": text % most}).findings == ()
    assert configure({"resources.d/a.toml": text % (most + 1)}).findings != ()


def test_a_class_takes_others_in_by_uses(configure):
    (finding,) = configure({"classes/c.toml": 'about = "x"\nclass = "node"\n'}).findings
    assert (finding.line, finding.code, finding.write) == (2, "unknown-key", "a class takes others in by uses")
