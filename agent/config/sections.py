"""The registry of the sections of an entry. Each declares the function that compiles it, and its inputs.

An input is another section, so mypy compares the types of the results with the parameters, and a section can only name
one that is declared before it: a missing input is a `NameError` at import, and a cycle cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast, overload

_T = TypeVar("_T")
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_D = TypeVar("_D")
_E = TypeVar("_E")


class Section(Generic[_T]):
    """A part of an entry, with one result. `compile` takes the results of `inputs`. It is None for a start value."""

    def __init__(self, compile_section: Callable[..., _T] | None = None, inputs: tuple[Section[Any], ...] = ()) -> None:
        self.compile = compile_section
        self.inputs = inputs


class Results:
    """The results of sections, each compiled once, after its inputs."""

    def __init__(self, start_values: Mapping[Section[Any], object]) -> None:
        self._results = dict(start_values)

    def get(self, section: Section[_T]) -> _T:
        """Return the result of a section.

        Raises:
            LookupError: the section is a start value, and has none.
        """
        if section not in self._results:
            if section.compile is None:
                raise LookupError("a section without a compiler needs a start value")
            self._results[section] = section.compile(*map(self.get, section.inputs))
        return cast("_T", self._results[section])


class SectionRegistry:
    """The sections of an entry."""

    def __init__(self) -> None:
        self.sections: list[Section[Any]] = []

    @overload
    def declare(self, compile_section: Callable[[_A], _T], a: Section[_A], /) -> Section[_T]: ...
    @overload
    def declare(self, compile_section: Callable[[_A, _B], _T], a: Section[_A], b: Section[_B], /) -> Section[_T]: ...
    @overload
    def declare(
        self, compile_section: Callable[[_A, _B, _C], _T], a: Section[_A], b: Section[_B], c: Section[_C], /
    ) -> Section[_T]: ...
    @overload
    def declare(
        self,
        compile_section: Callable[[_A, _B, _C, _D], _T],
        a: Section[_A],
        b: Section[_B],
        c: Section[_C],
        d: Section[_D],
        /,
    ) -> Section[_T]: ...
    @overload
    def declare(
        self,
        compile_section: Callable[[_A, _B, _C, _D, _E], _T],
        a: Section[_A],
        b: Section[_B],
        c: Section[_C],
        d: Section[_D],
        e: Section[_E],
        /,
    ) -> Section[_T]: ...
    def declare(self, compile_section: Callable[..., _T], /, *inputs: Section[Any]) -> Section[_T]:
        """Add a section with its inputs, and return it."""
        section = Section(compile_section, inputs)
        self.sections.append(section)
        return section

    def compile_all(self, start_values: Mapping[Section[Any], object]) -> Results:
        """Return the results of all sections, from these start values."""
        results = Results(start_values)
        for section in self.sections:
            results.get(section)
        return results
