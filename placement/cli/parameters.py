"""
What several commands take: their words, metavariables, and options in common.

When to modify: an option takes another word, or two commands get an option in common.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Optional

import typer
from typer.core import TyperCommand

# What these options take stands here once more than in the modules that read them, so that --help imports none of those.
OBJECTIVES = ("step", "memory", "gpus", "bandwidth")
SMALLEST = ("gpus", "card")
SOLVERS = ("cpsat", "exhaustive", "greedy")
PRESETS = ("guide", "minimal", "strict", "four", "colocate", "free")
SHIPPED = ("gpus", "models", "machines", "workloads", "rules", "presets", "constants", "targets")
TARGETS = (
    "verl-stock", "verl", "roll", "rlinf", "openrlhf", "trl", "prime-rl", "areal", "nemo-rl", "skyrl", "slime",
    "deepspeed", "ray", "kubernetes", "torchrun", "accelerate", "slurm", "env",
)  # fmt: skip
SCHEMAS = ("workload",)
SOURCES = (
    "a file, - (standard input), a shipped name, or live; several of one machine joined by + (topo.txt+gpus.csv), one of several "
    "matrices in a text (topo.txt#2)"
)
CLUSTERS = "output of several hosts (pdsh, srun -l), or a cluster in short: 'dgx-h100 x 16 @ 8x50GB/s'"
MAX_WORKERS = 256
DEVICES = ("cuda", "cpu")


def completes(words: tuple[str, ...]) -> Callable[[str], list[str]]:
    """Return what offers *words* to the shell's completion."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def among(words: tuple[str, ...]) -> str:
    return f"<{'|'.join(words)}>"


Gpu = Annotated[
    Optional[str],  # noqa: UP045 - typer reads the annotation
    typer.Option("--gpu", metavar="CARDS", help="Cards where no source names them: a100-40gb, or 0-3=a100-40gb,4-7=a100-80gb."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def _file(path: Path | None) -> Path | None:
    """Return *path*; None, which is standard output, for ``-``."""
    return None if path == Path("-") else path


Output = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("-o", "--output", metavar="FILE", callback=_file, help="Write the result here; - is standard output."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]


class Command(TyperCommand):
    """A command whose help names an argument as its usage does, without the type that Python gives it (``<list[str]>``)."""

    def get_help(self, ctx: typer.Context) -> str:  # type: ignore[override]
        for parameter in self.params:
            if parameter.param_type_name == "argument":
                setattr(parameter, "display_type_rich", lambda ctx: None)  # noqa: B010 - older releases have no such method
        return super().get_help(ctx)
