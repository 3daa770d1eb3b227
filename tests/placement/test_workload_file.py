"""Workload files: what they may say, what is derived, and how they are refused."""

from __future__ import annotations

import dataclasses
import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.errors import InputError
from placement.models.model import catalogue, find_model
from placement.text.strict_yaml import dump
from placement.workloads import workload_schema
from placement.workloads.rules import PRESETS
from placement.workloads.workload import (
    Algorithm,
    Batch,
    Engine,
    KvCache,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Quantization,
    Recompute,
    Role,
    RoleName,
    RolloutMenu,
    Schedule,
    TrainMenu,
    Workload,
)
from placement.workloads.workload_file import json_schema, load, to_document

ACTOR, ROLLOUT, CRITIC, REF, REWARD = RoleName

SMALLEST = """\
algorithm: ppo
batch: {prompts: 64, prompt_tokens: 100, response_tokens: 200}
roles:
  actor: {model: Qwen2.5-7B}
  critic: {model: Qwen2.5-1.5B}
  reward: {function: true}
"""

EVERYTHING = """\
schema: placement/workload/v1
name: my job
algorithm: ppo
schedule: async
batch:
  {prompts: 64, samples_per_prompt: 2, prompt_tokens: 100, response_tokens: {mean: 150, max: 200},
   minibatches: 4, micro_batch_tokens: 4096}
roles:
  actor:
    model:
      {name: tiny, parameters: 1000000000, hidden: 2048, layers: 16, heads: 32, kv_heads: 8, vocab: 32000,
       ffn: 8192}
    engine: megatron
    gpus: {min: 2, max: 6}
    layout: {tp: [2, 4], pp: 2, dp: [1, 2]}
    train:
      {master: bf16, offload: [always, none], micro_batch_tokens: [4096, 8192], fused_ce: false, lora: 16}
    precision: bf16
  rollout: {engine: sglang, layout: {tp: [4, 2]}, gpu_memory_utilization: 0.85, max_num_seqs: 64,
            gpus: [2, 1]}
  critic: {model: Qwen/Qwen2.5-0.5B, gpus: 2}
  ref: {model: Qwen/Qwen2.5-7B, engine: vllm, layout: {tp: 2}, offload: between}
  reward: {model: Qwen/Qwen2.5-1.5B, offload: [none, between], precision: [fp16, bf16]}
rules: {preset: strict, contiguity: off, reserve: 8%, affinity: false, min_gpus: 3}
"""


def test_the_smallest_file_gets_every_default():
    batch = Batch(64, 1, 100, 200, 200, 1, 8192)
    train = TrainMenu(micro_batch_tokens=(8192,))
    rollout = RolloutMenu(Engine.VLLM, (1, 2, 4), (0.5, 0.6, 0.7, 0.8), 256)
    assert load(SMALLEST) == Workload(
        algorithm=Algorithm.PPO,
        batch=batch,
        roles=(
            Role(ACTOR, find_model("Qwen2.5-7B"), train=train, rollout=rollout),
            Role(CRITIC, find_model("Qwen2.5-1.5B"), train=train),
            Role(REWARD, None),
        ),
    )


def test_every_key_is_read():
    workload = load(EVERYTHING)
    actor, rollout, critic, ref, reward = workload.roles
    assert (
        workload.name,
        workload.schedule,
        workload.rules,
    ) == ("my job", Schedule.ASYNC, "preset=strict,contiguity=off,reserve=8%,affinity=off,min_gpus=3")
    assert workload.batch == Batch(64, 2, 100, 150, 200, 4, 4096)
    assert actor == Role(
        ACTOR,
        actor.model,
        engine=Engine.MEGATRON,
        min_gpus=2,
        max_gpus=6,
        layout=LayoutMenu((2, 4), (2,), (1, 2)),
        train=TrainMenu(
            (Master.BF16,), (Offload.ALWAYS, Offload.NONE), (4096, 8192), fused_ce=False, lora=16
        ),
        precision=(Precision.BF16,),
    )
    assert (actor.model.name, actor.model.parameters, actor.model.head_dim) == ("tiny", 10**9, 64)
    assert rollout == Role(
        ROLLOUT,
        actor.model,
        engine=Engine.SGLANG,
        gpu_menu=(1, 2),
        layout=LayoutMenu((4, 2)),
        rollout=RolloutMenu(Engine.SGLANG, (4, 2), (0.85,), 64),
    )
    assert critic.gpu_menu == (2,)
    assert (ref.engine, ref.layout.tp, ref.offload) == (Engine.VLLM, (2,), (Offload.BETWEEN,))
    assert (
        reward.offload,
        reward.precision,
    ) == ((Offload.NONE, Offload.BETWEEN), (Precision.FP16, Precision.BF16))


def test_menus_are_cut_to_what_divides_the_heads():
    """Qwen2.5-0.5B has 14 heads and 2 KV heads: 4 and 8 divide neither, 7 would split KV heads unevenly."""
    text = SMALLEST.replace("Qwen2.5-7B}", "Qwen2.5-0.5B, engine: megatron, layout: {tp: [2, 4, 2, 7]}}")
    actor = load(text).role(ACTOR)
    assert actor.layout.tp == (2,)
    assert actor.layout.pp == (1, 2)
    assert actor.rollout.tp == (1, 2)


def test_a_micro_batch_holds_the_longest_sequence_by_default():
    assert load(SMALLEST.replace("200}", "10000}", 1)).batch.micro_batch_tokens == 10_100


def test_models_are_found_beside_the_file(tmp_path):
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 100,
    }
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(config))
    workload = load(SMALLEST.replace("Qwen2.5-7B", "./mine"), folder=tmp_path)
    assert (workload.role(ACTOR).model.hidden, workload.role(ACTOR).model.heads) == (64, 4)
    assert workload == load(dump(to_document(workload)))


# ── round trip ──────────────────────────────────────────────────────────────────────────────────────────────

counts = st.integers(1, 5000)


def menus(values):
    return st.lists(values, min_size=1, max_size=3, unique=True).map(tuple)


gpu_wishes = st.one_of(
    st.just({}),
    menus(st.integers(1, 64)).map(lambda sizes: {"gpu_menu": tuple(sorted(sizes))}),
    st.tuples(st.integers(1, 8), st.integers(8, 64)).map(
        lambda pair: {"min_gpus": pair[0], "max_gpus": pair[1]}
    ),
    st.integers(1, 8).map(lambda least: {"min_gpus": least}),
)
models = st.sampled_from(list(catalogue().values())) | st.sampled_from(list(catalogue().values())).map(
    lambda model: dataclasses.replace(model, name="mine", max_position=None)
)
precisions = menus(st.sampled_from(Precision))
shares = menus(st.floats(0.01, 0.99))
trains = st.builds(
    TrainMenu,
    menus(st.sampled_from(Master)),
    menus(st.sampled_from(Offload)),
    menus(counts),
    st.booleans(),
    st.integers(0, 64),
)
stages = menus(st.sampled_from([1, 2, 3]))


def fitting(model):
    return menus(
        st.sampled_from(
            [
                t
                for t in (1, 2, 4, 8)
                if model.heads % t == 0 and (model.kv_heads % t == 0 or t % model.kv_heads == 0)
            ]
        )
    )


@st.composite
def workloads(draw):
    algorithm = draw(st.sampled_from(Algorithm))
    response = draw(counts)
    prompts = draw(counts)
    batch = Batch(
        prompts,
        draw(st.integers(2, 16)),
        draw(counts),
        draw(st.integers(1, response)),
        response,
        draw(st.integers(1, prompts)),
        draw(counts),
    )
    separate = draw(st.booleans())

    def rollout(model):
        return RolloutMenu(
            draw(st.sampled_from([Engine.VLLM, Engine.SGLANG])),
            draw(fitting(model)),
            draw(shares),
            draw(counts),
            draw(menus(st.sampled_from(Quantization))),
            draw(menus(st.sampled_from(KvCache))),
            draw(st.booleans()),
        )

    def role(name, engines, **more):
        model, engine = draw(models), draw(st.sampled_from(engines))
        is_fsdp, is_megatron = engine is Engine.FSDP, engine is Engine.MEGATRON
        pp = (1,) if is_fsdp else draw(menus(st.integers(1, model.layers)))
        tp = draw(fitting(model))
        sp = draw(menus(st.sampled_from([n for n in (1, 2, 4) if any(model.can_share_heads(n * t) for t in tp)] if is_fsdp else [1])))
        ep = draw(menus(st.sampled_from([n for n in (1, 2, 4) if is_megatron and model.experts % n == 0 and model.experts] or [1])))
        layout = LayoutMenu(tp, pp, draw(st.none() | menus(counts)), sp, ep)
        if "train" in more:
            more["train"] = dataclasses.replace(
                more["train"],
                zero=draw(stages) if is_fsdp else (3,),
                distributed_optimizer=is_fsdp or draw(st.booleans()),
                recompute=draw(st.sampled_from([None, *Recompute])),
                fp8=draw(st.booleans()),
            )
        return Role(
            name, model, engine, layout=layout, precision=draw(precisions), **draw(gpu_wishes), **more
        )

    train_engines, frozen_offloads = (
        [Engine.FSDP, Engine.MEGATRON],
        menus(st.sampled_from([Offload.NONE, Offload.BETWEEN])),
    )
    actor = role(ACTOR, train_engines, train=draw(trains))
    if separate:
        menu = rollout(actor.model)
        generating = Role(
            ROLLOUT,
            actor.model,
            menu.engine,
            layout=LayoutMenu(menu.tp),
            rollout=menu,
            precision=draw(precisions),
            **draw(gpu_wishes),
        )
        roles = [actor, generating]
    else:
        roles = [actor.replace(rollout=rollout(actor.model))]
    if algorithm is Algorithm.PPO:
        roles.append(role(CRITIC, train_engines, train=draw(trains)))
    if draw(st.booleans()):
        roles.append(role(REF, list(Engine), offload=draw(frozen_offloads)))
    roles.append(
        role(REWARD, list(Engine), offload=draw(frozen_offloads))
        if draw(st.booleans())
        else Role(REWARD, None)
    )
    schedule = draw(st.sampled_from(list(Schedule) if separate else [Schedule.FULL, Schedule.NONE]))
    return Workload(
        algorithm,
        batch,
        tuple(roles),
        schedule,
        draw(st.none() | st.sampled_from(PRESETS)),
        draw(st.none() | st.text(min_size=1, max_size=8)),
    )


def test_layouts_and_precisions_that_few_jobs_need_are_menus():
    text = SMALLEST.replace(
        "{model: Qwen2.5-7B}",
        "{model: Qwen2.5-7B, layout: {sp: [1, 2, 3]}, train: {zero: [3, 2], recompute: selective, fp8: true}, "
        "rollout: {quantization: [none, fp8], kv_cache: fp8, sleep: false}}",
    ).replace("Qwen2.5-1.5B}", "Qwen3-30B-A3B, engine: megatron, layout: {ep: [8, 3]}, train: {distributed_optimizer: false}}")
    job = load(text)
    actor, critic = job.role(ACTOR), job.role(CRITIC)
    # 28 heads and 4 KV heads: three ranks cannot share them, nor 128 experts.
    assert (actor.layout.sp, actor.train.zero) == ((1, 2), (3, 2))
    assert (actor.rollout.quantization, actor.rollout.kv_cache) == (tuple(Quantization), (KvCache.FP8,))
    assert actor.rollout.sleep is critic.train.distributed_optimizer is False
    assert (actor.recompute, actor.train.fp8) == (Recompute.SELECTIVE, True)
    # What the user does not say is the engine's own way: all of a layer again under FSDP, Megatron's selective form.
    assert (critic.train.recompute, critic.recompute) == (None, Recompute.SELECTIVE)
    assert load(SMALLEST).role(ACTOR).recompute is Recompute.FULL
    assert critic.layout.ep == (8,)
    written = to_document(job)["roles"]
    assert written["actor"]["layout"]["sp"] == [1, 2]
    assert load(dump(to_document(job))) == job
    # What is left at its default is not written: files stay as short as they were.
    usual = to_document(load(SMALLEST))["roles"]["actor"]
    assert not {"sp", "ep"} & usual["layout"].keys()
    assert not {"zero", "distributed_optimizer", "recompute", "fp8"} & usual["train"].keys()
    assert not {"quantization", "kv_cache", "sleep"} & usual["rollout"].keys()


@given(workloads())
def test_a_workload_that_is_written_reads_back_the_same(workload):
    assert workload == load(dump(to_document(workload)))


# ── refusals ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_error_shows_file_line_and_column():
    with pytest.raises(InputError) as raised:
        load(SMALLEST.replace("prompts", "promts"), name="job.yaml")
    assert str(raised.value) == (
        "job.yaml:2:9: unknown key 'promts' in batch; did you mean 'prompts'? (1 more error in this file)\n"
        "  batch: {promts: 64, prompt_tokens: 100, response_tokens: 200}\n"
        "          ^"
    )


@pytest.mark.parametrize(
    ("old", "new", "where", "says"),
    [
        # keys
        pytest.param(
            "  reward:",
            "  ref_model: {model: x}\n  reward:",
            "6:3",
            "unknown key 'ref_model' in roles; did you mean 'ref'?",
            id="ref_model",
        ),
        pytest.param(
            "  reward:", "  rm:", "6:3", "unknown key 'rm' in roles; did you mean 'reward'?", id="rm"
        ),
        pytest.param(
            "  reward:",
            "  judge: {model: x}\n  reward:",
            "6:3",
            "unknown key 'judge' in roles: known are actor, rollout,",
            id="unknown role",
        ),
        pytest.param(
            "model: Qwen2.5-7B",
            "model: Qwen2.5-7B, layout: {ttp: 1}",
            "4:39",
            "'ttp' in roles.actor.layout; did you mean 'tp'?",
            id="layout key",
        ),
        pytest.param(
            "model: Qwen2.5-7B",
            "model: {hiden: 1}",
            "4:19",
            "'hiden' in roles.actor.model; did you mean 'hidden'?",
            id="model number",
        ),
        pytest.param("algorithm: ppo\n", "", "1:1", "the file needs the key 'algorithm'", id="no algorithm"),
        pytest.param(
            "model: Qwen2.5-7B",
            "engine: fsdp",
            "4:3",
            "roles.actor needs the key 'model'",
            id="role without a model",
        ),
        pytest.param(
            "{model: Qwen2.5-1.5B}",
            "",
            "5:3",
            "the role critic is empty: give it a model, or remove it",
            id="empty role",
        ),
        pytest.param(
            "  reward: {function: true}\n", "", "3:1", "roles needs the key 'reward'", id="no reward"
        ),
        # types
        pytest.param(
            "64", "010", "2:18", "batch.prompts must be a whole number, not '010'", id="octal is text"
        ),
        pytest.param(
            "64", "1e2", "2:18", "batch.prompts must be a whole number, not 100.0", id="decimal count"
        ),
        pytest.param(
            "64", "true", "2:18", "batch.prompts must be a whole number, not true", id="boolean count"
        ),
        pytest.param("64", "", "2:18", "batch.prompts must be a whole number, not nothing", id="no value"),
        pytest.param("64", "{a: 1}", "2:18", "must be a whole number, not a mapping", id="mapping count"),
        pytest.param("64", "0", "2:18", "batch.prompts must be at least 1, not 0", id="zero"),
        pytest.param(
            "64",
            "9999999999999",
            "2:18",
            "batch.prompts must be at most 1099511627776, not 9999999999999",
            id="huge",
        ),
        pytest.param(
            "true", "on", "6:22", "roles.reward.function must be true or false, not 'on'", id="on is text"
        ),
        pytest.param(
            "Qwen2.5-7B", "7", "4:18", "roles.actor.model must be text, not 7", id="model is a number"
        ),
        pytest.param(
            "Qwen2.5-7B",
            "[a]",
            "4:18",
            "roles.actor.model: a model is a name, a path or a mapping",
            id="model is a list",
        ),
        pytest.param(
            "200}", "[1]}", "2:59", "batch.response_tokens cannot be a list", id="response is a list"
        ),
        pytest.param(
            "{model: Qwen2.5-7B}", "7", "4:10", "roles.actor must be a mapping, not 7", id="role is a number"
        ),
        pytest.param(
            "Qwen2.5-7B", "x, layout: {tp: []}", "4:34", "roles.actor.layout.tp is empty", id="empty menu"
        ),
        pytest.param(
            "Qwen2.5-7B",
            "x, engine: vllm",
            "4:29",
            "roles.actor.engine must be 'fsdp' or 'megatron', not 'vllm'",
            id="engine",
        ),
        pytest.param(
            ": ppo",
            ": gppo",
            "1:12",
            "algorithm must be 'ppo', 'grpo', 'rloo', 'remax', 'reinforce++' or 'dapo', not 'gppo'",
            id="algorithm",
        ),
        pytest.param(
            "Qwen2.5-7B",
            "x, rollout: {gpu_memory_utilization: 1.5}",
            "4:55",
            "gpu_memory_utilization must be less than 1, not 1.5",
            id="share above one",
        ),
        pytest.param(
            "Qwen2.5-7B",
            "x, rollout: {gpu_memory_utilization: [0.0]}",
            "4:56",
            "gpu_memory_utilization[0] must be more than 0, not 0.0",
            id="share zero",
        ),
        pytest.param(
            "Qwen2.5-7B",
            "x, rollout: {gpu_memory_utilization: high}",
            "4:55",
            "must be a number, not 'high'",
            id="share is text",
        ),
        # across keys
        pytest.param(
            ": ppo",
            ": grpo",
            "5:3",
            "grpo has no critic; remove it or use algorithm: ppo",
            id="grpo with critic",
        ),
        pytest.param(
            "  critic: {model: Qwen2.5-1.5B}\n",
            "",
            "3:1",
            "ppo needs a critic: add the role, or use",
            id="ppo without critic",
        ),
        pytest.param(
            "200}",
            "{mean: 300, max: 200}}",
            "2:66",
            "the mean response (300 tokens) is longer than the longest (200)",
            id="mean above max",
        ),
        pytest.param(
            "64",
            "4294967296, samples_per_prompt: 2",
            "2:18",
            "4,294,967,296 prompts with 2 samples each are more than 4,294,967,296 sequences a step",
            id="sequences",
        ),
        pytest.param(
            "100,",
            "4294967296,",
            "2:37",
            "a prompt of 4,294,967,296 tokens and a response of up to 200 are more than 4,294,967,296 tokens",
            id="prompt tokens",
        ),
        pytest.param(
            "200}", "4294967296}", "2:59", "and a response of up to 4,294,967,296 are more than", id="response tokens"
        ),
        pytest.param(
            "model: Qwen2.5-7B",
            "model: {layers: 10001}",
            "4:27",
            "roles.actor.model.layers must be at most 10000, not 10001",
            id="layers of a model",
        ),
        pytest.param(
            "Qwen2.5-7B",
            "Qwen2.5-7B, gpus: [" + "1, " * 64 + "1]",
            "4:36",
            "roles.actor.gpus: List should have at most 64 items after validation, not 65",
            id="a long menu",
        ),
        pytest.param(
            "200}",
            "200, minibatches: 65}",
            "2:77",
            "65 minibatches cannot be made of 64 prompts",
            id="minibatches",
        ),
        pytest.param(
            "algorithm: ppo",
            "schedule: async\nalgorithm: ppo",
            "1:11",
            "schedule async overlaps generation with training",
            id="async hybrid",
        ),
        pytest.param(
            "algorithm: ppo",
            "schedule: one_step_off\nalgorithm: ppo",
            "1:11",
            "schedule one_step_off overlaps generation with training",
            id="one step off hybrid",
        ),
        pytest.param(
            "Qwen2.5-7B",
            "Qwen2.5-7B, rollout: {tp: 3}",
            "4:44",
            "heads of Qwen/Qwen2.5-7B (28, with 4 KV heads): take one of 1, 2, 4, 28",
            id="tp",
        ),
        pytest.param(
            "Qwen2.5-7B",
            "Qwen2.5-7B, layout: {pp: [1, 2]}",
            "4:43",
            "engine fsdp has no pipeline parallelism",
            id="fsdp pipeline",
        ),
        pytest.param(
            "Qwen2.5-7B",
            "Qwen2.5-7B, engine: megatron, layout: {pp: 29}",
            "4:61",
            "Qwen/Qwen2.5-7B has 28 layers: pp cannot be larger",
            id="pp",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen2.5-7B, layout: {sp: 3}", "4:43",
            "tp·sp must divide the attention heads of Qwen/Qwen2.5-7B (28, with 4 KV heads), with tp 1", id="sp",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen2.5-7B, engine: megatron, layout: {sp: 2}", "4:61",
            "engine megatron has no sp: use sp: 1, or engine: fsdp", id="megatron sp",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen3-30B-A3B, layout: {ep: 2}", "4:46",
            "engine fsdp has no expert parallelism: use ep: 1, or engine: megatron", id="fsdp ep",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen2.5-7B, engine: megatron, layout: {ep: 2}", "4:61",
            "Qwen/Qwen2.5-7B has no experts: use ep: 1", id="ep without experts",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen3-30B-A3B, engine: megatron, layout: {ep: 3}", "4:64",
            "ep must divide the 128 experts of Qwen/Qwen3-30B-A3B", id="ep",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen2.5-7B, train: {distributed_optimizer: false}", "4:61",
            "engine fsdp has no distributed_optimizer: use zero", id="fsdp optimizer",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen2.5-7B, engine: megatron, train: {zero: [1, 3]}", "4:62",
            "engine megatron has no zero: use distributed_optimizer", id="megatron zero",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen2.5-7B, train: {lora: 4096}", "4:44",
            "adapters of rank 4096 are larger than the matrices of Qwen/Qwen2.5-7B that they adapt (width 3584): take a",
            id="rank",
        ),
        pytest.param(
            "Qwen2.5-7B", "Qwen2.5-7B, train: {lora_merge: true}", "4:38",
            "lora_merge without lora: there are no adapters to merge; remove it, or give lora a rank", id="nothing to merge",
        ),
        pytest.param("Qwen2.5-7B", "Qwen2.5-7B, train: {zero: 4}", "4:44", "1, 2 or 3", id="zero"),
        pytest.param("Qwen2.5-7B", "Qwen2.5-7B, train: {zero: true}", "4:44", "1, 2 or 3", id="zero is no switch"),
        pytest.param("Qwen2.5-7B", "Qwen2.5-7B, train: {zero: 1.0}", "4:44", "1, 2 or 3", id="zero is whole"),
        pytest.param("Qwen2.5-7B", "Qwen2.5-7B, rollout: {quantization: fp4}", "4:54", "'none' or 'fp8'", id="quantization"),
        pytest.param(
            "Qwen2.5-7B",
            "Qwen2.5-7B, gpus: {min: 4, max: 2}",
            "4:36",
            "at least 4 and at most 2 GPUs: no number is both",
            id="gpus",
        ),
        pytest.param(
            "Qwen2.5-7B",
            "Qwen2.5-9B",
            "4:18",
            "there is no model 'Qwen2.5-9B'; did you mean 'Qwen/Qwen2.5-",
            id="unknown model",
        ),
        pytest.param(
            "{function: true}",
            "{}",
            "6:3",
            "reward has no model: add `model: …`, or `function: true`",
            id="reward without anything",
        ),
        pytest.param(
            "true}",
            "true, model: x}",
            "6:28",
            "a reward function runs on the CPU and has no model",
            id="function and model",
        ),
        pytest.param(
            "{model: Qwen2.5-7B}",
            "{model: Qwen2.5-7B, rollout: {}}\n  rollout: {}",
            "5:3",
            "generation is described twice",
            id="two rollouts",
        ),
        pytest.param(
            "  critic",
            "  rollout: {tp: 1, layout: {tp: 1}}\n  critic",
            "5:29",
            "tp is given twice: keep it under rollout or under its layout",
            id="two tps",
        ),
        # rules
        pytest.param(
            "algorithm: ppo",
            "rules: guid\nalgorithm: ppo",
            "1:8",
            "no preset or rule 'guid' (did you mean 'guide'?)",
            id="preset",
        ),
        pytest.param(
            "algorithm: ppo",
            "rules: {reserve: 2}\nalgorithm: ppo",
            "1:18",
            "rule reserve cannot be '2': it takes 8%,",
            id="rule value",
        ),
        pytest.param(
            "algorithm: ppo",
            'rules: {reserve: "8%,free"}\nalgorithm: ppo',
            "1:18",
            "rule reserve takes one value, not '8%,free'",
            id="two values",
        ),
        pytest.param(
            "algorithm: ppo",
            "rules: [guide]\nalgorithm: ppo",
            "1:8",
            "rules cannot be a list",
            id="rules list",
        ),
    ],
)
def test_a_wrong_file_is_refused_at_its_place(old, new, where, says):
    text = SMALLEST.replace(old, new, 1)
    assert text != SMALLEST
    with pytest.raises(InputError) as raised:
        load(text, name="f")
    assert says in str(raised.value).splitlines()[0]
    assert f"f:{where}" == raised.value.where


def test_sizes_of_tp_that_a_message_lists_are_few():
    """A model may have 65,536 heads: all sizes that divide them would fill lines, and take long to find."""
    numbers = "{parameters: 1000000000, hidden: 65536, layers: 1, heads: 65536, kv_heads: 1, vocab: 1, ffn: 1}"
    with pytest.raises(InputError) as raised:
        load(SMALLEST.replace("Qwen2.5-7B", f"{numbers}, layout: {{tp: 3}}"))
    said = str(raised.value).splitlines()[0]
    assert said.endswith("take one of 1, 2, 4, 8, 16, 32, 64, 128, 256")


def test_grpo_needs_responses_to_compare():
    text = SMALLEST.replace("ppo", "grpo").replace("  critic: {model: Qwen2.5-1.5B}\n", "")
    with pytest.raises(
        InputError, match="grpo compares the responses to a prompt: samples_per_prompt must be 2 or more"
    ):
        load(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param(
            "", "the file is empty: a workload starts with `schema: placement/workload/v1`", id="empty"
        ),
        pytest.param("# nothing\n", "the file is empty", id="only a comment"),
        pytest.param("[1]", "the file must be a mapping, not a list", id="list"),
        pytest.param("hello", "the file must be a mapping, not 'hello'", id="text"),
        pytest.param("a" * 70, f"the file must be a mapping, not {'a' * 56!r}"[:-1] + "…", id="long text"),
    ],
)
def test_what_is_no_workload_is_refused(text, says):
    with pytest.raises(InputError) as raised:
        load(text)
    assert says in str(raised.value)


@given(
    st.text(max_size=60), st.sampled_from(["64", "ppo", "Qwen2.5-7B", "{function: true}", "200}", "critic"])
)
def test_no_text_breaks_the_reader(text, old):
    try:
        load(SMALLEST.replace(old, text, 1), name="f")
    except InputError as error:
        where = error.where
    else:
        where = "f"
    assert where is not None
    assert where.startswith("f")


# ── the schema and our words ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "members"),
    [
        (get_args(workload_schema.WorkloadFile.model_fields["algorithm"].annotation), Algorithm),
        (get_args(workload_schema.WorkloadFile.model_fields["schedule"].annotation), Schedule),
        (get_args(workload_schema.AnyEngine), Engine),
        (tuple(workload_schema.Roles.model_fields), RoleName),
        (tuple(workload_schema.Train.model_fields["offload"].default), Offload),
        (tuple(workload_schema.Train.model_fields["master"].default), Master),
        (tuple(workload_schema.Actor.model_fields["precision"].default), Precision),
    ],
    ids=lambda value: getattr(value, "__name__", "words"),
)
def test_the_schema_knows_all_words(words, members):
    assert tuple(m.value for m in members) == words


def test_the_json_schema_offers_a_value_or_a_list():
    described = json_schema()
    tp = described["$defs"]["Layout"]["properties"]["tp"]
    count = {"minimum": 1, "maximum": 1 << 40, "type": "integer"}
    assert [count, {"type": "array", "items": count, "minItems": 1, "maxItems": 64}, {"type": "null"}] == tp[
        "anyOf"
    ]
    assert json.loads(json.dumps(described)) == described
    assert described["required"] == ["algorithm", "batch", "roles"]
    assert described["additionalProperties"] is False
