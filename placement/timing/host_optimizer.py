"""
Time of an optimizer that runs on the CPUs of the host (``offload: always``), seconds. Formulas and symbols: docs/model.md.

When to modify: an engine runs it another way, or hides it behind other work.
"""

from __future__ import annotations

from collections.abc import Iterator

from placement.choices.choices import TrainChoice
from placement.choices.hardware import Hardware
from placement.constants.table import Constants
from placement.memory.states import bytes_per_parameter, is_streamed
from placement.timing.passes import OFFLOAD, Share
from placement.workloads.workload import Role

ON_HOST = "optimizer on the host's CPUs (offload always)"


def host_optimizer(role: Role, choice: TrainChoice, optimizer: float, hardware: Hardware, c: Constants) -> Iterator[Share]:
    """
    Yield what one update takes where its optimizer state lies in host memory.

    ``parameters of all GPUs of a host / rate``: the ranks of a host share its CPUs, as they share its memory bandwidth, which is what
    Adam is bound by. FSDP2 leaves it to PyTorch's Adam, tensor by tensor; Megatron and ZeRO stages 1 and
    2 have a fused one, and get gradients to it and new weights back in copies of their own: ``(gradients + weights) / H``. Those of
    FSDP2's streamed layers pass with the micro-batches (`placement.timing.passes`).

    Parameters
    ----------
    optimizer
        Bytes of optimizer state of each GPU.
    """
    weights_each, gradients_each, optimizer_each = bytes_per_parameter(role.engine, choice)
    of_gpu = optimizer / optimizer_each
    of_host = of_gpu * hardware.gpus / hardware.hosts
    if is_streamed(role.engine, choice.offload, choice.zero):
        yield ON_HOST, of_host / c.host_adam_parameters_per_s
        return
    yield ON_HOST, of_host / c.host_fused_adam_parameters_per_s
    yield OFFLOAD, of_gpu * (gradients_each + weights_each) / hardware.host_bytes_per_s
