"""
Rules and presets for people: names, defaults, and what each says.

`placement catalog rules` and docs/rules.md print these.

When to modify: together with `placement.workloads.rules`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule for people: its name, its default, what its switch takes, and what it says."""

    name: str
    default: str
    takes: str
    says: str


RULES = (
    Rule(
        "isolation",
        "guide",
        "a preset, or off",
        "Which pairs of roles may not share a GPU: a preset decides, and its bare name is enough.",
    ),
    Rule(
        "contiguity",
        "on",
        "on, off",
        "The GPUs of a TP block are pairwise joined by NVLink (without NVLink: lie in one closest domain), "
        "and a role's group touches no more domains than its size forces, unless it takes whole domains.",
    ),
    Rule(
        "sharing",
        "pool",
        "pool, partial",
        "Two roles share all their GPUs or none; `partial` also lets them share some.",
    ),
    Rule(
        "reserve",
        "5 % or 1 GiB, whichever is more",
        "8%, 2GiB, 512MiB, off",
        "Memory that no plan may use, on every GPU.",
    ),
    Rule(
        "reward_reserve",
        "20 %",
        "25%, off",
        "The free memory asked for on a GPU that the reward model shares, instead of `reserve`.",
    ),
    Rule("same_card", "on", "on, off", "The GPUs of one role are the same chip with capacities within 5 %."),
    Rule(
        "min_gpus",
        "critic 2",
        "a count, off",
        "The critic gets so many GPUs or more: hard where six or more GPUs are usable or where you wrote it, else a wish. "
        "A role's own `gpus:` in the workload takes the place of it.",
    ),
    Rule(
        "busy",
        "2 GiB",
        "4GiB, 512MiB, off",
        "A GPU of which other processes hold more than this is not used.",
    ),
    Rule(
        "visible",
        "the environment's when live",
        "the option --visible",
        "GPUs that CUDA_VISIBLE_DEVICES hides are not used.",
    ),
    Rule("supported", "on", "on, off", "Engine and precision need a chip that can run them."),
    Rule(
        "even_batch",
        "off (a plan says it)",
        "on, off",
        "Data-parallel ranks of fsdp and megatron get as many sequences as each other, of a step and of a minibatch: verl and most other "
        "trainers refuse what is uneven.",
    ),
    Rule(
        "affinity",
        "on (a wish)",
        "on, off",
        "Actor and ref, when apart, sit in the same island or closest domain.",
    ),
    Rule(
        "root_complex",
        "on (a wish)",
        "on, off",
        "Critic and reward, when apart, do not sit under one PCIe root complex.",
    ),
    Rule(
        "target",
        "none",
        "a target of `placement catalog targets`, off",
        "The plan is one that this framework can run: which roles it can pool, in which order of GPUs, with which engines and schedule.",
    ),
)
"""All rules, in the order in which they are listed."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A reading of rule ``isolation`` in one sentence."""

    name: str
    says: str


PRESET_TEXTS = (
    Preset(
        "guide",
        "the deployment guide's checklist: actor and critic apart, ref may join the actor, "
        "reward may join critic or ref",
    ),
    Preset("minimal", "the guide's minimal safe form: only ref and reward may share"),
    Preset("strict", "the guide's summary: all roles apart"),
    Preset("four", "the guide's answer for four GPUs: the actor apart, critic, ref and reward may share"),
    Preset("colocate", "what stock verl does: all roles on the same GPUs"),
    Preset("free", "any roles may share"),
)
