"""
Steps of reinforcement learning: `placement.demand` predicts every piece of work, and the schedule adds them up.

When to modify: a list of ``rl_steps.json`` states its steps in other fields.
"""

from __future__ import annotations

import functools

from placement.validation import naming
from placement.validation.reading import LONGEST_TEXT, Folder, Record
from placement.validation.rl_run import MEAN_RESPONSE_TOKENS, read_run
from placement.validation.rl_time import WAIT, step_s
from placement.validation.rows import Group, Part, Row, Unpredictable

FILE = "rl_steps.json"
_STEP = ("step_time_s", "step_s")
_STAGES = {
    "generate": ("generate_sequences_s", "gen_s"), "old_log_probs": ("old_logprob_s", "logprob_s"), "ref_log_probs": ("ref_s",),
    "values": ("values_s",), "reward": ("reward_s",), "update_critic": ("update_critic_s",), "update_actor": ("update_actor_s",),
    "sync_weights": ("sync_s", "refit_s", "update_weights_s"), WAIT: ("wait_prev_gen_s", "gen_s"),
}  # fmt: skip
"""Fields of the pieces of work. ``gen_s`` is generation, or the wait for it where it runs beside training."""


def groups(folder: Folder, *, mean_tokens: int = MEAN_RESPONSE_TOKENS) -> tuple[Group, Group]:
    """
    Return the steps of dense models and of mixtures of experts.

    Parameters
    ----------
    mean_tokens
        Mean response that is taken for granted where rows state none.
    """
    make = functools.partial(_row, mean_tokens=mean_tokens)
    dense: list[Row] = []
    experts: list[Row] = []
    for name in lists(folder):
        for record in folder.records(folder.parts(FILE)[name], f"{FILE}: {name}"):
            (experts if has_experts(record) else dense).append(record.or_unfit("s", functools.partial(make, listed=name)))
    return (
        Group("rl_step_dense", "a step of reinforcement learning, dense models, s", tuple(dense)),
        Group("rl_step_moe", "a step of reinforcement learning, mixtures of experts, s", tuple(experts)),
    )


def lists(folder: Folder) -> tuple[str, ...]:
    """Return the lists of the file whose rows state the time of a step."""
    found = folder.parts(FILE)
    return tuple(
        name
        for name, rows in found.items()
        if isinstance(rows, list) and any(isinstance(row, dict) and any(key in row for key in _STEP) for row in rows)
    )


def unpredicted(folder: Folder) -> tuple[str, ...]:
    """Return the lists that nothing predicts, each with the reason."""
    known = {*lists(folder), "weight_sync"}
    return tuple(
        f"{name} ({FILE}): its rows do not say how long answers are, how they are batched or on what they run"
        for name, rows in folder.parts(FILE).items()
        if name not in known and isinstance(rows, list | dict)
    )


def has_experts(record: Record) -> bool:
    """Whether the model of the row is a mixture of experts; by its name where the catalogue does not know it."""
    name = record.fields.get("model")
    if not isinstance(name, str) or len(name) > LONGEST_TEXT:
        return False
    try:
        return naming.find(name).experts > 0
    except Unpredictable:
        return naming.sounds_like_experts(name)


def _row(record: Record, listed: str, mean_tokens: int) -> Row:
    measured = next((value for key in _STEP if (value := record.measured(key)) is not None), None)
    if measured is None:
        raise record.fail(_STEP[1], "a measured value above zero")
    framework = (record.text("framework") or listed).partition(" ")[0]
    model = record.text("model")
    mode = record.text("mode") or record.text("policy")
    words = (framework, model, mode, record.text("precision"), f"{record.count('n_gpus') or '?'} GPUs")
    name = ", ".join(filter(None, words))
    source = record.text("source")
    try:
        run = read_run(record, mean_tokens)
        seconds, pieces = step_s(run)
        measured_of = {stage: _measured(record, stage, overlaps=run.schedule.overlaps_generation) for stage in pieces}
    except Unpredictable as why:
        return Row(name, "s", measured, why=str(why), framework=framework, model=model, source=source)
    parts = tuple(Part(stage, measured_of[stage], predicted) for stage, predicted in pieces.items())
    return Row(name, "s", measured, seconds, assumed=run.assumed, parts=parts, framework=framework, model=run.model.name, source=source)


def _measured(record: Record, stage: str, *, overlaps: bool) -> float | None:
    """Return what the row states of a piece of work; None where it states nothing, or 0, as tables have for what is not run."""
    keys = [key for key in _STAGES.get(stage, ()) if not (overlaps and stage == "generate" and key == "gen_s")]
    return next((found for key in keys if (found := record.number(key))), None)
