"""Models: the catalogue, configurations and numbers agree to the digit."""

from __future__ import annotations

import dataclasses
import json

import pytest
from model_configs import QWEN2_MOE, RECORDS, SMALL, config_of, written

from placement.errors import InputError
from placement.models import model_limits
from placement.models.model import Model, catalogue, find_model, from_numbers
from placement.models.model_config import read_config
from placement.models.model_families import FAMILIES


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
            QWEN2_MOE,
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
            {"hidden": True}, "hidden of a model is a whole number from 1 to 16,777,216, not true", id="boolean number"
        ),
        pytest.param({"hidden": -1}, "a whole number from 1 to 16,777,216, not -1", id="negative number"),
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
def test_the_bounds_leave_room_for_models_to_come(name):
    """Every number of every shipped model may be ten times as large."""
    model = dataclasses.asdict(catalogue()[name])
    assert {key for key, most in model_limits.MOST.items() if 10 * (model[key] or 0) > most} == set()


def test_every_number_of_a_model_has_a_bound():
    numbers = {f.name for f in dataclasses.fields(Model) if f.type in ("int", "int | None")}
    assert numbers == set(model_limits.MOST)


@pytest.mark.parametrize("name", [r["model"] for r in RECORDS])
def test_a_model_written_as_numbers_is_the_same_model(name):
    assert catalogue()[name] == from_numbers(dataclasses.asdict(catalogue()[name]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"kv_heads": 7}, "32 attention heads cannot share 7 KV heads", id="uneven heads"),
        pytest.param({"active_parameters": 2 * 10**9}, "more than all", id="more active than all"),
        pytest.param({"experts": 8, "experts_per_token": 9}, "a token cannot pass 9 experts", id="9 of 8 experts"),
        pytest.param({"experts_per_token": 2}, "where a layer has 0 (experts)", id="experts of a dense model"),
        pytest.param({"experts": 8}, "needs experts_per_token: a whole number from 1 to 8", id="no expert passed"),
        pytest.param(
            {"hidden": 1, "heads": 1 << 16, "kv_heads": 1},
            "65,536 attention heads cannot share a width of 1 evenly: state head_dim",
            id="more heads than width",
        ),
        pytest.param({"heads": 1 << 40, "kv_heads": 1}, "heads of a model is a whole number from 1 to 65,536", id="heads"),
        pytest.param({"layers": 10_001}, "a whole number from 1 to 10,000, not 10001", id="layers"),
        pytest.param(
            {"layers": 10_000, "heads": 1 << 16, "kv_heads": 1 << 16, "head_dim": 1 << 24},
            "kv_bytes_per_token of a model is a whole number from 1 to 1,099,511,627,776; the other numbers make it",
            id="a product that is too large",
        ),
        pytest.param(
            {"embedding_parameters": 1},
            "1 embedding_parameters are not more than the output head of 65,536,000 (vocab × hidden)",
            id="a head larger than the embeddings",
        ),
        pytest.param({"active_parameters": 10**7}, "10,000,000 active_parameters are not more than", id="no head"),
        pytest.param({"parameters": 10**5000}, "not a number of too many digits", id="5,001 digits"),
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
            "hidden_size must be a whole number from 1 to 16,777,216, not '8'",
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


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
QWEN3_MOE = config_of(next(r for r in RECORDS if r["model"] == "Qwen/Qwen3-30B-A3B"))
DEEPSEEK = config_of(next(r for r in RECORDS if "DeepSeek-V3" in r["model"]))
DEEP = "[" * 500 + "]" * 500


@pytest.mark.parametrize(
    ("config", "key", "value", "says"),
    [
        (QWEN3_MOE, "num_hidden_layers", "2147483647", "must be a whole number from 1 to 10,000, not 2147483647"),
        (QWEN3_MOE, "mlp_only_layers", "5", "mlp_only_layers must be a list of layers, not 5"),
        (QWEN3_MOE, "mlp_only_layers", '"abc"', "must be a list of layers, not 'abc'"),
        (QWEN3_MOE, "mlp_only_layers", "[48]", "mlp_only_layers lists 48: a layer is a whole number from 0 to 47"),
        (QWEN3_MOE, "mlp_only_layers", "[[1]]", "mlp_only_layers lists [1]: a layer is"),
        (QWEN3_MOE, "mlp_only_layers", "[true]", "mlp_only_layers lists true: a layer is"),
        (QWEN3_MOE, "num_experts", "100001", "num_experts must be a whole number from 1 to 100,000, not 100001"),
        (QWEN3_MOE, "num_experts_per_tok", "129", "from 1 to 128, the value of num_experts, not 129"),
        (DEEPSEEK, "num_experts_per_tok", "257", "from 1 to 256, the value of n_routed_experts, not 257"),
        (DEEPSEEK, "first_k_dense_replace", "1000", "must be a whole number from 0 to 61, not 1000"),
        (DEEPSEEK, "first_k_dense_replace", "-1", "must be a whole number from 0 to 61, not -1"),
        (LLAMA, "num_attention_heads", "128", "128 attention heads cannot share a width of 64 evenly: state head_dim"),
        (LLAMA, "num_attention_heads", "3", "3 attention heads cannot share a width of 64 evenly: state head_dim"),
        (LLAMA, "num_key_value_heads", "3", "cannot share 3 KV heads (num_key_value_heads) evenly"),
        (LLAMA, "hidden_size", "16777217", "hidden_size must be a whole number from 1 to 16,777,216, not 16777217"),
        (LLAMA, "hidden_size", "NaN", "16,777,216, not nan"),
        (LLAMA, "hidden_size", "Infinity", "16,777,216, not inf"),
        (LLAMA, "hidden_size", "64.0", "16,777,216, not 64.0"),
        (LLAMA, "hidden_size", "-64", "16,777,216, not -64"),
        (LLAMA, "hidden_size", DEEP, "16,777,216, not [[[[[[[...]]]]]]]"),
        (LLAMA, "hidden_size", "9" * 5000, "a number of 5,000 digits (9999999999…)"),
        (LLAMA, "unknown", "9" * 5000, "a number of 5,000 digits (9999999999…)"),
        (LLAMA, "unknown", '{"a": 1, "b": 2, "a": 1}', "the key 'a' is there twice: remove one"),
        (LLAMA, "model_type", DEEP, "(model_type) [[[[[[[...]]]]]]] is not known"),
        (LLAMA, "tie_word_embeddings", '"false"', "tie_word_embeddings must be true or false, not 'false'"),
        (LLAMA, "attention_bias", "0", "attention_bias must be true or false, not 0"),
        (
            LLAMA | {"num_hidden_layers": 10_000, "hidden_size": 1 << 24},
            "intermediate_size",
            "16777216",
            "parameters of a model is a whole number from 1 to 1,125,899,906,842,624; the other numbers make it",
        ),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:24],
)
def test_a_value_that_no_model_has_is_refused_with_its_key(config, key, value, says, tmp_path):
    """The line names the file, the key, and what is allowed; it stays short whatever the value is."""
    file = tmp_path / "config.json"
    others = {k: v for k, v in config.items() if k != key}
    file.write_text(json.dumps(others)[:-1] + f', "{key}": {value}}}', encoding="utf-8")
    with pytest.raises(InputError) as raised:
        find_model(str(tmp_path))
    assert says in str(raised.value)
    assert str(file) == raised.value.where
    assert len(str(raised.value)) < len(str(file)) + 400


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    file = written(tmp_path, LLAMA)
    file.write_text(file.read_text()[:-1] + ', "hidden_size": 128}')
    with pytest.raises(InputError, match="the key 'hidden_size' is there twice"):
        find_model(str(file))


def test_a_byte_order_mark_is_no_part_of_the_configuration(tmp_path):
    file = written(tmp_path, LLAMA)
    model = find_model(str(file))
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert model == find_model(str(file))


def test_a_device_is_no_configuration(tmp_path):
    """Reading a pipe could wait for ever."""
    (tmp_path / "config.json").symlink_to("/dev/null")
    with pytest.raises(InputError, match="this is no file"):
        find_model(str(tmp_path))


def test_a_model_whose_layers_have_no_experts_is_dense(tmp_path):
    """Qwen3's dense and sparse families differ in the experts alone; every 49th of 48 layers has some."""
    config = QWEN3_MOE | {"decoder_sparse_step": 49}
    sparse = read_config(written(tmp_path, config), name="x")
    assert sparse == read_config(written(tmp_path, config | {"model_type": "qwen3"}), name="x")
    listed = QWEN3_MOE | {"mlp_only_layers": list(range(48))}
    assert sparse == read_config(written(tmp_path, listed), name="x")


def test_layers_with_experts_are_counted_as_the_model_builds_them(tmp_path):
    """DeepSeek's layers have experts from the first that is not dense, at every multiple of a step."""

    def counted(**changes):
        return read_config(written(tmp_path, DEEPSEEK | changes), name="x").parameters

    assert counted(first_k_dense_replace=0, moe_layer_freq=61) == counted(first_k_dense_replace=60)
    assert counted(first_k_dense_replace=1, moe_layer_freq=2) == counted(first_k_dense_replace=31)
    every_other = {"decoder_sparse_step": 2}
    odd = {"mlp_only_layers": list(range(0, 48, 2))}
    assert read_config(written(tmp_path, QWEN3_MOE | every_other), name="x") == read_config(
        written(tmp_path, QWEN3_MOE | odd), name="x"
    )


def test_a_binary_configuration_is_refused(tmp_path):
    file = tmp_path / "config.json"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no JSON text"):
        find_model(str(file))


@pytest.mark.parametrize("small", SMALL, ids=lambda small: small["id"])
def test_every_family_has_the_parameters_of_its_real_modules(small, tmp_path):
    assert read_config(written(tmp_path, small["config"]), name="x").parameters == small["parameters"]


def test_every_family_is_counted_by_some_test():
    counted = {config_of(r)["model_type"] for r in RECORDS} | {small["config"]["model_type"] for small in SMALL}
    assert set(FAMILIES) == counted


def test_weights_of_another_model_are_noticed(tmp_path):
    """The index of a 7B model beside the configuration of a 0.5B one."""
    small = next(r for r in RECORDS if r["model"] == "Qwen/Qwen2.5-0.5B")
    file = written(tmp_path, {**config_of(small), "torch_dtype": "bfloat16"})
    (tmp_path / "model.safetensors.index.json").write_text('{"metadata": {"total_size": 15231233024}}')
    with pytest.raises(InputError, match="hold 7,615,616,512 parameters, but its shapes give 494,032,768"):
        find_model(str(file))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param('{"metadata": {"total_size": 1%s}}' % ("0" * 400), "a number of 401 digits", id="401 digits"),
        pytest.param('{"metadata": {"total_size": 1%s}}' % ("0" * 39), "they are of different models", id="40 digits"),
        pytest.param('{"metadata": 1, "metadata": 2}', "the key 'metadata' is there twice", id="twice"),
        pytest.param("[", "no valid JSON", id="broken"),
    ],
)
def test_a_wrong_index_is_refused_with_its_file(text, says, tmp_path):
    written(tmp_path, {**LLAMA, "torch_dtype": "bfloat16"})
    (tmp_path / "model.safetensors.index.json").write_text(text)
    with pytest.raises(InputError) as raised:
        find_model(str(tmp_path))
    assert says in str(raised.value)
    assert "model.safetensors.index.json" in str(raised.value)


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
