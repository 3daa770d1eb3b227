"""
One of the processes that measure, the only place where torch is imported for that: ``python -m placement.measuring.worker
DEVICE SIZE RANK``.

It reads questions from standard input and answers on standard output, a line of JSON each, and ends at the end of its input. On
GPUs, process *rank* measures GPU *rank* and the first one copies between all of them; time is that of CUDA events. On the CPU the
same questions are answered with tensors in host memory, gloo in place of NCCL, and the monotonic clock.

When to modify: what is measured, or how.
"""

from __future__ import annotations

import json
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

MOST_REPEATS = 10_000

TIMEOUT_S = 120
"""A collective that waits longer has lost a member, s."""

Question = dict[str, Any]


class _Worker:
    """
    The measurements of one process.

    Parameters
    ----------
    device
        ``cuda`` or ``cpu``.
    """

    def __init__(self, device: str, size: int, rank: int) -> None:
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        self.size, self.rank = size, rank
        self.is_cuda = device == "cuda"
        self.store: Any = None
        self.dtype = torch.bfloat16
        if not self.is_cuda:
            torch.set_num_threads(1)    # as many processes share the CPU as there would be GPUs

    def answer(self, question: Question) -> dict[str, Any]:
        """Return the answer to *question*, whose ``do`` names the method."""
        methods: dict[str, Callable[[Question], dict[str, Any]]] = {
            "hello": self.hello, "store": self.open_store, "join": self.join, "matmul": self.matmul, "memory": self.memory,
            "copy": self.copy, "all_reduce": self.all_reduce,
        }  # fmt: skip
        found = methods[question["do"]](question)
        if self.is_cuda:
            self.torch.cuda.empty_cache()       # the next measurement has all of the memory
        return found

    def hello(self, question: Question) -> dict[str, Any]:
        """Say what is here: versions, and the GPUs that torch sees."""
        torch = self.torch
        if not self.is_cuda:
            return {"by": [f"torch {torch.__version__}", "gloo"], "gpus": []}
        if not torch.cuda.is_available():
            built = "is built without CUDA" if torch.version.cuda is None else "finds no GPU that it can use"
            return {"by": [f"torch {torch.__version__}"], "gpus": [], "refuses": f"torch {torch.__version__} {built}"}
        nccl = ".".join(map(str, torch.cuda.nccl.version()))
        count = torch.cuda.device_count()
        if self.rank < count:
            torch.cuda.set_device(self.rank)    # or every process would set up the first GPU as well
            if torch.cuda.get_device_capability() < (8, 0):
                self.dtype = torch.float16      # before Ampere there is no bf16
        return {
            "by": [f"torch {torch.__version__}", f"CUDA {torch.version.cuda}", f"NCCL {nccl}"],
            "gpus": [torch.cuda.get_device_name(k) for k in range(count)],
        }

    def open_store(self, question: Question) -> dict[str, Any]:
        """Open the place at which the processes find each other, on a free port of the loopback."""
        self.store = self.dist.TCPStore("127.0.0.1", 0, self.size, is_master=True, wait_for_workers=False)
        return {"port": self.store.port}

    def join(self, question: Question) -> dict[str, Any]:
        """Find the others."""
        if self.store is None:
            self.store = self.dist.TCPStore("127.0.0.1", question["port"], self.size, is_master=False)
        timeout = timedelta(seconds=TIMEOUT_S)
        backend = "nccl" if self.is_cuda else "gloo"
        self.dist.init_process_group(backend, store=self.store, rank=self.rank, world_size=self.size, timeout=timeout)
        return {}

    def matmul(self, question: Question) -> dict[str, Any]:
        """Return the rate of products of two square 16-bit matrices of random numbers, 10**12 FLOP/s: zeros would draw less power."""
        torch, n = self.torch, question["n"]
        a, b = (torch.randn(n, n, device=self._at(self.rank)).to(self.dtype) for _ in range(2))
        out = torch.empty_like(a)
        times = self._times(lambda: torch.mm(a, b, out=out), self.rank, question)
        return {"samples": [2 * n**3 / t / 1e12 for t in times]}

    def memory(self, question: Question) -> dict[str, Any]:
        """Return the rate of copies inside the memory of this GPU, GB/s, read and written bytes together."""
        source, target = (self._bytes(question["bytes"], self.rank) for _ in range(2))
        times = self._times(lambda: target.copy_(source), self.rank, question)
        return {"samples": [2 * question["bytes"] / t / 1e9 for t in times]}

    def copy(self, question: Question) -> dict[str, Any]:
        """Return the rate of copies from one GPU to another, GB/s; torch copies in the stream of the source."""
        source, target = (self._bytes(question["bytes"], question[end]) for end in ("source", "target"))
        times = self._times(lambda: target.copy_(source), question["source"], question)
        return {"samples": [question["bytes"] / t / 1e9 for t in times]}

    def all_reduce(self, question: Question) -> dict[str, Any]:
        """Return the bus bandwidth of all-reduces of a group, GB/s, by size; nothing where this process is not in it."""
        torch, dist, members = self.torch, self.dist, question["group"]
        group = dist.new_group(members)         # a call of all processes, members or not
        if self.rank not in members:
            return {}
        n = len(members)
        found = []
        for size in question["sizes"]:
            data = torch.zeros(size // 2, dtype=self.dtype, device=self._at(self.rank))

            def agreed(count: int, group: Any = group) -> int:
                """Return the most of what the members say: all must call as often as the others."""
                counts = torch.tensor([count], device=self._at(self.rank))
                dist.all_reduce(counts, op=dist.ReduceOp.MAX, group=group)
                return int(counts.item())

            def work(data: Any = data, group: Any = group) -> None:
                dist.all_reduce(data, group=group)

            times = self._times(work, self.rank, question, agreed)
            found.append([2 * (n - 1) / n * size / t / 1e9 for t in times])
        dist.destroy_process_group(group)
        return {"samples": found}

    def _at(self, gpu: int) -> Any:
        return self.torch.device("cuda", gpu) if self.is_cuda else self.torch.device("cpu")

    def _bytes(self, size: int, gpu: int) -> Any:
        return self.torch.ones(size, dtype=self.torch.uint8, device=self._at(gpu))

    def _times(
        self, work: Callable[[], object], gpu: int, question: Question, agreed: Callable[[int], int] = lambda count: count
    ) -> list[float]:
        """Return how long *work* takes on *gpu*, s: once for each run, each of which repeats it for ``least_s`` at least."""
        work()      # the first one also allocates, loads kernels and connects
        self._wait(gpu)
        once = max(self._timed(work, gpu, 1), 1e-7)
        count = agreed(min(max(math.ceil(question["least_s"] / once), 1), MOST_REPEATS))
        return [self._timed(work, gpu, count) / count for _ in range(question["runs"])]

    def _timed(self, work: Callable[[], object], gpu: int, count: int) -> float:
        if not self.is_cuda:
            start = time.monotonic()
            for _ in range(count):
                work()
            return max(time.monotonic() - start, 1e-9)
        cuda = self.torch.cuda
        begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
        with cuda.device(gpu):
            begin.record()
            for _ in range(count):
                work()
            end.record()
            end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def _wait(self, gpu: int) -> None:
        if self.is_cuda:
            self.torch.cuda.synchronize(gpu)


def _listen(questions: queue.SimpleQueue[str]) -> None:
    """Take questions as they come, and end at once when whoever asks is gone, whatever is going on."""
    for line in sys.stdin:
        questions.put(line)
    os._exit(0)


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)       # what libraries print must not stand between the answers
    questions: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(questions,), daemon=True).start()
    worker: _Worker | None = None
    while True:
        question = json.loads(questions.get())
        try:
            if worker is None:
                worker = _Worker(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
            found = worker.answer(question)
        except Exception as error:      # whatever a driver or a library lacks: the one who asks decides
            found = {"error": " ".join(str(error).split())[:300] or type(error).__name__}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
