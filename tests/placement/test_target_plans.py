"""What is planned for a target can be written for it: shipped machines, jobs that the target has, no refusal."""

from __future__ import annotations

from functools import cache

import pytest

from placement.catalog import load_workload
from placement.errors import InputError
from placement.machines.sources import read_machine
from placement.maps import devicemap
from placement.planner import plan
from placement.plans import Plan
from placement.program.instance import make_instance
from placement.targets.catalog import target
from placement.targets.start import Start, read_start
from placement.targets.target import Target, emit, inexpressible
from placement.workloads import workload_file
from placement.workloads.rules import parse_rules
from placement.workloads.target_rules import TARGET_RULES
from placement.workloads.workload import Workload

MACHINES = ("dgx-a100-80gb", "a100-pcie-mixed-8")

APART = """\
schema: placement/workload/v1
algorithm: {algorithm}
batch: {{prompts: 1024, samples_per_prompt: 4, prompt_tokens: 512, response_tokens: {{mean: 300, max: 1024}}, minibatches: 4,
  micro_batch_tokens: 16384}}
roles:
  actor: {{model: Qwen/Qwen2.5-1.5B}}
  rollout: {{model: Qwen/Qwen2.5-1.5B, engine: vllm, tp: [1, 2], gpu_memory_utilization: [0.7, 0.8]}}
  reward: {{function: true}}
"""
REF = "  ref: {model: Qwen/Qwen2.5-1.5B}\n"
CRITIC = "  critic: {model: Qwen/Qwen2.5-1.5B}\n"
MEGATRON = """\
schema: placement/workload/v1
algorithm: grpo
batch: {prompts: 1024, samples_per_prompt: 4, prompt_tokens: 512, response_tokens: {mean: 300, max: 1024}, minibatches: 4,
  micro_batch_tokens: 16384}
roles:
  actor:
    model: Qwen/Qwen2.5-1.5B
    engine: megatron
    layout: {tp: 2, pp: 1}
    rollout: {engine: sglang, tp: [1, 2], gpu_memory_utilization: [0.5, 0.6, 0.7]}
  ref: {model: Qwen/Qwen2.5-1.5B, engine: megatron, layout: {tp: [1, 2]}}
  reward: {function: true}
"""
JOBS = {
    "hybrid": "grpo-1.5b",
    "ppo": "ppo-1.5b",
    "apart": APART.format(algorithm="grpo"),
    "apart with ref": APART.format(algorithm="grpo") + REF,
    "apart with critic": APART.format(algorithm="ppo") + REF + CRITIC,
    "megatron": MEGATRON,
}

WRITTEN = ("verl", "verl-stock", "roll", "rlinf", "openrlhf", "trl", "prime-rl", "areal", "nemo-rl", "skyrl", "slime")


def job(name: str) -> Workload:
    text = JOBS[name]
    return workload_file.load(text) if "\n" in text else load_workload(text)


@cache
def planned(machine: str, name: str, wanted: str) -> Plan | None:
    """Return the plan for a target, as `placement plan --target` asks for it; None where the job needs what the target does not have."""
    workload = job(name)
    rules = next(rules for rules in TARGET_RULES if rules.name == wanted)
    preset = rules.presets[0 if workload.is_hybrid else 1]
    try:
        specs = [*filter(None, [preset]), f"target={wanted}"]
        instance = make_instance(read_machine(machine), workload, parse_rules(*specs))
    except InputError:
        return None
    return plan(instance).plan


def lacks_a_key(it: Target, start: Start, version: str) -> bool:
    """Older versions may: then nothing is written, and the key is named."""
    try:
        emit(it, start, version)
    except InputError as error:
        assert "has no key" in str(error)
        return True
    return False


@pytest.mark.parametrize("wanted", WRITTEN)
@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_planned_is_written(machine, wanted):
    """Every job that it has, and some that it has; files of each version read back as the plan, where they hold ids."""
    it = target(wanted)
    asked = JOBS if machine == MACHINES[0] else ("hybrid", "apart", "megatron")
    found = {name: planned(machine, name, wanted) for name in asked}
    plans = {name: one for name, one in found.items() if one is not None}
    assert plans
    for name, one in plans.items():
        start = read_start(devicemap.dump(one))
        assert start.target == wanted
        assert list(inexpressible(it, start)) == [], name
        for version in it.versions:
            if version != it.versions[0] and lacks_a_key(it, start, version):
                continue
            emitted = emit(it, start, version)
            assert it.reads is not None
            back = dict(it.reads(emitted.files))
            assert back == {role: tuple(group) for role, group in one.device_map.items()} or (wanted == "nemo-rl" and not back), name


@pytest.mark.parametrize("wanted", ["verl", "verl-stock", "openrlhf", "roll"])
def test_cards_without_bf16_are_written_as_they_compute(wanted):
    """V100s compute in 16-bit floats of the old kind: the files say so, or nothing is written."""
    one = planned("dgx-1-v100", "ppo", wanted)
    assert one is not None
    assert {role.precision for role in one.roles.values()} == {"fp16"}
    text = "".join(emit(target(wanted), read_start(devicemap.dump(one))).files.values())
    assert "fp16" in text
    assert "bf16" not in text
    assert "bfloat16" not in text
