"""
Write docs/calibration.md: constants of a user's own, and factors fitted to a log, as the commands answer today.

    python docs/make_calibration.py            write it
    python docs/make_calibration.py --check    fail if it differs from what the commands say now
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from made import main

from placement.calibrating.timing_keys import ADDED, OTHERS, PARTS, STAGES, WHOLE

PAGE = Path(__file__).with_name("calibration.md")

CONSTANTS = """\
train_mfu_dense: {value: 0.34, source: throughput of our pretraining on the same node}
decode_overhead_us: 1800
"""

LOG = """\
(TaskRunner pid=7) step:1 - timing_s/gen:71.0 - timing_s/reward:6.9 - timing_s/old_log_prob:31.0 - timing_s/ref:30.2 - timing_s/values:27.3 - timing_s/adv:0.3 - timing_s/update_critic:98.1 - timing_s/update_actor:110.4 - timing_s/update_weights:4.0 - timing_s/step:380.9
(TaskRunner pid=7) step:2 - timing_s/gen:58.2 - timing_s/reward:6.1 - timing_s/old_log_prob:27.4 - timing_s/ref:26.9 - timing_s/values:24.8 - timing_s/adv:0.2 - timing_s/update_critic:88.9 - timing_s/update_actor:97.6 - timing_s/update_weights:1.9 - timing_s/step:333.1
(TaskRunner pid=7) step:3 - timing_s/gen:59.4 - timing_s/reward:6.2 - timing_s/old_log_prob:27.9 - timing_s/ref:27.1 - timing_s/values:25.2 - timing_s/adv:0.2 - timing_s/update_critic:89.7 - timing_s/update_actor:98.4 - timing_s/update_weights:2.1 - timing_s/step:337.4
(TaskRunner pid=7) step:4 - timing_s/gen:57.9 - timing_s/reward:6.1 - timing_s/old_log_prob:27.6 - timing_s/ref:27.0 - timing_s/values:25.0 - timing_s/adv:0.2 - timing_s/update_critic:89.2 - timing_s/update_actor:98.0 - timing_s/update_weights:2.0 - timing_s/step:334.2
"""  # noqa: E501 - as loggers print them

TIMINGS = """\
run: {device_map: {actor: [0, 1, 2, 3], critic: [4, 5, 6, 7], ref: [0, 1, 2, 3], reward: [4, 5, 6, 7]}}
log: train.log
"""

QUESTION = ("--topology", "dgx-a100-80gb", "--workload", "ppo-7b")

TEXT = """\
# Constants and measured times of your own

<!-- Made by `python docs/make_calibration.py`; a test makes it again. -->

Predictions come from [formulas](model.md) and published constants. Two options of `placement plan` put what *you* know
in their place.

## `--constants FILE`: another value for a constant

`placement catalog constants` lists every number of the model that is no physics: value, unit, how it was obtained,
source; what classes of links carry (`pcie_gen4_p2p_gb_per_s`) is among them. A YAML file names those that are other with you, each with
its source if you like:

```yaml
{constants}```

```text
$ placement plan {question} --constants constants.yaml -o map.yaml
{constants_output}
```

Shares lie above 0 and end at 1, amounts of memory and time may be 0, and nothing may be more than 200 times smaller or
larger than the shipped value: that would be another unit. The map records what was put in place, among the assumptions
and under `inputs: constants:`, and its checker computes with it. A map can be given as FILE, too: then the constants
that it was planned with are taken again.

## `--calibrate FILE`: factors from a run

If the job has run, its log says how long each stage took. `--calibrate` fits one factor per stage, measured over
predicted, and plans again with them. The file is a log (what verl or NeMo-RL print, or one JSON mapping of metrics per
line), a YAML mapping of timers, or YAML that also says what ran where:

```yaml
{timings}```

`run` is a `device_map` for the machine and the job of the question, or `map: FILE` with a map that `placement plan`
wrote: it brings its own machine and job, which may be others. Without it
the prediction is that of the plan of the uncalibrated model, and the command says so. Layouts, offload and micro-batch
of a `device_map` are the fastest of the workload's menus: where the run had others, write them into the workload. With
this log (made up for this page; its lines are cut)

```text
{log}```

the command says:

```text
$ placement plan {question} --calibrate timings.yaml -o map.yaml
{calibrate_output}
```

* Of several steps the median counts; of three or more the first is left out.
* Each stage says of how many steps it is the median: of those in which it took any time. What is no time (nan, inf, negative), a step
  that is there twice, and a last line that was cut are told with their line and not used. Where the numbers of steps start over, the
  last run counts, and the command says so. A log with stages of both frameworks is refused.
* A factor outside 0.5 to 2 is taken, with a warning: the model misses something that no factor repairs on other
  machines.
* A stage without a timer keeps its prediction; timers that are not used, or not known, are listed.
* Where generation runs beside training (`one_step_off`, `async`), logs time the *wait* for it (`gen`, `exposed_generation`,
  `wait_prev_gen`). A trainer that waited says how long generation took: prepare + update + wait; one that did not says that it took no
  longer than training. A calibrated plan of that placement that misses the measured step by more than 5 % is warned of.
* A timer of two pieces of work (`policy_and_reference_logprobs`) gives both one factor. `reshard` of older verl is a
  part of `gen`, and is subtracted from it where it is the only time of a weight sync.
* Factors scale whole pieces of work with their fixed costs, on every group of GPUs alike. They correct speed, not
  memory, and say nothing of how a stage grows with more GPUs.
* Where generation overlaps with training (`schedule`), `gen` is the wait for it; `generate_sequences` is taken. Logs of
  fully asynchronous runs sum several updates in a line: divide them first.

The factors are constants (`generate_time_factor` …), 1 as shipped. So the map records them, and

```text
placement plan --topology h100-8.txt --workload ppo-7b --constants map.yaml
```

takes them along to another question.

## Timers that are known

With or without the prefix `timing_s/` (verl) or `timing/train/` (NeMo-RL), and whatever a logger puts before that. Of
several timers for the same work the first is taken.

| work | timers |
|---|---|
{stages}

Of the step: {whole}. Added to another: {added}. Known, and in no stage:

| timers | why |
|---|---|
{others}
"""


def contents() -> str:
    """Return the page as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("constants.yaml", CONSTANTS), ("train.log", LOG), ("timings.yaml", TIMINGS)):
            (Path(folder) / name).write_text(text, encoding="utf-8")
        constants = _said(folder, "--constants", "constants.yaml")
        calibrate = _said(folder, "--calibrate", "timings.yaml")
    return TEXT.format(
        constants=CONSTANTS,
        timings=TIMINGS,
        log="".join(f"{line[:118]} …\n" for line in LOG.splitlines()),
        question=" ".join(QUESTION),
        constants_output=constants,
        calibrate_output=calibrate,
        stages="\n".join(_stages()),
        added=", ".join(f"`{name}` to `{other}`" for name, other in ADDED.items()),
        whole=", ".join(f"`{name}`" for name in WHOLE),
        others="\n".join(_others()),
    )


def _said(folder: str, *options: str) -> str:
    """Return what the command says, down to the verdict."""
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "placement", "plan", *QUESTION, *options, "-o", "map.yaml", "--force"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    said, _, _ = done.stderr.partition("\nrole ")
    return said


def _stages() -> Iterator[str]:
    works = dict.fromkeys(timer.works for timer in STAGES.values())
    for work in works:
        names = sorted((name for name, timer in STAGES.items() if timer.works == work), key=lambda name: STAGES[name].rank)
        yield f"| {' + '.join(work)} | {', '.join(f'`{name}`' for name in names)} |"


def _others() -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for name, why in (*OTHERS.items(), *((f"{start}…", why) for start, why in PARTS.items())):
        reasons.setdefault(why, []).append(f"`{name}`")
    for why, names in reasons.items():
        yield f"| {', '.join(names)} | {why} |"


if __name__ == "__main__":
    sys.exit(main(__doc__, __file__, lambda: {PAGE: contents()}))
