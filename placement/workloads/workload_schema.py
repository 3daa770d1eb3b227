"""
The schema of a workload file: keys, types, defaults and what each means. Written once, here.

The reference page, the JSON Schema for editors and the reader (`placement.workloads.workload_file`) are all made from
these classes. Importing this module imports pydantic; only what reads a workload does.

When to modify: the user can say something new about a job.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, GetJsonSchemaHandler, Tag

from placement.models.model_limits import MOST
from placement.workloads.workload_export import SCHEMA

MAX_COUNT = 1 << 40
"""No number of a job is larger; `placement.workloads.workload_file` bounds their products, `placement.demand` the times."""

MAX_MENU = 64


class _OrList:
    """JSON Schema of a menu: one value, or a list of them."""

    def __get_pydantic_json_schema__(self, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        listed = handler(core)
        return {"anyOf": [listed["items"], listed]}


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


def _whole(value: Any) -> Any:
    """Return *value* if it is a whole number; else what no `Literal` of numbers takes for one, as it does ``true`` and 1.0."""
    return value if type(value) is int else str(value).lower()


def _kind(value: Any) -> str:
    """Return which form of a key the user chose."""
    if isinstance(value, dict):
        return "mapping"
    return "list" if isinstance(value, list) else "value"


_MENU = (BeforeValidator(_as_list), Field(min_length=1, max_length=MAX_MENU), _OrList())
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
Counts = Annotated[list[Count], *_MENU]
Share = Annotated[float, Field(gt=0, lt=1)]
Shares = Annotated[list[Share], *_MENU]
Masters = Annotated[list[Literal["fp32", "bf16"]], *_MENU]
Offloads = Annotated[list[Literal["none", "between", "always"]], *_MENU]
Stage = Annotated[Literal[1, 2, 3], BeforeValidator(_whole)]
Stages = Annotated[list[Stage], *_MENU]
Quantizations = Annotated[list[Literal["none", "fp8"]], *_MENU]
KvCaches = Annotated[list[Literal["auto", "fp8"]], *_MENU]
Precisions = Annotated[list[Literal["bf16", "fp16"]], *_MENU]
TrainEngine = Literal["fsdp", "megatron"]
RolloutEngine = Literal["vllm", "sglang"]
AnyEngine = Literal["fsdp", "megatron", "vllm", "sglang"]


def derived(description: str, default: str, *, most: int | None = None) -> Any:
    """
    Return an optional field whose default follows from other values, as *default* says.

    *most* bounds a number whose type says nothing.
    """
    return Field(
        default=None,
        description=description,
        json_schema_extra={"x-default": default},
        ge=None if most is None else 1,
        le=most,
    )


class Strict(BaseModel):
    """A mapping that takes no other keys and converts no types."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


def _number(name: str, description: str) -> Any:
    """Return a number that a model must state."""
    return Field(ge=1, le=MOST[name], description=description)


def _derived(name: str, description: str, default: str) -> Any:
    """Return a number of a model whose default follows from other values, as *default* says."""
    return derived(description, default, most=MOST[name])


class ModelNumbers(Strict):
    """A model as plain numbers."""

    name: str = Field(default="custom", min_length=1, description="How messages call it")
    parameters: int = _number("parameters", "All parameters, embeddings included (tied ones once)")
    hidden: int = _number("hidden", "Width of the model")
    layers: int = _number("layers", "Transformer layers")
    heads: int = _number("heads", "Attention heads")
    kv_heads: int = _number("kv_heads", "KV heads; they divide the heads")
    vocab: int = _number("vocab", "Size of the vocabulary")
    ffn: int = _number("ffn", "Width of the feed-forward block that a token passes, active experts summed")
    head_dim: int | None = _derived("head_dim", "Width of a head", "`hidden / heads`")
    active_parameters: int | None = _derived("active_parameters", "Parameters that one token uses", "all")
    embedding_parameters: int | None = _derived(
        "embedding_parameters", "Parameters of input embedding and output head", "from `vocab` and `hidden`"
    )
    kv_bytes_per_token: int | None = _derived(
        "kv_bytes_per_token", "KV cache of one token in bf16, bytes", "from the shape"
    )
    kv_shards: int | None = _derived(
        "kv_shards", "Parts into which TP can cut the KV cache (1 with latent attention)", "`kv_heads`"
    )
    experts: int = Field(default=0, ge=0, le=MOST["experts"], description="Experts in a layer; 0: dense")
    experts_per_token: int = Field(
        default=0, ge=0, le=MOST["experts_per_token"], description="Experts that a token passes"
    )
    tie_embeddings: bool = Field(
        default=False, description="Whether input embedding and output head are one matrix"
    )
    max_position: int | None = _derived("max_position", "Longest sequence, tokens", "not stated")


Model = Annotated[
    Annotated[str, Tag("value"), Field(min_length=1)] | Annotated[ModelNumbers, Tag("mapping")],
    Discriminator(
        _kind,
        custom_error_type="model",
        custom_error_message="a model is a name, a path or a mapping of numbers",
    ),
]


class GpuRange(Strict):
    """How many GPUs a role may take."""

    min: Count | None = derived("At least so many", "no bound")
    max: Count | None = derived("At most so many", "no bound")


Gpus = Annotated[
    Annotated[Count, Tag("value")]
    | Annotated[list[Count], Tag("list"), Field(min_length=1, max_length=MAX_MENU)]
    | Annotated[GpuRange, Tag("mapping")],
    Discriminator(_kind),
]


class Layout(Strict):
    """Sizes of tensor, pipeline, data, sequence and expert parallelism: a value, or a menu."""

    tp: Counts | None = derived(
        "Tensor parallel", "fsdp: `1`; others: those of `[1, 2, 4, 8]` that divide the attention heads"
    )
    pp: Counts | None = derived("Pipeline parallel", "megatron: `[1, 2]`; others: `1`")
    dp: Counts | None = derived("Data parallel", "what fills the role's GPUs")
    sp: Counts | None = derived(
        "Sequence parallel (Ulysses): GPUs that share the tokens of each sequence; fsdp only. "
        "tp·sp divides the attention heads as `tp` does",
        "`1`",
    )
    ep: Counts | None = derived(
        "Expert parallel: data-parallel ranks that share the experts of each layer; megatron only. Divides the experts and `dp`",
        "`1`",
    )


class Train(Strict):
    """How a trained role may keep its state; menus are in order of preference."""

    master: Masters = Field(
        default=["fp32", "bf16"], description="Precision of the weights that the optimizer updates"
    )
    offload: Offloads = Field(
        default=["none", "between", "always"],
        description="Where state waits: on the GPU, in host memory between the role's phases, "
        "or in host memory also during the update",
    )
    micro_batch_tokens: Counts | None = derived(
        "Tokens that a data-parallel rank passes at a time", "that of `batch`"
    )
    fused_ce: bool = Field(
        default=True,
        description="Whether the loss is fused with the output head, so that full logits are never stored",
    )
    lora: int = Field(
        default=0, ge=0, le=65536, description="Rank of LoRA adapters; 0: all parameters are trained"
    )
    lora_merge: bool | None = derived(
        "With `lora`: whether the weight sync sends all weights, the adapters merged into them, in place of the adapters alone",
        "`false` for the hybrid engine, `true` for a rollout on GPUs of its own (what verl does)",
    )
    zero: Stages = Field(
        default=[3],
        description="ZeRO stage, fsdp only: 1 spreads the optimizer over the ranks, 2 also gradients, 3 also weights (full sharding)",
    )
    distributed_optimizer: bool = Field(
        default=True, description="Megatron only: whether data-parallel ranks share the optimizer state, or each keeps all of it"
    )


    recompute: Literal["full", "selective", "none"] | None = derived(
        "Gradient checkpointing, what the backward pass computes again: all of a layer, what is cheap to compute, or nothing",
        "fsdp: `full`; megatron: `selective`",
    )
    fp8: bool = Field(
        default=False,
        description="Whether matrix products of training, and of the reference, run in 8 bits; state stays as it is",
    )


class Rollout(Strict):
    """How generation may run; menus are in order of preference."""

    engine: RolloutEngine = Field(default="vllm", description="`vllm` or `sglang`")
    tp: Counts | None = derived(
        "GPUs of one engine", "those of `[1, 2, 4, 8]` that divide the attention heads"
    )
    gpu_memory_utilization: Shares = Field(
        default=[0.5, 0.6, 0.7, 0.8], description="Share of a GPU's memory that the engine takes"
    )
    max_num_seqs: Count = Field(default=256, description="Sequences that an engine decodes at a time")
    quantization: Quantizations = Field(
        default=["none"], description="`fp8`: linear weights of 8 bits; embeddings and the weight sync keep 16"
    )
    kv_cache: KvCaches = Field(default=["auto"], description="`auto`: as the weights, 16 bits; `fp8`: 8 bits")
    sleep: bool = Field(
        default=True,
        description="Whether the hybrid engine frees its memory between its phases; an engine on GPUs of its own never does",
    )


class Placed(Strict):
    """What all roles on GPUs can say."""

    gpus: Gpus | None = derived("How many GPUs: a count, a list of counts, or `{min, max}`", "any")
    precision: Precisions = Field(
        default=["bf16", "fp16"], description="16-bit type: the first that the chip supports"
    )


class Trained(Placed):
    """A role that is trained."""

    model: Model = Field(
        description="A catalogue name, a Hugging Face config.json (file or folder), or a mapping of numbers"
    )
    engine: TrainEngine = Field(default="fsdp", description="`fsdp` or `megatron`")
    layout: Layout = Field(default_factory=Layout, description="See `layout`")
    train: Train = Field(default_factory=Train, description="See `train`")


class Actor(Trained):
    """The policy: it trains and, unless there is a `rollout` role, generates (hybrid engine)."""

    rollout: Rollout | None = derived(
        "The hybrid engine, see below", "its defaults, unless there is a role `rollout`"
    )


class Critic(Trained):
    """The value model of ppo: a value head takes the place of the output head. Rule `min_gpus` asks for 2."""


class Frozen(Placed):
    """A role that is not trained."""

    engine: AnyEngine = Field(
        default="fsdp", description="What runs its forward passes: `fsdp`, `megatron`, `vllm` or `sglang`"
    )
    layout: Layout = Field(default_factory=Layout, description="See `layout`")


WAITS = "Where weights wait: on the GPU, in host memory between uses, or in host memory also while they are used, layer by layer"


class Ref(Frozen):
    """The frozen reference model; without the role there is no KL term."""

    model: Model = Field(description="As for the actor")
    offload: Offloads = Field(
        default=["none", "between"], description=WAITS
    )


class Reward(Frozen):
    """What scores answers: a model (with a scalar head in place of its output head), or a function."""

    function: bool = Field(default=False, description="`true`: a function on the CPU; no other key then")
    model: Model | None = derived("As for the actor", "none: then `function: true`")
    offload: Offloads = Field(
        default=["none"], description=WAITS
    )


class TensorLayout(Strict):
    """The layout of a separate rollout: it has only one size."""

    tp: Counts | None = derived("The same as `tp` of the role", "that")


class RolloutRole(Rollout, Placed):
    """Generation on GPUs of its own."""

    model: Model | None = derived("As for the actor", "the actor's")
    layout: TensorLayout | None = derived("Another place for `tp`: `{tp: …}`", "none")


class Roles(Strict):
    """The roles of the job."""

    actor: Actor = Field(description="Trains, and generates where there is no `rollout` role")
    rollout: RolloutRole | None = derived("Generation on GPUs of its own", "none: the actor generates")
    critic: Critic | None = derived("Value model; ppo needs it, no other algorithm takes it", "none")
    ref: Ref | None = derived("Frozen reference model", "none")
    reward: Reward = Field(description="Reward model, or `{function: true}`")


class ResponseTokens(Strict):
    """Length of responses."""

    mean: Count = Field(description="Mean length, tokens")
    max: Count = Field(
        description="The longest that is allowed, tokens: it decides when a synchronous step ends"
    )


class Batch(Strict):
    """One step of the algorithm."""

    prompts: Count = Field(description="Prompts of a step")
    samples_per_prompt: Count = Field(
        default=1, description="Responses to each prompt; grpo, rloo and dapo need 2 or more"
    )
    prompt_tokens: Count = Field(description="Length of a prompt, tokens")
    response_tokens: Annotated[
        Annotated[Count, Tag("value")] | Annotated[ResponseTokens, Tag("mapping")], Discriminator(_kind)
    ] = Field(description="Length of responses: {mean, max}, or one number for both")
    minibatches: Count = Field(default=1, description="Optimizer updates of a step")
    micro_batch_tokens: Count | None = derived(
        "Tokens that a data-parallel rank passes through a model at a time",
        "8192, or the longest sequence if that is longer",
    )


class WorkloadFile(Strict):
    """A workload file."""

    schema_: Literal["placement/workload/v1"] = Field(
        default=SCHEMA, alias="schema", description="This schema and its version"
    )
    name: Annotated[str, Field(min_length=1)] | None = derived("What maps and tables call the job", "nothing")
    algorithm: Literal["ppo", "grpo", "rloo", "remax", "reinforce++", "dapo"] = Field(
        description="Which roles exist and which stages run"
    )
    schedule: Literal["full", "none", "one_step_off", "async"] = Field(
        default="full", description="Which stages of roles on separate GPUs overlap, see above; a target overrides it"
    )
    batch: Batch = Field(description="One step, see `batch`")
    roles: Roles = Field(description="See `roles`")
    rules: (
        Annotated[
            Annotated[str, Tag("value")] | Annotated[dict[str, str | bool | int | float], Tag("mapping")],
            Discriminator(_kind),
        ]
        | None
    ) = derived("Rule text (`guide,contiguity=off`), or a mapping of [rules](rules.md)", "`guide`")
