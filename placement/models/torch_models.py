"""
Parameters of a real model, counted on torch's meta device: nothing is allocated and nothing is downloaded.

`placement.models.model` counts with formulas. This is what they are compared with, in a test that needs torch and transformers.

When to modify: transformers builds models in another way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INSTALL = "pip install 'torch>=2.6' transformers"


def parameter_count(config: Mapping[str, Any]) -> int:
    """
    Return the parameters of the causal language model that *config*, the contents of a ``config.json``, describes; tied ones once.

    Buffers that a checkpoint holds count too: the routing bias of DeepSeek V3 is one.

    Raises
    ------
    ImportError
        If torch or transformers is not installed.
    ValueError
        If transformers knows no such ``model_type``.
    """
    try:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM
    except ImportError as error:
        raise ImportError(f"counting on the meta device needs torch and transformers: {INSTALL}") from error
    known = {key: value for key, value in config.items() if key != "model_type"}
    built = AutoConfig.for_model(config["model_type"], **known)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(built)
    stored = model.state_dict()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return int(parameters + sum(buffer.numel() for name, buffer in model.named_buffers() if name in stored))
