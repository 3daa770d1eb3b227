"""
What every rank of a job sees, brought to rank 0.

Through the store of torch's rendezvous, which the environment names (MASTER_ADDR, MASTER_PORT): no process group is made, so that ranks
that are missing are named instead of waited for, and nothing has to be right of GPUs, NCCL or gloo.

When to modify: a launcher gives its processes no rendezvous of torch.
"""

from __future__ import annotations

import json
import os
import time
from datetime import timedelta
from typing import Any

from placement.errors import InputError
from placement.verifying.observed import Observed

KEYS = "placement/verify"
AGENT = "TORCHELASTIC_USE_AGENT_STORE"
"""torchrun sets it where its own process holds the store."""

AFTERWARDS_S = 5.0
"""How long rank 0, which may hold the store, stays for the others to read what was found."""


class Ranks:
    """
    The ranks of the job of which this process is one.

    Parameters
    ----------
    seen
        What this process sees; it has a rank.
    time_limit_s
        How long ranks wait for each other.

    Raises
    ------
    InputError
        If torch is not there, or no store answers.
    """

    def __init__(self, seen: Observed, time_limit_s: float) -> None:
        assert seen.rank is not None
        assert seen.world_size is not None
        self._seen, self._rank, self._size = seen, seen.rank, seen.world_size
        self._limit_s = time_limit_s
        self._store = _store(self._rank, self._size, time_limit_s) if self._size > 1 else None

    def report(self) -> dict[int, Observed] | None:
        """Return on rank 0 what each rank sees, without those that did not say it in time; None on the others."""
        if self._store is None:
            return {self._rank: self._seen}
        if self._rank != 0:
            self._store.set(f"rank{self._rank}", json.dumps(self._seen.to_plain()))
            return None
        found = {0: self._seen}
        until = time.monotonic() + self._limit_s
        for rank in range(1, self._size):
            text = _get(self._store, f"rank{rank}", until - time.monotonic())
            if text is not None:
                found[rank] = Observed.from_plain(json.loads(text))
        return found

    def agree(self, is_right: bool | None) -> bool:
        """
        Return what rank 0 found; it says it with *is_right*, the others give None.

        Raises
        ------
        InputError
            If rank 0 does not say it in time.
        """
        if self._store is None:
            return bool(is_right)
        if self._rank == 0:
            self._store.set("verdict", "right" if is_right else "wrong")
            until = time.monotonic() + AFTERWARDS_S
            while self._store.add("read", 0) < self._size - 1 and time.monotonic() < until:
                time.sleep(0.05)
            return bool(is_right)
        verdict = _get(self._store, "verdict", 2 * self._limit_s)
        if verdict is None:
            raise InputError(f"rank 0 did not say within {2 * self._limit_s:g} s what it found")
        self._store.add("read", 1)
        return verdict == b"right"


def _store(rank: int, size: int, time_limit_s: float) -> Any:
    try:
        import torch.distributed as dist
    except ImportError:
        raise InputError(
            f"this is rank {rank} of {size}, and ranks reach each other through torch: pip install 'gpu-placement[torch]'"
        ) from None
    place = {name: os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT")}
    for name, value in place.items():
        if not value or (name == "MASTER_PORT" and not value.isdecimal()):
            raise InputError(f"rank {rank} of {size}: {name} is {value!r}, and ranks reach each other there: torchrun sets it")
    holds = rank == 0 and os.environ.get(AGENT) != "True"    # else torchrun itself holds it
    try:
        store = dist.TCPStore(
            place["MASTER_ADDR"],
            int(place["MASTER_PORT"]),
            is_master=holds,
            timeout=timedelta(seconds=time_limit_s),
            wait_for_workers=False,
        )
    except (ValueError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        where = ":".join(place.values())
        raise InputError(f"rank {rank} of {size} reaches nobody at {where} (MASTER_ADDR, MASTER_PORT): {reason}") from None
    return dist.PrefixStore(KEYS, store)


def _get(store: Any, key: str, left_s: float) -> bytes | None:
    """Return the value of *key* when it is there within *left_s*."""
    try:
        store.wait([key], timedelta(seconds=max(left_s, 0.1)))
    except (RuntimeError, OSError):
        return None
    found = store.get(key)
    assert isinstance(found, bytes)
    return found
