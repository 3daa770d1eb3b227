"""
Write docs/validation.md and its plot: every prediction against the shipped measurements.

    python docs/make_validation.py            write both
    python docs/make_validation.py --check    fail if they differ from what the command says now
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path

from made import main

from placement.cli.validate import STAGE_COLUMNS, factors, number, percent, stage_cells, verdict
from placement.validation import rl_run, rl_steps
from placement.validation.reading import Folder
from placement.validation.report import Report, report
from placement.validation.rows import Group, Row, mape_percent
from placement.validation.scaling import after_scaling, scaled
from placement.validation.stages import STEPS, stages

PAGE = Path(__file__).with_name("validation.md")
VERL = "volcengine/verl"
PICTURE = Path(__file__).parent / "img" / "validation.svg"

HEAD = """\
# Predictions against measurements

What `placement validate` prints: every published measurement that is shipped in
[`placement/data/validation`](../placement/data/validation), each with its source, beside what planning predicts for it. Predictions go
through the functions that planning uses; `placement validate FOLDER` does the same for a folder of your own that is laid out alike, and
`--json` has every row with its parts and with what was taken for granted, under `stages` the errors of the pieces of steps, and under
`fitted` those of [fitted constants](#what-was-fitted). Made by `python docs/make_validation.py`; a test makes it again. A row that cannot
be predicted, as the catalogue has not its card or its model, no class is known for its link code, or no plan has its layout, is listed
with the reason and counted.

![Predicted over measured, group by group](img/validation.svg)

| group | rows | predicted | mean error | after one factor per framework | target | worst |
|---|---|---|---|---|---|---|
"""

TARGETS = {
    "rollout_memory": "5 %",
    "training_memory": "10 %",
    "links": "10 %",
    "collectives": "20 %",
    "rl_step_dense": "20 %; 10 % after a factor",
    "rl_step_moe": "35 %",
}

NOTES = {
    "rollout_memory": """\
The row of four H100 says neither how many sequences the engine may run nor which share of the memory it claims; with 8 GiB left of 79,
each of both moves the cache by a tenth. The published weights of gpt-oss-20b are larger than its parameters: kernels for four bits pad
them.""",
    "training_memory": """\
Both of torchtune's rows are over: its peaks are those of torch and leave out the CUDA context, which the constant of the formula holds.
For QLoRA, where little else is left, that is a fifth. What is computed again, adapters, ZeRO stages and layouts are switches of a workload;
where a prediction rests on one that a workload cannot say, its row does say so.""",
    "links": """\
Matrix 006 reads 205-260 GB/s on NVLinks that carry 275: its own note says that clocks limit the sample there. The pairs without NVLink
of matrix 009 lie on two sockets of a platform without peer-to-peer copies between sockets; `nvidia-smi topo -m` does not tell, and
planning takes them as PCIe across sockets until a source says so (`topo -p2p`).""",
    "collectives": """\
The L40S machine is a virtual one: from two to eight GPUs its bus bandwidth falls from 20 to 1.4 GB/s, which no PCIe tree does. Without
it the mean error is {without_l40s}. Curves over nodes are listed without a prediction, as their table does not state the network: sixteen
A100 reach 17.5 GB/s between two nodes, a tenth of the ports of a DGX. NCCL reaches 0.75 to 0.81 of what NVLinks are rated at on A100
and on H100 alike, but copies, which planning knows, 0.92 of it on A100 and 0.87 on H100: the one share that planning takes of a copy's
rate leaves H100 about a tenth over.""",
    "training_throughput": """\
Worst are sequences of 16,384 tokens and more. What is left of their time beside the matrix products is attention at 80 to 90 TFLOP/s on
A100 and 150 to 165 on H100 (causal, nothing repeated), half of what FlashAttention-2 publishes for both cards: these runs (MPT with
ALiBi) used earlier kernels. Planning counts FlashAttention-2, which frameworks for RL use. Runs with and without recomputation reach the
same MFU at short sequences, so that MFU here counts the FLOP of the model, whatever is repeated. Models under 1B are bound by launches.
Rows in 8 bits are predicted as a workload says it (`fp8: true`): products of linear layers at twice the rate, all else as before.""",
    "rl_step_dense": """\
Rows of verl do not state how long answers are, only the limit: a mean of 1000 tokens is taken for granted, and an error of that length
is an error of the step. They are also averages over training, in which answers grow. What their pieces showed, and what was mended:

- Colocated rows have a part of log-probabilities that no number of GPUs shortens: 107.7 s on 32 GPUs and 53.9 s on 128 are 36 s and the
  rest by the GPU. It is the padded batch that one controller hands out, 8,192 × 28,872 tokens: 152 ns a token, as the whole call was
  measured (verl pull request 3495), are 36 s. The model had 25 ns before, a figure of one chunk of such a call. Updates pay the same;
  engines are handed prompts alone.
- Updates scale worse than their FLOP: 512 sequences an update are 16 on a rank of 32, 4 on a rank of 128, and all wait for the fullest.
  Counted from the spread of lengths that generation has (no constant). Four GPUs share a sequence in these recipes (Ulysses), so that
  fewer ranks wait: taken for granted from 16,384 tokens on.
- Where generation runs beside training, what verl logs as `gen` is how long the trainer waits for it, and is compared with that.
  Predicted waits are mostly 0, measured ones 22 to 59 s: samples come in batches, which the longer side of a step cannot tell.
- Fully asynchronous rows go on with interrupted answers after a sync: their generation has no tail. At staleness 0 they may not, and
  count as one step off.
- The row with tools over many turns states neither its batch nor its lengths, and is not predicted.

What is left: updates and log-probabilities of trainers on GPUs of their own are over together (9 to 48 %), those of colocated rows under
together (12 to 27 %). Lengths that the rows do not state can do that; so can what colocated workers move between stages, as these runs
shard over two GPUs alone (HSDP), which the rows do not state either. The same page of verl shows what no model can reach: one
configuration (128 GPUs, staleness 0.5, four batches at a time) stands in two of its tables with 150.6 and 124.6 s, and with updates of
113 and 95 s, as answers grew otherwise. The stages of the colocated row of 32 GPUs do not add up to its step (735 of 790 s); another
version of the page has 313.8 s for its updates.

Synchronous steps of NeMo-RL stay a seventh under, more than those one step off: checking answers and converting weights are on the path
of the former alone, and not published. The row in 8 bits is predicted as a workload says it: `quantization: fp8` and `fp8: true`.""",
    "rl_step_moe": """\
NeMo-RL's first version is under by about three tenths, its second by a tenth, for the same model and GPUs. Expert parallelism counts as
planning counts it: experts spread over data parallel ranks alone, where Megatron spreads them over tensor parallel ranks too. The published
MFU of mixtures of experts (18 %) is of pre-training. Of verl's row the update is over by {update_actor} and the reference by
{ref_log_probs}. Its limit is 8,192 tokens: answers shorter than the 1000 tokens taken for granted would put both over, but by the same
share, so that they are not all of it. It is the only row of its framework: a factor would meet it by construction, and it is left out of
the mean after factors. Other families are not in the table. Do not trust a plan for a mixture of experts without a calibration.""",
    "weight_sync": """\
Syncs of mixtures of experts are bound by the number of tensors, not by bytes, and what a tensor costs is software: published syncs of the
same 19,500 tensors take 0.15 ms for each in slime, 0.27 in vime, 0.4 with FSDP in verl's benchmark of its checkpoint engine, and 2 where
Megatron's exporter broadcasts one by one (sources: `sync_tensor_us`). Planning takes the fastest, measured piece by piece: 118 µs for a
tensor, 7.5 ms for a bucket. Verl without a checkpoint engine is off both ways: its dense model is over ({dense}), its mixtures are under
({mixtures}). So no factor helps: with that of verl's rows, models that had no part in it are off by {left_out}. Nothing here is fitted to
these rows; the 0.1 ms of a tensor and 10 µs of a gather for each GPU, which stood here before, had no source and met them better (33 %).

A gather or broadcast over nodes leaves a node once for each, as NCCL counts its latencies. Without buckets each tensor is put together and
then broadcast down a chain of all GPUs, one after the other; shards that go straight from GPU to GPU (p2p) fill no buckets. NeMo-RL's small
rows are under: what it takes to convert Megatron's tensors, and to quantize them, is not published. Verl's table has another row for the
first model, 0.02 s with its engine for 15 GB between four and four GPUs: 760 GB/s, more than the NVLinks of an H20 carry, so that it is not
the time of a whole sync. Its source says that Megatron trained there, which gathers over fewer GPUs; the rows do not say it, and FSDP is
taken. A model that the catalogue does not know is taken as dense, of the size in its name or, for Nemotron 3, in its
announcement.""",
}

TAIL = """\
## What was fitted

These constants were chosen for the smallest error on published tables of which rows stand above (`obtained: fitted`). Each is fitted anew,
alone, to all models but one, in steps of 6 % of its value; what it then predicts of the one that was left out is the error to trust.
Classes of links are the medians of the matrices above: without one matrix, those of the others.

{refits}

No constant is fitted to a step of reinforcement learning, to a weight sync or to an engine's memory.
`engine_sampler_bytes_per_sequence_and_vocab` is counted, and checked on three of the logs. A100's throughput follows from
`train_mfu_dense` by `mfu_flops_per_byte`, 8 bits by the data sheets' `fp8_rate`. `pageable_share`, `hand_over_ns_per_token`,
`sync_tensor_us` and `sync_bucket_us` were looked for because of rows, and have the values of their sources, which are none of the rows.
`placement/data/constants.json` has the source of each constant.

Two assumptions, where published rows are silent, were settled with those rows in sight, and are worth as much as a fit: 1000 tokens for
the mean answer that verl's tables leave out, and that a run at staleness 0 counts as one step off. Verl's dense rows are of one model, so
that none can be left out. What the first decides, mean errors:

{lengths}

So the error of verl's rows is that of the model at the length that suits it best; rows that state their lengths (NeMo-RL) say more.

Factors per framework are fitted to the rows beside which they stand; the error for models that had no part in a factor is the one to
trust. A framework of one row has a factor and no error.
"""

FOLDER = """\
## A folder of your own

Files may be missing, fields may be null, and further fields are left alone. A damaged file is an error of its groups (exit code 2); the others
are compared. What is read of a row:

| file | fields | words, in `setup`, `mode`, `engine`, `notes` or `source` |
|---|---|---|
| `memory.json`, `inference` | `model`, `tp`, `pp`, `weights`, `kv`, `kv_tokens`, `kv_blocks_of_16`, `activation`, `non_torch`, `hardware` (or in `source`), `precision`, `gpu_memory_utilization`, `max_num_seqs`, `max_model_len`, `kv_cache_dtype` | `gpu_memory_utilization .9`, `max-model-len 16000`, `max-num-seqs 64`, `TP 4`, `PP 2`, `fp8 KV cache` |
| `memory.json`, `training` | `model`, `n_gpus`, `tokens_per_gpu`, `measured_peak`, `tok_per_s_per_gpu`, `lora_rank`, `seq_len`, `micro_batch_size`, `gpu`, `hardware` | `8×A100-80GB`, `H100 x8`, `2 nodes of 8 H100`, `DGX H100`, `seq_len=4096, bs 2`, `ctx 8K mbs=1`, `per-device batch 4`, `TP4 PP2 EP8 SP2`, `ZeRO-2`, `FULL_SHARD`, `HSDP`, `DDP`, `AdamW 8bit`, `Megatron`, `no distributed optimizer`, `LoRA r=16`, `QLoRA`, `full` or `selective recompute`, `no AC`, `fused` or `unfused CE`, `compile`, `offload`, `pure bf16`, `seq 8192, batch 2` |
| `rl_steps.json`, lists of steps | `step_s` or `step_time_s`; `framework`, `model`, `hardware` or `system`, `n_gpus`, `algorithm`, `mode` or `policy`, `precision`, `engine`, `max_response`, `mean_response`, `max_seq`, `avg_seq`, `train_batch_prompts`, `n_samples`, `mini_batch`, `gen_gbs`, `train_gbs_table`, `gen_tp_pp`, `train_layout`, `critic`, `reward_model`, `lora_rank`, `gpu_memory_utilization`, `kv_cache_dtype`; pieces: `gen_s`, `generate_sequences_s`, `wait_prev_gen_s`, `old_logprob_s`, `ref_s`, `values_s`, `reward_s`, `update_actor_s`, `update_critic_s`, `sync_s` | `fully async 32:32`, `staleness 0`, `one-step-off 4:12`, `separate 16+16`, `disaggregated`, `trainer 8 + rollout 24`, `colocated`, `Megatron TP4 PP2`, `ZeRO-2`, `LoRA r32`, `gradient checkpointing`, `fp8 rollout` |
| `rl_steps.json`, `weight_sync` | `sync_s`, or `sync_s_min` and `sync_s_max`; `model`, `hardware`, `trainer_gpus`, `rollout_gpus`, `mapping` (`TP8xPP8->TP16xDP16`), `checkpoint_engine`, `precision`, `method`, `engine`; `same` repeats the row before | `Megatron`, `p2p` |
| `collectives.json` | `system`, `op`, `n`, `max_bytes`, `busbw_at_max_GBs`, `devices_per_node`, `network_gbit_per_s` | `pairwise`, `bridge`, `400 Gbps` |
| `train_throughput.csv` | `model`, `n_params`, `seq_len`, `n_gpus`, `gpu`, `microbatch`, `grad_accum`, `global_batch`, `tok_per_s_per_gpu` or `tok_per_s`, `precision`, `mp_mode`, `sharding`, `act_ckpt`, `section` | `fp8`, `1600 Gbps` |
| `p2p/*.json` | `id`, `gpus`, `links`, `unidirectional_p2p_enabled` (or `…_read`, `…_disabled`, `bidirectional_…`), `hardware`, `source`, `notes` | `no P2P`, `patched`, `POWER9`, `PCIe Gen4` |

"""  # noqa: E501

STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#1f2328}.page{fill:#fff}.band{fill:#dde3e9}.tick{stroke:#8c959f}"
    "@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.page{fill:#0d1117}.band{fill:#2a333d}.tick{stroke:#656c76}}</style>"
)
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8c6d1f", "#777777")
WIDTH, LEFT, RIGHT, TOP, STRIP = 900, 190, 30, 40, 44
LIMIT = 4.0


def _lengths() -> str:
    """Return the errors of dense steps with other mean answers than the one that is assumed where rows state none."""
    lines = ["| mean answer, tokens | verl, dense | all dense rows |", "|---|---|---|"]
    assumed = rl_run.MEAN_RESPONSE_TOKENS
    for mean in (500, assumed, 1500, 2000):
        dense, _ = rl_steps.groups(Folder.at(None), mean_tokens=mean)
        of_verl = mape_percent([row for row in dense.rows if row.framework == "verl"])
        lines.append(f"| {mean}{' (assumed)' if mean == assumed else ''} | {of_verl:.1f} % | {dense.mape_percent:.1f} % |")
    return "\n".join(lines)


def contents() -> tuple[str, str]:
    """Return page and picture as they should be."""
    found = report(Folder.at(None))
    return "".join(_page(found)), _picture(found)


def _page(found: Report) -> Iterator[str]:
    yield HEAD
    for group in found.groups:
        mean = "–" if group.mape_percent is None else f"{group.mape_percent:.1f} %"
        after = after_scaling(group)
        worst = percent(group.worst.error_percent if group.worst else None)
        scaled = "" if after is None else f"{after:.1f} %"
        yield (
            f"| {group.name} | {len(group.rows)} | {len(group.predicted)} | {mean} | {scaled} | {TARGETS.get(group.name, '')} | {worst} |\n"
        )
    yield "\nWhat nothing predicts:\n\n"
    yield from (f"- {said}\n" for said in found.unpredicted)
    for group in found.groups:
        yield f"\n## {group.name}\n\n{group.title[0].upper()}{group.title[1:]}. {_safe(verdict(group))}.\n"
        note = NOTES.get(group.name, "")
        yield f"\n{note.format(**_figures(group))}\n" if note else ""
        lines = list(factors(group))
        yield "\n" + "".join(f"- {line.strip()}\n" for line in lines) if lines else ""
        yield from _pieces(group)
        yield "\n| row | measured | predicted | error | taken for granted, or why not |\n|---|---|---|---|---|\n"
        yield from map(_line, group.rows)
    yield "\n" + FOLDER + TAIL.replace("{lengths}", _lengths()).replace("{refits}", "\n".join(_refits(found)))


def _refits(found: Report) -> Iterator[str]:
    yield "| constant | group | rows | models | mean error | left out | values without one |\n|---|---|---|---|---|---|---|"
    for one in found.fitted:
        errors = ["–" if error is None else f"{error:.1f} %" for error in (one.mape_percent, one.left_out_percent)]
        values = "" if one.lowest is None else f"{one.lowest:.4g} to {one.highest:.4g}"
        name = f"`{one.name}`" if " " not in one.name else one.name
        yield f"| {name} | {one.group} | {one.rows} | {one.models} | {' | '.join(errors)} | {values} |"


def _pieces(group: Group) -> Iterator[str]:
    found = stages(group) if group.name in STEPS else ()
    if found:
        yield "\nPiece by piece, as errors of a step can cancel each other:\n\n"
        yield f"| {' | '.join(STAGE_COLUMNS)} |\n|{'---|' * len(STAGE_COLUMNS)}\n"
        yield from (f"| {' | '.join(stage_cells(one))} |\n" for one in found)


def _line(row: Row) -> str:
    said = row.why or "; ".join(row.assumed)
    return f"| {_safe(row.name)} | {number(row.measured)} | {number(row.predicted)} | {percent(row.error_percent)} | {_safe(said)} |\n"


def _safe(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace(">", "&gt;").replace("*", "\\*")


def _figures(group: Group) -> dict[str, str]:
    """Return the figures that the note of *group* names, so that it says what its rows say."""
    match group.name:
        case "collectives":
            return {"without_l40s": _without(group, "l40s")}
        case "rl_step_moe":
            return {one.name: f"{one.bias_percent:.0f} %" for one in stages(group)}
        case "weight_sync":
            verl = [row for row in group.rows if row.framework == VERL]
            dense, *mixtures = (percent(row.error_percent) for row in verl)
            (factor,) = (one for one in scaled(group) if one.framework == VERL)
            return {"dense": dense, "mixtures": ", ".join(mixtures), "left_out": f"{factor.left_out_percent or 0:.0f} %"}
    return {}


def _without(group: Group, start: str) -> str:
    return f"{mape_percent([row for row in group.rows if not row.name.startswith(start)]) or 0:.1f} %"


def _picture(found: Report) -> str:
    """Draw a strip for each group: a dot for each row, at predicted over measured."""
    height = TOP + STRIP * len(found.groups) + 40
    bottom = height - 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>Predicted over measured, group by group</title>",
        STYLE,
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
        f'<rect class="band" x="{_x(0.8):.1f}" y="{TOP}" width="{_x(1.25) - _x(0.8):.1f}" height="{bottom - TOP}"/>',
    ]
    for ratio, label in ((0.25, "¼ or less"), (0.5, "½"), (0.8, "0.8"), (1, "1"), (1.25, "1.25"), (2, "2"), (4, "4 or more")):
        lines.append(f'<line class="tick" x1="{_x(ratio):.1f}" x2="{_x(ratio):.1f}" y1="{TOP}" y2="{bottom}" stroke-width="1"/>')
        anchor = "end" if ratio == 4 else "middle"  # the last one ends where the picture does
        lines.append(f'<text x="{_x(ratio) + (10 if ratio == 4 else 0):.1f}" y="{bottom + 18}" text-anchor="{anchor}">{label}</text>')
    lines.append(f'<text x="{LEFT}" y="22">predicted over measured; the band is a fifth to either side</text>')
    for place, group in enumerate(found.groups):
        middle = TOP + STRIP * place + STRIP / 2
        lines.append(f'<text x="10" y="{middle + 4:.1f}">{group.name}</text>')
        for index, row in enumerate(group.predicted):
            y = middle + (index % 7 - 3) * 4  # beside each other where many are alike
            ratio = (row.predicted or 1.0) / (row.measured or 1.0)
            lines.append(f'<circle cx="{_x(ratio):.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[place]}" fill-opacity="0.7"/>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def _x(ratio: float) -> float:
    share = math.log(min(max(ratio, 1 / LIMIT), LIMIT)) / math.log(LIMIT)
    return LEFT + (WIDTH - LEFT - RIGHT) * (share + 1) / 2


def _pages() -> dict[Path, str]:
    text, picture = contents()
    return {PAGE: text, PICTURE: picture}


if __name__ == "__main__":
    sys.exit(main(__doc__, __file__, _pages))
