"""
Language models as numbers.

When to modify: a new family of `config.json`, or a new fact that the cost model needs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Model:
    """
    A transformer.

    Parameters
    ----------
    name
        As the user knows it (``Qwen/Qwen2.5-7B``).
    hidden, layers, heads, kv_heads, head_dim, ffn, vocab
        Shape. *ffn* is the width of one (dense or expert) feed-forward block that a token passes in a layer, active experts
        summed.
    parameters
        All parameters, exact, embeddings included (tied ones once).
    active_parameters
        Parameters that one token uses.
    embedding_parameters
        Input embedding + output head (tied: once).
    kv_bytes_per_token
        KV cache of one token in bf16 over the whole model, bytes (MLA included).
    kv_shards
        Into how many parts tensor parallelism can cut the KV cache (KV heads; 1 with MLA).
    experts, experts_per_token
        0 for a dense model.
    tie_embeddings
        Whether input and output embeddings are one matrix.
    max_position
        Longest sequence, tokens; None when not stated.
    """

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    parameters: int
    active_parameters: int
    embedding_parameters: int
    kv_bytes_per_token: int
    kv_shards: int
    experts: int = 0
    experts_per_token: int = 0
    tie_embeddings: bool = False
    max_position: int | None = None

    @property
    def layer_parameters(self) -> float:
        """Parameters of one layer, on average."""
        return (self.parameters - self.embedding_parameters) / self.layers
