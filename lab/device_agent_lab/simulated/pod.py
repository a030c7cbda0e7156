"""Pods and their containers, with their devices."""

from collections.abc import Mapping
from typing import Literal

from agent.core.struct import MutableStruct, Struct, field

Kind = Literal["init", "sidecar", "app"]  # a sidecar is a restartable init container


class Container(Struct):
    name: str
    limits: Mapping[str, int]
    kind: Kind = "app"


class Pod(MutableStruct):
    """A pod with the name `name` or `namespace/name`. After a refused admission, `phase` stays Failed."""

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
