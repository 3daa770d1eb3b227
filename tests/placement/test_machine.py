"""Which GPUs of a machine can be planned on, and why not the others."""

from __future__ import annotations

import pytest

from placement.errors import InputError
from placement.machines.machine import resolve
from placement.workloads.rules import parse_rules
from topologies.cards import assign_cards
from topologies.model import Gpu, Topology
from topologies.parts import Mig, Process
from topologies.read import read_text

HIGH = "\tGPU2\tGPU3\nGPU2\t X \tNV4\nGPU3\tNV4\t X \n"


def test_a_gpu_that_no_source_names_is_not_planned_on() -> None:
    """The text names GPU2 and GPU3; GPU0 and GPU1 are only counted."""
    machine = resolve(assign_cards(read_text(HIGH), "a100-80gb"), parse_rules())
    assert machine.usable == (2, 3)
    assert machine.unusable == {0: "no source names it", 1: "no source names it"}


def test_nothing_need_be_known_of_a_gpu_that_no_source_names() -> None:
    query = "index, name, memory.total [MiB]\n2, NVIDIA L4, 23034 MiB\n3, NVIDIA L4, 23034 MiB\n"
    machine = resolve(read_text(HIGH + query), parse_rules())
    assert machine.usable == (2, 3)
    assert {card.slug for card in machine.cards} == {"l4"}


def test_a_gpu_of_which_only_the_row_is_cut_can_be_planned_on() -> None:
    cut = "\tGPU0\tGPU1\nGPU0\t X \tNV4\n"
    assert resolve(assign_cards(read_text(cut), "a100-80gb"), parse_rules()).usable == (0, 1)


def test_a_machine_whose_visible_gpus_no_source_names_has_none_to_plan_on() -> None:
    with pytest.raises(InputError, match=r"GPU 0: no source names it; .*GPU 2: hidden"):
        resolve(assign_cards(read_text(HIGH), "a100-80gb"), parse_rules(), visible=[0, 1])


@pytest.mark.parametrize(("code", "is_joined"), [("NV1", True), ("NV36", True), ("NV0", False), ("NV77", False), ("NVx", False)])
def test_only_a_code_of_real_hardware_is_nvlink(code: str, is_joined: bool) -> None:
    gpus = tuple(Gpu(k, name="NVIDIA L4", memory_mib=23034) for k in range(2))
    machine = resolve(Topology(gpus, {(0, 1): code}), parse_rules())
    assert (machine.has_nvlink(0, 1), machine.is_nvlinked) == (is_joined, is_joined)


def two_l4(**facts: object) -> Topology:
    """Return two cards, *facts* about the first."""
    gpus = tuple(Gpu(k, name="NVIDIA L4", memory_mib=23034) for k in range(2))
    return Topology((gpus[0].replace(**facts), gpus[1]), {(0, 1): "SYS"})


def test_a_divided_gpu_is_not_planned_on_and_what_to_do_is_said() -> None:
    machine = resolve(two_l4(mig=Mig(enabled=True)), parse_rules())
    assert machine.usable == (1,)
    assert machine.unusable == {
        0: "it is in MIG mode, in which jobs see its instances instead of it (`nvidia-smi -i 0 -mig 0` ends that)"
    }
    assert resolve(two_l4(mig=Mig(enabled=False)), parse_rules()).usable == (0, 1)
    assert "hidden" in resolve(two_l4(mig=Mig(enabled=True)), parse_rules(), visible=[1]).unusable[0]


@pytest.mark.parametrize(
    ("processes", "who"),
    [
        (None, ""),
        ((), ""),
        ((Process(7),), " (pid 7)"),
        ((Process(7, "/usr/bin/py\x1b[1mthon", 10), Process(9, "ray::Worker", 20)), " (ray::Worker with pid 9, py?[1mthon with pid 7)"),
        (tuple(Process(k, None, k) for k in range(1, 6)), " (pid 5, pid 4, pid 3 and 2 more)"),
    ],
)
def test_who_holds_a_busy_gpu_is_named_where_it_is_known(processes: tuple[Process, ...] | None, who: str) -> None:
    machine = resolve(two_l4(memory_used_mib=9000, processes=processes), parse_rules())
    assert machine.unusable == {0: f"other processes{who} hold 9000 MiB of it (rule busy: 2048 MiB)"}


def test_divided_gpus_of_alike_hosts_have_one_reason_with_their_numbers_there():
    gpus = [gpu.replace(index=k, host=f"node{k // 2}", mig=Mig(enabled=True)) for k, gpu in enumerate(two_l4().gpus * 2)]
    last = gpus[0].replace(index=4, host="free", mig=None)
    reasons = set(resolve(Topology((*gpus, last)), parse_rules()).unusable.values())
    assert len(reasons) == 1
    assert "`nvidia-smi -i 0,1 -mig 0`" in reasons.pop()
