"""One factor per stage: recovered from synthetic runs, recorded, and obeyed by plan and checker."""

from __future__ import annotations

import math

import pytest
from conftest_placement import (
    actor,
    ask,
    bridged_pairs,
    critic,
    job,
    machine,
    questions,
    ref,
    reward,
    rollout,
    train,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.calibrating.calibration import MISSED, calibrate, uncalibrated
from placement.calibrating.measured_run import setting
from placement.calibrating.timings import Timings, read
from placement.checking import problems
from placement.checking.costs import step_us, work_us
from placement.choices.choices import choices, parts
from placement.constants.constants_file import recorded
from placement.constants.table import Override, constants
from placement.demand import Demand, demand, transfer_us
from placement.errors import InputError
from placement.maps.devicemap import dump
from placement.planner import SolverName, plan
from placement.program.menu import menu
from placement.workloads.dataflow import Work, dataflow
from placement.workloads.workload import Engine, Role, RoleName, Schedule

PPO = ask(bridged_pairs(), job(actor(), critic(), ref(), reward()))
APART = ask(
    machine("NV12", 4),
    job(actor(rollout=None), Role(RoleName.ROLLOUT, actor().model, engine=Engine.VLLM, rollout=rollout()), ref()),
)


def own(question, **factors):
    """Return the model's own times of its plan, each multiplied by a factor, as a run would log them."""
    answer = plan(question).plan
    return Timings({work: us * factors.get(work, 1) / 1e6 for work, us in work_us(answer, question).items()}, 1, False, None)


def fitted(question, timings):
    """Return the question with the factors of *timings*."""
    found = setting(question, timings)
    result = calibrate(timings, work_us(found.plan, found.instance), question.workload.schedule)
    return question.with_overrides(result.overrides()), result


@pytest.mark.parametrize("question", [PPO, APART], ids=["hybrid", "separate rollout"])
def test_the_models_own_times_change_nothing(question):
    answer, result = fitted(question, own(question))
    assert {fit.factor for fit in result.fits} == {1.0}
    assert result.left == ()
    assert answer == question
    assert dump(plan(answer).plan) == dump(plan(question).plan)


@pytest.mark.parametrize("question", [PPO, APART], ids=["hybrid", "separate rollout"])
def test_a_run_whose_generation_takes_longer_is_recovered_exactly(question):
    answer, result = fitted(question, own(question, generate=1.7))
    assert [(fit.works, fit.factor) for fit in result.fits if fit.factor != 1] == [((Work.GENERATE,), 1.7)]
    assert [(each.name, each.value) for each in answer.overrides] == [("generate_time_factor", 1.7)]
    calibrated = plan(answer).plan
    assert problems(calibrated, answer) == []
    assert recorded(calibrated.inputs["constants"]) == answer.overrides
    assert any(said.startswith("generate takes 1.7 times the time that the model predicts") for said in calibrated.estimate.assumptions)


@settings(max_examples=12)
@given(questions(most=4), st.dictionaries(st.sampled_from(list(Work)), st.floats(0.1, 10), max_size=4))
def test_any_factors_are_recovered_and_their_plans_are_right(question, factors):
    answer = plan(question).plan
    if answer is None:
        return
    predicted = work_us(answer, question)
    timings = Timings({work: us * factors.get(work, 1) / 1e6 for work, us in predicted.items()}, 1, False, None)
    result = calibrate(timings, predicted, Schedule.FULL)
    assert {work: fit.factor for fit in result.fits for work in fit.works} == {
        work: pytest.approx(factors.get(work, 1), rel=1e-4) for work in predicted
    }
    calibrated = question.with_overrides(result.overrides())
    assert problems(plan(calibrated).plan, calibrated) == []
    again = work_us(answer, calibrated)
    for work in predicted:
        # Every part is rounded up by itself, to the next µs; a role's parts and the two ends of a sync are a few.
        assert again[work] == pytest.approx(factors.get(work, 1) * predicted[work], rel=1e-4, abs=10)


# ── factors in the cost model ───────────────────────────────────────────────────────────────────────────────────────────


def demands(question, given):
    """Return what every choice of every role costs on every kind of group, and what moving the weights takes."""
    c, stages = given.constants, dataflow(question.workload)
    return [
        demand(role, part, choice, question.workload, hardware, c, stages)
        for role in question.workload.placed
        for hardware in menu(question).profiles
        for part in parts(role)
        for choice, _ in choices(role, part, hardware, supported=False)
    ]


def test_a_factor_scales_a_piece_of_work_with_its_start_and_nothing_else():
    given = PPO.with_overrides([Override("update_actor_time_factor", 1.5), Override("reward_time_factor", 0.3)])
    factors = {Work.UPDATE_ACTOR: 1.5, Work.REWARD: 0.3}
    for before, after in zip(demands(PPO, PPO), demands(PPO, given), strict=True):
        if isinstance(before, Demand):
            assert (after.resident_mib, after.active_mib, after.bound_by) == (before.resident_mib, before.active_mib, before.bound_by)
            assert after.times_us == {work: math.ceil(us * factors.get(work, 1)) for work, us in before.times_us.items()}


def test_the_transfer_of_weights_is_a_part_of_their_sync():
    twice = PPO.with_overrides([Override("sync_weights_time_factor", 2.0)]).constants
    model = PPO.workload.role(RoleName.ACTOR).model
    # 2 · 1,235,814,400 B over 25 GB/s and the fixed cost of the sync.
    once_us = transfer_us(model, 25.0, constants())
    assert once_us > 98_865
    assert transfer_us(model, 25.0, twice) == 2 * once_us


@given(st.sampled_from([work.value for work in Work]), st.floats(0.01, 100), st.floats(0.01, 100))
def test_a_larger_factor_never_makes_a_step_shorter(work, a, b):
    answer = _plan_of(PPO)
    low, high = (
        step_us(answer, PPO.with_overrides([Override(f"{work}_time_factor", factor)])) for factor in sorted((a, b))
    )
    assert low <= high
    assert step_us(answer, PPO) == answer.estimate.step_us


def _plan_of(question, kept={}):  # noqa: B006 - one plan for all examples
    if not kept:
        kept["plan"] = plan(question).plan
    return kept["plan"]


# ── from timers to factors ──────────────────────────────────────────────────────────────────────────────────────────────

PREDICTED = {
    Work.GENERATE: 30_000_000,
    Work.OLD_LOG_PROBS: 6_000_000,
    Work.REF_LOG_PROBS: 4_000_000,
    Work.UPDATE_ACTOR: 20_000_000,
    Work.SYNC_WEIGHTS: 1_000_000,
}


def factors(text, schedule=Schedule.FULL):
    result = calibrate(read(text), PREDICTED, schedule)
    return {"+".join(fit.works): fit.factor for fit in result.fits}, result


def test_a_timer_of_two_pieces_of_work_gives_both_one_factor():
    # 15 s measured, 6 s + 4 s predicted.
    found, result = factors("timing/train/policy_and_reference_logprobs: 15")
    assert found == {"old_log_probs+ref_log_probs": 1.5}
    assert [(each.name, each.value) for each in result.overrides()] == [
        ("old_log_probs_time_factor", 1.5),
        ("ref_log_probs_time_factor", 1.5),
    ]
    assert result.left == (Work.GENERATE, Work.UPDATE_ACTOR, Work.SYNC_WEIGHTS)


def test_a_timer_of_each_wins_over_one_of_both():
    found, result = factors("old_log_probs: 6\npolicy_and_reference_logprobs: 15\nref_log_probs: 8")
    assert found == {"old_log_probs": 1.0, "ref_log_probs": 2.0}
    assert result.unused == {"policy_and_reference_logprobs": "old_log_probs is taken for the same work"}


def test_old_verl_wakes_its_engine_inside_generation():
    # gen 34 s holds reshard, 4 s: 30 s are left for generating.
    assert factors("gen: 34\nreshard: 4")[0] == {"generate": 1.0, "sync_weights": 4.0}
    assert factors("gen: 30\nreshard: 4\nupdate_weights: 2")[0] == {"generate": 1.0, "sync_weights": 2.0}


def test_what_is_done_before_a_phase_is_a_part_of_it():
    found, result = factors("timing/train/training_prep: 5\ntiming/train/policy_training: 25\ntiming/train/logprob_inference_prep: 1")
    assert found == {"update_actor": 1.5}
    assert result.fits[0].timer == "timing/train/policy_training + timing/train/training_prep"
    assert result.unused == {"timing/train/logprob_inference_prep": "it belongs to policy_and_reference_logprobs, which was not measured"}


IS_WAIT = "under schedule async it is the wait for generation, not its time"


def test_where_generation_overlaps_its_timer_is_the_wait_for_it():
    found, result = factors("gen: 3\ngenerate_sequences: 45", Schedule.ASYNC)
    assert found == {"generate": 1.5}
    assert result.unused == {"gen": f"{IS_WAIT}: it says how long that took only beside a time of update_actor"}
    assert factors("gen: 33\ngenerate_sequences: 45")[0] == {"generate": 1.1}


TRAINED = "old_log_prob: 6\nref: 4\nupdate_actor: 20\n"
"""30 s of training, as predicted."""


def test_a_trainer_that_waited_says_how_long_generation_took():
    # 30 s of training and 15 s of waiting: generation took 45 s, where 30 s are predicted.
    for name in ("gen", "exposed_generation", "wait_prev_gen", "timing_s/gen"):
        found, result = factors(f"{TRAINED}{name}: 15\ngenerate_sequences: 33", Schedule.ONE_STEP_OFF)
        assert found == {"generate": 1.5, "old_log_probs": 1.0, "ref_log_probs": 1.0, "update_actor": 1.0}
        assert (result.fits[0].timer, result.fits[0].measured_s) == (f"prepare + update + wait ({name})", 45)
        assert result.unused == {"generate_sequences": "the wait for generation says how long all of it took"}
    # What was not measured counts as predicted: 4 s.
    assert factors("old_log_prob: 6\nupdate_actor: 20\ngen: 15", Schedule.ASYNC)[0]["generate"] == 1.5
    # A time of generation itself is better.
    found, result = factors(f"{TRAINED}gen: 15\ngenerate: 39", Schedule.ASYNC)
    assert (found["generate"], result.unused) == (1.3, {"gen": f"{IS_WAIT}; generate is taken"})
    # Two timers of one wait.
    found, result = factors(f"{TRAINED}gen: 15\nexposed_generation: 12", Schedule.ASYNC)
    assert (found["generate"], result.unused) == (1.4, {"gen": "exposed_generation is taken for the wait for generation"})


def test_a_trainer_that_did_not_wait_says_at_most_how_long():
    # 0.3 s of 30.3: generation ended before training did; it is known to take 30.3 s or less, and 30 s are predicted.
    found, result = factors(f"{TRAINED}gen: 0.3", Schedule.ASYNC)
    assert "generate" not in found
    assert result.unused == {"gen": f"{IS_WAIT}, and there was hardly any: generation took 30.3 s or less"}
    # 20.2 s of training: a generation of 30 s would have been waited for.
    found, result = factors("old_log_prob: 6\nref: 4\nupdate_actor: 10\ngen: 0.2", Schedule.ASYNC)
    assert (found["generate"], result.fits[0].timer) == (0.67333, "prepare + update + wait (gen), at most")


@pytest.mark.parametrize("schedule", [Schedule.ONE_STEP_OFF, Schedule.ASYNC])
@pytest.mark.parametrize("wait_s", [0.0, 5.0, 200.0])
def test_a_calibrated_plan_of_the_same_setting_takes_the_measured_step(schedule, wait_s):
    """A trainer that is busy for 470 s and waits, and a sync of 2 s."""
    question = APART.replace(workload=APART.workload.replace(schedule=schedule))
    answer = plan(question).plan
    predicted = work_us(answer, question)
    text = "old_log_prob: 120\nref: 100\nupdate_actor: 250\nupdate_weights: 2\n"
    result = calibrate(read(f"{text}gen: {wait_s}"), predicted, schedule)
    assert step_us(answer, question.with_overrides(result.overrides())) / 1e6 == pytest.approx(472 + wait_s, rel=0.02)


def test_everything_else_is_listed_with_its_reason():
    _, result = factors("gen: 30\nvalues: 3\nadv: 1\nstep: 99\nupdate_actor: 0.001\nold_logprob: 6\nagent_loop/x/max: 9\nperf/x: 1")
    assert result.unused == {
        "values": "the job has no such work on GPUs",
        "adv": "work of the CPU, which is not modelled",
        "update_actor": "0.001 s, where 20 s are predicted: not run, or inside another stage",
        "agent_loop/x/max": "a part of generation",
    }
    assert result.unknown == ("old_logprob (did you mean 'old_log_prob'?)",)
    assert result.step_s == 99


def test_a_time_that_cannot_be_in_seconds_is_refused():
    with pytest.raises(InputError, match=r"gen: 4e.07 s, where 30 s are predicted: timers are in seconds"):
        factors("gen: 4e7")


def test_doubtful_factors_say_what_to_look_for():
    _, result = factors("gen: 15\nold_log_prob: 12.1\nupdate_actor: 9.9\nref: 8")
    assert [fit.works for fit in result.fits if not fit.is_plausible] == [(Work.OLD_LOG_PROBS,), (Work.UPDATE_ACTOR,)]
    slow, fast = (fit.often for fit in result.fits if not fit.is_plausible)
    assert (slow, "padded" in fast, "more GPUs than the plan's" in fast) == (MISSED[Work.OLD_LOG_PROBS], False, True)
    assert set(MISSED) == {work for work in Work if hasattr(constants(), f"{work}_time_factor")}


# ── the setting that was measured ───────────────────────────────────────────────────────────────────────────────────────


def of_run(question, run, **options):
    return setting(question, Timings({"gen": 1.0}, 1, False, run), **options)


def test_the_run_may_break_the_rules_of_the_question():
    run = read("run: {device_map: {actor: [3, 0, 1, 2], critic: [0, 1, 2, 3], ref: [0, 2], reward: [1]}}\ngen: 1").run
    found = of_run(PPO, run)
    assert found.plan.device_map["ref"] == (0, 2)
    assert set(found.plan.device_map["actor"]) == {0, 1, 2, 3}
    assert work_us(found.plan, found.instance) == work_us(of_run(PPO, run, solver=SolverName.EXHAUSTIVE).plan, found.instance)


def test_of_a_device_map_the_fastest_choices_are_taken():
    menus = train(micro_batch_tokens=(1024, 8192))
    question = ask(machine("NV12", 2), job(actor(train=menus), ref()))
    found = of_run(question, read("run: {device_map: {actor: [0, 1], ref: [0, 1]}}\ngen: 1").run)
    free = ask(machine("NV12", 2), job(actor(train=menus), ref()), "colocate", within_percent=0.0)
    assert found.plan.estimate.step_us == plan(free).plan.estimate.step_us


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        ("{actor: [0], critic: [1]}", "t:1:1: device_map names actor, critic; the job places actor, critic, ref, reward"),
        ("{actor: [0], critic: [1], ref: [0], reward: [4]}", "t:1:1: reward ran on GPU 4, which this machine does not have"),
    ],
)
def test_a_device_map_of_another_job_or_machine_is_refused(groups, says):
    with pytest.raises(InputError) as raised:
        of_run(PPO, read(f"run: {{device_map: {groups}}}\ngen: 1", name="t").run)
    assert str(raised.value).startswith(says)


def test_a_run_that_cannot_have_been_is_refused():
    question = ask(machine("NV12", 2, "rtx4090"), job(actor(model=PPO.workload.role(RoleName.ACTOR).model), critic(), ref()))
    with pytest.raises(InputError, match="by the memory model"):
        of_run(question, read("run: {device_map: {actor: [0], critic: [0], ref: [0]}}\ngen: 1").run)


def test_a_map_says_what_ran(tmp_path):
    answer = plan(PPO).plan
    (tmp_path / "map.yaml").write_text(dump(answer))
    run = read("run: {map: map.yaml}\ngen: 1", folder=tmp_path).run
    found = of_run(PPO, run)
    assert found.plan == answer
    assert work_us(found.plan, found.instance) == work_us(answer, PPO)
    assert found.text == "the map map.yaml of the timings"
    # A map brings its own machine and job, so that another question can be calibrated with it.
    other = of_run(ask(machine("NV12", 2), job(actor(), ref())), run)
    assert work_us(other.plan, other.instance) == work_us(answer, PPO)
    assert other.text == "the map map.yaml of the timings, for another machine and job than this question has"
    (tmp_path / "map.yaml").write_text(dump(answer.replace(device_map={**answer.device_map, "ref": (0, 9)})))
    with pytest.raises(InputError, match="is no plan for the machine and the job that it records: "):
        of_run(PPO, run)
    (tmp_path / "map.yaml").write_text(dump(answer.replace(inputs={})))
    with pytest.raises(InputError, match=r"that it is for: .*map\.yaml:\d+:\d+: the map does not record the question"):
        of_run(PPO, run)


def test_without_a_run_or_a_plan_there_is_no_setting():
    hopeless = ask(machine("NV12", 2, "rtx4090"), job(actor(), critic(), ref()), "reserve=99%")
    assert of_run(hopeless, None) is None


def test_what_was_calibrated_before_is_no_part_of_a_prediction():
    given = PPO.with_overrides([Override("generate_time_factor", 3.0), Override("train_mfu_dense", 0.3)])
    assert [each.name for each in uncalibrated(given).overrides] == ["train_mfu_dense"]
