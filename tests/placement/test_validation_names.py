"""Names of models as tables write them, and what a row then says was taken."""

from __future__ import annotations

import pytest

from placement.models.model import catalogue
from placement.validation import naming
from placement.validation.rows import Unpredictable

FORMS = (
    "{org}/{name}", "{name}", "{name}-Instruct", "{name}-it", "{name}-Base", "{name}-hf", "{name}-Instruct-2507", "{name}-FP8", "{lower}",
    "{spaced}",
)  # fmt: skip
"""Ways of writing a name: with who publishes it, what it was trained for, when, in which format, in lower case, with spaces."""

NAMES = {
    "Meta-Llama-3-70B": 70_553_706_496, "Llama-3.1-8B": 8_030_261_248, "Llama-3.2-1B": 1_235_814_400, "Llama-3.2-3B": 3_212_749_824,
    "Llama-3.3-70B": 70_553_706_496, "Llama-2-7b": 6_738_415_616, "Llama-2-13b": 13_015_864_320, "CodeLlama-7b": 6_738_546_688,
    "CodeLlama-13b": 13_016_028_160, "CodeLlama-70b": 68_976_910_336, "Phi-3.5-mini": 3_821_079_552, "Phi-4": 14_659_507_200,
    "Phi-4-mini": 3_836_021_760, "Phi-3-medium": 13_960_238_080, "gemma-2-2b": 2_614_341_888, "gemma-2-27b": 27_227_128_320,
    "gemma-3-4b": 3_880_263_168, "gemma-3-12b": 11_766_034_176, "gemma-3-27b": 27_009_346_304, "Mistral-7B": 7_241_732_096,
    "Mistral-Nemo": 12_247_782_400, "Mistral-Small-24B": 23_572_403_200, "Mixtral-8x7B": 46_702_792_704,
    "Mixtral-8x22B": 140_620_634_112, "Qwen2-0.5B": 494_032_768, "Qwen2-72B": 72_706_203_648, "Qwen2.5-14B": 14_770_033_664,
    "Qwen3-1.7B": 1_720_574_976, "Qwen3-Coder-30B-A3B": 30_532_122_624, "Qwen3-Coder-480B-A35B": 480_154_875_392,
    "Qwen2.5-Coder-7B": 7_615_616_512, "Qwen2.5-Math-72B": 72_706_203_648, "QwQ-32B": 32_763_876_352,
    "DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000, "DeepSeek-R1-Distill-Llama-70B": 70_553_706_496,
    "DeepSeek-Coder-V2-Lite": 15_706_484_224, "DeepSeek-V2": 235_741_434_880, "DeepSeek-V3-671B": 671_026_419_200,
    "DeepSeek 671B": 671_026_419_200, "gpt-oss-20b": 20_914_757_184, "opt-1.3b": 1_315_758_080, "OLMo-2-1124-7B": 7_298_617_344,
}  # fmt: skip
"""Parameters that each of them is published with."""


@pytest.mark.parametrize(
    ("name", "parameters", "form"),
    [(*known, form) for known in NAMES.items() for form in (FORMS[:2] if known[0].startswith("opt") else FORMS)],
)
def test_a_model_is_known_by_all_ways_of_writing_its_name(name: str, parameters: int, form: str) -> None:
    written = form.format(org="acme", name=name, lower=name.lower(), spaced=name.replace("-", " "))
    assert naming.find(written).parameters == parameters


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("Llama-3.3-70B-Instruct", "meta-llama/Llama-3.1-70B"), ("Qwen2-7B", "Qwen/Qwen2.5-7B"),
        ("Hermes-3-Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("DeepSeek-R1-Distill-Qwen-32B", "Qwen/Qwen2.5-32B"), ("Phi-3.5-mini-instruct", "microsoft/Phi-3-mini-4k-instruct"),
        ("LLaMA-7B", "meta-llama/Llama-2-7b-hf"), ("Mistral-Small-3.1-24B-Instruct-2503", "mistralai/Mistral-Small-24B-Base-2501"),
    ],
)  # fmt: skip
def test_a_relative_says_whose_shape_was_taken(name: str, taken: str) -> None:
    assert naming.granted(name) == (f"the shape of {taken}",)


@pytest.mark.parametrize("name", [*catalogue(), "Qwen2.5-7B-Instruct", "DeepSeek-V3-671B", "LLAMA3.1_8B", "Phi-4 14B", "Qwen3-30B3A"])
def test_a_model_of_the_catalogue_needs_no_remark(name: str) -> None:
    assert naming.granted(name) == ()
    if name in catalogue():
        assert naming.find(name) == catalogue()[name]


@pytest.mark.parametrize("name", ["Llama-3.2-11B-Vision", "Qwen3-Next-80B-A3B", "Llama-4-Scout-17B-16E", "Falcon-40B", "7B", "opt-350m"])
def test_another_shape_is_not_guessed(name: str) -> None:
    with pytest.raises(Unpredictable):
        naming.find(name)
