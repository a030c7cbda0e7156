"""The meaning and the default of each key of the language, for the reference, for editors and for users."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Meaning(NamedTuple):
    """The meaning of a key, and its default in TOML form. The default is empty if there is none."""

    text: str
    default: str = ""


_GIVEN: Mapping[str, Meaning] = {
    "nodes": Meaning("device nodes", "{}"),
    "mounts": Meaning("files and directories of the host", "{}"),
    "env": Meaning("environment variables", "{}"),
    "annotations": Meaning("annotations of the container, for runtimes that read them", "{}"),
    "cdi": Meaning("CDI devices, by name", "{}"),
    "vfio": Meaning("the nodes by which VFIO hands out this function; true, or its backend"),
    "rdma": Meaning("the RDMA nodes of this adapter; true, or a table"),
}
_WHEN = Meaning("a clause: only then")
_PROGRAM: Mapping[str, Meaning] = {
    "run": Meaning("the program and its arguments, never a shell"),
    "timeout": Meaning("how long it may take", '"5s"'),
    "when": _WHEN,
    "optional": Meaning("the program need not be on the host", "false"),
}
_VARIABLE: Mapping[str, Meaning] = {
    "value": Meaning("the text"),
    "name": Meaning("its name, if that has words in it", "NAME"),
    "join": Meaning("what stands between the values of several devices; equal ones are said once"),
    "json": Meaning("instead of value: a table that is written as JSON; what is absent is left out"),
    "key": Meaning("with json: one object, with a member of this name for each device"),
    "when": _WHEN,
}
_SENTENCE: Mapping[str, Meaning] = {
    "about": Meaning("a line for people; a class has one"),
    "name": Meaning("the extended resource, domain/name; with words in it one entry makes several"),
    "adds_to": Meaning("instead of name: its devices go to the resource of an earlier entry"),
    "uses": Meaning("classes that are merged in, left to right", "[]"),
    "part": Meaning("of a class: not for itself, only for others to use", "false"),
    "source": Meaning("where devices are looked for"),
    "let": Meaning("words of one's own", "{}"),
    "join": Meaning("other devices that belong to this one, each a relation by its name", "{}"),
    "match": Meaning("a clause: which are taken", "{}"),
    "exclude": Meaning("named clauses, asked before match: which are not", "{}"),
    "wait": Meaning("named clauses: while one holds, the device is not offered yet", "{}"),
    "gate": Meaning("named clauses about the host: until all hold, nothing is offered", "{}"),
    "group": Meaning("several host devices as one device"),
    "id": Meaning("what a device is known as: a text, or a list of texts of which the first is taken that can be said"),
    "replicas": Meaning("in how many shares each device is offered", "1"),
    "slots": Meaning("instead: shares of the whole, each of which gives everything"),
    "limit": Meaning("what one container may ask for", "{}"),
    "moves_into_pod": Meaning("a device that is granted and gone from the host is not Unhealthy for that", "false"),
    "options": Meaning("what a class asks of its user; in an entry the answers", "{}"),
    "give": Meaning("what a container gets", "{}"),
    "health": Meaning("named checks: healthy while all hold", "{}"),
    "topology": Meaning('the word that says the NUMA node, "none", or a list of nodes', '"numa"'),
    "prefer": Meaning("rules for choosing among free devices; the first decides, the next breaks ties", "[]"),
    "links": Meaning("what connects devices, for prefer", "{}"),
    "prepare": Meaning("named programs, run on the host before the gate is asked", "{}"),
    "prestart": Meaning("named programs, run before a container starts", "{}"),
    "probe": Meaning("named programs that run on and report facts and verdicts", "{}"),
    "expect": Meaning("how many devices there should be; fewer are a warning"),
    "registration": Meaning('"socket" (Register) or "watcher" (plugin directory)', "that of agent.toml"),
    "accept": Meaning("warnings that are meant, each with the reason", "{}"),
}

MEANINGS: Mapping[str, Mapping[str, Meaning]] = MappingProxyType(
    {
        "file": {"resource": Meaning("the entries, each under [[resource]]")},
        "entry": {**_SENTENCE, "class": Meaning("the device class whose keys this entry takes over")},
        "class": _SENTENCE,
        "source": {
            "kind": Meaning("pci, usb, net, infiniband, drm, auxiliary or mdev: every device of that kind"),
            "subsystem": Meaning("every device of a class or bus of the kernel"),
            "node": Meaning("device nodes below /dev that fit a pattern, or one of a list"),
            "dir": Meaning("directories below /sys or /proc that fit a pattern, or one of a list"),
            "fixed": Meaning("these names, always there"),
            "every": Meaning("look again so often, where no event tells", "the sweep"),
        },
        "let": {
            "read": Meaning("what a word or path says; of a glob the one file that fits"),
            "first_of": Meaning("the first of these that is there"),
            "read_all": Meaning("the list of what all files say that fit"),
            "names_of": Meaning("the list of the names of all that fits"),
            "name_of": Meaning("the name of the one that fits"),
            "field": Meaning("a field of the file `of`: lines key: value, key = value, key value"),
            "take": Meaning("the piece at the brace of a pattern, out of the word `of`"),
            "by": Meaning("a word that is looked up in `map`"),
            "text": Meaning("a text with words in it; absent if one of them is"),
            "holds": Meaning("whether a clause holds"),
            "kfd_address": Meaning("the PCI address in KFD's domain and location_id"),
            "bits": Meaning("bits of the number `of`, side by side"),
            "base64url": Meaning("the bytes of hexadecimal texts, in base64url"),
            "place_in": Meaning("how many of a list come before the word `of`, in the order of their type"),
            "probe": Meaning("what a probe reports as `field`"),
            "of": Meaning("the word or file that the verb works on"),
            "map": Meaning("for by: key or pattern to value; the exact key first, then the longest pattern"),
            "type": Meaning("its type", '"text"'),
            "else": Meaning("the value where there is none; for by: where no key fits"),
            "if_absent": Meaning("for by: the value where the word itself is absent"),
        },
        "join": {
            "source": Meaning("its devices are those of this source"),
            "dir": Meaning("its devices are the directories that fit"),
            "class": Meaning("its devices are those of this class, with its words"),
            "resource": Meaning("its devices are those of the entry with this name, with its words"),
            "on": Meaning("pairs of words that are equal: theirs = ours"),
            "match": Meaning("a clause about it", "{}"),
            "let": Meaning("words of its own", "{}"),
            "optional": Meaning("none is no reason to wait", "false"),
        },
        "group": {
            "by": Meaning("a word, or several: what is equal in one of them goes together"),
            "claims": Meaning('"all": others with the same value come along and go nowhere else', '"matched"'),
            "parts": Meaning("named clauses: one of each makes a device, each a relation by its name", "{}"),
        },
        "replicas": {
            "count": Meaning("how many shares", "1"),
            "by": Meaning("a word that says it, through map"),
            "map": Meaning("value of the word to number of shares"),
            "else": Meaning("the number where no key fits"),
            "suffix": Meaning("what stands between the id and the number of the share", '"::"'),
        },
        "slots": {"count": Meaning("how many"), "id": Meaning("a text with {n} in it")},
        "limit": {
            "per_container": Meaning("at most so many in one container"),
            "distinct": Meaning("never two shares of one device in one container", "false"),
        },
        "options": {
            "about": Meaning("what is asked, for people"),
            "one_of": Meaning("the answers, of which one is given"),
            "some_of": Meaning("the answers, of which any are given"),
            "type": Meaning("the type of the answer"),
            "default": Meaning("the answer where an entry gives none"),
            "value": Meaning("in an entry: the answer"),
        },
        "give": {
            **_GIVEN,
            "devinfo": Meaning("what stands in the device-information file that CNI plugins read"),
            "also": Meaning("named tables of the same, each with its when", "{}"),
            "via": Meaning("how it reaches the container: kubelet, or a CDI spec that is written for it", '"kubelet"'),
        },
        "give.also": {**_GIVEN, "when": _WHEN},
        "give.nodes": {
            "path": Meaning("the node on the host"),
            "to": Meaning("the path in the container, or several; one that ends in / keeps the file's name", "path"),
            "permissions": Meaning("letters of r, w, m", '"rw"'),
            "optional": Meaning("it need not be there", "false"),
            "when": _WHEN,
        },
        "give.mounts": {
            "path": Meaning("a file or directory of the host, or a pattern"),
            "to": Meaning("the path in the container, or several; one that ends in / keeps the name", "as on the host"),
            "read_only": Meaning("it cannot be written to", "false"),
            "optional": Meaning("it need not be there", "false"),
            "when": _WHEN,
        },
        "give.env": _VARIABLE,
        "give.annotations": _VARIABLE,
        "give.cdi": {
            "name": Meaning("the full name of a CDI device, vendor/class=device"),
            "via": Meaning("how the runtime is told: field or annotation", '"field"'),
            "unchecked": Meaning("it is given whether or not a spec on the host has it", "false"),
            "when": _WHEN,
        },
        "give.vfio": {
            "backend": Meaning("auto: iommufd where its node is there, else legacy", '"auto"'),
            "to": Meaning("the path of the group's node in the container", '"/dev/vfio/{iommu.group}"'),
            "noiommu": Meaning("functions without an IOMMU are given, too", "false"),
            "permissions": Meaning("letters of r, w, m", '"rw"'),
            "when": _WHEN,
        },
        "give.rdma": {
            "required": Meaning("nodes that have to be there", '["uverbs"]'),
            "optional": Meaning("nodes that are given where they are", '["umad", "issm", "rdma_cm"]'),
            "permissions": Meaning("letters of r, w, m", '"rw"'),
            "when": _WHEN,
        },
        "health": {
            "holds": Meaning("a clause that has to hold"),
            "log": Meaning("a pattern of kernel-log lines: one that fits is a fault"),
            "rises": Meaning("a counter that must not grow"),
            "run": Meaning("a program that has to end with 0"),
            "socket": Meaning("a socket that answers for the device"),
            "of": Meaning("what the service at that socket calls the device", "the service as a whole"),
            "speaks": Meaning("what that service speaks", '"grpc-health"'),
            "probe": Meaning("a probe whose verdict counts"),
            "only": Meaning("a clause over what log took: only these lines count"),
            "ignore": Meaning("a clause over what log took: these lines do not count"),
            "when": Meaning("a clause: whether the check applies"),
            "every": Meaning("look so often; ask so often", 'events and the sweep; of run and socket "30s"'),
            "trip": Meaning('when it fails: "2 looks", "2s", or "3 in 10m"', "1"),
            "recover": Meaning('when it is well again: "2 looks", "30s", or "never"', "1"),
            "latch": Meaning("failing until a person clears it; true, or a clause over what log took", "false"),
            "on_unknown": Meaning("what counts where a word is absent, or nobody answers", '"unhealthy"'),
            "reason": Meaning("the text that is shown", "the test and what was read"),
            "timeout": Meaning("how long run and socket may take", '"2s"'),
        },
        "links": {
            "dir": Meaning("one directory for each link"),
            "file": Meaning("or a file, in which a line for each link says: one, the other, score"),
            "let": Meaning("words of the link; a line has end and score", "{}"),
            "on": Meaning("the word of the link that names the other end, and the word of the device that it names"),
            "cost": Meaning("how far the other end is: a number, or by a word; less is nearer", "of a line the score"),
        },
        "links.cost": {
            "by": Meaning("a word of the link"),
            "map": Meaning("value of the word to cost"),
            "else": Meaning("the cost where no key fits"),
        },
        "prepare": _PROGRAM,
        "prestart": _PROGRAM,
        "probe": {
            "run": Meaning("the program and its arguments, never a shell"),
            "timeout": Meaning("how long it may be silent", '"30s"'),
        },
    }
)
