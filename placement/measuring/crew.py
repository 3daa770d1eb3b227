"""
The processes that measure: one for each GPU, each asked in lines of JSON, none of them left behind.

They are processes of our own interpreter (`placement.measuring.worker`), so that torch is imported there alone, and whatever
hangs or crashes inside a driver can be ended from here. They end by themselves as soon as nobody holds the other end of their
standard input: also when we are killed.

When to modify: how the processes are started, asked or ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Self

GRACE_S = 2.0
"""Time that processes get to end by themselves, s."""

_LONGEST_REASON = 300
_CHUNK = 1 << 16


class Failed(Exception):
    """A measurement failed, and the processes that tried it are gone."""


class Crew:
    """
    Processes that measure together.

    Parameters
    ----------
    command
        What starts one of them; its rank is added.
    size
        How many there are.
    env
        Their environment.
    """

    def __init__(self, command: Sequence[str], size: int, env: Mapping[str, str]) -> None:
        self._command = command
        self._env = env
        self._errors: list[IO[bytes]] = []
        self._buffers = [b""] * size
        self._processes: list[subprocess.Popen[bytes]] = []
        self.size = size

    def __enter__(self) -> Self:
        try:
            for rank in range(self.size):
                self._errors.append(tempfile.TemporaryFile())
                self._processes.append(
                    subprocess.Popen(  # noqa: S603 - our own interpreter and module
                        [*self._command, str(rank)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=self._errors[rank],
                        env=dict(self._env),
                        start_new_session=True,     # Ctrl-C is ours to answer, not theirs
                    )
                )
        except OSError as error:
            self.close()
            raise Failed(f"cannot start {self._command[0]}: {error.strerror or error}") from None
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def ask(self, question: Mapping[str, Any], *, within_s: float, ranks: Sequence[int] | None = None) -> dict[int, dict[str, Any]]:
        """
        Return what each of *ranks* (all of them when None) answers to *question*.

        Raises
        ------
        Failed
            If one of them fails, ends, or does not answer within *within_s* seconds. All of them are then ended: they may wait for
            each other.
        """
        asked = range(self.size) if ranks is None else ranks
        try:
            return self._ask(question, asked, within_s)
        except BaseException:
            self.close()
            raise

    def _ask(self, question: Mapping[str, Any], ranks: Sequence[int], within_s: float) -> dict[int, dict[str, Any]]:
        line = json.dumps(question).encode() + b"\n"
        for rank in ranks:
            self._send(rank, line)
        answers: dict[int, dict[str, Any]] = {}
        deadline = time.monotonic() + within_s
        with selectors.DefaultSelector() as waiting:
            for rank in ranks:
                stdout = self._processes[rank].stdout
                assert stdout is not None
                waiting.register(stdout, selectors.EVENT_READ, rank)
            while len(answers) < len(ranks):
                ready = waiting.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    late = [str(rank) for rank in ranks if rank not in answers]
                    raise Failed(f"no answer of process {', '.join(late)} within {within_s:g} s")
                for key, _ in ready:
                    answer = self._read(key.data)
                    if answer is not None:
                        answers[key.data] = answer
                        waiting.unregister(key.fileobj)
        return answers

    def _send(self, rank: int, line: bytes) -> None:
        stdin = self._processes[rank].stdin
        assert stdin is not None
        try:
            stdin.write(line)
            stdin.flush()
        except OSError:
            raise Failed(self._last_words(rank)) from None

    def _read(self, rank: int) -> dict[str, Any] | None:
        """Return the answer of *rank*; None while its line is not complete."""
        stdout = self._processes[rank].stdout
        assert stdout is not None
        data = os.read(stdout.fileno(), _CHUNK)
        if not data:
            raise Failed(self._last_words(rank))
        line, newline, rest = (self._buffers[rank] + data).partition(b"\n")
        self._buffers[rank] = rest if newline else line
        if not newline:
            return None
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise Failed(f"process {rank} answers {line[:60]!r}")
        if "error" in answer:
            raise Failed(f"process {rank}: {answer['error']}"[:_LONGEST_REASON])
        return answer

    def _last_words(self, rank: int) -> str:
        """Return why process *rank* has ended, as far as it said."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[rank].wait(GRACE_S)
        code = self._processes[rank].poll()
        self._errors[rank].seek(0)
        said = self._errors[rank].read()[-_CHUNK:].decode("utf-8", "replace").strip().splitlines()
        why = f": {said[-1]}" if said else ""
        return f"process {rank} ended with code {code}{why}"[:_LONGEST_REASON]

    def close(self) -> None:
        """End all processes, and wait until they are gone."""
        for process in self._processes:
            with contextlib.suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()       # on which they end by themselves
        deadline = time.monotonic() + GRACE_S
        for process in self._processes:
            try:
                process.wait(max(deadline - time.monotonic(), 0))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        for errors in self._errors:
            errors.close()
        self._processes, self._errors = [], []

    @property
    def is_open(self) -> bool:
        """Whether the processes are there."""
        return bool(self._processes)


def worker_command(device: str, size: int) -> list[str]:
    """Return what starts a process that measures on *device* as one of *size*; its rank comes last."""
    return [sys.executable, "-m", "placement.measuring.worker", device, str(size)]
