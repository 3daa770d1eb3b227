"""Measured times: every form in which they come, and what is refused."""

from __future__ import annotations

import json
import time

import pytest

from placement.calibrating import timings
from placement.calibrating.timing_keys import OTHERS, STAGES, WHOLE, is_timer, name_of, why_not
from placement.calibrating.timings import read, read_file
from placement.constants.table import constants
from placement.errors import InputError
from placement.workloads.dataflow import Work

VERL = """\
Starting the run …
(TaskRunner pid=7) step:0 - val-core/acc/mean@1:0.12 - timing_s/testing:30.0
(TaskRunner pid=7) step:1 - actor/lr:1e-06 - timing_s/gen:99.0 - timing_s/update_actor:88.0 - timing_s/step:190.0
\x1b[36m(TaskRunner pid=7)\x1b[0m step:2 - timing_s/gen:np.float64(40.0) - timing_s/update_actor:60.5 - timing_s/step:101.5
(TaskRunner pid=7) step:3 - training/global_step:3 - timing_s/gen:42.0 - timing_s/update_actor:5.95e+01 - timing_per_token_ms/gen:0.2
(TaskRunner pid=7) step:3 - training/global_step:3 - timing_s/gen:42.0 - timing_s/update_actor:5.95e+01 - timing_per_token_ms/gen:0.2
(TaskRunner pid=7) step:4 - timing_s/gen:50.0 - timing_s/update_actor:60.0 - timing_s/step:111.0
"""

BROKEN_LINES = """\
step:1
 - timing_s/gen:24.5
 - timing_s/old_log_prob:13.6
 - timing_s/step: 93.5
"""

NEMO = """\
(pid=9)   • Average batch reward: 0.31
⏱️  Timing:
  • Total step time: 120.00s
  • generation: 60.10s (50.1%)
  • policy_training: 40.00s (33.3%)
  • prepare_for_generation/transfer_and_update_weights: 2.50s (2.1%)
⏱️  Timing:
  • Total step time: 110.00s
  • generation: 58.10s (52.8%)
  • policy_training: 42.00s (38.2%)
"""


def test_a_console_log_of_verl_is_the_median_of_its_steps_without_the_first():
    found = read(VERL)
    assert (found.steps, found.dropped, found.run) == (3, True, None)
    # Steps 2, 3, 4; step 0 only validates, step 3 was printed by two loggers.
    assert found.seconds == {"timing_s/gen": 42.0, "timing_s/update_actor": 60.0, "timing_s/step": 106.25}


def test_a_step_over_several_lines_is_one():
    assert read(BROKEN_LINES).seconds == {"timing_s/gen": 24.5, "timing_s/old_log_prob": 13.6, "timing_s/step": 93.5}


def test_a_console_log_of_nemo_rl():
    found = read(NEMO)
    assert (found.steps, found.dropped) == (2, False)
    assert found.seconds == {
        "total_step_time": 115.0,
        "generation": 59.1,
        "policy_training": 41.0,
        "prepare_for_generation/transfer_and_update_weights": 2.5,
    }


def test_what_is_no_time_is_told_and_not_used():
    text = (
        "step:1 - timing_s/gen:9 - timing_s/ref:2\nstep:2 - timing_s/gen:nan - timing_s/ref:-inf\n"
        "step:3 - timing_s/gen:np.float64(-4.0)\nstep:4 - timing_s/gen:5 - timing_s/ref:3\n"
    )
    found = read(text, name="log")
    # Steps 2 and 3 have no time that counts: two are left, so that the first is one of them.
    assert (found.seconds, found.counts) == ({"timing_s/gen": 7.0, "timing_s/ref": 2.5}, {"timing_s/gen": 2, "timing_s/ref": 2})
    assert found.doubts == (
        "log:2: timing_s/gen is nan: no time of a step, so not used",
        "log:2: timing_s/ref is -inf: no time of a step, so not used",
        "log:3: timing_s/gen is -4: no time of a step, so not used",
    )
    lines = '{"gen": NaN, "ref": 3}\n{"gen": -4, "ref": "3"}\n{"gen": 5, "ref": true, "adv": null}\n{"gen": 6, "re'
    assert read(lines, name="log").doubts == (
        "log:1: gen is nan: no time of a step, so not used",
        "log:2: gen is -4: no time of a step, so not used",
        "log:2: ref is no number: no time of a step, so not used",
        "log:3: ref is no number: no time of a step, so not used",
        "log:4: the last line: cut off, so not used",
    )


def test_what_takes_no_time_did_not_run_in_that_step():
    found = read("gen: [9, 4, 0, 6, 0]\nref: [0, 0, 0, 0, 0]\n")
    assert (found.seconds, found.counts) == ({"gen": 5.0, "ref": 0.0}, {"gen": 2, "ref": 4})
    assert found.doubts == ("gen is 0 in 2 of 4 steps: the median is of the others",)


def test_each_timer_says_how_many_steps_it_was_measured_in():
    found = read("step:1 - timing_s/gen:9\nstep:2 - timing_s/gen:4\nstep:3 - timing_s/gen:5 - timing_s/ref:2\n")
    assert (found.steps, found.steps_of("timing_s/gen"), found.steps_of("timing_s/ref")) == (2, 2, 1)


def test_of_several_runs_the_last_is_taken():
    old = "".join(f"step:{k} - timing_s/gen:40\n" for k in range(1, 9))
    resumed = "".join(f"step:{k} - timing_s/gen:{k}\n" for k in range(6, 10))
    found = read(f"{old}Resuming from step:5\n{resumed}", name="log")
    assert (found.seconds, found.steps) == ({"timing_s/gen": 8.0}, 3)
    assert found.doubts == ("log: steps start over at line 10: of 2 runs the last is taken",)
    # A second logger that is late is none.
    late = read("step:1 - timing_s/gen:9\nstep:2 - timing_s/gen:4\nstep:1 - timing_s/gen:9\nstep:3 - timing_s/gen:6\n")
    assert (late.seconds, late.steps, late.doubts) == ({"timing_s/gen": 5.0}, 2, ())
    # What was wrong in the run that does not count is of no interest.
    broken = f"{old}step:9 - timing_s/gen:nan\nstep:1\n - timing_s/gen:-1\n - timing_s/ref:3\n"
    assert read(f"{broken}step:2 - timing_s/gen:4\n", name="log").doubts == (
        "log: steps start over at line 10: of 2 runs the last is taken",
        "log:11: timing_s/gen is -1: no time of a step, so not used",
    )
    lines = "".join(json.dumps({"step": k, "data": {"timing_s/gen": s}}) + "\n" for k, s in [(1, 9.0), (2, 9.0), (1, 3.0), (2, 4.0)])
    assert read(lines).seconds == {"timing_s/gen": 3.5}
    nemo = NEMO.replace("⏱️", "========================= Step 1/10 =========================\n⏱️")
    assert read(nemo).doubts[0].endswith("step 1 has total_step_time twice, 120 s and 110 s: the later is taken")
    assert read(NEMO.replace("Total", "total") + "===== Step 1/10 =====\n" + NEMO).steps == 2


def test_a_run_that_only_validates_is_none_to_take():
    text = "step:1 - timing_s/gen:9\nstep:2 - timing_s/gen:4\nstep:0 - timing_s/testing:30\n"
    assert (read(text).seconds, read(text).doubts) == ({"timing_s/gen": 6.5}, ())


def test_a_step_that_was_logged_twice_with_other_times_is_told():
    found = read("step:1 - timing_s/gen:9\nstep:1 - timing_s/gen:9\nstep:2 - timing_s/gen:4\nstep:2 - timing_s/gen:5\n", name="log")
    assert found.seconds == {"timing_s/gen": 7.0}
    assert found.doubts == ("log:4: step 2 has timing_s/gen twice, 4 s and 5 s: the later is taken",)


@pytest.mark.parametrize("other", ["  • generation: 60.10s (50.1%)\n", "timing/train/generation: 3.1\n"])
def test_timers_of_two_frameworks_are_refused(other):
    with pytest.raises(InputError, match=r"stages are timed by verl \(line 1\) and by NeMo-RL \(line 2\): give the log of one run"):
        read(f"step:1 - timing_s/gen:9\n{other}")


def test_doubts_of_one_kind_are_counted():
    found = read("step:0 - timing_s/gen:4\n" + "".join(f"step:{k} - timing_s/gen:nan\n" for k in range(1, 100)), name="log")
    assert len(found.doubts) == 6
    assert found.doubts[-1] == "log: 94 more like this: no time of a step, so not used"


def test_logs_of_megabytes_are_read_in_seconds():
    """Of 2 MiB each; the bound is far above the one second that it takes."""
    line = "(TaskRunner pid=7) step:{k} - " + " - ".join(f"timing_s/x{n}:1.5" for n in range(30)) + " - timing_s/gen:4.5\n"
    console = "".join(line.format(k=k) for k in range((2 << 20) // len(line)))
    data = {f"timing_s/x{n}": 1.5 for n in range(30)} | {"gen": 4.5}
    lines = "".join(json.dumps({"step": k, "data": data}) + "\n" for k in range(3_000))
    for text in (console, lines):
        start = time.monotonic()
        assert read(text).seconds[("timing_s/gen" if text is console else "gen")] == 4.5
        assert time.monotonic() - start < 20


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda k, v: {"step": k, "data": v}, id="verl's file logger"),
        pytest.param(lambda k, v: {"_step": k, **v}, id="flat"),
        pytest.param(lambda k, v: {"timing_s": {key.partition("/")[2]: s for key, s in v.items()}}, id="nested"),
    ],
)
def test_json_lines(wrap):
    steps = [{"timing_s/gen": 9.0, "timing_s/ref": 9.0}, {"timing_s/gen": 4.0}, {"timing_s/gen": 6.0, "timing_s/ref": 2.0}]
    text = "".join(json.dumps({**wrap(k, step), "actor/lr": 1e-6}) + "\n" for k, step in enumerate(steps, start=1))
    found = read(text)
    assert {name_of(key): seconds for key, seconds in found.seconds.items()} == {"gen": 5.0, "ref": 2.0}
    assert (found.steps, found.dropped) == (2, True)


def test_a_flat_mapping_is_one_step():
    found = read("timing_s/gen: 41.2\nref: 3\n")
    assert (found.seconds, found.steps, found.dropped) == ({"timing_s/gen": 41.2, "ref": 3.0}, 1, False)


def test_lists_are_steps():
    assert read("gen: [9, 4, 6]\nref: [1, 2]\n").seconds == {"gen": 5.0, "ref": 2.0}
    assert read("timings: [{gen: 9}, {gen: 4}, {gen: 6, ref: 2}]").seconds == {"gen": 5.0, "ref": 2.0}


def test_nothing_is_lost_beside_lists():
    found = read("gen: [9, 4, 6]\nref: 3\nold_log_prob: [5]\n")
    assert found.seconds == {"gen": 5.0, "ref": 3.0, "old_log_prob": 5.0}
    assert read("gen: []\nref: 3\n").seconds == {"ref": 3.0}


def test_one_line_of_json_with_a_run_is_our_own_form():
    found = read('{"run": {"device_map": {"actor": [0, 1]}}, "timings": {"gen": 4}}')
    assert (found.seconds, found.run.device_map) == ({"gen": 4.0}, {"actor": (0, 1)})


def test_a_comment_that_names_a_step_makes_no_log():
    assert read("# of step:3 - timing_s/gen:1\nrun: {device_map: {actor: [0]}}\ngen: 4\n").run is not None


def test_files_are_found_beside_the_timings(tmp_path):
    (tmp_path / "train.log").write_text(VERL)
    (tmp_path / "timings.yaml").write_text("run: {map: map.yaml}\nlog: train.log\n")
    found = read_file(tmp_path / "timings.yaml")
    assert found.seconds == read(VERL).seconds
    assert found.run.map == tmp_path / "map.yaml"
    assert found.run.where.endswith("timings.yaml:1:1")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "t:1:1: timings are a mapping such as `timing_s/gen: 41.2` (s), or a log", id="empty"),
        pytest.param("{}", "t: no times of stages are in it", id="no times"),
        pytest.param("gen: -1", "t:1:6: gen takes seconds, 0 or more", id="negative"),
        pytest.param("gen: 4 s", "t:1:6: gen takes seconds", id="text"),
        pytest.param("gen: [1, x]", "t:1:10: gen takes seconds", id="text in a list"),
        pytest.param("timings: 4", "t:1:10: the times of a step are a mapping", id="a number"),
        pytest.param("timings: {gen: 4}\nlog: x", "t:2:1: times are given twice", id="twice"),
        pytest.param("timings: {gen: 4}\nrum: x", "t:2:1: unknown key 'rum' (did you mean 'run'?)", id="unknown key"),
        pytest.param("run: 4\ngen: 4", "t:1:6: run says what ran where", id="run"),
        pytest.param("run: {mep: x}\ngen: 4", "or `{map: FILE}`, not 'mep' (did you mean 'map'?)", id="key of run"),
        pytest.param("run: {map: [x]}\ngen: 4", "t:1:12: map takes the name of a file", id="map"),
        pytest.param("run: {device_map: {}}\ngen: 4", "device_map is a mapping from role to GPUs", id="no roles"),
        pytest.param("run: {device_map: {actor: 3}}\ngen: 4", "actor takes a list of GPUs, such as [0, 1]", id="no list"),
        pytest.param("run: {device_map: {actor: [3, 3]}}\ngen: 4", "3 is none or there twice", id="a GPU twice"),
        pytest.param('{"gen": 4}\n{"gen": 5}\nDone.\n', "t:3: this line is no JSON mapping", id="broken JSON lines"),
        pytest.param("log: nowhere.log", "there is no log", id="no log"),
    ],
)
def test_what_is_no_timing_is_refused_at_its_place(text, says, tmp_path):
    with pytest.raises(InputError) as raised:
        read(text, name="t", folder=tmp_path)
    assert says in str(raised.value)


def test_a_file_that_is_no_log_is_refused(tmp_path):
    (tmp_path / "x.log").write_text("hello\n")
    with pytest.raises(InputError, match="is no log of verl or NeMo-RL"):
        read("log: x.log", folder=tmp_path)


def test_hostile_lines_take_linear_time():
    text = "step:1 - " + "timing_s/" * 50_000 + "\n" + "• " + "a " * 50_000 + "\nstep:1 - timing_s/gen:4\n"
    assert read(text).seconds == {"timing_s/gen": 4.0}
    with pytest.raises(InputError):
        read('{"a":' * 5000 + "1" + "}" * 5000)
    assert read('{"gen": 1e400, "ref": 3}\n{"gen": 4, "ref": ' + "9" * 400 + "}\n").seconds == {"ref": 3.0, "gen": 4.0}


def test_a_log_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(timings, "MAX_BYTES", 1 << 20)
    (tmp_path / "x.log").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(InputError, match="larger than 1 MiB"):
        read_file(tmp_path / "x.log")


def test_a_timer_is_told_from_other_metrics():
    timers = ("timing_s/gen", "timing/train/generation", "data/timing_s/foo", "gen", "policy_training", "adv")
    others = ("actor/lr", "timing_per_token_ms/gen", "timing_ratio/gen", "perf/time_per_step", "timing/train/tokens_per_sec", "loss")
    assert [is_timer(key) for key in (*timers, *others)] == [True] * len(timers) + [False] * len(others)


def test_every_piece_of_work_has_a_timer_of_ours_and_of_a_framework():
    for work in (each for each in Work if hasattr(constants(), f"{each}_time_factor")):
        assert STAGES[work.value].works == (work,)
        assert work is Work.REWARD or any(work in timer.works for name, timer in STAGES.items() if name != work.value) or work in (
            Work.VALUES,
            Work.UPDATE_CRITIC,
            Work.UPDATE_ACTOR,
        )
    assert not set(STAGES) & (set(OTHERS) | set(WHOLE))
    assert why_not("agent_loop/slowest/prompt_length") == why_not("generation_timing/max") == "a part of generation"
