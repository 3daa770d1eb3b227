"""
Read the blocks of ``lspci``, ``-v``, ``-vv``, ``-nn``, ``-k``: a line that names a function, and what stands below it.

What a block says is found by its words wherever they stand in it, so that lost tabs and wrapped lines do no harm.

When to modify: the tool prints another fact about a function.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from topologies.bus_ids import BUS_ID, full_bus_id
from topologies.errors import TopologyError
from topologies.parts import BridgeKind
from topologies.ports import BRIDGE_CLASS, MOST_FUNCTIONS, Function, generation, lanes

_CLASSES = {
    "VGA compatible controller": 0x0300, "3D controller": 0x0302, "Display controller": 0x0380,
    "Processing accelerators": 0x1200, "Ethernet controller": 0x0200, "Infiniband controller": 0x0207,
    "InfiniBand controller": 0x0207, "Fabric controller": 0x0208, "PCI bridge": BRIDGE_CLASS, "Host bridge": 0x0600,
}  # fmt: skip

_CLASS = rf"{'|'.join(_CLASSES)}"
TELLING = re.compile(
    rf"(?<![\w:.-]){BUS_ID}[ \t]+(?:(?:{_CLASS})(?:[ \t]+\[[0-9a-f]{{4}}\])?|(?:Class[ \t]+)?(?:03|12|02|06)[0-9a-f]{{2}}):[ \t]"
)
"""A line that names a function of a class that matters here, wherever in the line it begins."""

_HEADER = re.compile(
    rf"[ \t]*({BUS_ID})[ \t]+(?:([0-9a-f]{{4}})|([A-Z0-9][^\[\]:\n]{{2,60}}?)(?:[ \t]+\[([0-9a-f]{{4}})\])?):[ \t](.{{0,300}})"
)
_BRACKETS = re.compile(r"\[([^\[\]]{1,60})\]")
_IDS = re.compile(r"\[([0-9a-f]{4}):[0-9a-f]{4}\]|(?:Device[ \t]+|^)([0-9a-f]{4}):[0-9a-f]{4}\b")
_IS_ID = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4})?")
_MAKER = re.compile(r"\[(?:AMD|AMD/ATI|ATI)\]")

_LINK_CAN = re.compile(r"LnkCap:\s*(?:Port\s+#?\d+,\s*)?Speed\s+([0-9.]{1,5})\s?GT/s,\s*Width\s+x(\d{1,3}(?:\n\d{1,2}(?=,))?)(?=[,\n]|$)")
"""A number may be wrapped; what stands behind it is there unless the line is cut, or somebody took it off."""

_LINK_NOW = re.compile(
    r"LnkSta:\s*Speed\s+([0-9.]{1,5})\s?GT/s(?:\s*\([\w\n]{1,20}\))?\s*,\s*Width\s+x\n?(\d{1,3}(?:\n\d{1,2}(?=[,\s(]))?)(?![^\s,(])"
)
_GOES_ON = re.compile(r"\n ?\(\w+\)")
"""What stands behind the width, in the next line where a terminal wrapped it there."""

_REST_OF_NAME = re.compile(r"(?: ?[^\s:\[\]][^:\[\]\n]{0,60})?\]")
_PORT = re.compile(r"Express\s+(?:\(v\d\)\s+)?(Root\s+Port|Upstream\s+Port|Downstream\s+Port)")
_BUSES = re.compile(r"Bus:\s*primary=[0-9a-f]{2},\s*secondary=([0-9a-f]{2})")
_ACS = re.compile(r"ACSCtl:[^\n]*?ReqRedir([+-])\s+CmpltRedir([+-])")
_NUMA = re.compile(r"NUMA node:\s*(\d{1,4})\b")
_DRIVER = re.compile(r"Kernel driver in use:\s*([\w-]{1,40})")

_CPU_MAKER = re.compile(
    r"Intel Corporation|Advanced Micro Devices, Inc\. \[AMD\](?!/ATI)|Hygon|IBM|Ampere Computing|\b(?:8086|1022|1d94|1014|1def):"
)
_NO_ROOT_PORT = re.compile(r"Switch|Upstream|Downstream|Thunderbolt|to-PCI", re.IGNORECASE)
"""Makers of processors, whose bridges are the ports of one, and what they call others."""

_ONCE = (_BUSES, re.compile("LnkCap:"), _NUMA, _DRIVER)
"""What the block of a function says no more than once."""

_GPU_MAKERS = ("NVIDIA Corporation", "Advanced Micro Devices, Inc. [AMD/ATI]")
_BEGUN = re.compile(rf"{BUS_ID}(?=\s|\Z)|[0-9a-f]{{2}}(?::[0-9a-f]{{0,2}}\.?)?\Z")
"""How the line of a function begins, cut or not."""

_DRAWN = re.compile(
    r"(?:[ |]*[+\\]-|-[+\[])(?:.{0,500}-[0-9a-f]{2}\.[0-7]  (.{1,300})|.{0,500}(\[[0-9a-f:-]{0,14}|[+\\]-?|-[0-9a-f]{1,2}\.?))\Z"
)
"""The last row of a tree: the name at its end, or where it ends within what is drawn."""

_KINDS = {
    "Root": BridgeKind.ROOT_PORT, "Upstream": BridgeKind.UPSTREAM, "Downstream": BridgeKind.DOWNSTREAM,
}  # fmt: skip


def read_blocks(lines: Sequence[str], functions: dict[str, Function], warnings: list[str]) -> set[str]:
    """
    Add the functions that *lines* name to *functions*, and what they say about each; *warnings* gets what is not known.

    Returns
    -------
    set of str
        The buses that are root buses for sure.

    Raises
    ------
    TopologyError
        If there are more functions than any machine has.
    """
    roots: set[str] = set()
    headers: list[tuple[int, re.Match[str]]] = []
    for position, line in enumerate(lines):
        if line[:1] != "\t" and ": " in line and "." in line and (match := _HEADER.match(line)):
            headers.append((position, match))
            if len(headers) > MOST_FUNCTIONS:
                raise TopologyError(f"lspci lists more than {MOST_FUNCTIONS:,} functions: cut the text down to one machine")
    first_of: dict[str, bool] = {}
    hanging: set[str | None] = set()  # buses below bridges whose own line is missing
    of_cpus: set[str] = set()  # buses with a bridge that only a processor has
    ends = [*(position for position, _ in headers), len(lines)]
    for (position, match), end in zip(headers, ends[1:], strict=True):
        body = "\n".join(lines[position + 1 : end])
        found = _function(match, body)
        if found is None:
            continue
        own = _end_of_block(found, body)
        _read_body(found, body[:own])
        if found.is_gpu:
            warnings += _cut_facts(found, match[5], body[:own])
        if own < len(body):
            domain = found.bus_id.partition(":")[0]
            hanging |= {f"{domain}:{bus}" for bus in _BUSES.findall(body, own)}
            warnings.append(
                f"the block of {found.bus_id} in lspci goes on with that of another device, whose first line is missing: it is left out, "
                "and where what is below it hangs is unknown"
            )
        first_of.setdefault(found.bus_id.partition(":")[0], found.bus_id.endswith(":00:00.0"))
        if found.code == 0x0600 or "Root Port" in match[5]:
            roots.add(found.bus)
        if found.bus_below is not None and _CPU_MAKER.search(match[5]) and not _NO_ROOT_PORT.search(match[5]):
            of_cpus.add(found.bus)
        known = functions.get(found.bus_id)
        functions[found.bus_id] = found if known is None else joined(known, found)
    below = hanging | {f.bus_below for f in functions.values() if f.bus_below is not None}
    return roots | (of_cpus - below) | _top_buses(functions, first_of, below)


def cut_line(lines: Sequence[str]) -> str | None:
    """Return the last of *lines* if it names a function, or draws one, and ends before it tells whether that is a GPU."""
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if _BEGUN.match(last):
        header = _HEADER.match(last)
        is_cut = header is None or _is_cut(header[5])
    elif match := _DRAWN.match(last):
        is_cut = _is_cut(match[1]) if match[1] else match[2] is not None
    else:
        return None
    return last if is_cut else None


def _is_cut(product: str) -> bool:
    """Whether *product* ends within the name of a maker of GPUs, or within brackets."""
    is_maker_cut = vendor(product) is None and any(maker.startswith(product) for maker in _GPU_MAKERS)
    return is_maker_cut or product.count("[") > product.count("]")


def _end_of_block(found: Function, body: str) -> int:
    """Return where in *body* what is told of *found* ends: a device whose first line is missing may go on there."""
    twice = [matches[1].start() for pattern in _ONCE if len(matches := [*islice(pattern.finditer(body), 2)]) > 1]
    bridge = _BUSES.search(body)
    if bridge and found.code not in (None, BRIDGE_CLASS):
        twice.append(bridge.start())
    if not twice:
        return len(body)
    blank = body.rfind("\n\n", 0, min(twice))
    return min(twice) if blank < 0 else blank


def _top_buses(functions: dict[str, Function], first_of: dict[str, bool], below: set[str | None]) -> set[str]:
    """Return the buses that are not *below* a bridge, of domains listed from their first function on and with bridges."""
    whole = {domain for domain, is_whole in first_of.items() if is_whole}
    with_bridges = {bus.partition(":")[0] for bus in below if bus}
    return {
        f.bus
        for f in functions.values()
        if f.bus not in below and (domain := f.bus_id.partition(":")[0]) in whole and domain in with_bridges
    }


def _cut_facts(found: Function, description: str, body: str) -> Iterator[str]:
    """Yield what is not known of the GPU *found* because lines are cut."""
    if found.name is None and description.count("[") > description.count("]"):
        yield f"the name of the GPU at {found.bus_id} is cut in lspci ({description[-40:].strip()!r}), so that it is unknown"
    if found.now == (None, None) and (match := re.search(r"LnkSta:[^\n]*", body)) is not None and (
        re.search(r"Width x\d", match[0]) is None or _is_at_edge(body, match.end())
    ):
        yield f"the line LnkSta of the GPU at {found.bus_id} is cut in lspci: at what its PCIe link runs now is unknown"


def _function(match: re.Match[str], body: str) -> Function | None:
    """Return the function that the line *match* names; a name that a terminal wrapped goes on in *body*."""
    bus_id = full_bus_id(match[1])
    if bus_id is None:
        return None
    bare_code, words, code_in_brackets, rest = match.groups()[1:]
    code: int | None = None
    if number := code_in_brackets or bare_code:
        code = int(number, 16)
    elif words in _CLASSES:
        code = _CLASSES[words]
    elif words.startswith("Class ") and re.fullmatch(r"[0-9a-f]{4}", words[6:]):
        code = int(words[6:], 16)
    is_virtual = "Virtual Function" in rest
    is_open = rest.count("[") > rest.count("]")
    whole = rest + more[0] if is_open and (more := _REST_OF_NAME.match(body)) else rest
    return Function(
        bus_id,
        code=None if is_virtual else code,
        vendor=vendor(rest),
        name=product(whole),
        is_lost="(rev ff)" in rest,
    )


def vendor(text: str) -> str | None:
    """Return the maker of the function that *text* describes, as `Function.vendor` calls it."""
    ids = {a or b for a, b in _IDS.findall(text)}
    if "NVIDIA" in text or "nVidia" in text or "10de" in ids:
        return "nvidia"
    if "[AMD/ATI]" in text or "ATI Technologies" in text or "1002" in ids:
        return "amd"
    is_virtual = "Red Hat" in text or "QEMU" in text or "VMware" in text or not ids.isdisjoint({"1b36", "15ad"})
    return "virtual" if is_virtual else None


def product(text: str) -> str | None:
    """Return the name of a product: what stands in the last brackets of *text* that are neither ids nor the maker."""
    text = _MAKER.sub("", text.partition(" (prog-if")[0])
    names = [name for name in _BRACKETS.findall(text) if not _IS_ID.fullmatch(name)]
    return names[-1].strip() if names else None


def _read_body(found: Function, body: str) -> None:
    if not body:
        return
    if (match := _LINK_CAN.search(body)) and not (body[match.end() : match.end() + 1] != "," and _is_at_edge(body, match.end())):
        found.can = generation(match[1]), lanes(match[2].replace("\n", ""))
    if (match := _LINK_NOW.search(body)) and not (
        body[match.end() : match.end() + 1] in ("", "\n") and not _GOES_ON.match(body, match.end()) and _ends_at_edge(found, body, match)
    ):
        found.now = generation(match[1]), lanes(match[2].replace("\n", ""))
    if match := _PORT.search(body):
        found.port = _KINDS[match[1].split()[0]]
    if match := _BUSES.search(body):
        found.bus_below = f"{found.bus_id.partition(':')[0]}:{match[1]}"
    if match := _ACS.search(body):
        found.acs_redirect = match[1] == "+" or match[2] == "+"
    if match := _NUMA.search(body):
        found.numa = match[1]
    if match := _DRIVER.search(body):
        found.driver = match[1]
    found.is_denied = found.can == (None, None) and "<access denied>" in body
    found.is_lost = found.is_lost or "Unknown header type 7f" in body


def _ends_at_edge(found: Function, body: str, link: re.Match[str]) -> bool:
    """Whether *link* stands at the end of a line that a window cut: its longer neighbour lacks its end, or all long lines end there."""
    if found.can == (None, None) and "LnkCap:" in body:
        return True
    return _is_at_edge(body, link.end())


def _is_at_edge(body: str, end: int) -> bool:
    """Whether the line of *body* up to *end* ends where all long lines end."""
    lengths = [len(line.rstrip().expandtabs()) for line in body[:10_000].split("\n")]
    width = len(body[body.rfind("\n", 0, end) + 1 : end].rstrip().expandtabs())
    return width == max(lengths) and lengths.count(width) > 1


def joined(a: Function, b: Function) -> Function:
    """Return one function of two that a text states: each fact from the first that has it."""
    return Function(
        a.bus_id,
        code=a.code if a.code is not None else b.code,
        vendor=a.vendor or b.vendor,
        name=a.name or b.name,
        numa=a.numa or b.numa,
        can=a.can if a.can != (None, None) else b.can,
        now=a.now if a.now != (None, None) else b.now,
        port=a.port or b.port,
        bus_below=a.bus_below or b.bus_below,
        acs_redirect=a.acs_redirect if a.acs_redirect is not None else b.acs_redirect,
        above=a.above or b.above,
        root=a.root or b.root,
        is_placed=a.is_placed or b.is_placed,
        is_denied=(a.is_denied or b.is_denied) and (None, None) == a.can == b.can,
        is_lost=a.is_lost or b.is_lost,
        driver=a.driver or b.driver,
    )
