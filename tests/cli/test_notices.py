"""What a plan gives up or rests on stands beside its table, and nothing else does."""

from __future__ import annotations

import itertools
import re

import pytest

import placement
from placement.catalog import load_workload, workload_text
from placement.cli.notices import broken_wishes, notices
from placement.constants.table import Override
from placement.maps.assumptions import rough_times
from placement.program.instance import make_instance
from placement.workloads import workload_file
from placement.workloads.rules import parse_rules
from topologies.read import read_text

UNEVEN = (
    "actor, critic, ref: 3 data-parallel ranks cannot share the 1024 sequences of a step evenly, which most trainers refuse: change "
    "the batch, or forbid it with --rules even_batch=on"
)
CSV = "index, name, memory.total [MiB], memory.used [MiB]\n"


def machine(n, used=None, unknown=()):
    """Return *n* A100 behind an NVSwitch; *used* MiB by others, links of *unknown* pairs not stated."""
    names = [f"GPU{i}" for i in range(n)]

    def code(i, j):
        return "X" if i == j else "N/A" if (min(i, j), max(i, j)) in unknown else "NV12"

    rows = ["\t".join([names[i], *(code(i, j) for j in range(n)), "0-31"]) for i in range(n)]
    table = "\n".join(["\t".join(["", *names, "CPU Affinity"]), *rows, ""])
    cards = "".join(f"{i}, NVIDIA A100-SXM4-80GB, 81920 MiB, {(used or {}).get(i, 0)} MiB\n" for i in range(n))
    return read_text(table + "\n" + CSV + cards)


def planned(topology, job="ppo-0.5b", rules="guide", **options):
    """Return the plan with its question."""
    workload = load_workload(job) if isinstance(job, str) else job
    question = make_instance(topology, workload, parse_rules(rules), **options)
    plan = placement.plan(question).plan
    assert plan is not None
    return plan, question


def soft_rules(plan):
    return next(term.value for term in plan.proof.objective_terms if term.name == "soft_rules")


@pytest.mark.parametrize("name", ["a100-pcie-mixed-4", "h100-nvl-4", "rtx4090-8", "l40s-8", "dgx-1-v100", "hgx-a100-4"])
def test_as_many_wishes_are_named_as_the_proof_counts(name):
    counts = []
    for job, rules in itertools.product(["ppo-0.5b", "ppo-1.5b"], ["strict", "guide", "strict,affinity=off", "strict,root_complex=off"]):
        question = make_instance(placement.read_machine(name), load_workload(job), parse_rules(rules))
        plan = placement.plan(question).plan
        if plan is not None:
            named = list(broken_wishes(plan, question))
            counts.append(len(named))
            assert len(named) == soft_rules(plan)
            assert [word for word in ("affinity", "root_complex") if f"{word}=off" in rules and word in " ".join(named)] == []
    assert counts


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        pytest.param({"actor": (0,), "ref": (1,), "critic": (2, 3)}, [], id="kept"),
        pytest.param({"actor": (0, 1), "ref": (2,), "critic": (3, 4)}, ["actor and ref have no island in common"], id="affinity"),
        pytest.param({"actor": (0, 1), "ref": (0, 1), "critic": (3,)}, ["critic gets 1 GPU, fewer than 2"], id="min_gpus"),
        pytest.param(
            {"actor": (0,), "ref": (2,), "critic": (3,)},
            ["critic gets 1 GPU, fewer than 2", "actor and ref have no island in common"],
            id="both",
        ),
    ],
)
def test_a_broken_wish_is_named_with_its_rule(groups, said):
    pairs = placement.read_machine("a100-pcie-mixed-8")     # bridged pairs 0-1, 2-3, …
    plan, question = planned(pairs, rules="strict")
    named = list(broken_wishes(plan.replace(device_map=groups), question))
    assert len(named) == len(said)
    for sentence, words in zip(named, said, strict=True):
        assert sentence.startswith(f"a wish is broken: {words}")


def test_critic_and_reward_under_one_root_complex_are_named():
    plan, question = planned(placement.read_machine("l40s-8"), "ppo-1.5b", "strict")
    levels = {level.value: partition for level, partition in question.machine.levels}
    near, *_, far = (domain for domain in levels["root complex"])
    assert len(near) > 1
    together = plan.replace(device_map={**plan.device_map, "critic": near[:1], "reward": near[1:2]})
    apart = plan.replace(device_map={**plan.device_map, "critic": near[:1], "reward": far[:1]})
    assert any("rule root_complex" in line for line in broken_wishes(together, question))
    assert not any("rule root_complex" in line for line in broken_wishes(apart, question))


def test_gpus_that_are_left_out_are_named_with_the_reason():
    plan, question = planned(machine(8, used={5: 31000}), visible=[0, 1, 2, 4, 5, 6, 7])
    said = notices(plan, question)
    assert said == (
        "GPU 3 is left out: hidden by --visible or CUDA_VISIBLE_DEVICES",
        "GPU 5 is left out: other processes hold 31000 MiB of it (rule busy: 2048 MiB)",
        UNEVEN,
    )
    # The map says it, too, and the rule forbids it.
    assert said[-1] in plan.estimate.assumptions
    even, _ = planned(machine(8, used={5: 31000}), rules="even_batch=on", visible=[0, 1, 2, 4, 5, 6, 7])
    assert {role.layout.dp for role in even.roles.values()} <= {1, 2, 4}
    assert set(said) <= set(plan.estimate.assumptions)


def test_hidden_gpus_are_one_line():
    assert notices(*planned(machine(8), visible=[4, 5, 6, 7])) == ("GPU 0-3 are left out: hidden by --visible or CUDA_VISIBLE_DEVICES",)


def test_a_plan_without_anything_to_say_says_nothing():
    assert notices(*planned(machine(8))) == ()


def test_times_of_experts_are_said_to_be_rough_unless_they_are_calibrated():
    job = workload_file.load(workload_text("ppo-0.5b").replace("Qwen/Qwen2.5-0.5B", "Qwen/Qwen3-30B-A3B"))
    question = make_instance(machine(8), job, parse_rules("guide"))
    (said,) = rough_times(question)
    assert said == "times of mixtures of experts are off by a quarter on average (docs/validation.md): calibrate before trusting them"
    assert list(rough_times(question.with_overrides([Override("generate_time_factor", 1.2, "")]))) == []
    assert list(rough_times(make_instance(machine(1), load_workload("ppo-0.5b")))) == []


@pytest.mark.parametrize("unknown", [{(0, 1)}, {(0, 1), (2, 3), (0, 3)}])
def test_unknown_links_are_counted(unknown):
    plan, question = planned(machine(4, unknown=unknown))
    pairs = f"{len(unknown)} GPU pair{'s' if len(unknown) > 1 else ''}"
    assert f"{pairs} with an unknown link: taken as host-staged, joined to no island" in notices(plan, question)


def test_pairs_without_peer_to_peer_copies_are_one_sentence():
    """The driver says that GPU 0 and 1 cannot reach each other; their NVLinks carry nothing then, and all plans know it."""
    off = "peer-to-peer between GPU 0 and 1 is off (NS: not supported): copies go through host memory"
    plan, question = planned(machine(4).replace(p2p={(0, 1): "NS", (0, 2): "OK"}, p2p_kind="r"))
    assert off in notices(plan, question)
    assert not question.machine.has_nvlink(1, 0)
    assert question.machine.has_nvlink(0, 2)
    everywhere = dict.fromkeys(itertools.combinations(range(4), 2), "CNS")
    slow, slow_question = planned(machine(4).replace(p2p=everywhere, p2p_kind="unknown"))
    (sentence,) = [said for said in notices(slow, slow_question) if "peer-to-peer" in said]
    assert sentence == (
        "peer-to-peer between all GPUs is off (CNS: the chipset does not support it): copies go through host memory"
    )
    assert slow.estimate.step_us > planned(machine(4))[0].estimate.step_us


def long_job(longest):
    text = re.sub(r"response_tokens: \{[^}]*\}", f"response_tokens: {longest - 512}", workload_text("ppo-0.5b"))
    job = workload_file.load(text)
    assert job.batch.prompt_tokens + job.batch.response_max_tokens == longest
    return job


@pytest.mark.parametrize(("longest", "is_said"), [(32768, False), (32769, True)])
def test_sequences_beyond_what_a_model_takes_are_said(longest, is_said):
    plan, question = planned(machine(8), long_job(longest))
    sentence = (
        "actor, critic, ref: sequences of 32769 tokens, Qwen/Qwen2.5-0.5B takes 32768 (its config): "
        "raise the model's limit (rope scaling) or shorten the batch"
    )
    assert (sentence in notices(plan, question)) == is_said
    assert (sentence in plan.estimate.assumptions) == is_said


def test_notices_stand_between_memory_and_stages_and_are_not_in_the_way_of_the_map(placement, tmp_path):
    process = placement("plan", "--topology", "dgx-a100-80gb", "--workload", "ppo-0.5b", "--visible", "0-5")
    lines = process.stderr.splitlines()
    notice = lines.index("GPU 6-7 are left out: hidden by --visible or CUDA_VISIBLE_DEVICES")
    assert next(k for k, line in enumerate(lines) if line.startswith("GPU  memory")) < notice
    assert notice < next(k for k, line in enumerate(lines) if line.startswith("stage"))
    assert process.stdout.startswith("schema:")


def test_they_are_said_also_when_there_is_no_plan(placement):
    process = placement("plan", "--topology", "dgx-a100-80gb", "--workload", "ppo-7b", "--visible", "0")
    assert process.returncode == 1
    assert "GPU 1-7 are left out: hidden by --visible or CUDA_VISIBLE_DEVICES" in process.stderr
