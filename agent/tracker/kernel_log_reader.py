"""Reader of the kernel log on the event loop, while a check uses the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from agent.core.entry.kernel_log import Log
from agent.core.entry.resource_spec import ResourceSpec
from agent.host.kmsg import KernelLog
from agent.host.root import Root
from agent.tracker.check_evaluator import CheckEvaluator

RECORDS = 256  # lines of one batch. Other tasks run between two batches

log = logging.getLogger(__name__)


class KernelLogReader:
    """The reader of the kernel log. It reads while an active entry has a kernel log check.

    Args:
        check_evaluator: gets the lines. on_change: called after a line that matches a key. clock: monotonic seconds.

    Attributes:
        line_count: the number of lines that were read.
    """

    def __init__(
        self, root: Root, check_evaluator: CheckEvaluator, on_change: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self._kernel_log = KernelLog(root, clock)
        self._check_evaluator = check_evaluator
        self._on_change = on_change
        self._watched_handle: int | None = None
        self.line_count = 0

    @property
    def overruns(self) -> int:
        """The number of times that the kernel dropped lines."""
        return self._kernel_log.overruns

    async def follow(self, specs: Iterable[ResourceSpec], *, restart: bool) -> None:
        """Read the log for the checks of these entries. Return after all lines since boot are read.

        restart: watch the log again, also if it is already watched.
        """
        has_new_logs = self._check_evaluator.log_history.set_logs(list_logs(specs))
        if not self._check_evaluator.log_history.has_logs:
            self.close()
            return
        if has_new_logs or self._check_evaluator.log_history.read_error is not None:
            self.close()
            error = self._kernel_log.open()
            if error is not None and error != self._check_evaluator.log_history.read_error:
                log.warning("%s: kernel log checks have no result", error.reason)
            self._check_evaluator.set_log_error(error)
        for _ in iter(self._read_batch, False):
            await asyncio.sleep(0)
        if has_new_logs or restart or self._watched_handle is None:
            self._start_watch()

    def poll(self) -> None:
        """Read new lines of a plain file. The kernel sends no event when a plain file grows."""
        if self._check_evaluator.log_history.has_logs and self._watched_handle is None:
            while self._read_batch():
                pass

    def close(self) -> None:
        """Stop reading and close the log."""
        self._stop_watch()
        self._kernel_log.close()

    def _start_watch(self) -> None:
        self._stop_watch()
        handle = self._kernel_log.handle
        if handle is not None:
            with suppress(OSError):  # the caller of `poll` reads a file without events
                asyncio.get_running_loop().add_reader(handle, self._read_available)
                self._watched_handle = handle

    def _stop_watch(self) -> None:
        if self._watched_handle is not None:
            asyncio.get_running_loop().remove_reader(self._watched_handle)
            self._watched_handle = None

    def _read_available(self) -> None:
        self._read_batch()
        if self._kernel_log.is_at_end:
            self._stop_watch()  # until the next full rescan
        if self._check_evaluator.has_log_changes:
            self._on_change()

    def _read_batch(self) -> bool:
        """Read one batch of lines; return False at the end of the log."""
        records = self._kernel_log.read_records(RECORDS)
        self.line_count += len(records or ())
        self._check_evaluator.add_records(records or ())
        return records is not None


def list_logs(specs: Iterable[ResourceSpec]) -> dict[Log, None]:
    """Return the logs of the checks of these entries and of their partner checks."""
    checks = (check for spec in specs for check in spec.list_checks())
    return dict.fromkeys(check.log for check in checks if check.log is not None)
