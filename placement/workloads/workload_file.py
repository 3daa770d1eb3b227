"""
Workload files: YAML text → `Workload`, and back.

`placement.workloads.workload_schema` says what a file may hold and its defaults; this module checks what no key can
check alone and points at the line that is wrong. Roles are read by `placement.workloads.workload_roles`; what is
written comes from `placement.workloads.workload_export`.

When to modify: a check across keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from placement.errors import InputError
from placement.text.schema_errors import explain
from placement.text.strict_yaml import Document
from placement.workloads.rules import parse_rules
from placement.workloads.workload import Algorithm, Batch, Schedule, Workload
from placement.workloads.workload_export import to_document as to_document
from placement.workloads.workload_roles import RoleReader

if TYPE_CHECKING:
    from placement.workloads import workload_schema as schema

OTHER_NAMES = {
    "ref_model": "ref",
    "reference": "ref",
    "reward_model": "reward",
    "rm": "reward",
    "actor_train": "actor",
    "policy": "actor",
    "actor_infer": "rollout",
    "value": "critic",
}
"""What other tools call our roles: not read here, but suggested."""

COMPARING = (Algorithm.GRPO, Algorithm.RLOO, Algorithm.DAPO)
"""Algorithms that compare the responses to one prompt with each other."""

MICRO_BATCH_TOKENS = 8192

MAX_SEQUENCES = 1 << 32
"""Sequences of a step; no job is near it, and no product with other numbers leaves what the cost model can hold."""
MAX_SEQUENCE_TOKENS = 1 << 32


def load(text: str, *, name: str = "<workload>", folder: Path | None = None) -> Workload:
    """
    Read a workload.

    Parameters
    ----------
    name
        What the text is called in messages: its file, mostly.
    folder
        Where relative paths of models start; the working directory by default.

    Raises
    ------
    InputError
        If the text is no workload; the message has line, column and excerpt, and says what to do.
    """
    from placement.text import strict_yaml

    return read(strict_yaml.load(text, name=name), folder=folder)


def read(document: Document, *, folder: Path | None = None) -> Workload:
    """Read a workload from YAML that is already loaded (see `load`)."""
    from pydantic import ValidationError

    from placement.workloads.workload_schema import WorkloadFile

    if document.data is None:
        raise InputError(
            "the file is empty: a workload starts with `schema: placement/workload/v1`", where=document.name
        )
    try:
        file = WorkloadFile.model_validate(document.data)
    except ValidationError as error:
        raise explain(error, document, WorkloadFile, other_names=OTHER_NAMES) from None
    return _Reader(document, file, folder).workload()


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of workload files, for editors."""
    from placement.workloads.workload_schema import WorkloadFile

    described = WorkloadFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **described}


class _Reader:
    """Turns a file of the right form into a workload; every refusal points at its line."""

    def __init__(self, document: Document, file: schema.WorkloadFile, folder: Path | None) -> None:
        self.document = document
        self.file = file
        self.folder = folder
        self.algorithm = Algorithm(file.algorithm)

    def workload(self) -> Workload:
        self._check_roles()
        batch = self._batch()
        return Workload(
            algorithm=self.algorithm,
            batch=batch,
            roles=RoleReader(self.document, self.folder).read(self.file.roles, batch),
            schedule=Schedule(self.file.schedule),
            rules=self._rules(),
            name=self.file.name,
        )

    def _fail(self, message: str, *path: str | int, key: bool = False) -> InputError:
        return self.document.error(message, path, key=key)

    # ── checks across keys ──

    def _check_roles(self) -> None:
        roles, algorithm = self.file.roles, self.algorithm
        for name, value in self.document.data["roles"].items():
            if value is None:
                raise self._fail(
                    f"the role {name} is empty: give it a model, or remove it", "roles", name, key=True
                )
        if algorithm is Algorithm.PPO and roles.critic is None:
            without = ", ".join(a for a in Algorithm if a is not Algorithm.PPO)
            raise self._fail(
                f"ppo needs a critic: add the role, or use an algorithm without one ({without})",
                "roles",
                key=True,
            )
        if algorithm is not Algorithm.PPO and roles.critic is not None:
            raise self._fail(
                f"{algorithm} has no critic; remove it or use algorithm: ppo", "roles", "critic", key=True
            )
        if roles.rollout is not None and roles.actor.rollout is not None:
            raise self._fail(
                "generation is described twice: keep `rollout` under actor (hybrid engine) "
                "or the role `rollout` (GPUs of its own)",
                "roles",
                "rollout",
                key=True,
            )
        if Schedule(self.file.schedule).overlaps_generation and roles.rollout is None:
            raise self._fail(
                f"schedule {self.file.schedule} overlaps generation with training, which takes a `rollout` role "
                "with GPUs of its own: add it, or use full",
                "schedule",
            )

    def _batch(self) -> Batch:
        batch, response = self.file.batch, self.file.batch.response_tokens
        mean, longest = (response, response) if isinstance(response, int) else (response.mean, response.max)
        if mean > longest:
            raise self._fail(
                f"the mean response ({mean} tokens) is longer than the longest ({longest})",
                "batch",
                "response_tokens",
                "mean",
            )
        if batch.prompts * batch.samples_per_prompt > MAX_SEQUENCES:
            raise self._fail(
                f"{batch.prompts:,} prompts with {batch.samples_per_prompt:,} samples each are more than "
                f"{MAX_SEQUENCES:,} sequences a step: take fewer",
                "batch",
                "prompts",
            )
        if batch.prompt_tokens + longest > MAX_SEQUENCE_TOKENS:
            raise self._fail(
                f"a prompt of {batch.prompt_tokens:,} tokens and a response of up to {longest:,} are more than "
                f"{MAX_SEQUENCE_TOKENS:,} tokens: take shorter ones",
                "batch",
                "prompt_tokens" if batch.prompt_tokens > longest else "response_tokens",
            )
        if batch.minibatches > batch.prompts:
            raise self._fail(
                f"{batch.minibatches} minibatches cannot be made of {batch.prompts} prompts: each takes one",
                "batch",
                "minibatches",
            )
        if self.algorithm in COMPARING and batch.samples_per_prompt < 2:
            raise self._fail(
                f"{self.algorithm} compares the responses to a prompt: samples_per_prompt must be 2 or more",
                "batch",
                "samples_per_prompt",
            )
        return Batch(
            prompts=batch.prompts,
            samples_per_prompt=batch.samples_per_prompt,
            prompt_tokens=batch.prompt_tokens,
            response_mean_tokens=mean,
            response_max_tokens=longest,
            minibatches=batch.minibatches,
            micro_batch_tokens=batch.micro_batch_tokens
            or max(MICRO_BATCH_TOKENS, batch.prompt_tokens + longest),
        )

    def _rules(self) -> str | None:
        given = self.file.rules
        if given is None:
            return None
        if isinstance(given, str):
            self._check_rules(given, "rules")
            return given
        words = []
        for rule, value in given.items():
            text = ("on" if value else "off") if isinstance(value, bool) else str(value)
            if "," in text:
                raise self._fail(f"rule {rule} takes one value, not {text!r}", "rules", rule)
            words.append(f"{rule}={text}")
            self._check_rules(words[-1], "rules", rule)
        return ",".join(words)

    def _check_rules(self, text: str, *path: str) -> None:
        try:
            parse_rules(text)
        except InputError as error:
            raise self._fail(str(error), *path) from None
