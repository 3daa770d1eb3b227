"""
Work of one pool in turns, of different pools side by side: the schedule ``full`` of a plan, inside verl's trainer.

Each pool but the trainer's own has a thread that hands its work out and waits for it; nothing here computes.

When to modify: work of disjoint pools may overlap in another way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Lanes:
    """One lane for each pool: what is started in a lane runs after what was started in it before."""

    def __init__(self) -> None:
        self._threads: dict[str, ThreadPoolExecutor] = {}
        self._running: dict[str, Future[float]] = {}

    def start(self, pool: str, name: str, work: Callable[[], object]) -> None:
        """Start *work*, called *name*, in the lane of *pool*, and go on."""
        assert name not in self._running, f"{name} runs already"
        if pool not in self._threads:
            self._threads[pool] = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"placed-{pool}")
        self._running[name] = self._threads[pool].submit(_timed, work)

    def is_running(self, name: str) -> bool:
        """Whether *name* was started and not waited for."""
        return name in self._running

    def finish(self, name: str) -> float:
        """Wait for *name* and return how long it took without waiting for its turn, s; raises what it raised."""
        return self._running.pop(name).result()


def _timed(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
