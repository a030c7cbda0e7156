"""The shipped device classes as entries that nobody made, to see which of them would take something here."""

from __future__ import annotations

from agent.config.compile import compile_entry
from agent.config.document import parse
from agent.config.files import Files
from agent.config.finding import Finding
from agent.config.load import SHIPPED
from agent.config.shelf import Folder, Shelf
from agent.config.spot import Spot
from agent.core.resource import ResourceSpec


def shipped() -> tuple[ResourceSpec, ...]:
    """One entry for each class that takes particular devices; one that takes all of a source says nothing here."""
    findings: list[Finding] = []
    shelf = Shelf([Folder(SHIPPED, "classes")], Files(SHIPPED), findings)
    names = sorted(shelf.names())
    text = "".join(f'[[resource]]\nname = "class.example/{name}"\nclass = "{name}"\n' for name in names)
    document = parse("classes", text)
    found: list[ResourceSpec] = []
    for index, entry in enumerate(document.data["resource"]):
        spot = Spot(document, ("resource", index))
        spec = compile_entry(shelf.say(spot, entry, "entry"), spot, "socket", findings)
        if spec is not None and (spec.match.lines or spec.exclude or spec.source.kind == "node"):
            found.append(spec)
    return tuple(found)
