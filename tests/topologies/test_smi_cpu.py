"""``nvidia-smi topo -c``: the GPUs near a CPU, one per line, on one line or wrapped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topologies.errors import TopologyError
from topologies.read import read_text

HEAD = "The GPUs that have an affinity with CPU 48 are:\n"


@given(gpus=st.sets(st.integers(0, 40), min_size=1), way=st.sampled_from(("\n", ", ", " ", ",\n")), blank=st.booleans())
def test_all_gpus_are_read_however_they_are_laid_out(gpus: set[int], way: str, blank: bool) -> None:
    text = HEAD + "\n" * blank + way.join(map(str, sorted(gpus)))
    topology = read_text(f"{text}\n\n17 hosts\n")
    assert topology.gpus_near_cpu == {48: tuple(sorted(gpus))}
    assert not topology.links_complete


def test_a_list_that_is_wrapped_after_several_goes_on() -> None:
    assert read_text(f"{HEAD}0, 1, 2, 3,\n4, 5, 6, 7\n").gpus_near_cpu == {48: tuple(range(8))}


def test_no_gpu_is_refused_with_the_reason() -> None:
    with pytest.raises(TopologyError, match="names no GPU near that CPU"):
        read_text(f"{HEAD}None\n")


@pytest.mark.parametrize("prefix", ["> ", "a-1  | ", "12:00:{:02} ", "2024-05-01T12:00:{:02}.123Z ", "node7: ", "0: ", "[1,0]<stdout>: "])
@pytest.mark.parametrize("answer", ["0, 1, 2,\n3", "0\n1\n2\n3", "\n0, 1, 2, 3"])
def test_what_a_log_or_a_mail_puts_before_every_line_is_stripped(prefix: str, answer: str) -> None:
    text = "".join(prefix.format(k) + line + "\n" for k, line in enumerate((HEAD + answer).split("\n")))
    found = read_text(text)
    assert found.gpus_near_cpu == {48: (0, 1, 2, 3)}
    assert "prefix, which was stripped" in found.warnings[0]
