"""Weights: what rules say of devices that are to be chosen from, as one number each and one for each two of them.

Each rule is a level above all that follow it, so that the first decides and the next breaks ties. After the rules comes
what `same` leaves open: of equal groups that with the most free devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from agent.core.entry.prefer import Keyed, Rule
from agent.core.inventory.trait import Ends, Seat, Trait
from agent.core.language.value import Scalar, natural, text_of

# How far from each other two functions are on PCI Express, as the known device plugins tell it apart.
SAME_BOARD, SAME_SWITCH, SAME_PORT, SAME_COMPLEX, SAME_NODE, FAR = 0, 10, 20, 30, 40, 50


class Kind(NamedTuple):
    """Devices, or shares of one device, that no rule tells apart: what they are preferred by, how many may be taken of
    them and how many are offered. poor: what is offered is not known to be Healthy, and is taken last.
    """

    traits: tuple[Trait, ...]
    room: int
    offered: int
    poor: bool = False


class Weights:
    """What a kind costs by itself and beside another."""

    def __init__(self, rules: Sequence[Rule], kinds: Sequence[Kind], size: int) -> None:
        """`size`: how many are taken at most, for one level to stand above all sums of the next."""
        levels = [level for level in _levels(rules, kinds) if level.tells]
        scale = 1
        self.alone = [0] * len(kinds)
        self._levels: list[tuple[int, _Level]] = []
        for level in reversed(levels):
            self._levels.append((scale, level))
            self.alone = [cost + scale * each for cost, each in zip(self.alone, level.alone, strict=True)]
            scale *= 1 + size * level.spread + size * size * level.far
        self._count = len(kinds)

    def beside(self, kind: int) -> list[int]:
        """What one of that kind costs beside one of each."""
        row = [0] * self._count
        for scale, level in self._levels:
            if level.far:
                row = [cost + scale * each for cost, each in zip(row, level.beside(kind), strict=True)]
        return row


class _Level:
    """One rule. far: the most that two can cost; 0 where it says nothing of two."""

    def __init__(self, alone: Sequence[int], far: int = 0) -> None:
        least = min(alone, default=0)
        self.alone = [cost - least for cost in alone]
        self.spread = max(self.alone, default=0)
        self.far = far

    @property
    def tells(self) -> bool:
        """Whether it tells any two ways apart."""
        return bool(self.spread or self.far)

    def beside(self, kind: int) -> Sequence[int]:
        """What one of that kind costs beside one of each, from 0 to `far`."""
        del kind
        return [0] * len(self.alone)


class _Alike(_Level):
    """Two of one key cost so much beside each other, and others so much."""

    def __init__(self, alone: Sequence[int], keys: Sequence[object], alike: int, other: int) -> None:
        super().__init__(alone, int(len(set(keys)) > 1))
        self._keys, self._alike, self._other = keys, alike, other

    def beside(self, kind: int) -> Sequence[int]:
        key, alike, other = self._keys[kind], self._alike, self._other
        return [alike if each == key else other for each in self._keys]


class _Apart(_Level):
    """How far two are from each other."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        number = {seat: n for n, seat in enumerate(dict.fromkeys(seats))}
        super().__init__([0] * len(seats), FAR if len(number) > 1 else 0)
        self._seats = list(number)
        self._number = [number[seat] for seat in seats]

    def beside(self, kind: int) -> Sequence[int]:
        seat = self._seats[self._number[kind]]
        far = [apart(seat, each) for each in self._seats]
        row = [far[number] for number in self._number]
        row[kind] = 0
        return row


class _Linked(_Level):
    """How far the links lead; what no link leads to is farther than any."""

    def __init__(self, ends: Sequence[Ends]) -> None:
        costs = [cost for end in ends for _, cost in end.far]
        self._least = min(costs, default=0)
        self._none = max(costs, default=-1) + 1
        super().__init__([0] * len(ends), self._none - self._least if costs else 0)
        self._ends = ends
        self._far: list[Mapping[Scalar, int]] = [dict(end.far) for end in ends]

    def beside(self, kind: int) -> Sequence[int]:
        end, far, none = self._ends[kind], self._far[kind], self._none
        row = [none if other.name is None else far.get(other.name, none) for other in self._ends]
        if end.name is not None:  # a link that only the other side tells of leads here as well
            row = [min(cost, other.get(end.name, none)) for cost, other in zip(row, self._far, strict=True)]
        row = [cost - self._least for cost in row]
        row[kind] = 0
        return row


def shared(trait: Trait) -> Trait:
    """What of a trait is the same for all that no rule tells apart: functions behind one bridge sit in one place."""
    if not isinstance(trait, Seat) or len(trait.path) < 2:
        return trait
    *above, own = trait.path
    return Seat((*above, own.rpartition(".")[0] if _is_complex(above[-1]) else ""), trait.numa)


@lru_cache(maxsize=65536)
def apart(one: Seat, other: Seat) -> int:
    """How far two devices are from each other on PCI Express."""
    if one == other and one.path:
        return SAME_BOARD
    there = sum(1 for _ in _common(one.path, other.path))
    beyond = max(len(one.path), len(other.path)) - there
    if there:
        alike = one.path[there - 1]
        if beyond == 1 and (len(one.path) == len(other.path)):
            slot = one.path[-1].rpartition(".")[0] == other.path[-1].rpartition(".")[0]
            return SAME_BOARD if slot or not _is_complex(alike) else SAME_COMPLEX
        if beyond == 0:
            return SAME_BOARD
        if _is_complex(alike):
            return SAME_COMPLEX
        deep = there > 1 and not _is_complex(one.path[there - 2])
        return SAME_SWITCH if deep and beyond <= 2 else SAME_PORT  # two steps: a port of the switch, and the device
    return SAME_NODE if set(one.numa) & set(other.numa) else FAR


def _common(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    for step, same in zip(one, other, strict=False):
        if step != same:
            return
        yield step


def _is_complex(step: str) -> bool:
    return step.startswith("pci")


def _levels(rules: Sequence[Rule], kinds: Sequence[Kind]) -> Iterator[_Level]:
    yield _Level([int(kind.poor) for kind in kinds])
    nothing = [0] * len(kinds)
    last: list[_Level] = []
    for n, rule in enumerate(rules):
        traits = [kind.traits[n] if n < len(kind.traits) else None for kind in kinds]
        if not isinstance(rule, Keyed):
            if rule.links is None:
                yield _Apart([trait if isinstance(trait, Seat) else Seat() for trait in traits])
            else:
                yield _Linked([trait if isinstance(trait, Ends) else Ends() for trait in traits])
            continue
        if rule.verb == "order":
            ranks = {trait: rank for rank, trait in enumerate(sorted(set(traits), key=_order))}
            yield _Level([ranks[trait] for trait in traits])
            continue
        keys: list[object] = [(n, i) if trait is None else trait for i, trait in enumerate(traits)]
        free = Counter[object]()
        for key, kind in zip(keys, kinds, strict=True):
            free[key] += kind.offered
        most = max(free.values(), default=0)
        if rule.verb == "same":
            yield _Alike(nothing, keys, alike=0, other=1)
            last.append(_Level([0 if trait is None else -free[trait] for trait in traits]))
        elif rule.verb == "packed":
            # Taking n of a key with f free costs f + (f-1) + …, as if each were chosen by what is free by then.
            alone = [most + 1 if trait is None else free[key] for key, trait in zip(keys, traits, strict=True)]
            yield _Alike(alone, keys, alike=0, other=1)
            yield _Alike(nothing, keys, alike=0, other=1)
        else:
            alone = [most if trait is None else most - free[key] for key, trait in zip(keys, traits, strict=True)]
            yield _Alike(alone, keys, alike=1, other=0)
            yield _Alike(nothing, keys, alike=1, other=0)
    yield from last


def _order(trait: Trait) -> tuple[int, str]:
    if trait is None:
        return 1, ""
    elements = trait if isinstance(trait, tuple) else (trait,)
    return 0, natural(" ".join(text_of(element) for element in elements if isinstance(element, (str, int))))
