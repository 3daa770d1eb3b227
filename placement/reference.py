"""
Reference pages that are made from the code: ``python -m placement.reference docs`` writes them.

When to modify: a page's introduction, or another page that code can write.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

_WORKLOAD = """\
# Workload files

<!-- Made from placement/workloads/workload_schema.py by `python -m placement.reference docs`; do not edit. -->

A workload file says which models a job has, how large a step is, and what the solver may choose. `placement
catalog workloads` lists the files that are shipped; `placement schema workload` prints the JSON Schema for
editors.

```yaml
{example}```

Wherever a list stands, a single value may stand too: `tp: 2` is the menu of one. Menus are in order of
preference, and a plan records what was chosen. The reader is strict: unknown or repeated keys and wrong types
are errors with file, line and column; only `true` and `false` are booleans, so `on`, `no`, `010` and `10:00`
are text. Sizes of `tp` that cannot cut a model's attention heads are dropped from a menu; a menu of only such
sizes is an error.

Checked across keys: ppo has a critic and the other algorithms have none; grpo, rloo and dapo compare two or
more responses to a prompt; generation is described once (under `actor`, or as the role `rollout`); schedules
`one_step_off` and `async` take a role `rollout`; the mean response is not longer than the longest; a minibatch has at least one
prompt; `fsdp` has no pipeline, `sp` and `zero` are keys of `fsdp` alone, `ep` and `distributed_optimizer` of `megatron`; `kv_cache:
fp8` and `fp8: true` of training need a card with 8-bit floats, `quantization: fp8` compute capability 7.5, below 8.9 for weights alone
(rule `supported`).

Schedules: under `full` the roles of a stage (generate, prepare, update, sync weights) overlap where their GPUs differ; under `none`
one piece of work follows the other. The two others let generation run beside training, each on GPUs of its own. `one_step_off`:
generation of the next step, to the end of its longest answer, beside preparation and updates of this one; then both wait for the
weight sync. `async`: generation never waits for the longest answer but keeps its slots busy; a weight sync interrupts answers, which
go on with the new weights (partial rollouts), and whose contexts are computed anew: no more are kept under way than pay for that.
"""

_RULES = """\
# Rules

<!-- Made from placement/workloads/rules.py by `python -m placement.reference docs`; do not edit. -->

A rule text is a preset and/or switches, comma separated: `guide,contiguity=off,reserve=8%`. The command line
(`--rules`) wins over the workload file (`rules:`), which wins over the target's default; inside a text the
later word wins.

| rule | default | takes | says |
|---|---|---|---|
{rules}

## Presets of rule isolation

| preset | {pairs} | says |
|---|{lines}---|
{presets}

A separate rollout is apart from all others; in `colocate` it is together with them, in `free` it may share.
"""


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    return {"rules.md": _rules_page(), "workload.md": _workload_page()}


def _workload_page() -> str:
    from placement.catalog import workload_text
    from placement.workloads import workload_schema as schema

    sections: list[tuple[str, type[BaseModel]]] = [
        ("The file", schema.WorkloadFile),
        ("batch", schema.Batch),
        ("batch.response_tokens", schema.ResponseTokens),
        ("roles", schema.Roles),
        ("roles.actor", schema.Actor),
        ("roles.critic", schema.Critic),
        ("roles.ref", schema.Ref),
        ("roles.reward", schema.Reward),
        ("roles.rollout", schema.RolloutRole),
        ("rollout, under actor", schema.Rollout),
        ("layout, under a role", schema.Layout),
        ("train, under actor and critic", schema.Train),
        ("gpus, under a role", schema.GpuRange),
        ("model as numbers", schema.ModelNumbers),
    ]
    parts = [_WORKLOAD.format(example=workload_text("ppo-7b"))]
    parts += ["\n".join(_section(title, kind)) + "\n" for title, kind in sections]
    return "\n".join(parts)


def _section(title: str, kind: type[BaseModel]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"{kind.__doc__}\n"
    yield "| key | default | meaning |"
    yield "|---|---|---|"
    for name, field in kind.model_fields.items():
        yield f"| `{field.alias or name}` | {_default(field)} | {field.description} |"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    if isinstance(field.json_schema_extra, dict):
        return str(field.json_schema_extra["x-default"])
    if field.default_factory is not None:
        return "its defaults"
    return f"`{_yaml(field.default)}`"


def _yaml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_yaml, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


def _rules_page() -> str:
    import itertools

    from placement.workloads.rule_texts import PRESET_TEXTS, RULES
    from placement.workloads.rules import parse_rules
    from placement.workloads.workload import RoleName

    pairs = list(itertools.combinations([r for r in RoleName if r is not RoleName.ROLLOUT], 2))
    presets = [
        f"| `{p.name}` | {' | '.join(parse_rules(p.name).relation(a, b) for a, b in pairs)} | {p.says} |"
        for p in PRESET_TEXTS
    ]
    return _RULES.format(
        rules="\n".join(f"| `{r.name}` | {r.default} | {r.takes} | {r.says} |" for r in RULES),
        pairs=" | ".join(f"{a}–{b}" for a, b in pairs),
        lines="---|" * len(pairs),
        presets="\n".join(presets),
    )


def main(folder: str) -> None:
    """Write the pages into *folder*."""
    for name, text in pages().items():
        (Path(folder) / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
