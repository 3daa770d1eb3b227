"""
What the words of a published table say of a run: sizes of parallelism, sharding, adapters, recomputation, shares of memory.

Each reader returns None (or False) where the words say nothing; what is then taken for granted is for the caller to say.

When to modify: tables use other words for the same thing.
"""

from __future__ import annotations

import re

from placement.workloads.workload import Recompute

_KINDS = {
    "tp": r"tp|tensor[- _]?parallel(?:[- _]?(?:size|ism))?|tensor_model_parallel_size",
    "pp": r"pp|pipeline[- _]?parallel(?:[- _]?(?:size|ism))?|pipeline_model_parallel_size",
    "ep": r"ep|expert[- _]?parallel(?:[- _]?(?:size|ism))?|expert_model_parallel_size",
    "cp": r"cp|context[- _]?parallel(?:[- _]?(?:size|ism))?",
    "sp": r"sp|ulysses(?:[- _]?sp)?|ulysses_sequence_parallel_size",
}
"""How tables call the kinds of parallelism."""

_STAGES = {"full_shard": 3, "hybrid_shard": 3, "shard_grad_op": 2, "no_shard": 0}
"""What PyTorch calls the stages of ZeRO (``ShardingStrategy``); 0 is plain data parallelism."""


def parallel_size(words: str, kind: str) -> int | None:
    """Return the size of parallelism of *kind* (``tp``, ``pp``, ``ep``, ``cp``, ``sp``): ``TP8``, ``tp=4``, ``pipeline parallel 2``."""
    found = re.search(rf"(?<![a-wyz])(?:{_KINDS[kind]})[ :=_-]{{0,2}}(\d{{1,4}})(?![\d.]*(?:b\b|%))", words.lower())
    return max(int(found[1]), 1) if found else None


def zero_stage(words: str) -> int | None:
    """Return the stage of ZeRO: ``ZeRO-3``, ``zero stage 2``, ``stage2``, ``FULL_SHARD``; 0 where every GPU keeps all (``DDP``)."""
    said = words.lower()
    for name, stage in _STAGES.items():
        if name in said:
            return stage
    found = re.search(r"\bzero[- _]?(?:stage)?[- _=]?([0-3])\b|\bstage[- _=]?([0-3])\b", said)
    if found:
        return int(found[1] or found[2])
    return 0 if re.search(r"\bddp\b", said) else None


def is_megatron(words: str) -> bool:
    """Whether Megatron trains."""
    return re.search(r"megatron|mcore", words.lower()) is not None


def without_distributed_optimizer(words: str) -> bool:
    """Whether every data-parallel rank keeps all of the optimizer."""
    said = words.lower()
    return re.search(r"(no|without|w/o) (the )?dist(ributed)?[- _]?opt", said) is not None or "use_distributed_optimizer=false" in said


def lora_rank(words: str) -> int | None:
    """Return the rank of LoRA adapters: ``LoRA r=16``, ``lora_rank 64``, ``rank 8``; 0 where adapters have no rank; None without any."""
    said = words.lower()
    if "lora" not in said:
        return None
    found = re.search(r"\b(?:lora[- _]?)?(?:rank|r) ?[=: ]? ?(\d{1,4})\b|\blora[- _]?r?(\d{1,4})\b", said)
    return int(found[1] or found[2]) if found else 0


def recomputation(words: str) -> Recompute | None:
    """Return what the backward pass computes again."""
    said = words.lower()
    if re.search(r"selective", said):
        return Recompute.SELECTIVE
    again = r"(re-?comput\w*|ac\b|activation[- ]checkpoint\w*|gradient[- ]checkpoint\w*|checkpointing)"
    if re.search(rf"\b(no|without|w/o) (full )?{again}|{again} ?[=:]? ?(off|false|none)\b", said):
        return Recompute.NONE
    return Recompute.FULL if re.search(rf"(full |\b){again}", said) else None


def claimed_share(words: str) -> float | None:
    """Return the share of the memory that an engine claims: ``gpu_memory_utilization .9``, ``--gpu-memory-utilization=0.85``."""
    found = re.search(r"(?:gpu[- _]mem(?:ory)?[- _])?util(?:ization)?[ =:]{1,3}(0?\.\d{1,4}|1\.0|\d{2}(?= ?%))", words.lower())
    if found is None:
        return None
    value = float(found[1])
    return value / 100 if value > 1 else value


def longest_sequence(words: str) -> int | None:
    """Return the tokens of the longest sequence that an engine takes: ``max-model-len 16000``, ``max_model_len=32k``."""
    found = re.search(r"max[- _]model[- _]len(?:gth)?[ =:]{1,3}(\d{1,7})(k?)\b", words.lower())
    return int(found[1]) * (1024 if found[2] else 1) if found else None


def running_sequences(words: str) -> int | None:
    """Return how many sequences an engine runs at a time: ``max-num-seqs 256``."""
    found = re.search(r"max[- _]num[- _]seqs[ =:]{1,3}(\d{1,6})\b", words.lower())
    return int(found[1]) or None if found else None


def has_8_bit_cache(words: str) -> bool:
    """Whether the KV cache has 8 bits: ``kv_cache_dtype fp8``, ``fp8 KV cache``."""
    return re.search(r"kv[- _]?(?:cache)?[- _]?(?:dtype)?[ =:]{0,3}(fp8|int8)|(fp8|int8)(_e[45]m[23])? kv", words.lower()) is not None


def is_only_generation(words: str) -> bool:
    """Whether the 8 bits that a row speaks of are those of generation alone."""
    side = "(generation|rollout|inference)"
    return re.search(rf"{side}[ -](in )?fp8(?!.*train)|fp8[ -](only )?{side}|bf16 train|train\w* (in )?bf16", words.lower()) is not None
