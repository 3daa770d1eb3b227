"""
The words of `nvidia-smi topo`: link codes, peer-to-peer states, device labels, column titles.

When to modify: a driver prints a new word.
"""

from __future__ import annotations

import functools
import re

LINK = r"NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC"
PEER = r"OK|CNS|GNS|TNS|NS|DR|U"
"""States of `nvidia-smi topo -p2p`."""

DEVICE = (
    r"(?:GPU|NIC)[0-9]+|mlx[0-9]+_(?:bond_)?[0-9]+|(?:bnxt_re|irdma)[0-9]+"
    r"|(?:roce|ib|rdma)p[0-9]{1,4}(?:s[0-9]{1,4}(?:f[0-9]{1,3})?(?:d[0-9]{1,3})?)?"
)
"""Labels whose end is known even when something is glued to it."""

NIC = re.compile(
    r"NIC[0-9]+|mlx[0-9]+_\w*[0-9]|(?:bnxt|irdma|rdma|roce|hfi|ib|efa|cxi|hns|qed|usnic|eth|ens|enp|eno|bond|siw|rxe|ocrdma|mana)[\w.-]*[0-9]"
)
"""How NICs are called: numbered by the driver, or by the name of their RDMA device."""

_FOREIGN = r"(?:[A-Z]{1,3}PU|GP)[0-9]+|CPU"

_UNSEEN = rf"(?!(?:{DEVICE}|{_FOREIGN}|GPU|NUMA|ID)(?!\w))[A-Z][A-Z0-9]{{0,5}}"
"""A word that may be a code that nobody has seen yet: no label and no word of a title."""

ROW_START = re.compile(
    rf"(?<![\w/-])(?P<label>(?:{DEVICE}|{_FOREIGN}))(?:\.?[ \t|*`]+|(?=X\b|PIX|PXB|PHB|NODE|SYS|SOC|NV[0-9]))"
    rf"(?=(?:(?:{LINK}|X|N/A\.?|OK|[CGT]?NS)+|(?:{_UNSEEN}[ \t|*`]+)+(?:{LINK}|X))(?![\w/]))"
)
"""Where a row of a known device begins: its label, followed by a code, or by unseen ones and then a code."""

_EXACT_LINK = re.compile(LINK)
_EXACT_PEER = re.compile(PEER)
_GLUED = re.compile(rf"(?:{LINK}|X|N/A)+")
_GLUED_PART = re.compile(rf"{LINK}|X|N/A")
_GLUED_TO_VALUE = re.compile(
    r"((?:NV[0-9]{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|X)*(?:PIX|PXB|PHB|NODE|SYS|SOC|X))([0-9][0-9,-]*|N/A)"
)
_CODE_LIKE = re.compile(r"[A-Z][A-Z0-9]{0,5}")
_VALUE = re.compile(r"[0-9]{1,5}(?:[,-][0-9]{1,5})*[,-]?|N/A")
_COMPLETE = ("PIX", "PXB", "PHB", "NODE", "SYS", "SOC", "CNS", "GNS", "TNS", "N/A")

OF_AMD = frozenset({"XGMI", "PCIE"})
"""What the tools of AMD print for a pair: its direct link, or PCIe of any level."""

MOST_NVLINKS = 36
"""NVLinks of one GPU that NVML can count (NVML_NVLINK_MAX_LINKS); a code above it is damage, not a link."""

SELF = frozenset({"X", "x"})
NOT_AVAILABLE = "N/A"
LEFT_OUT = "..."


def may_have_label(text: str) -> bool:
    """Whether *text* can have the label of a device at all: cheap, so that patterns run only where it is true."""
    return (
        "GP" in text or "PU" in text or "NIC" in text or "mlx" in text
        or "bnxt" in text or "irdma" in text or "rocep" in text or "ibp" in text or "rdmap" in text
    )  # fmt: skip


def is_row(text: str) -> bool:
    """Whether *text* begins, after blanks, like the row of a matrix: a label and codes."""
    return may_have_label(text) and ROW_START.match(text.lstrip()) is not None


@functools.lru_cache(maxsize=1024)
def is_link(token: str) -> bool:
    """Whether *token* has the form of a link code; its number of NVLinks may still be one that no hardware has."""
    return _EXACT_LINK.fullmatch(token) is not None


def is_known_link(token: str) -> bool:
    """Whether *token* is a link that hardware has."""
    return token in OF_AMD or (is_link(token) and (not token.startswith("NV") or 0 < int(token[2:]) <= MOST_NVLINKS))


def is_peer_state(token: str) -> bool:
    """Whether *token* is a state of `topo -p2p`."""
    return _EXACT_PEER.fullmatch(token) is not None


def is_value(token: str) -> bool:
    """Whether *token* has the form of an affinity or NUMA cell: ``0-31,64-95``, ``0``, ``N/A``."""
    return _VALUE.fullmatch(token) is not None


def is_whole_list(value: str) -> bool:
    """Whether an affinity *value* is a list of CPUs with both ends of all its ranges, or what the driver prints for none."""
    if not value or not value[0].isdigit():
        return True
    ranges = [part.split("-") for part in value.split(",")]
    return all(
        len(ends) <= 2 and all(end.isdecimal() for end in ends) and int(ends[0]) <= int(ends[-1]) for ends in ranges
    )


def is_cut_code(token: str) -> bool:
    """Whether *token* is the beginning of a code and no code: ``NOD``, ``N``, ``NV``."""
    return token != "" and not is_link(token) and any(c.startswith(token) for c in (*_COMPLETE, "NV"))


def may_be_code(token: str) -> bool:
    """Whether *token* looks like a code that nobody has seen yet."""
    return _CODE_LIKE.fullmatch(token) is not None


def unglue(token: str) -> list[str]:
    """Return the codes that *token* consists of (``NODEPXB`` → NODE, PXB); empty when it is not glued from several."""
    if not _GLUED.fullmatch(token):
        return []
    parts: list[str] = _GLUED_PART.findall(token)
    return parts if len(parts) > 1 else []


def unglue_value(token: str) -> tuple[list[str], str] | None:
    """
    Return the codes and the affinity value that *token* consists of (``SYS0-31`` → SYS and 0-31), else None.

    After an ``NV`` code the place of the cut would be a guess, so that is not split.
    """
    match = _GLUED_TO_VALUE.fullmatch(token)
    if match is None:
        return None
    return _GLUED_PART.findall(match[1]), match[2]
