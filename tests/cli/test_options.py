"""What options take, and what a refusal says: the option, the value, what is allowed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.cli import options, parameters
from placement.errors import InputError


@given(st.floats(0, 100), st.sampled_from(["{}", "{}%", "{} %", " {}"]))
def test_a_percentage_is_read_with_or_without_its_sign(value, form):
    assert options.percentage("--within", form.format(value)) == value


@given(st.floats().filter(lambda x: not 0 <= x <= 100).map(str) | st.sampled_from(["", "%", "x", "10%%", "10 percent"]))
def test_what_is_no_percentage_is_refused_by_name(text):
    with pytest.raises(InputError) as refusal:
        options.percentage("--within", text)
    assert str(refusal.value) == f"--within cannot be {text!r}: it takes a percentage from 0 to 100, such as 2 or 2%"


@given(st.floats(0, 1e9))
def test_seconds_are_read(value):
    assert options.seconds("--time-limit", str(value)) == value


@given(st.floats().filter(lambda x: not (math.isfinite(x) and x >= 0)).map(str) | st.sampled_from(["", "60s", "1m"]))
def test_what_is_no_time_is_refused_by_name(text):
    with pytest.raises(InputError, match=r"--time-limit cannot be .*: it takes seconds, 0 or more"):
        options.seconds("--time-limit", text)


@given(st.integers(1, 256))
def test_a_count_is_read(value):
    assert options.count("--workers", str(value), most=256) == value


@given(st.integers().filter(lambda n: not 1 <= n <= 256).map(str) | st.sampled_from(["", "2.0", "²", "1e2", "9" * 5000]))
def test_what_is_no_count_is_refused_by_name(text):
    with pytest.raises(InputError, match=r"--workers cannot be .*: it takes a whole number from 1 to 256"):
        options.count("--workers", text, most=256)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("steps", "--objective cannot be 'steps' (did you mean 'step'?): it takes step, memory, gpus or bandwidth"),
        ("GPUS", "--objective cannot be 'GPUS' (did you mean 'gpus'?): it takes step, memory, gpus or bandwidth"),
        ("", "--objective cannot be '': it takes step, memory, gpus or bandwidth"),
    ],
)
def test_a_word_that_is_no_choice_is_refused_with_the_nearest(text, said):
    with pytest.raises(InputError) as refusal:
        options.choice("--objective", text, parameters.OBJECTIVES)
    assert str(refusal.value) == said


def test_the_choices_of_the_help_are_those_of_the_modules_that_read_them():
    from placement.planner import SolverName
    from placement.program.instance import Objective
    from placement.workloads.rules import PRESETS

    assert tuple(Objective) == parameters.OBJECTIVES
    assert tuple(SolverName) == parameters.SOLVERS
    assert PRESETS == parameters.PRESETS


@pytest.mark.parametrize(
    "arguments",
    [
        ["plan", "--objective", "steps"],
        ["plan", "--solver", "CPSAT"],
        ["plan", "--within", "nan"],
        ["plan", "--time-limit", "inf"],
        ["plan", "--workers", "0"],
        ["catalog", "gpu"],
        ["schema", "plan"],
    ],
)
def test_a_refusal_is_one_line_and_exit_2(placement, arguments):
    process = placement(*arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith("error: ")
    assert repr(arguments[-1]) in process.stderr
    assert process.stderr.count("\n") == 1


def test_the_help_says_what_is_taken_when_nothing_is_said(placement):
    text = " ".join(placement("plan", "--help").stdout.split())
    for words in (
        "on a host without an NVIDIA driver the shipped dgx-a100-80gb",
        "guide, minimal, strict, four, colocate, free; all compares them",
        "at the objective's optimum, with another objective",
        "<step|memory|gpus|bandwidth>",
        "1 to 256",
    ):
        assert words in text


def test_an_algorithm_in_capitals_is_recognised(placement, tmp_path):
    from placement.catalog import workload_text

    (tmp_path / "job.yaml").write_text(workload_text("ppo-0.5b").replace("algorithm: ppo", "algorithm: PPO"))
    process = placement("plan", "--topology", "a100-1", "--workload", "job.yaml")
    assert process.returncode == 2
    assert "not 'PPO' (did you mean 'ppo'?)" in process.stderr


@pytest.mark.parametrize(
    ("option", "value", "meant"),
    [("--rules", "GUIDE", "'guide'"), ("--rules", "Contiguity=off", "'contiguity'"), ("--workload", "PPO-7B", "'ppo-7b'")],
)
def test_suggestions_do_not_mind_capitals(placement, option, value, meant):
    process = placement("plan", "--topology", "a100-1", option, value)
    assert process.returncode == 2
    assert f"did you mean {meant}?" in process.stderr


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("1TiB", 1_048_576),
        ("512GiB", 524_288),
        ("512 gib", 524_288),
        # 503.5 · 1024 = 515,584
        ("503.5GiB", 515_584),
        # 540 · 10^9 / 2^20 = 514,984.1
        ("540GB", 514_984),
        ("1056000000kB", 1_007_080),
        (" 128TiB ", 134_217_728),
    ],
)
def test_an_amount_of_memory_is_read_and_rounded_down(text, mib):
    assert options.memory_mib("--host-memory", text) == mib


@pytest.mark.parametrize("text", ["", "512", "1PiB", "-1TiB", "0GiB", "1023MiB", "129TiB", "1e3GiB", "GiB", "½TiB", "٣TiB"])
def test_what_is_no_amount_of_memory_is_refused_by_name(text):
    with pytest.raises(InputError, match=r"--host-memory cannot be .*: it takes the memory of each host, 1GiB to 128TiB"):
        options.memory_mib("--host-memory", text)


@pytest.mark.parametrize(
    ("arguments", "instead"),
    [
        (
            ["topology", "topo.txt", "gpus.csv"],
            (
                "join outputs of one machine: placement topology topo.txt+gpus.csv; or collect several hosts: "
                "placement collect topo.txt gpus.csv -o cluster.yaml"
            ),
        ),
        (["topology"], "name the machine: placement topology live, or placement topology topo.txt"),
        (["plan", "topo.txt"], "placement plan --topology topo.txt"),
        (["plan", "ppo-7b", "a.txt", "b.txt"], "placement plan --workload ppo-7b --topology a.txt+b.txt; + joins outputs of one machine"),
        (["topology", "a100-1", "x", "4", "@", "2x25GB/s"], "put the cluster in quotes: placement topology 'a100-1 x 4 @ 2x25GB/s'"),
        (["plan", "--topology", "a100-1", "x", "4"], "put the cluster in quotes: placement plan --topology 'a100-1 x 4'"),
        (["measure", "topo.txt"], "placement measure --topology topo.txt; it measures this host"),
        (["explain", "a.yaml", "b.yaml"], "run it once for each"),
        (["collect", "a.txt", "--svg", "a.svg"], "--svg is an option of placement topology"),
        (
            ["topology", "a100-1", "-o", "a.yaml"],
            "-o is an option of placement plan, collect and measure; write what it prints with --yaml > FILE, or a picture with --svg FILE",
        ),
    ],
)
def test_a_command_line_that_cannot_be_parsed_gets_a_way_on(placement, arguments, instead):
    process = placement(*arguments)
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.splitlines()[-1] == f"Instead: {instead}"


def test_a_command_line_with_a_slip_of_the_keyboard_gets_the_word_that_was_meant(placement):
    assert placement("plan", "--toplogy", "x").stderr.splitlines()[-1] == "Error: No such option: --toplogy (Possible options: --topology)"
