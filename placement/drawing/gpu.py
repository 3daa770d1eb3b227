"""
The box of one GPU: its number, card and memory, and the roles on it.

When to modify: what the box of a GPU says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from placement.drawing.roles import Tenant
from placement.drawing.shapes import (
    Anchor,
    Box,
    Panel,
    Shape,
    Text,
    TextStyle,
    fit,
    fit_middle,
    printable,
    text_width,
)
from placement.workloads.rules import Rules
from topologies.cards import Card
from topologies.model import Gpu
from topologies.parts import Mig, Pcie

_NARROWEST, _WIDEST = 92, 140
_PAD = 8
_HEAD = 27
_LINE = 15
CHIP = 19
_CHIP_STEP = 22
_RANK_GAP = 8
_MOST_NAME_LINES = 4


@dataclass(frozen=True, slots=True)
class Face:
    """
    What the box of a GPU says.

    Parameters
    ----------
    name
        Its number.
    details
        Further lines: card, memory and more, as far as they are known.
    hint
        Everything, for hovering.
    tenants
        The roles on it; None when there are no roles to show.
    is_named
        Whether a source names it.
    """

    name: str
    details: tuple[str, ...]
    hint: str
    tenants: tuple[Tenant, ...] | None
    is_named: bool = True


def face(gpu: Gpu, card: Card | None, tenants: tuple[Tenant, ...] | None) -> Face:
    """Return what the box of *gpu* says, which is a *card*."""
    product = printable(gpu.name or "") or (card.name if card else None)
    memory = f"{gpu.memory_mib / 1024:.0f} GiB" if gpu.memory_mib else None
    short = [_short(card)] if card else _in_lines(product or "")
    roles = [printable(t.name if t.rank is None else f"{t.name} rank {t.rank}") for t in tenants or ()]
    more = [fact for fact in (memory, _in_use(gpu), port_name(gpu.pcie), _mig(gpu.mig)) if fact]
    if not gpu.is_named:
        more.append("not named")
    known = [fact for fact in (product, *more, *roles) if fact]
    name = f"GPU {gpu.index}"
    return Face(
        name=name,
        details=(*short, *more),
        hint=f"{name}: {', '.join(known)}" if known else name,
        tenants=tenants,
        is_named=gpu.is_named,
    )


def size(faces: Sequence[Face]) -> tuple[float, float]:
    """Return width and height of a box, px, in which each of *faces* has room; the longest words are cut."""
    widths = [
        _PAD * 2 + text_width(words, style)
        for f in faces
        for style, words in [
            (TextStyle.GPU, f.name),
            *((TextStyle.DETAIL, line) for line in f.details),
        ]
    ]
    widths += [_PAD * 2 + chip_width(tenant) for f in faces for tenant in f.tenants or ()]
    details = max(len(f.details) for f in faces)
    chips = max((max(1, len(f.tenants)) if f.tenants is not None else 0) for f in faces)
    height = _HEAD + details * _LINE + chips * _CHIP_STEP + (_PAD if chips else 4)
    return min(max(_NARROWEST, *widths), _WIDEST), height


def draw_gpu(box: Box, face: Face) -> list[Shape]:
    """Return the shapes of *face* in *box*."""
    is_idle = face.tenants == ()
    x, room = box.x + _PAD, box.width - 2 * _PAD
    shapes: list[Shape] = [
        Panel(box, "idle gpu" if is_idle or not face.is_named else "gpu", radius=6, hint=face.hint),
        Text(x, box.y + 20, fit(face.name, TextStyle.GPU, room), TextStyle.GPU),
    ]
    y = box.y + _HEAD
    for line in face.details:
        shapes.append(Text(x, y + 10, fit_middle(line, TextStyle.DETAIL, room), TextStyle.DETAIL))
        y += _LINE
    y += 4
    for tenant in face.tenants or ():
        shapes += draw_chip(Box(x, y, room, CHIP), tenant)
        y += _CHIP_STEP
    if is_idle:
        shapes.append(Text(box.middle, y + 13, "no role", TextStyle.DETAIL, Anchor.MIDDLE))
    return shapes


def draw_chip(box: Box, tenant: Tenant) -> list[Shape]:
    """Return a chip of the role's colour with its name, and its rank at the right."""
    room = box.width - 2 * _PAD
    shapes: list[Shape] = [Panel(box, "chip", radius=4, role=tenant.colour)]
    baseline = box.y + 13.5
    if tenant.rank is not None:
        rank = Text(box.right - _PAD, baseline, str(tenant.rank), TextStyle.CHIP, Anchor.END, tenant.colour)
        shapes.append(rank)
        room -= rank.box.width + _RANK_GAP
    name = fit(printable(tenant.name), TextStyle.CHIP, room)
    shapes.append(Text(box.x + _PAD, baseline, name, TextStyle.CHIP, role=tenant.colour))
    return shapes


def chip_width(tenant: Tenant) -> float:
    """Return the width of a chip that shows all of *tenant*, px."""
    rank = "" if tenant.rank is None else str(tenant.rank)
    words = text_width(printable(tenant.name), TextStyle.CHIP) + text_width(rank, TextStyle.CHIP)
    return words + 2 * _PAD + (_RANK_GAP if rank else 0)


def port_name(pcie: Pcie | None) -> str | None:
    """Return a PCIe port as people write it: ``gen5 x16``; what it runs at now where no more is known."""
    if pcie is None:
        return None
    gen, width = pcie.gen or pcie.current_gen, pcie.width or pcie.current_width
    words = [f"gen{gen}"] if gen is not None else []
    words += [f"x{width}"] if width is not None else []
    is_now = pcie.gen is None and pcie.current_gen is not None
    return " ".join([*words, "now"] if is_now else words) or None


def _in_use(gpu: Gpu) -> str | None:
    """Return what others hold of a GPU that is busy by what plans take as that: ``20 GiB in use``."""
    used, most = gpu.memory_used_mib, Rules().busy_mib
    return f"{used / 1024:.0f} GiB in use" if used is not None and most is not None and used > most else None


def _mig(mig: Mig | None) -> str | None:
    """Return the mode where it changes what CUDA sees: ``MIG: 7 parts``."""
    if mig is None or not mig.enabled:
        return None
    count = len(mig.instances)
    return f"MIG: {count} part{'s' * (count != 1)}" if count else "MIG on"


def _short(card: Card) -> str:
    """Name a card without its memory, which has a line of its own: ``A100``, ``H100 NVL``."""
    return re.sub(r"-\d+gb$", "", card.slug).replace("-", " ").upper().replace("PCIE", "PCIe")


def _in_lines(product: str) -> list[str]:
    """Return the name of a card that the catalogue lacks, on as many lines as it needs: any word of it may tell the model."""
    room = _WIDEST - 2 * _PAD
    lines: list[str] = []
    for word in product.split():
        joined = f"{lines[-1]} {word}" if lines else word
        if lines and (text_width(joined, TextStyle.DETAIL) <= room or len(lines) == _MOST_NAME_LINES):
            lines[-1] = joined
        else:
            lines.append(word)
    return lines
