"""
Write ``docs/targets.md``: what each target takes, from the registry, and an example of each, from the command.

    python docs/make_targets.py            write it
    python docs/make_targets.py --check    fail if it differs from what the program says now
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from functools import cache
from pathlib import Path

from placement.catalog import load_workload
from placement.cli import emit
from placement.machines.sources import read_machine
from placement.maps import devicemap
from placement.planner import plan
from placement.program.instance import make_instance
from placement.targets.catalog import targets
from placement.targets.target import Target
from placement.workloads import workload_file
from placement.workloads.rules import parse_rules
from placement.workloads.target_rules import Generates
from placement.workloads.workload import Engine, Workload

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "targets.md"
MACHINE = "dgx-a100-80gb"
SHOWN_LINES = 20

APART = """\
schema: placement/workload/v1
algorithm: grpo
batch: {prompts: 1024, samples_per_prompt: 4, prompt_tokens: 512, response_tokens: {mean: 300, max: 1024}, minibatches: 4,
  micro_batch_tokens: 16384}
roles:
  actor: {model: Qwen/Qwen2.5-1.5B}
  rollout: {model: Qwen/Qwen2.5-1.5B, engine: vllm, tp: [1, 2], gpu_memory_utilization: [0.7, 0.8]}
  reward: {function: true}
"""
MEGATRON = """\
schema: placement/workload/v1
algorithm: grpo
batch: {prompts: 1024, samples_per_prompt: 4, prompt_tokens: 512, response_tokens: {mean: 300, max: 1024}, minibatches: 4,
  micro_batch_tokens: 16384}
roles:
  actor:
    model: Qwen/Qwen2.5-1.5B
    engine: megatron
    layout: {tp: 2, pp: 1}
    rollout: {engine: sglang, tp: [1, 2], gpu_memory_utilization: [0.5, 0.6, 0.7]}
  ref: {model: Qwen/Qwen2.5-1.5B, engine: megatron, layout: {tp: [1, 2]}}
  reward: {function: true}
"""
SHIPPED, PPO = "grpo-1.5b", "ppo-1.5b"
JOBS = {"apart.yaml": APART, "megatron.yaml": MEGATRON}

HEAD = """\
# Targets

What `placement plan --target T` obeys and `placement emit MAP --target T -d DIR` writes. This page is made from the program by
`python docs/make_targets.py`; each row is held by a test.

What a target cannot express is a constraint of the plan where the program can say it (which roles share GPUs, which engines, precisions,
offloads and batch sizes there are, whether ids ascend or are consecutive), so that the optimum is one that the target can run. What is
left is refused by `emit`, which says what would happen. Keys of which the map says nothing (data, learning rates, rewards) stay yours.

**Version**: what the files are written for, the usual one first. **Ids pinned**: whether files name physical GPUs. **Order kept**: whether
rank i is on the i-th GPU of the map. **Validated by**: whose code reads the files in our tests (`tests/targets`); *not run by its own
parser* where none can be installed from PyPI, so that our own statement of its rules is all there is. Nothing here was run on GPUs.
"""


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def table() -> str:
    """Return the table, a row for each target."""
    rows = ["| target | version | ids pinned | order kept | what is emitted | validated by | cannot express |", "|---|" + "---|" * 6]
    for one in targets():
        writes = "<br>".join(f"`{file}`: {use}" for file, use in one.writes.items())
        cannot = "<br>".join(one.cannot) or "–"
        versions = ", ".join(one.versions) or "–"
        parser = one.parser or "*not run by its own parser*"
        cells = (f"**`{one.name}`** {one.title}", versions, one.pins, one.keeps, writes, parser, cannot)
        rows.append("| " + " | ".join(map(cell, cells)) + " |")
    return "\n".join(rows) + "\n"


def job_for(target: Target) -> str:
    """Return the job of the example: one that the target can run."""
    rules = target.rules
    if rules is None:
        return PPO
    if rules.generates is Generates.APART:
        return "apart.yaml"
    return SHIPPED if Engine.FSDP in rules.training else "megatron.yaml"


def load(job: str) -> Workload:
    return workload_file.load(JOBS[job], name=job) if job in JOBS else load_workload(job)


@cache
def planned(job: str, target: str | None) -> str:
    """Return the map, as the command writes it for a target; launchers share one."""
    workload = load(job)
    known = next((one.rules for one in targets() if one.name == target), None)
    preset = None if known is None else known.presets[0 if workload.is_hybrid else 1]
    specs = [*filter(None, [preset]), *([f"target={target}"] if target else [])]
    outcome = plan(make_instance(read_machine(MACHINE), workload, parse_rules(*specs)))
    assert outcome.plan is not None, (job, target, outcome.clash)
    return devicemap.dump(outcome.plan)


def example(target: Target) -> str:
    """Return the commands and the beginning of what they write."""
    job = job_for(target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "map.yaml"
        path.write_text(planned(job, target.name if target.rules is not None else None), encoding="utf-8")
        out, notes = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(notes):
            emit.run(str(path), target=target.name, version=None, directory=None, force=False, as_json=False)
    lines = out.getvalue().splitlines()
    shown = "\n".join(lines[:SHOWN_LINES])
    if len(lines) > SHOWN_LINES:
        shown += f"\n… {len(lines) - SHOWN_LINES} more lines"
    wanted = f" --target {target.name}" if target.rules is not None else ""
    commands = (
        f"placement plan --topology {MACHINE} --workload {job}{wanted} -o map.yaml\nplacement emit map.yaml --target {target.name}"
    )
    said = "".join(f"\n> {line}" for line in notes.getvalue().splitlines())
    return f"## {target.title}: `{target.name}`\n\n```bash\n{commands}\n```\n\n```text\n{shown}\n```\n{said}\n"


def contents() -> str:
    """Return the page."""
    jobs = "".join(f"`{name}`:\n\n```yaml\n{text}```\n\n" for name, text in JOBS.items())
    used = f"Jobs of the examples that are not shipped:\n\n{jobs}"
    return "\n".join([HEAD, table(), "# An example of each\n", used.rstrip() + "\n", *map(example, targets())])


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--check", action="store_true")
    page = contents()
    if parser.parse_args().check:
        fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page
        print("docs/targets.md is fresh" if fresh else "docs/targets.md is stale: run python docs/make_targets.py")
        return 0 if fresh else 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
