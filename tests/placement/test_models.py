"""Models: the catalogue, configurations and numbers agree to the digit."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

import placement
from placement.errors import InputError
from placement.model_config import FAMILIES, read_config
from placement.models import Model, catalogue, find_model, from_numbers

RECORDS = json.loads((Path(placement.__path__[0]) / "data" / "models.json").read_text(encoding="utf-8"))[
    "models"
]


def config_of(record):
    """Return a record of the catalogue in the words of its family's config.json."""
    name = record["model"].lower()
    config = {
        "hidden_size": record["hidden"],
        "num_hidden_layers": record["layers"],
        "num_attention_heads": record["heads"],
        "num_key_value_heads": record["kv_heads"],
        "intermediate_size": record["ffn"] or record["moe_ffn"],
        "vocab_size": record["vocab"],
        "tie_word_embeddings": record["tie_embeddings"],
        "max_position_embeddings": record["max_position"],
    }
    if "head_dim" in record:
        config["head_dim"] = record["head_dim"]
    if "mixtral" in name:
        config |= {"num_local_experts": record["experts"], "num_experts_per_tok": record["experts_per_token"]}
    elif record["family"] == "moe":
        config |= {"moe_intermediate_size": record["moe_ffn"], "num_experts": record["experts"]}
        config |= {
            "num_experts_per_tok": record["experts_per_token"],
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        }
    elif record["family"] == "moe-mla":
        config |= {
            key: record[key]
            for key in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        }
        config |= {"moe_intermediate_size": record["moe_ffn"], "n_routed_experts": record["experts"]}
        config |= {
            "n_shared_experts": record["shared_experts"],
            "first_k_dense_replace": record["dense_layers"],
        }
        config |= {"num_experts_per_tok": record["experts_per_token"]}
    families = {
        "mixtral": "mixtral",
        "mistral": "mistral",
        "qwen2.5": "qwen2",
        "qwen3-30b": "qwen3_moe",
        "qwen3-235b": "qwen3_moe",
        "qwen3": "qwen3",
        "gemma-2": "gemma2",
        "gemma-3": "gemma3_text",
        "phi": "phi3",
        "deepseek-v2": "deepseek_v2",
        "deepseek-v3": "deepseek_v3",
        "kimi": "kimi_k2",
        "llama": "llama",
    }
    config["model_type"] = next(family for part, family in families.items() if part in name)
    return config


def written(tmp_path, config):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r["model"])
def test_parameters_counted_from_the_shape_are_exact(record, tmp_path):
    """
    Every field of the catalogue follows from the configuration; the count is the published one where one is
    published.
    """
    model = read_config(written(tmp_path, config_of(record)), name=record["model"])
    assert catalogue()[record["model"]] == model
    assert record["params_formula"] == model.parameters
    if record["params_published"] is not None:
        assert record["params_published"] == model.parameters
    if "params_non_embedding" in record:
        assert record["params_non_embedding"] == model.parameters - model.embedding_parameters


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        pytest.param(
            {
                "model_type": "qwen2_moe",
                "hidden_size": 2048,
                "num_hidden_layers": 24,
                "num_attention_heads": 16,
                "num_key_value_heads": 16,
                "intermediate_size": 5632,
                "moe_intermediate_size": 1408,
                "shared_expert_intermediate_size": 5632,
                "num_experts": 60,
                "num_experts_per_tok": 4,
                "vocab_size": 151936,
                "decoder_sparse_step": 1,
            },
            14_315_784_192,
            id="Qwen1.5-MoE-A2.7B",
        ),
        pytest.param(
            {
                "model_type": "gemma3",
                "text_config": {
                    "model_type": "gemma3_text",
                    "hidden_size": 2560,
                    "intermediate_size": 10240,
                    "num_hidden_layers": 34,
                },
            },
            3_880_263_168,
            id="gemma-3-4b, text part, unstated keys",
        ),
        pytest.param(
            {
                "model_type": "llama",
                "hidden_size": 8,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "intermediate_size": 16,
                "vocab_size": 10,
                "attention_bias": True,
            },
            2 * 80 + 4 * 64 + 24 + 8 + 3 * 8 * 16 + 16 + 8,
            id="Llama with biases and no grouped heads",
        ),
    ],
)
def test_parameters_of_families_beyond_the_catalogue(config, parameters, tmp_path):
    assert parameters == read_config(written(tmp_path, config), name="x").parameters


def test_a_folder_with_a_configuration_is_a_model(tmp_path):
    written(tmp_path, config_of(RECORDS[0]))
    expected = catalogue()[RECORDS[0]["model"]]
    assert dataclasses.replace(expected, name=str(tmp_path)) == find_model(str(tmp_path))
    assert dataclasses.replace(expected, name=tmp_path.name) == find_model(
        tmp_path.name, folder=tmp_path.parent
    )


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("qwen/qwen2.5-7b", "Qwen/Qwen2.5-7B"),
        ("Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("gemma-3-27b-it", "google/gemma-3-27b-it (text)"),
        ("google/gemma-3-27b-it", "google/gemma-3-27b-it (text)"),
    ],
)
def test_catalogue_names_are_found_in_any_case_and_short(typed, name):
    assert name == find_model(typed).name


def test_variants_have_the_shape_of_their_base_model():
    base, variant = find_model("Qwen2.5-7B"), find_model("Qwen/Qwen2.5-7B-Instruct")
    assert dataclasses.replace(base, name="Qwen/Qwen2.5-7B-Instruct", max_position=None) == variant


def test_short_names_are_unique():
    shorts = [r["model"].partition("/")[2].lower() for r in RECORDS]
    assert len(shorts) == len(set(shorts))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        pytest.param("Qwen/Qwen2.5-8B", "did you mean 'Qwen/Qwen2.5-", id="near a name"),
        pytest.param("zzzz", "there is no model 'zzzz': give a name", id="near nothing"),
        pytest.param("x" * 5000, "there is no model 'xxx", id="too long for a name"),
        pytest.param("~nobody-of-that-name/model", "there is no model '~nobody", id="home of nobody"),
        pytest.param("a\0b.json", "cannot read the model's configuration", id="no file name"),
        pytest.param(
            "missing/config.json", "cannot read the model's configuration: No such file", id="no file"
        ),
        pytest.param(
            {"parameter": 1}, "a model has no 'parameter'; did you mean 'parameters'?", id="unknown number"
        ),
        pytest.param(
            {"qqq": 1}, "a model has no 'qqq': it has name, hidden", id="unknown number near nothing"
        ),
        pytest.param({"parameters": 1}, "also needs hidden, layers", id="missing numbers"),
        pytest.param(
            {"hidden": True}, "hidden of a model is a whole number from 1, not True", id="boolean number"
        ),
        pytest.param({"hidden": -1}, "a whole number from 1, not -1", id="negative number"),
        pytest.param({"tie_embeddings": 1}, "true or false, not 1", id="number for a switch"),
        pytest.param({"name": 7}, "name of a model is text, not 7", id="number for a name"),
    ],
)
def test_what_is_no_model_is_refused_with_a_remedy(source, says):
    with pytest.raises(InputError) as raised:
        find_model(source)
    assert says in str(raised.value)


NUMBERS = {
    "parameters": 10**9,
    "hidden": 2048,
    "layers": 16,
    "heads": 32,
    "kv_heads": 8,
    "vocab": 32000,
    "ffn": 8192,
}


def test_numbers_imply_the_rest():
    model = find_model(NUMBERS)
    assert model == Model(
        name="custom",
        hidden=2048,
        layers=16,
        heads=32,
        kv_heads=8,
        head_dim=64,
        ffn=8192,
        vocab=32000,
        parameters=10**9,
        active_parameters=10**9,
        embedding_parameters=2 * 32000 * 2048,
        kv_bytes_per_token=2 * 2 * 16 * 8 * 64,
        kv_shards=8,
    )
    assert from_numbers({**NUMBERS, "tie_embeddings": True}).embedding_parameters == 32000 * 2048
    assert model == from_numbers({**NUMBERS, "max_position": None})


@pytest.mark.parametrize("name", [r["model"] for r in RECORDS])
def test_a_model_written_as_numbers_is_the_same_model(name):
    assert catalogue()[name] == from_numbers(dataclasses.asdict(catalogue()[name]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"kv_heads": 7}, "32 attention heads cannot share 7 KV heads", id="uneven heads"),
        pytest.param({"active_parameters": 2 * 10**9}, "more than all", id="more active than all"),
        pytest.param(
            {"vocab": 10**6},
            "cannot hold embeddings of 4,096,000,000 (vocab × hidden, twice",
            id="only embeddings",
        ),
    ],
)
def test_numbers_that_cannot_belong_together_are_refused(changes, says):
    with pytest.raises(InputError) as raised:
        from_numbers({**NUMBERS, **changes})
    assert says in str(raised.value)


def test_a_value_head_replaces_the_language_model_head():
    """Qwen2.5-7B has a head of 152064 × 3584; Qwen2.5-0.5B uses its input embedding as head, which stays."""
    untied, tied = find_model("Qwen2.5-7B"), find_model("Qwen2.5-0.5B")
    assert untied.as_scalar_head().parameters == 7_615_616_512 - 152_064 * 3584 + 3584
    assert tied.as_scalar_head().parameters == 494_032_768 + 896
    for model in (untied, tied):
        assert model.layer_parameters == model.as_scalar_head().layer_parameters


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("[]", "is a JSON object", id="no object"),
        pytest.param("{", "no valid JSON", id="broken"),
        pytest.param("[" * 100_000, "no JSON text", id="too deep"),
        pytest.param(
            '{"model_type": "bloom"}',
            "(model_type) 'bloom' is not known; known are llama",
            id="unknown family",
        ),
        pytest.param('{"model_type": ["llama"]}', "is not known", id="family is a list"),
        pytest.param('{"model_type": "llama"}', "a llama model needs 'hidden_size'", id="missing key"),
        pytest.param(
            '{"model_type": "llama", "hidden_size": "8"}',
            "hidden_size must be a whole number from 1, not '8'",
            id="text",
        ),
        pytest.param(
            '{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1, '
            '"num_attention_heads": 3, "num_key_value_heads": 2}',
            "cannot share",
            id="uneven heads",
        ),
        pytest.param(" " * (1 << 26) + "{}", "larger than", id="too large"),
    ],
)
def test_a_wrong_configuration_is_refused_with_its_file(text, says, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        find_model(str(file))
    assert says in str(raised.value)
    assert raised.value.where.startswith(str(file))


def test_a_binary_configuration_is_refused(tmp_path):
    file = tmp_path / "config.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no JSON text"):
        find_model(str(file))


def test_every_family_is_counted_by_some_test():
    counted = {config_of(r)["model_type"] for r in RECORDS} | {"qwen2_moe"}
    assert set(FAMILIES) == counted


def test_weights_of_another_model_are_noticed(tmp_path):
    """The index of a 7B model beside the configuration of a 0.5B one."""
    small = next(r for r in RECORDS if r["model"] == "Qwen/Qwen2.5-0.5B")
    file = written(tmp_path, {**config_of(small), "torch_dtype": "bfloat16"})
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 15231233024}}')
    with pytest.raises(InputError, match="hold 7,615,616,512 parameters, but its shapes give 494,032,768"):
        find_model(str(file))


@pytest.mark.parametrize(
    ("config", "index"),
    [
        pytest.param(
            {"torch_dtype": "bfloat16"}, {"metadata": {"total_size": 2 * 494_032_768}}, id="same count"
        ),
        pytest.param(
            {"torch_dtype": "float32"}, {"metadata": {"total_size": 4 * 630_167_424}}, id="stored head"
        ),
        pytest.param({"torch_dtype": "int4"}, {"metadata": {"total_size": 1}}, id="unknown width"),
        pytest.param({"dtype": "float16"}, {"metadata": {"total_size": "?"}}, id="no size"),
        pytest.param({"dtype": "float16"}, {"metadata": None}, id="no metadata"),
        pytest.param(
            {"dtype": "float16", "quantization_config": {}}, {"metadata": {"total_size": 1}}, id="quantised"
        ),
    ],
)
def test_weights_that_may_be_of_the_model_are_accepted(config, index, tmp_path):
    small = next(r for r in RECORDS if r["model"] == "Qwen/Qwen2.5-0.5B")
    file = written(tmp_path, {**config_of(small), **config})
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert small["params_formula"] == find_model(str(file)).parameters
