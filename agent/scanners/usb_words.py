"""Words of a USB device (Documentation/ABI/stable/sysfs-bus-usb, Documentation/ABI/testing/sysfs-bus-usb)."""

from __future__ import annotations

from collections.abc import Callable

from agent.core.language.value import Absent, Value, ValueType
from agent.scanners.common_words import list_devices_below
from agent.scanners.word_table import LookCache, Relation, Word, WordSubject, make_attribute, make_table


def _list_interface_classes(cache: LookCache, subject: WordSubject) -> Value | Absent:
    classes = [
        cache.read_value(ValueType.HEX, f"{subject.directory}/{name}/bInterfaceClass")
        for name in cache.list_names(subject.directory)
        if ":" in name
    ]
    return tuple(dict.fromkeys(value for value in classes if isinstance(value, str)))


def _find_hub(_: LookCache, subject: WordSubject) -> Value | Absent:
    parent = subject.directory.split("/")[-2]
    return parent if parent.startswith("usb") or parent[:1].isdecimal() else Absent("it is a root hub")


def _make_follower(
    subsystem: str, table_name: str = "every"
) -> Callable[[LookCache, WordSubject], tuple[WordSubject, ...]]:
    def follow(cache: LookCache, subject: WordSubject) -> tuple[WordSubject, ...]:
        return tuple(
            WordSubject(table_name, child.name, child.directory, subsystem=subsystem)
            for child in list_devices_below(cache, subject.directory, "")
            if child.subsystem == subsystem
        )

    return follow


def _make_child_relation(name: str, subsystem: str, about: str, table_name: str = "every") -> Relation:
    return Relation(name, table_name, about, "directories below", _make_follower(subsystem, table_name), is_list=True)


USB = make_table(
    "usb",
    make_attribute("vendor", ValueType.HEX, "vendor id", "idVendor"),
    make_attribute("product", ValueType.HEX, "product id", "idProduct"),
    make_attribute("release", ValueType.HEX, "release of the device", "bcdDevice"),
    make_attribute("class", ValueType.HEX, "class of the device", "bDeviceClass"),
    Word(
        "interface_classes",
        ValueType.HEX,
        "classes of its interfaces",
        "*/bInterfaceClass",
        _list_interface_classes,
        is_list=True,
    ),
    make_attribute("serial", ValueType.TEXT, "serial number, from the device"),
    make_attribute("maker", ValueType.TEXT, "manufacturer, from the device", "manufacturer"),
    make_attribute("model", ValueType.TEXT, "product, from the device", "product"),
    Word("port", ValueType.TEXT, "its port, 1-1.4", "the directory's name", lambda _, subject: subject.name),
    Word("hub", ValueType.TEXT, "its hub, 1-1", "the directory's name", _find_hub),
    make_attribute("speed", ValueType.TEXT, "Mbit/s"),
    make_attribute("bus", ValueType.INT, "number of the bus", "busnum"),
    make_attribute("devnum", ValueType.INT, "number on the bus; changes at each plug-in"),
    make_attribute("authorized", ValueType.BOOL, "true if the kernel authorizes it"),
    _make_child_relation("tty", "tty", "its serial ports"),
    _make_child_relation("hidraw", "hidraw", "its raw HID devices"),
    _make_child_relation("video", "video4linux", "its video devices"),
    _make_child_relation("sound", "sound", "its sound devices"),
    _make_child_relation("input", "input", "its input devices"),
    _make_child_relation("block", "block", "its disks and partitions"),
    _make_child_relation("net", "net", "its network interfaces", "net"),
)
