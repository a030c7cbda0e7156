"""Pods and their containers, as far as devices are concerned."""

from collections.abc import Mapping
from typing import Literal

from agent.core.struct import MutableStruct, Struct, field

Kind = Literal["init", "sidecar", "app"]  # a sidecar is a restartable init container


class Container(Struct):
    name: str
    limits: Mapping[str, int]
    kind: Kind = "app"


class Pod(MutableStruct):
    """Named `name` or `namespace/name`. `phase` is Failed after a refused admission, and stays so."""

    key: str
    containers: dict[str, Container] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    phase: str = "Running"
    message: str = ""

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0] or "default"

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    @property
    def is_active(self) -> bool:
        return self.phase == "Running"
