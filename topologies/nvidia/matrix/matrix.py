"""
Read the matrices of ``nvidia-smi topo -m``, ``-mp`` and ``-p2p``.

A text is cut into blocks (`topologies.nvidia.matrix.blocks`), a block is read into a grid of cells that vouch for each other
(`topologies.nvidia.matrix.grid`), and a grid is stated as a `Topology` here. A link that the text does not state stays unknown.

When to modify: a new fact that a matrix states.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from topologies import codes
from topologies.errors import TopologyError
from topologies.model import Gpu, Pair, Topology
from topologies.nvidia.matrix.blocks import Block, find_blocks
from topologies.nvidia.matrix.columns import ELIDED, UNNAMED
from topologies.nvidia.matrix.grid import Grid, read_grid
from topologies.nvidia.matrix.header import MOST_DEVICES, TITLES, Kind, gpu_index, is_gpu_label
from topologies.nvidia.matrix.plain import plain
from topologies.pages.reading import Reading, listing, unknown_codes
from topologies.pages.text import Page

_MATRIX_COMMAND = re.compile(r"topo\s+(?:-mp|--matrix-pci|-m|--matrix)\b")
_PEER_KIND = re.compile(r"p2p[\s=]+\(?([rwnap]{1,5})\b")
_PEER_KIND_OF_NAME = re.compile(r"p2p[-_. =]?([rwnap]{1,2})(?![A-Za-z0-9])")

_PCIE_MATRIX_NAME = re.compile(r"topo[-_. ]?mp(?![A-Za-z0-9])")


def read(page: Page) -> Iterator[Reading]:
    """Yield one reading for every matrix on *page*."""
    page, notes = plain(page)
    blocks = find_blocks(page)
    for block in blocks:
        block.notes = [*notes, *block.notes]
    for run in _runs(blocks):
        whole = _whole(run)
        grid = read_grid(page, whole)
        if len(run) == 1 or not grid.conflicts:
            yield Reading(whole.first_line, _topology(page, whole, grid))
        else:
            for block in run:
                yield Reading(block.first_line, _topology(page, block, read_grid(page, block)))


def _runs(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield *blocks*, those together of which each goes on with further rows below the same header again, with nothing between."""
    run: list[Block] = []
    labels: set[str] = set()
    for block in blocks:
        own = {row.label for row in block.rows}
        is_bare = all(text == block.header_text or not text.strip() for text in block.above)
        is_next = is_bare and block.columns and run and block.columns == run[0].columns
        if run and (not is_next or labels & own or len(labels | own) > MOST_DEVICES):
            yield run
            run, labels = [], set()
        run.append(block)
        labels |= own
    if run:
        yield run


def _whole(run: Sequence[Block]) -> Block:
    """Return the blocks of *run* as one."""
    if len(run) == 1:
        return run[0]
    return replace(
        run[0],
        rows=[row for block in run for row in block.rows],
        nic_names={nic: name for block in reversed(run) for nic, name in block.nic_names.items()},
        notes=list(dict.fromkeys(note for block in run for note in block.notes)),
    )


def _topology(page: Page, block: Block, grid: Grid) -> Topology:
    warnings = list(grid.warnings)
    gpus, named = _gpu_labels(page, block, grid, warnings)
    nics = [name for name in grid.columns.devices if _is_nic(name)]
    rows = {row.label for row in block.rows}
    missing = [name for name in (*gpus, *nics) if name not in rows]
    others = _others(block, grid, rows, warnings)
    pairs = _pairs(grid.cells, gpus)
    states = sum(codes.is_peer_state(code) for code in pairs.values())
    is_peer = states * 2 > len(pairs) if pairs else _is_of_peers(block)
    if missing:
        warnings.append(f"rows are missing: {listing(missing)}")
    if unknown := _unknown(pairs, len(gpus)):
        what = "peer-to-peer states" if is_peer else "links"
        warnings.append(f"{what} are unknown between some of {listing([gpus[g] for g in unknown])}")
    is_known = codes.is_peer_state if is_peer else codes.is_known_link
    gpu_nic = _gpu_nic(grid.cells, gpus, nics)
    stated = {*pairs.values(), *(code for of_gpu in gpu_nic.values() for code in of_gpu.values())}
    warnings += unknown_codes(stated, is_known)
    if is_peer:
        return Topology(
            tuple(Gpu(index, is_named=index in named) for index in range(len(gpus))),
            format="p2p",
            warnings=tuple(warnings),
            rows_missing=tuple(missing),
            rows_partial_cells_seen=grid.partial,
            conflict=grid.conflicts,
            p2p=pairs,
            p2p_kind=_peer_kind(block, page.name),
        )
    warnings += narrow_bonds(pairs, len(gpus))
    kinds = [column.kind for column in grid.columns.tail if column.kind in TITLES]
    return Topology(
        tuple(
            _gpu(index, grid.values.get(label, {}), kinds).replace(is_named=index in named)
            for index, label in enumerate(gpus)
        ),
        links=pairs,
        nics={name: _nic_name(name, block) for name in nics},
        gpu_nic=gpu_nic,
        format=_format(block, page.name, pairs.values()),
        warnings=tuple(warnings),
        columns=frozenset({"links", *(kind.value for kind in kinds)}),
        rows_missing=tuple(missing),
        rows_partial_cells_seen=grid.partial,
        conflict=grid.conflicts,
        extra_columns=tuple(others),
        other_columns=grid.columns.unnamed + grid.columns.devices.count(UNNAMED),
    )


def _is_of_peers(block: Block) -> bool:
    """Whether most cells of *block* are peer-to-peer states, those that contradict each other included."""
    words = [word for row in block.rows for word in row.body.split()]
    return sum(map(codes.is_peer_state, words)) > sum(map(codes.is_link, words))


def _is_nic(name: str) -> bool:
    return not is_gpu_label(name) and codes.NIC.fullmatch(name) is not None


def _gpu(index: int, values: Mapping[Kind, str | None], kinds: Sequence[Kind]) -> Gpu:
    stated = {kind: values.get(kind) for kind in kinds}
    return Gpu(
        index,
        cpu_affinity=stated.get(Kind.CPU_AFFINITY),
        numa=stated.get(Kind.NUMA),
        gpu_numa_id=stated.get(Kind.GPU_NUMA_ID),
    )


def _gpu_labels(page: Page, block: Block, grid: Grid, warnings: list[str]) -> tuple[list[str], Set[int]]:
    """Return the labels of all GPUs from 0 to the highest that a row or column names, and the indices that are named."""
    named = {
        gpu_index(n): n for n in (*(r.label for r in block.rows), *grid.columns.devices) if is_gpu_label(n)
    }
    count = max(max(named) + 1, grid.columns.gpus)
    if count > MOST_DEVICES:
        raise TopologyError(f"GPU{count - 1} is no GPU of one host", where=page.where(block.first_line))
    absent = [f"GPU{index}" for index in range(max(named)) if index not in named]
    if absent:
        warnings.append(f"the text does not name {listing(absent)}, but GPUs with higher numbers")
    if count > max(named) + 1:
        unseen = [f"GPU{index}" for index in range(max(named) + 1, count)]
        warnings.append(f"the text does not name {listing(unseen)}, but shows columns with their NVLinks")
    return [named.get(index, f"GPU{index}") for index in range(count)], named.keys()


def _others(block: Block, grid: Grid, rows: set[str], warnings: list[str]) -> list[str]:
    """Return the columns that nvidia-smi does not print, and warn of whatever is ignored."""
    devices = [n for n in grid.columns.devices if not is_gpu_label(n) and not _is_nic(n) and n not in (*ELIDED, UNNAMED)]
    with_row = [name for name in devices if name in rows]
    meant = {column.name for column in grid.columns.tail if column.kind in TITLES}
    extra = [c.name for c in block.columns if c.kind is Kind.OTHER and c.name not in with_row and c.name not in meant]
    if with_row:
        warnings.append(f"device {listing(with_row)} is no GPU and no NIC, so it was ignored")
    if extra:
        warnings.append(f"column {listing(extra)} is one that nvidia-smi does not print, so it was ignored")
    if ELIDED.intersection(grid.columns.devices):
        warnings.append("columns are left out of the matrix ('...')")
    return extra


def _pairs(cells: Mapping[tuple[str, str], str], gpus: Sequence[str]) -> dict[Pair, str]:
    position = {label: index for index, label in enumerate(gpus)}
    found: dict[Pair, str] = {}
    for (row, column), code in cells.items():
        i, j = position.get(row), position.get(column)
        if i is not None and j is not None and i != j:
            found[min(i, j), max(i, j)] = code
    return dict(sorted(found.items()))


def _gpu_nic(
    cells: Mapping[tuple[str, str], str], gpus: Sequence[str], nics: Sequence[str]
) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for index, gpu in enumerate(gpus):
        for nic in nics:
            code = cells.get((gpu, nic)) or cells.get((nic, gpu))
            if code is not None:
                found.setdefault(index, {})[nic] = code
    return found


def _nic_name(column: str, block: Block) -> str | None:
    """Return the device of a NIC column: the legend's word for a number, else the name of the column itself."""
    return block.nic_names.get(column) if column.startswith("NIC") else column


def _unknown(pairs: Mapping[Pair, str], count: int) -> list[int]:
    """Return the GPUs that have a pair of which nothing is stated."""
    stated = [0] * count
    for pair in pairs:
        for index in pair:
            stated[index] += 1
    return [index for index in range(count) if stated[index] < count - 1]


def narrow_bonds(pairs: Mapping[Pair, str], count: int) -> list[str]:
    """Return a warning if NVLink joins all GPUs and some are joined by fewer links than the others: links are down."""
    joined = [
        (pair, int(code[2:])) for pair, code in pairs.items() if code.startswith("NV") and codes.is_link(code)
    ]
    if count < 3 or len(joined) < count * (count - 1) // 2:
        return []
    widths = [0] * count
    for pair, width in joined:
        for index in pair:
            widths[index] = max(widths[index], width)
    narrow = [f"GPU{index}" for index in range(count) if widths[index] < max(widths)]
    if not narrow:
        return []
    bonds = f"NV{min(widths)} against NV{max(widths)}"
    return [
        f"the NVLink bonds of {listing(narrow)} are narrower than the others' ({bonds}): links may be down"
    ]


def _format(block: Block, source: str, links: Iterable[str]) -> str:
    """Return which matrix it is: by the command above it, else by the name of the *source* unless it shows NVLink."""
    commands = [m[0] for text in block.above for m in _MATRIX_COMMAND.finditer(text)]
    if not commands and not any(code.startswith("NV") for code in links):
        commands = _PCIE_MATRIX_NAME.findall(re.split(r"[\\/]", source)[-1])
    return "topo-mp" if commands and commands[-1].endswith(("mp", "-pci")) else "topo-m"


def _peer_kind(block: Block, source: str) -> str:
    """Return which capability the command above the matrix asks for, else the one that the name of the *source* tells."""
    kinds = [m[1] for text in block.above for m in _PEER_KIND.finditer(text)]
    if not kinds:
        kinds = _PEER_KIND_OF_NAME.findall(re.split(r"[\\/]", source)[-1])
    return kinds[-1] if kinds else "unknown"
