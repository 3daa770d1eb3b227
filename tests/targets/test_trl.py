"""TRL's own argument parser, and accelerate's own configuration and launch environment."""

from __future__ import annotations

import re
import shlex
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_starts import starts

from placement.targets.target import emit
from placement.targets.trl import TARGET

trl = pytest.importorskip("trl")
accelerate = pytest.importorskip("accelerate")


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_its_parsers_take_what_is_written(data, tmp_path_factory):
    """Every argument is known, a step is cut evenly over the ranks, and the processes of each host see its GPUs in order."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    assert TARGET.rules is not None
    start = data.draw(starts(TARGET.rules))
    folder = tmp_path_factory.mktemp("trl")
    files = emit(TARGET, start).files
    for name, text in files.items():
        (folder / name).write_text(text)
    trainer = start.pool_of("actor")
    ranks = len(trainer.seats)
    for name in (file for file in files if file.startswith("accelerate")):
        config = load_config_from_file(str(folder / name))
        host = (re.fullmatch(r"accelerate(?:-(.+))?\.yaml", name) or [None, None])[1]
        args = launch_command_parser().parse_args(["--config_file", str(folder / name), "train.py"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            args, _, _ = _validate_launch_command(args)
            environment = prepare_multi_gpu_env(args)
        gpus = start.on_host(trainer, host)
        assert environment["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, gpus))
        assert config.num_processes == ranks
        assert config.fsdp_config["fsdp_activation_checkpointing"] is True
    check_arguments(folder, files, start, ranks)
    if "vllm-serve.sh" in files:
        check_server(files["vllm-serve.sh"], start)


def check_arguments(folder, files, start, ranks):
    """The trainer's arguments; accelerate tells it how many ranks there are."""
    if "grpo.yaml" in files:
        from trl import GRPOConfig as Config
        from trl.scripts.grpo import GRPOScriptArguments as Script

        file = "grpo.yaml"
    else:
        from trl import RLOOConfig as Config
        from trl.scripts.rloo import RLOOScriptArguments as Script

        file = "rloo.yaml"
    more = ["--dataset_name", "x", "--output_dir", str(folder / "out"), "--use_cpu", "true", "--bf16", "false", "--fp16", "false"]
    script, training, model = trl.TrlParser((Script, Config, trl.ModelConfig)).parse_args_and_config(
        ["--config", str(folder / file), *more]
    )
    batch = start.workload.batch
    assert not training.gradient_checkpointing    # beside accelerate's own the trainer raises an error
    assert model.model_name_or_path == start.roles["actor"].model
    assert training.per_device_train_batch_size * ranks * training.steps_per_generation == batch.sequences
    assert training.per_device_train_batch_size * ranks * training.gradient_accumulation_steps * batch.minibatches == batch.sequences
    assert training.vllm_mode == ("colocate" if start.workload.is_hybrid else "server")
    assert (script.reward_model_name_or_path is not None) == ("reward" in start.roles)


def check_server(text, start):
    """The arguments of the server."""
    from trl.scripts.vllm_serve import ScriptArguments

    line = next(line for line in text.splitlines() if "vllm-serve --model" in line)
    words = shlex.split(line)
    (arguments,) = trl.TrlParser((ScriptArguments,)).parse_args_and_config(words[words.index("vllm-serve") + 1 :])
    assert arguments.tensor_parallel_size * arguments.data_parallel_size == len(start.seats["rollout"])
