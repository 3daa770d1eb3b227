"""
Parameters of a model, counted from its shape: exact to the digit.

When to modify: models have a block of another kind.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """What the count depends on; zeros where a family has no such thing."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    dense_ffn: int
    attention: int
    norm: int
    norms: int
    matrices: int = 3
    ffn_bias: bool = False
    head_bias: bool = False
    moe_layers: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    shared_gate: bool = False
    experts: int = 0
    experts_per_token: int = 0
    router_bias: bool = False
    expert_bias: bool = False

    @property
    def embeddings(self) -> int:
        return self.vocab * self.hidden * (1 if self.tied else 2)

    def parameters(self, experts: int) -> int:
        """Return the parameters when each expert layer counts *experts* of its routed experts."""
        always = self.layers * (self.attention + self.norms * self.norm) + self.norm + self.embeddings + self.head_bias * self.vocab
        dense = (self.layers - self.moe_layers) * self._block(self.dense_ffn, bias=self.ffn_bias)
        router = self.experts * (self.hidden + self.router_bias) + self.shared_gate * self.hidden
        routed = experts * self._block(self.expert_ffn, bias=self.expert_bias)
        return always + dense + self.moe_layers * (router + routed + self._block(self.shared_ffn, bias=False))

    def _block(self, ffn: int, *, bias: bool) -> int:
        """Return the parameters of a feed-forward block of width *ffn*: matrices into it, and one out of it."""
        return self.matrices * self.hidden * ffn + bias * ((self.matrices - 1) * ffn + self.hidden)
