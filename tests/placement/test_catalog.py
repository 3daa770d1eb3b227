"""What is shipped, where a workload comes from, and the pages that are made from the code."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from placement import catalog, reference
from placement.errors import InputError
from placement.text.strict_yaml import dump
from placement.workloads.workload import Algorithm, RoleName
from placement.workloads.workload_file import load, to_document

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("grpo-1.5b", "grpo-7b", "grpo-32b", "ppo-0.5b", "ppo-1.5b", "ppo-7b", "ppo-13b", "ppo-70b")


def test_workloads_are_listed_by_algorithm_and_size():
    assert set(NAMES) <= set(catalog.workload_names())
    assert tuple(name for name in catalog.workload_names() if name in NAMES) == NAMES


@pytest.mark.parametrize("name", catalog.workload_names())
def test_a_shipped_workload_says_what_it_is(name):
    workload = catalog.load_workload(name)
    assert name == workload.name
    assert Algorithm(name.rpartition("-")[0]) is workload.algorithm
    assert f"{name.rpartition('-')[2]}".upper() in catalog.workload_summary(name)
    assert len(catalog.workload_summary(name)) <= 100
    assert workload == load(dump(to_document(workload)))


@pytest.mark.parametrize("name", catalog.workload_names())
def test_a_shipped_workload_means_the_same_to_every_yaml_reader(name):
    """No value of it depends on our strictness."""
    assert load(dump(yaml.safe_load(catalog.workload_text(name)))) == catalog.load_workload(name)


@pytest.mark.parametrize("name", catalog.workload_names())
def test_a_shipped_job_has_a_model_or_a_function_for_every_role(name):
    workload = catalog.load_workload(name)
    assert {RoleName.ACTOR, RoleName.REF, RoleName.REWARD} <= {role.name for role in workload.roles}
    for role in workload.roles:
        assert role.is_function or role.model is not None
        assert (
            workload.batch.prompt_tokens + workload.batch.response_max_tokens
            <= workload.batch.micro_batch_tokens
        )


def test_a_file_is_read_and_relative_models_start_beside_it(tmp_path):
    text = catalog.workload_text("grpo-7b").replace("model: Qwen/Qwen2.5-7B", "model: ./config.json", 1)
    config = {"model_type": "qwen2", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config |= {"intermediate_size": 16, "vocab_size": 9}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "job.yaml").write_text("\ufeff" + text, encoding="utf-8")
    assert catalog.load_workload(str(tmp_path / "job.yaml")).role(RoleName.ACTOR).model.hidden == 8


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(catalog.workload_text("ppo-7b").encode())))
    assert catalog.load_workload("-") == catalog.load_workload("ppo-7b")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        pytest.param(
            "ppo7b",
            "no workload file 'ppo7b', and none such is shipped; did you mean 'ppo-7b'? (shipped: grpo-",
            id="near a name",
        ),
        pytest.param("zzz.yaml", "none such is shipped (shipped: grpo-1.5b", id="near nothing"),
        pytest.param(
            "~nobody-of-that-name/job.yaml", "there is no workload file '~nobody", id="home of nobody"
        ),
        pytest.param(".", ".: cannot read the workload file: Is a directory", id="folder"),
    ],
)
def test_what_is_no_workload_is_refused(source, says):
    with pytest.raises(InputError) as raised:
        catalog.load_workload(source)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"\xff\xfe\x00", "this is no text (UTF-8)", id="binary"),
        pytest.param(b"", "the file is empty", id="empty"),
        pytest.param(b"#" * ((1 << 22) + 1), "larger than 4 MiB", id="too large"),
    ],
)
def test_a_file_that_is_no_text_is_refused(content, says, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError) as raised:
        catalog.load_workload(str(file))
    assert says in str(raised.value)
    assert str(file) == raised.value.where


def test_endless_input_is_not_read_to_its_end():
    with pytest.raises(InputError, match="larger than 4 MiB"):
        catalog.load_workload("/dev/zero")


def test_all_models_are_listed():
    assert len(catalog.models()) == 79


@pytest.mark.parametrize("page", reference.pages())
def test_a_reference_page_is_fresh(page):
    """After a change: ``python -m placement.reference docs``."""
    assert reference.pages()[page] == (DOCS / page).read_text(encoding="utf-8")


def test_pages_are_written(tmp_path):
    reference.main(str(tmp_path))
    assert {
        page: (tmp_path / page).read_text(encoding="utf-8") for page in reference.pages()
    } == reference.pages()


def test_every_default_is_in_the_reference():
    page = reference.pages()["workload.md"]
    for line in page.splitlines():
        if line.startswith("| `"):
            assert all(cell.strip() for cell in line.strip("|").split("|")), line
            assert "None" not in line


def test_importing_words_of_a_job_imports_no_schema():
    script = (
        "import sys, placement.catalog, placement.workloads.rules, placement.workloads.dataflow, placement.models.model; "
        "print('pydantic' in sys.modules, 'yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
