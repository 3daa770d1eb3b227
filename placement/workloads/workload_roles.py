"""
The roles of a workload file: menus that depend on the model and the engine are filled and checked here.

When to modify: a role gets a new key, or a default that depends on other values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement.errors import InputError
from placement.models.model import Model, find_model
from placement.text.strict_yaml import Document
from placement.text.strict_yaml import Path as Place
from placement.workloads.workload import (
    Batch,
    Engine,
    KvCache,
    LayoutMenu,
    Master,
    Offload,
    Precision,
    Quantization,
    Recompute,
    Role,
    RoleName,
    RolloutMenu,
    TrainMenu,
)

if TYPE_CHECKING:
    from placement.workloads import workload_schema as schema

TP_SIZES = (1, 2, 4, 8)
MEGATRON_PP_SIZES = (1, 2)
LARGEST_TP_NAMED = 256
"""No model that is known has more heads than this; a message need not list all that divide a larger number."""


class RoleReader:
    """
    Turns roles of the right form into `Role`; every refusal points at its line.

    Parameters
    ----------
    document
        The file, for the places in it.
    folder
        Where relative paths of models start; None for the working directory.
    """

    def __init__(self, document: Document, folder: Path | None) -> None:
        self.document = document
        self.folder = folder

    def read(self, roles: schema.Roles, batch: Batch) -> tuple[Role, ...]:
        """
        Return the roles in the order of `RoleName`.

        Raises
        ------
        InputError
            If a model does not exist, or values of a role cannot go together.
        """
        actor = self._trained(RoleName.ACTOR, roles.actor, batch)
        if roles.rollout is not None:
            found = [actor, self._rollout_role(roles.rollout, actor)]
        else:
            found = [self._with_hybrid_engine(actor, roles.actor)]
        if roles.critic is not None:
            found.append(self._trained(RoleName.CRITIC, roles.critic, batch))
        if roles.ref is not None:
            found.append(self._frozen(RoleName.REF, roles.ref))
        return (*found, self._reward(roles.reward))

    def _fail(self, message: str, *path: str | int, key: bool = False) -> InputError:
        return self.document.error(message, path, key=key)

    def _trained(self, name: RoleName, role: schema.Trained, batch: Batch) -> Role:
        path = ("roles", name.value)
        model = self._model(role.model, *path, "model")
        train = role.train
        self._check_sharding(role, path)
        self._check_lora(role, model, path)
        menu = TrainMenu(
            master=tuple(Master(m) for m in _unique(train.master)),
            offload=tuple(Offload(o) for o in _unique(train.offload)),
            micro_batch_tokens=tuple(_unique(train.micro_batch_tokens or [batch.micro_batch_tokens])),
            fused_ce=train.fused_ce,
            lora=train.lora,
            lora_merge=train.lora_merge,
            zero=tuple(_unique(train.zero)),
            distributed_optimizer=train.distributed_optimizer,
            recompute=None if train.recompute is None else Recompute(train.recompute),
            fp8=train.fp8,
        )
        return Role(name, model, train=menu, **self._common(role, model, path))

    def _check_sharding(self, role: schema.Trained, path: Place) -> None:
        """Say which key shards the optimizer where that of the other engine was taken."""
        place, train = (*path, "train"), role.train
        if role.engine == "fsdp" and not train.distributed_optimizer:
            message = "engine fsdp has no distributed_optimizer: use zero (1, 2 or 3), or engine: megatron"
            raise self._fail(message, *place, "distributed_optimizer")
        if role.engine == "megatron" and train.zero != [3]:
            raise self._fail("engine megatron has no zero: use distributed_optimizer, or engine: fsdp", *place, "zero")

    def _check_lora(self, role: schema.Trained, model: Model, path: Place) -> None:
        """Say where an adapter is larger than what it adapts, or is merged and there is none."""
        rank, place = role.train.lora, (*path, "train")
        if rank > model.hidden:
            raise self._fail(
                f"adapters of rank {rank} are larger than the matrices of {model.name} that they adapt (width {model.hidden}): take a rank "
                "such as 8 to 128, or lora: 0 to train all parameters",
                *place,
                "lora",
            )
        if role.train.lora_merge is not None and rank == 0:
            message = "lora_merge without lora: there are no adapters to merge; remove it, or give lora a rank"
            raise self._fail(message, *place, "lora_merge", key=True)
        if role.train.lora_merge is not None and path[1] == RoleName.CRITIC:
            raise self._fail("a critic sends its weights nowhere: remove lora_merge", *place, "lora_merge", key=True)

    def _with_hybrid_engine(self, actor: Role, given: schema.Actor) -> Role:
        from placement.workloads.workload_schema import Rollout

        assert actor.model is not None
        rollout = given.rollout or Rollout()
        return actor.replace(
            rollout=self._rollout(rollout, rollout.tp, actor.model, "roles", "actor", "rollout", "tp")
        )

    def _frozen(self, name: RoleName, role: schema.Ref | schema.Reward) -> Role:
        path = ("roles", name.value)
        assert role.model is not None
        model = self._model(role.model, *path, "model")
        return Role(
            name,
            model,
            offload=tuple(Offload(o) for o in _unique(role.offload)),
            **self._common(role, model, path),
        )

    def _reward(self, role: schema.Reward) -> Role:
        path = ("roles", "reward")
        others = sorted(role.model_fields_set - {"function"})
        if role.function and others:
            raise self._fail(
                f"a reward function runs on the CPU and has no {others[0]}: remove one of the two",
                *path,
                others[0],
                key=True,
            )
        if role.function:
            return Role(RoleName.REWARD, None)
        if role.model is None:
            raise self._fail(
                "reward has no model: add `model: …`, or `function: true` where a function scores",
                *path,
                key=True,
            )
        return self._frozen(RoleName.REWARD, role)

    def _rollout_role(self, role: schema.RolloutRole, actor: Role) -> Role:
        path = ("roles", "rollout")
        model = actor.model if role.model is None else self._model(role.model, *path, "model")
        assert model is not None
        tp = role.tp
        tp_path: Place = (*path, "tp")
        if role.layout is not None and role.layout.tp is not None:
            if tp is not None:
                raise self._fail(
                    "tp is given twice: keep it under rollout or under its layout",
                    *path,
                    "layout",
                    "tp",
                    key=True,
                )
            tp, tp_path = role.layout.tp, (*path, "layout", "tp")
        menu = self._rollout(role, tp, model, *tp_path)
        return Role(
            RoleName.ROLLOUT,
            model,
            engine=menu.engine,
            layout=LayoutMenu(tp=menu.tp),
            rollout=menu,
            precision=tuple(Precision(p) for p in _unique(role.precision)),
            **self._gpus(role.gpus, *path, "gpus"),
        )

    def _common(self, role: schema.Trained | schema.Frozen, model: Model, path: Place) -> dict[str, Any]:
        """Return what all roles with a layout share."""
        engine = Engine(role.engine)
        return {
            "engine": engine,
            "layout": self._layout(role.layout, engine, model, (*path, "layout")),
            "precision": tuple(Precision(p) for p in _unique(role.precision)),
            **self._gpus(role.gpus, *path, "gpus"),
        }

    def _rollout(
        self, role: schema.Rollout, tp: Sequence[int] | None, model: Model, *tp_path: str | int
    ) -> RolloutMenu:
        return RolloutMenu(
            engine=Engine(role.engine),
            tp=self._tp(tp, TP_SIZES, model, tp_path),
            gpu_memory_utilization=tuple(map(float, _unique(role.gpu_memory_utilization))),
            max_num_seqs=role.max_num_seqs,
            quantization=tuple(Quantization(q) for q in _unique(role.quantization)),
            kv_cache=tuple(KvCache(k) for k in _unique(role.kv_cache)),
            sleep=role.sleep,
        )

    def _layout(self, layout: schema.Layout, engine: Engine, model: Model, path: Place) -> LayoutMenu:
        if engine is Engine.FSDP and max(layout.pp or [1]) > 1:
            raise self._fail(
                "engine fsdp has no pipeline parallelism: use pp: 1, or engine: megatron", *path, "pp"
            )
        pp = tuple(_unique(layout.pp or (MEGATRON_PP_SIZES if engine is Engine.MEGATRON else (1,))))
        stages = tuple(size for size in pp if size <= model.layers)
        if not stages:
            raise self._fail(f"{model.name} has {model.layers} layers: pp cannot be larger", *path, "pp")
        tp = self._tp(layout.tp, (1,) if engine is Engine.FSDP else TP_SIZES, model, (*path, "tp"))
        return LayoutMenu(
            tp=tp,
            pp=stages,
            dp=tuple(_unique(layout.dp)) if layout.dp else None,
            sp=self._sp(layout.sp, tp, engine, model, (*path, "sp")),
            ep=self._ep(layout.ep, engine, model, (*path, "ep")),
        )

    def _sp(
        self, given: Sequence[int] | None, tps: Sequence[int], engine: Engine, model: Model, path: Place
    ) -> tuple[int, ...]:
        """Return the sizes of *given* that share the attention heads of *model* beside one of *tps*."""
        if max(given or [1]) > 1 and engine is not Engine.FSDP:
            raise self._fail(f"engine {engine} has no sp: use sp: 1, or engine: fsdp", *path)
        fitting = tuple(sp for sp in _unique(given or [1]) if any(model.can_share_heads(tp * sp) for tp in tps))
        if not fitting:
            raise self._fail(
                f"tp·sp must divide the attention heads of {model.name} ({model.heads}, with {model.kv_heads} KV heads), "
                f"with tp {' or '.join(map(str, tps))}",
                *path,
            )
        return fitting

    def _ep(self, given: Sequence[int] | None, engine: Engine, model: Model, path: Place) -> tuple[int, ...]:
        """Return the sizes of *given* that divide the experts of *model*."""
        wanted = _unique(given or [1])
        if max(wanted) > 1 and engine is not Engine.MEGATRON:
            raise self._fail(f"engine {engine} has no expert parallelism: use ep: 1, or engine: megatron", *path)
        if max(wanted) > 1 and not model.experts:
            raise self._fail(f"{model.name} has no experts: use ep: 1", *path)
        fitting = tuple(ep for ep in wanted if ep == 1 or model.experts % ep == 0)
        if not fitting:
            raise self._fail(f"ep must divide the {model.experts} experts of {model.name}", *path)
        return fitting

    def _tp(
        self, given: Sequence[int] | None, default: Sequence[int], model: Model, path: Place
    ) -> tuple[int, ...]:
        """Return the sizes that can cut *model*; a list of the user's own must hold at least one."""
        fitting = tuple(size for size in _unique(given or default) if model.can_share_heads(size))
        if not fitting:
            largest = min(model.heads, LARGEST_TP_NAMED)
            sizes = ", ".join(str(size) for size in range(1, largest + 1) if model.can_share_heads(size))
            raise self._fail(
                f"tp must divide the attention heads of {model.name} "
                f"({model.heads}, with {model.kv_heads} KV heads): take one of {sizes}",
                *path,
            )
        return fitting

    def _gpus(self, given: int | list[int] | schema.GpuRange | None, *path: str | int) -> dict[str, Any]:
        match given:
            case None:
                return {}
            case int():
                return {"gpu_menu": (given,)}
            case list():
                return {"gpu_menu": tuple(sorted(set(given)))}
        if given.min is not None and given.max is not None and given.min > given.max:
            raise self._fail(f"at least {given.min} and at most {given.max} GPUs: no number is both", *path)
        return {"min_gpus": given.min, "max_gpus": given.max}

    def _model(self, given: str | schema.ModelNumbers, *path: str) -> Model:
        source = given if isinstance(given, str) else given.model_dump(exclude_none=True)
        try:
            return find_model(source, folder=self.folder)
        except InputError as error:
            raise self._fail(str(error), *path) from None


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
