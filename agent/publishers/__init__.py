"""Publishers: what the agent does after it has new device lists.

Each module of this package is one publisher. It has one function `publish` with the signature of
`agent.wiring.Publisher`. A new module needs no other change. The publishers run in the order of their names, and none
depends on the effect of another.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from agent.wiring import Publisher


def find_publishers() -> tuple[Publisher, ...]:
    """Return the function `publish` of each module of this package."""
    names = sorted(module.name for module in iter_modules(__path__))
    return tuple(import_module(f"{__name__}.{name}").publish for name in names)
