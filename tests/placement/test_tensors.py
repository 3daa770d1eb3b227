"""How many tensors models are: counted by hand from the modules of their families."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from placement.models.model import catalogue, find_model
from placement.models.model_tensors import tensors


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # q, k, v, o, gate, up, down and two norms; embedding, last norm and head.
        pytest.param("meta-llama/Llama-3.1-8B", 9 * 32 + 3, id="nine a layer"),
        pytest.param("meta-llama/Llama-3.2-1B", 9 * 16 + 2, id="a tied head"),
        pytest.param("Qwen/Qwen2.5-1.5B", 12 * 28 + 2, id="biases of q, k, v; tied"),
        pytest.param("Qwen/Qwen2.5-7B", 12 * 28 + 3, id="biases of q, k, v"),
        pytest.param("Qwen/Qwen3-8B", 11 * 36 + 3, id="norms of q and k over a head"),
        pytest.param("allenai/OLMo-2-1124-7B", 11 * 32 + 3, id="norms of q and k over all heads"),
        pytest.param("google/gemma-2-9b", 11 * 42 + 2, id="four norms; tied"),
        pytest.param("google/gemma-3-4b-it (text)", 13 * 34 + 2, id="four norms, and norms of q and k; tied"),
        pytest.param("google/gemma-3-12b-it (text)", 13 * 48 + 2, id="norms with as many numbers as biases would have"),
        pytest.param("google/gemma-2-2b", 11 * 26 + 2, id="four norms with as many numbers as biases and two norms"),
        # 4 + 3 + 2 + router + 3 · 60, a shared expert and its gate.
        pytest.param("Qwen/Qwen1.5-MoE-A2.7B", 194 * 24 + 3, id="a shared expert"),
        # 4 + 2 + router + 3 · 8; with norms of q and k 4 + 2 + 2 + 1 + 3 · 128.
        pytest.param("mistralai/Mixtral-8x7B-v0.1", 31 * 32 + 3, id="experts"),
        pytest.param("Qwen/Qwen3-30B-A3B", 393 * 48 + 3, id="experts, and norms of q and k"),
    ],
)
def test_tensors_are_those_of_the_family(name: str, expected: int) -> None:
    assert tensors(find_model(name)) == expected


def test_the_worked_numbers() -> None:
    names = ("Qwen/Qwen2.5-1.5B", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B")
    assert [tensors(catalogue()[name]) for name in names] == [338, 291, 399]


def test_every_dense_model_of_the_catalogue_is_counted() -> None:
    # What the catalogue's file says of biases and norms takes no part in the count.
    file = Path(__file__).parents[2] / "placement" / "data" / "models.json"
    records = [record for record in json.loads(file.read_text(encoding="utf-8"))["models"] if record["family"] == "dense"]
    assert len(records) > 60
    for record in records:
        four_norms = "gemma-2-" in record["model"] or "gemma-3-" in record["model"]
        each = 9 + 3 * record["qkv_bias"] + 2 * record["qk_norm"] + 2 * four_norms
        expected = each * record["layers"] + (2 if record["tie_embeddings"] else 3)
        assert tensors(catalogue()[record["model"]]) == expected, record["model"]


def test_a_critic_has_a_head_of_its_own() -> None:
    assert tensors(find_model("Qwen/Qwen2.5-1.5B").as_scalar_head()) == 12 * 28 + 3


def test_a_round_count_tells_no_small_tensors() -> None:
    model = dataclasses.replace(find_model("Qwen/Qwen3-8B"), parameters=8 * 10**9, active_parameters=8 * 10**9)
    assert tensors(model) == 9 * 36 + 3
