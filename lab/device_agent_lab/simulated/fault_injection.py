"""Faults for the next registrations."""

from typing import Literal

from agent.core.struct import MutableStruct

Kind = Literal["refuse", "hang", "close", "lose_answer", "answer_late", "dial_late", "refuse_watched"]


class Fault(MutableStruct):
    kind: Kind
    resource: str | None
    times: int
    text: str = ""
    seconds: float = 0.0


class InjectedFaults:
    """The pending faults. Each applies to `times` registrations, of `resource` or of any, in order."""

    def __init__(self) -> None:
        self._pending: list[Fault] = []

    def refuse(self, text: str, *, times: int = 1, resource: str | None = None) -> None:
        """Register answers UNKNOWN with this text, and does nothing else."""
        self._pending.append(Fault("refuse", resource, times, text=text))

    def hang(self, seconds: float, *, times: int = 1, resource: str | None = None) -> None:
        """Register waits for this time, and then continues."""
        self._pending.append(Fault("hang", resource, times, seconds=seconds))

    def close(self, *, times: int = 1, resource: str | None = None) -> None:
        """Register drops the connection of the plugin, without a dial."""
        self._pending.append(Fault("close", resource, times))

    def lose_answer(self, *, times: int = 1, resource: str | None = None) -> None:
        """Accept the registration and open the stream, then drop the connection instead of an answer."""
        self._pending.append(Fault("lose_answer", resource, times))

    def answer_late(self, seconds: float, *, times: int = 1, resource: str | None = None) -> None:
        """Accept the registration and open the stream. Answer after this time."""
        self._pending.append(Fault("answer_late", resource, times, seconds=seconds))

    def dial_late(self, seconds: float, *, times: int = 1, resource: str | None = None) -> None:
        """Check the request. Dial after this time."""
        self._pending.append(Fault("dial_late", resource, times, seconds=seconds))

    def refuse_watched(self, text: str, *, times: int = 1, resource: str | None = None) -> None:
        """Let the plugin watcher answer NotifyRegistrationStatus(false) with this text."""
        self._pending.append(Fault("refuse_watched", resource, times, text=text))

    def clear(self) -> None:
        self._pending.clear()

    def take_fault(self, resource: str, *, watched: bool = False) -> Fault | None:
        for fault in self._pending:
            if fault.resource in (None, resource) and (fault.kind == "refuse_watched") is watched:
                fault.times -= 1
                if fault.times <= 0:
                    self._pending.remove(fault)
                return fault
        return None
