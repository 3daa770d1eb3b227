"""
How many tensors a model's weights are, as a weight sync hands them over one by one.

When to modify: models have a block of another kind (with `placement.models.model_shapes`).
"""

from __future__ import annotations

from placement.models.model import Model


def tensors(model: Model) -> int:
    """
    Return how many tensors the weights of *model* are.

    In each layer four of attention, two norms and three of every feed-forward block, routed experts each and their router; beside them
    the input embedding, the last norm, and an output head that is not tied. What else a layer has (`_more`) shows in its parameters.
    So it is exact for Llama, Mistral, Qwen 2 to 3, OLMo 2, Gemma and their mixtures. Where a family stores matrices as one (Phi-3: six a
    layer), has latent attention, or layers without experts (DeepSeek: 5 % over), it is about right.
    """
    routed = 3 * model.experts + 1 if model.experts else 3
    return model.layers * (6 + routed + _more(model)) + (2 if model.tie_embeddings else 3)


def _more(model: Model) -> int:
    """
    Return the tensors of a layer beside its matrices, router and two norms.

    Counts of parameters are exact, so that what matrices and norms leave of them tells which small tensors there are. A count that
    leaves none of the sums that families have, such as a round number that a user gave, tells none.
    """
    hidden, queries, keys = model.hidden, model.heads * model.head_dim, model.kv_heads * model.head_dim
    matrices = hidden * (2 * queries + 2 * keys + 3 * model.ffn + model.experts)
    # Of a mixture a token passes the experts that *ffn* sums, and all else; the last norm is of no layer.
    used = model.active_parameters - model.embedding_parameters - hidden
    left = used - model.layers * (matrices + 2 * hidden)
    biases, of_heads = queries + 2 * keys, 2 * model.head_dim
    known = (
        (0, 0),  # Llama, Mistral
        (of_heads, 2),  # norms of queries and keys over a head: Qwen 3
        (queries + keys, 2),  # over all heads: OLMo 2
        (2 * hidden, 2),  # four norms: Gemma 2
        (2 * hidden + of_heads, 4),  # both: Gemma 3
        (biases, 3),  # of queries, keys and values: Qwen 2
        (biases + of_heads, 5),  # with norms of queries and keys: GLM 4.5
        # A shared expert with a gate: mixtures of Qwen 2. Without experts the output of attention has a bias.
        (biases + hidden, 7 if model.experts else 4),
    )
    # Gemma 3 of 12B has as many numbers in its norms as it would have in biases: norms are asked first.
    return next((count for size, count in known if left == model.layers * size), 0)
