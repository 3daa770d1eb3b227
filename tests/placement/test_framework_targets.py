"""
Files of frameworks: golden text, reading ids back gives the map, scripts are bash, and what cannot be expressed is said with what would
happen.

``python tests/placement/test_framework_targets.py`` writes the golden files anew; read what changed before you commit them.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_starts import apart_start, shared_start, starts

from placement.errors import InputError
from placement.maps.seats import Seat
from placement.plans import Layout
from placement.targets.catalog import target, targets
from placement.targets.start import Start
from placement.targets.target import emit, inexpressible
from placement.workloads.target_rules import Generates, TargetRules
from placement.workloads.workload import Algorithm

GOLDEN = Path(__file__).parents[1] / "data" / "targets"

FRAMEWORKS = ("roll", "rlinf", "openrlhf", "trl", "prime-rl", "areal", "nemo-rl", "skyrl", "slime")


def rules_of(name: str) -> TargetRules:
    found = target(name).rules
    assert found is not None
    return found


def golden_pages() -> Mapping[str, str]:
    """Return what each framework is given for a pool of all roles, and for engines of their own."""
    pages: dict[str, str] = {}
    for name in FRAMEWORKS:
        rules = rules_of(name)
        shapes = {} if rules.generates is Generates.APART else {"shared": shared_start(rules)}
        for shape, start in {**shapes, "apart": apart_start(rules)}.items():
            emitted = emit(target(name), start)
            text = "".join(f"── {file} ──\n{content}\n" for file, content in emitted.files.items())
            pages[f"{name}-{shape}"] = text + "".join(f"note: {note}\n" for note in emitted.notes)
    pages["openrlhf-shared-old"] = emit(target("openrlhf"), shared_start(rules_of("openrlhf")), "0.9").files["launch.sh"]
    return pages


def test_golden_files():
    """Text that users see changes only when somebody wants it to."""
    pages = golden_pages()
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(pages)
    for name, page in pages.items():
        assert page == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8"), name


def entries(start: Start) -> dict[str, tuple[int | str, ...]]:
    """Return the groups as a map writes them."""
    return {role: tuple(seat.gpu if seat.host is None else str(seat) for seat in seats) for role, seats in start.seats.items()}


def drawn(name: str, data: st.DataObject) -> Start:
    return data.draw(starts(rules_of(name)))


@pytest.mark.parametrize("name", FRAMEWORKS)
@settings(max_examples=30)
@given(st.data())
def test_reading_back_gives_the_map(name, data):
    """Any map that it can express is written without refusal for every version, and where files hold ids they are those of the map."""
    it, start = target(name), drawn(name, data)
    assert list(inexpressible(it, start)) == []
    for version in it.versions:
        emitted = emit(it, start, version)
        assert it.reads is not None
        found = dict(it.reads(emitted.files))
        assert found == ({} if name == "nemo-rl" and len(start.pools) > 1 else entries(start))
        assert all(note == note.strip() and not note.endswith(".") for note in emitted.notes)


@pytest.mark.parametrize("name", FRAMEWORKS)
@settings(max_examples=5)
@given(st.data())
def test_scripts_are_bash(name, data):
    """Every script is one that bash can parse."""
    files = emit(target(name), drawn(name, data)).files
    for file, text in files.items():
        if file.endswith(".sh"):
            subprocess.run(["bash", "-n"], input=text, text=True, check=True)
            commands = "".join(line for line in text.splitlines() if not line.startswith("#"))
            for other in files:
                assert commands.count(other) == commands.count(f'"$here/{other}"'), f"{file} finds {other} from its own folder alone"


def rlinf_on_two_hosts(first: int) -> Start:
    """Return a map on 2 × 8 GPUs: *first* of them for the actor, the next two for an engine of tp 2, two for the reference model."""
    start = apart_start(rules_of("rlinf"))
    every = [Seat(host, gpu) for host in ("node0", "node1") for gpu in range(8)]
    groups = {"actor": every[:first], "rollout": every[first : first + 2], "ref": every[first + 2 : first + 4]}
    roles = {**start.roles, "actor": replace(start.roles["actor"], layout=Layout(1, 1, first))}
    seats = {role: tuple(group) for role, group in groups.items()}
    return replace(start, seats=seats, roles=roles, sizes={"node0": 8, "node1": 8})


def test_ids_of_rlinf_count_over_hosts():
    """10 GPUs for the actor are ids 0-9, its node1:0 is id 8; an engine of two hosts is refused."""
    start = rlinf_on_two_hosts(10)
    emitted = emit(target("rlinf"), start)
    assert '"actor,reward": "0-9", rollout: "10-11", inference: "12-13"' in emitted.files["placement.yaml"]
    assert "RLINF_NODE_RANK=1 ray start --address=node0:6379" in emitted.files["ray-start-node1.sh"]
    reads = target("rlinf").reads
    assert reads is not None
    assert dict(reads(emitted.files)) == entries(start)
    assert "an engine has GPUs node0:7, node1:0 of two hosts" in refusal("rlinf", rlinf_on_two_hosts(7))
    assert "does not record how many GPUs" in refusal("rlinf", replace(start, sizes={}))


# ── what cannot be expressed ────────────────────────────────────────────────────────────────────────────────────────────


def moved(start: Start, **groups: tuple[int, ...]) -> Start:
    """Return a map with other GPUs for some roles."""
    return replace(start, seats={**start.seats, **{role: tuple(Seat(None, gpu) for gpu in gpus) for role, gpus in groups.items()}})


def with_role(start: Start, role: str, **changes: Any) -> Start:
    return replace(start, roles={**start.roles, role: replace(start.roles[role], **changes)})


def with_hosts(start: Start) -> Start:
    """Return the map with half of each group on another host."""
    seats = {
        role: tuple(Seat("node0" if 2 * k < len(group) else "node1", seat.gpu) for k, seat in enumerate(group))
        for role, group in start.seats.items()
    }
    return replace(start, seats=seats, sizes={"node0": 8, "node1": 8})


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("roll", lambda s: moved(s, actor=(0, 1, 2, 9)), "actor has GPU 9, which the machine of the map does not have"),
        ("roll", lambda s: moved(s, rollout=(1, 0)), "an engine has GPUs 1, 0, and it sorts those of one worker"),
        ("roll", lambda s: replace(s, sizes={}), "the map does not record how many GPUs its hosts have"),
        ("rlinf", lambda s: moved(s, rollout=(4, 6), ref=(5, 7)), "rollout has GPUs 4, 6, and it takes consecutive ids"),
        ("rlinf", lambda s: moved(s, ref=(0, 1, 2, 3)), "roles are pooled as actor + ref | rollout"),
        ("openrlhf", with_hosts, "the map has 2 hosts, and Ray chooses the order of nodes there"),
        ("openrlhf", lambda s: with_role(s, "ref", layout=Layout(1, 1, 2, sp=2)), "the ring size differs (actor 1, ref 2)"),
        ("openrlhf", lambda s: with_role(s, "ref", model="Qwen/Qwen2.5-1.5B"), "ref has the model Qwen/Qwen2.5-1.5B, and it loads"),
        ("openrlhf", lambda s: replace(s, workload=s.workload.replace(algorithm=Algorithm.REMAX)), "it has no algorithm remax"),
        ("trl", with_hosts, "engines are on several hosts, and `trl vllm-serve` is one process on one host"),
        ("trl", lambda s: moved(s, ref=(6, 7)), "roles are pooled as actor | rollout | ref"),
        ("prime-rl", with_hosts, "the map has 2 hosts, and several nodes are whole nodes there"),
        ("prime-rl", lambda s: with_role(s, "actor", precision="fp16"), "actor runs in fp16, and its trainer in bf16"),
        ("areal", with_hosts, "the map has 2 hosts, and under Slurm and Ray it takes whole nodes"),
        ("nemo-rl", with_hosts, "the map has 2 hosts, and it sorts nodes itself"),
        ("nemo-rl", lambda s: moved(s, actor=(3, 2, 1, 0), ref=(3, 2, 1, 0)), "it sorts GPUs, and actor and ref would get other ranks"),
        ("skyrl", with_hosts, "the map has 2 hosts, and it sorts nodes by Ray's ids"),
        ("skyrl", lambda s: with_role(s, "ref", engine="megatron"), "the engine differs (actor fsdp, ref megatron)"),
        ("slime", lambda s: moved(s, actor=(4, 5, 6, 7), ref=(4, 5, 6, 7), rollout=(0, 1)),
         "would produce actor on GPU 0, 1, 4, 5; ref on GPU 0, 1, 4, 5; rollout on GPU 6, 7"),
        ("slime", lambda s: moved(s, rollout=(4, 6)), "an engine has GPUs 4, 6, and it takes consecutive ids from the first"),
        ("slime", lambda s: with_role(s, "ref", layout=Layout(1, 1, 4)), "ref has another layout than actor"),
    ],
)  # fmt: skip
def test_what_it_cannot_express_is_refused(name, change, words):
    """With what would happen, and nothing is written."""
    wrong = change(apart_start(rules_of(name)))
    with pytest.raises(InputError) as refused:
        emit(target(name), wrong)
    assert str(refused.value).startswith(f"target {name} cannot express this map: ")
    assert words in str(refused.value)
    assert str(refused.value).endswith(f"; plan with --target {name}")
    assert "plan with" not in refusal(name, replace(wrong, target=name))


def refusal(name: str, start: Start) -> str:
    with pytest.raises(InputError) as refused:
        emit(target(name), start)
    return str(refused.value)


def test_strided_engines_are_refused():
    """RLinf gives collocated engines every second GPU where the actor cuts tensors over 4 and they over 2."""
    start = with_role(shared_start(rules_of("rlinf")), "actor", engine="megatron", layout=Layout(4, 1, 1))
    assert "every 2. GPU" in refusal("rlinf", start)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("master", "bf16", "actor updates bf16 weights, and it fp32 ones"),
        ("offload", "always", "actor has offload always, and it has none or between"),
    ],
)
def test_what_it_does_not_keep(field, value, words):
    """Memory that the map does not count."""
    start = shared_start(rules_of("openrlhf"))
    trained = start.roles["actor"].train
    assert trained is not None
    text = refusal("openrlhf", with_role(start, "actor", train=replace(trained, **{field: value})))
    assert words in text


def test_an_unknown_version_is_refused():
    """With those that there are."""
    with pytest.raises(InputError, match=r"target openrlhf is written for 0\.11, 0\.9, not for '0\.3'"):
        emit(target("openrlhf"), shared_start(rules_of("openrlhf")), "0.3")


def test_rows_of_the_table_are_short():
    """What docs/targets.md says of each target: something in each cell, no sentence that ends, no parser without a test of it."""
    for one in targets():
        assert one.title
        assert one.pins
        assert one.keeps
        assert one.writes
        for text in (one.pins, one.keeps, *one.writes.values(), *one.cannot):
            assert len(text) <= 140
            assert not text.endswith(".")
    run = {path.stem.removeprefix("test_") for path in (Path(__file__).parents[1] / "targets").glob("test_*.py")}
    for name in FRAMEWORKS:
        assert bool(target(name).parser) == (name in run), name


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for stem, content in golden_pages().items():
        (GOLDEN / f"{stem}.txt").write_text(content, encoding="utf-8")
