"""A model of a few thousand parameters with its tokenizer, and a data set of a few rows, for verl to open."""

from __future__ import annotations

import json
from pathlib import Path

CHAT = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def write_model(folder: Path) -> Path:
    """Write configuration and tokenizer of a Qwen2 that nothing loads the weights of."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config

    folder.mkdir(parents=True)
    words = ["<pad>", "<eos>", "<unk>", *(f"w{k}" for k in range(29))]
    tokenizer = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", chat_template=CHAT
    )
    fast.save_pretrained(folder)
    Qwen2Config(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        architectures=["Qwen2ForCausalLM"],
        pad_token_id=0,
        eos_token_id=1,
    ).save_pretrained(folder)
    return folder


def write_data(file: Path, rows: int = 8) -> Path:
    """Write prompts in the form of verl's data sets."""
    import pandas

    table = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": f"w{k} w{k + 1}"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "1"},
            "extra_info": {"index": k},
        }
        for k in range(rows)
    ]
    pandas.DataFrame(json.loads(json.dumps(table))).to_parquet(file)
    return file
