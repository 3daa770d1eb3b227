"""
What the words of a published table say of a run: sizes of parallelism, sharding, adapters, recomputation, shares of memory.

Each reader returns None (or False) where the words say nothing; what is then taken for granted is for the caller to say.

When to modify: tables use other words for the same thing.
"""

from __future__ import annotations

import math
import re

from placement.workloads.workload import Recompute

_KINDS = {
    "tp": r"tp(?:[-_]size)?|tensor[- _]?parallel(?:[- _]?(?:size|ism))?|tensor_model_parallel_size",
    "pp": r"pp(?:[-_]size)?|pipeline[- _]?parallel(?:[- _]?(?:size|ism))?|pipeline_model_parallel_size",
    "ep": r"ep(?:[-_]size)?|expert[- _]?parallel(?:[- _]?(?:size|ism))?|expert_model_parallel_size",
    "dp": r"dp(?:[-_]size)?|data[- _]?parallel(?:[- _]?(?:size|ism))?|fsdp|hsdp",
    "cp": r"cp(?:[-_]size)?|context[- _]?parallel(?:[- _]?(?:size|ism))?",
    "sp": r"sp(?:[-_]size)?|ulysses(?:[- _]?sp)?|ulysses_sequence_parallel_size",
}
"""How tables call the kinds of parallelism."""

_CARD = (
    r"(?:(?:nvidia|amd|tesla|geforce|instinct|quadro)[ -]*)*"
    r"(?:rtx[ -]?(?:pro[ -]?)?a?\d{4}|[2-5]0[5-9]0\b|(?:gb|gh|mi|[ahvblpt])\d{1,4}[a-z]{0,2}\b|(?:rtx)?a[456]000"
    r"|gpus?\b|cards?\b|accelerators?\b)"
)
"""A card as it stands behind a number: ``RTX 4090``, ``Tesla V100``, ``A100s``, or ``GPUs``."""

_NUMBERS = {"single": 1, "one": 1, "two": 2, "four": 4, "eight": 8, "sixteen": 16}
_NUMBER = rf"(\d{{1,5}}|{'|'.join(_NUMBERS)})"
_TIMES = r" ?[x×*] ?"
_GPUS_PER_NODE = 8

_LENGTH = (
    r"(?:max(?:imum)?[- _])?(?:seq(?:uence)?s?[- _]?(?:len(?:gth)?)?|(?:context|ctx)(?:[- _]?(?:len(?:gth)?|window|size))?"
    r"|max[- _]?len(?:gth)?|cutoff[- _]?len(?:gth)?|packed(?: (?:to|sequences of))?|tokens per (?:micro-?batch|gpu))"
)
_MICRO = (
    r"(?:mbs|micro[- _]?batch(?:[- _]?size)?(?:[- _]per[- _](?:gpu|device))?|per[- _](?:device|gpu)(?:[- _]train)?[- _](?:micro[- _]?)?"
    r"(?:batch(?:[- _]?size)?|bsz?)|local[- _]batch(?:[- _]?size)?)"
)
_PLAIN_BATCH = (
    r"(?<!global )(?<!global_)(?<!global-)(?<!total )(?<!total_)(?<!effective )(?<!effective_)(?<!train_)(?<!train )"
    r"\b(?:bsz?|batch(?:[- _]?size)?)"
)
_IS = r"(?: ?[=:]? ?| of | is )"

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
    found = re.search(r"(?<![a-z])zero[- _]?(?:stage)?[- _=]?([0-3])(?![\d.])|(?<![a-z])stage[- _=]?([0-3])(?![\d.])|\bz([1-3])\b", said)
    if found:
        return int(found[1] or found[2] or found[3])
    return 0 if re.search(r"(?<![a-z])ddp\b", said) else None


def is_hybrid_sharding(words: str) -> bool:
    """Whether states are spread within a node alone and copied between nodes."""
    return re.search(r"\bhsdp|hybrid[- _]shard", words.lower()) is not None


def gpu_count(words: str) -> int | None:
    """
    Return how many GPUs words name: ``1x RTX 4090``, ``8 H100s``, ``H100 x8``, ``2x8 A100``, ``2 nodes``, ``DGX H100``, ``FSDP8``.

    Nodes without a number of GPUs have eight; where no card is named, the sizes of parallelism multiply (``tp4 dp2``).
    """
    said = re.sub(r"(?<=\d),(?=\d{3}\b)", "", words.lower())
    if found := re.search(rf"(?<![\w.])(\d{{1,4}}){_TIMES}(\d{{1,4}}){_TIMES.replace('×*]', '×*]?')}(?:{_CARD})", said):
        return int(found[1]) * int(found[2])
    nodes = re.search(rf"(?<![\w.]){_NUMBER}[ -]?(?:x ?)?(?:nodes?|hosts?|servers?|(?:dgx|hgx)\b)", said)
    each = re.search(rf"(?<![\w.]){_NUMBER}(?:{_TIMES}| |-)?(?:{_CARD})(?: gpus?)?(?:[ /]?(?:each|a node|per node|node)\b)", said)
    each = each or re.search(rf"nodes? ?(?:of|x|×|\*|with) ?{_NUMBER}\b", said)
    if nodes and each:
        return _number(nodes[1]) * _number(each[1])
    kind = r"(?:[- ](?:\d{2,3} ?gi?b?|sxm\d?|pcie|hbm\de?|nvl|ada|generation))*"
    behind = re.search(rf"(?:{_CARD}){kind}{_TIMES}(\d{{1,4}})(?![\w.])", said)
    if (before := re.search(rf"(?<![\w.]){_NUMBER}(?:{_TIMES}| |-)(?:{_CARD})", said)) or behind:
        found = before or behind
        assert found is not None
        return max(_number(found[1]), 1)
    if nodes or re.search(r"\b(?:dgx|hgx)\b", said):
        return (_number(nodes[1]) if nodes else 1) * _GPUS_PER_NODE
    sizes = [size for kind in ("tp", "pp", "dp", "cp", "sp") if (size := parallel_size(said, kind))]
    return math.prod(sizes) if sizes and parallel_size(said, "dp") else None


def _number(text: str) -> int:
    return _NUMBERS.get(text) or int(text)


def sequence_tokens(words: str) -> int | None:
    """Return the tokens of a sequence: ``seq_len=4096``, ``ctx 8192``, ``context length 8K``, ``packed 2048``, ``8k context``."""
    said = re.sub(r"(?<=\d)[,_](?=\d{3}\b)", "", words.lower())
    found = re.search(rf"\b{_LENGTH}{_IS}(\d{{1,7}})(k?)(?![\w.]*\d)", said)
    found = found or re.search(r"\b(\d{1,7})(k?)[- ]?(?:tokens?[- ])?(?:context|ctx|seq(?:uence)?s?(?:[- _]?len(?:gth)?)?)\b", said)
    if found is None:
        return None
    return max(int(found[1]) * (1024 if found[2] else 1), 1)


def micro_batch(words: str) -> int | None:
    """Return the sequences of a micro-batch: ``mbs=1``, ``per-device batch 4``, ``local batch 2``, ``bs 2``; never a global batch."""
    said = words.lower()
    found = re.search(rf"\b{_MICRO}{_IS}(\d{{1,5}})\b", said) or re.search(rf"{_PLAIN_BATCH}{_IS}(\d{{1,5}})\b", said)
    return max(int(found[1]), 1) if found else None


def has_8_bit_optimizer(words: str) -> bool:
    """Whether Adam's moments have 8 bits: ``AdamW 8bit``, ``8-bit Adam``, ``adamw_bnb_8bit``."""
    return re.search(r"adamw?[- _](?:bnb[- _])?8[- _]?bit|8[- _]?bit[- _](?:paged[- _])?(?:adam|optim)", words.lower()) is not None


def other_precision(words: str) -> str | None:
    """Return ``fp32``, ``int8`` or ``fp8`` where words say that training computes in it; None for 16 bits, the usual."""
    said = re.sub(r"(?:fp32|float32)[- ](?:master|optim\w*|gradients?|reduc\w*|logits?|accum\w*)", "", words.lower())
    found = re.search(r"(?<![a-z0-9])(fp32|float32|fp8|float8|int8)(?![a-z0-9])", said)
    return found[1].replace("float", "fp") if found else None


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
    found = re.search(r"\b(?:lora[- _]?)?(?:rank|r)[-=: ]{0,3}(\d{1,4})\b|\blora[- _(]*r?(\d{1,4})\b", said)
    return int(found[1] or found[2]) if found else 0


def recomputation(words: str) -> Recompute | None:
    """Return what the backward pass computes again."""
    said = words.lower()
    if re.search(r"selective", said):
        return Recompute.SELECTIVE
    again = r"(re-?comput\w*|ac\b|gc\b|activation[- _](?:checkpoint|recomput)\w*|grad(?:ient)?[- _]checkpoint\w*|checkpointing)"
    if re.search(rf"\b(no|without|w/o) (full )?{again}|{again} ?[=:]? ?(off|false|none|no|disabled|0)\b", said):
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
