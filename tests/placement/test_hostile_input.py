"""
Input that no honest user writes: it is refused in one line, or it can be priced and planned, never a traceback.

Strategies start from what is right and damage it, so that most of it passes the first checks.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_configs import QWEN2_MOE, RECORDS, config_of

from placement.choices.choices import choices, parts
from placement.choices.hardware import Hardware
from placement.constants.table import constants
from placement.demand import MAX_TIME_US, Refusal, demand
from placement.errors import InputError
from placement.machines.sources import read_machine
from placement.models.model import Model, find_model
from placement.planner import SolverName, plan
from placement.program.instance import make_instance
from placement.program.lower import lower
from placement.program.menu import menu
from placement.text.strict_yaml import dump
from placement.workloads.dataflow import dataflow
from placement.workloads.rules import parse_rules
from placement.workloads.workload import (
    Algorithm,
    Batch,
    Engine,
    LayoutMenu,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
    Workload,
)
from placement.workloads.workload_file import load, to_document
from solvers.result import Options, Status

A100 = Hardware(
    gpus=4,
    flops=312e12,
    memory_bytes_per_s=2039e9,
    total_mib=81152,
    compute_capability=(8, 0),
    ring_bytes_per_s=275e9,
    ring_nvlink=True,
    block_bytes_per_s=((2, 275e9), (4, 275e9)),
    block_nvlink=((2, True), (4, True)),
    host_bytes_per_s=25e9,
)
BATCH = Batch(64, 2, 512, 512, 1024, 1, 8192)

CONFIGS = tuple({c["model_type"]: c for c in [*map(config_of, RECORDS), QWEN2_MOE]}.values())
"""One configuration of every family."""

OTHER_KEYS = ("text_config", "head_dim", "mlp_only_layers", "moe_layer_freq", "torch_dtype", "attention_bias", "dtype")
VALUES = st.one_of(
    st.sampled_from(
        [
            *("0", "-1", "1", "2", "7", "8.0", "1e999", "-Infinity", "NaN", "true", "false", "null", "{}", "[]"),
            *("2147483647", "10000", "100000", "65536", "16777216", "16777217", "9" * 40, "9" * 41, "9" * 5000),
            *('""', '"8"', '"llama"', '"\\ud800"', '{"model_type": "llama"}', "[0, 1]", "[-1]", "[1.0]"),
            "[" * 900 + "]" * 900,
        ]
    ),
    st.integers(-2, 200).map(str),
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Draw the text of a configuration with up to three values changed, added or removed."""
    config = {key: json.dumps(value) for key, value in draw(st.sampled_from(CONFIGS)).items()}
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from([*config, *OTHER_KEYS]))
        value = draw(st.none() | VALUES)
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value
    entries = [f'"{key}": {value}' for key, value in config.items()]
    return "{" + ", ".join(draw(st.permutations(entries))) + "}"


def assert_priced(model: Model) -> None:
    """Assert that every role with *model* has a price, or a sentence why not, for each of its choices."""
    tps = tuple(tp for tp in (1, 2, 4) if model.can_share_heads(tp))
    layout, train = LayoutMenu(tp=tps, pp=(1, 2)), TrainMenu(lora=16)
    roles = (
        Role(RoleName.ACTOR, model, Engine.MEGATRON, layout=layout, train=train, rollout=RolloutMenu(tp=tps)),
        Role(RoleName.CRITIC, model, Engine.FSDP, train=TrainMenu(fused_ce=False)),
        Role(RoleName.REF, model, Engine.VLLM, layout=LayoutMenu(tp=tps)),
        Role(RoleName.REWARD, model),
    )
    job = Workload(Algorithm.PPO, BATCH, roles)
    for role in roles:
        for part in parts(role):
            for choice, _ in choices(role, part, A100):
                cost = demand(role, part, choice, job, A100, constants(), dataflow(job))
                if not isinstance(cost, Refusal):
                    assert all(0 < us < MAX_TIME_US for us in cost.times_us.values())
                    assert all(mib > 0 for mib in (cost.resident_mib, *cost.active_mib.values()))


@settings(max_examples=150, deadline=None)
@given(damaged(), st.sampled_from([None, "1", "1" * 400, "-1", "1.5", "NaN", '"1"', "[]"]))
def test_a_damaged_configuration_is_refused_or_priced(tmp_path_factory, text, size):
    """A weight index of any size may lie beside it."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text(text, encoding="utf-8")
    if size is not None:
        (folder / "model.safetensors.index.json").write_text(f'{{"metadata": {{"total_size": {size}}}}}')
    try:
        model = find_model(str(folder))
    except InputError as error:
        assert error.where is not None
        assert error.where.startswith(str(folder))
        assert len(str(error)) < 500 + len(str(folder))
        return
    assert_priced(model)


NUMBERS = {"parameters": 10**9, "hidden": 2048, "layers": 16, "heads": 32, "kv_heads": 8, "vocab": 32000, "ffn": 8192}
SIZES = st.sampled_from([0, 1, 2, 7, 64, 10_000, 1 << 16, 1 << 24, 1 << 40, 1 << 50, 1 << 60])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(set(Model.__slots__) - {"name", "tie_embeddings"})), SIZES, max_size=4))
def test_numbers_of_a_model_are_refused_or_priced(changes):
    try:
        model = find_model(NUMBERS | changes)
    except InputError:
        return
    assert_priced(model)
    job = Workload(Algorithm.GRPO, BATCH, (Role(RoleName.ACTOR, model, train=TrainMenu(), rollout=RolloutMenu()), FUNCTION))
    assert job == load(dump(to_document(job)))


FUNCTION = Role(RoleName.REWARD, None)

JOB = """\
algorithm: {algorithm}
batch:
  prompts: {prompts}
  samples_per_prompt: {samples}
  prompt_tokens: {prompt}
  response_tokens: {{mean: {mean}, max: {longest}}}
  minibatches: {minibatches}
  micro_batch_tokens: {micro}
roles:
  actor: {{model: Qwen2.5-0.5B, rollout: {{max_num_seqs: {seqs}}}}}
  ref: {{model: Qwen2.5-0.5B}}
  reward: {{function: true}}
"""
counts = st.sampled_from([1, 2, 3, 64, 1000, 1 << 16, 1 << 20, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40])


@st.composite
def jobs(draw: st.DrawFn) -> str:
    """Draw a workload whose numbers are of any size; half of the time they can belong together."""
    keys = ("prompts", "samples", "prompt", "mean", "longest", "minibatches", "micro", "seqs")
    numbers = {key: draw(counts) for key in keys}
    if draw(st.booleans()):
        numbers["longest"] = max(numbers["mean"], numbers["longest"])
        numbers["minibatches"] = min(numbers["prompts"], numbers["minibatches"])
        numbers["samples"] = max(2, numbers["samples"])
    return JOB.format(algorithm=draw(st.sampled_from(["grpo", "remax", "reinforce++"])), **numbers)


@settings(max_examples=100, deadline=None)
@given(jobs())
def test_a_job_of_any_size_is_refused_or_planned(text):
    """On a real machine: within the numbers of the solvers there is a plan, or a sentence why not."""
    try:
        job = load(text)
    except InputError as error:
        assert error.where is not None
        return
    instance = make_instance(read_machine("hgx-a100-4"), job, parse_rules("guide"))
    tables = menu(instance)
    problem = lower(instance, tables).problem
    assert all(us < MAX_TIME_US for item in problem.items for slot in item.slots for option in slot for us in option.times)
    everyone = all(
        any(tables.priced[role.name, part, p] for part in parts(role) for p in range(len(tables.profiles))) for role in job.placed
    )
    assert everyone or plan(instance).clash


@pytest.mark.parametrize(
    ("numbers", "status"),
    [
        pytest.param({"prompts": 1 << 31, "prompt": 1 << 12, "mean": 1 << 12}, Status.OPTIMAL, id="decades"),
        pytest.param({"prompts": 1 << 31, "prompt": 1 << 20, "mean": 1 << 20}, Status.INFEASIBLE, id="ages"),
        pytest.param({"seqs": 1 << 40, "micro": 1 << 40}, Status.OPTIMAL, id="menus without end"),
    ],
)
def test_large_jobs_are_planned_to_the_proof(numbers, status):
    """Just below what solvers may hold the proof is the same; above it the plan says which work takes too long."""
    usual = {"prompts": 64, "samples": 2, "prompt": 512, "mean": 512, "minibatches": 1, "micro": 8192, "seqs": 64}
    values = usual | numbers
    job = load(JOB.format(algorithm="grpo", longest=values["mean"], **values))
    instance = make_instance(read_machine("hgx-a100-4"), job, parse_rules("guide"))
    outcome = plan(instance, solver=SolverName.CPSAT, options=Options(time_limit_s=20))
    assert status is outcome.status
    if status is Status.INFEASIBLE:
        assert any("of ref would take" in line and "4,294,967,296 sequences" in line for line in outcome.clash)
