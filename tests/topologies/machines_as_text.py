"""
Random machines as `nvidia-smi topo -m` prints them, and what happens to such texts on their way into a file.

A `Machine` knows the truth; a damage is a function from text to text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

CODES = ("NV1", "NV2", "NV4", "NV12", "NV18", "PIX", "PXB", "PHB", "NODE", "SYS")
LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
"""


@dataclass(frozen=True)
class Machine:
    """
    The truth about a machine.

    *codes* has a code for every pair of devices (GPUs first, then NICs), *values* the affinity cells of each GPU, as many as
    there are columns.
    """

    gpus: int
    nics: tuple[str, ...]
    codes: dict[tuple[int, int], str]
    values: tuple[tuple[str, ...], ...]
    legend: bool

    @property
    def devices(self) -> tuple[str, ...]:
        return (*(f"GPU{g}" for g in range(self.gpus)), *self.nics)

    @property
    def links(self) -> dict[tuple[int, int], str]:
        return {pair: code for pair, code in self.codes.items() if pair[1] < self.gpus}

    @property
    def gpu_nic(self) -> dict[int, dict[str, str]]:
        return {
            g: {nic: self.codes[g, self.gpus + k] for k, nic in enumerate(self.nics)} for g in range(self.gpus) if self.nics
        }

    def text(self) -> str:
        """Return what the driver prints."""
        titles = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")[: len(self.values[0])]
        lines = ["\t" + "\t".join((*self.devices, *titles))]
        for i, device in enumerate(self.devices):
            cells = [" X " if i == j else self.codes[min(i, j), max(i, j)] for j in range(len(self.devices))]
            if i < self.gpus:
                values = list(self.values[i])
                cells += [*values[:2], "", *values[2:]] if len(values) == 3 else values
            lines.append("\t".join((device, *cells)))
        text = "\n".join(lines) + "\n" + (LEGEND if self.legend else "")
        if self.legend and self.nics and self.nics[0].startswith("NIC"):
            text += "\nNIC Legend:\n\n" + "".join(f"  {nic}: mlx5_{k}\n" for k, nic in enumerate(self.nics))
        return text


@st.composite
def machines(draw: st.DrawFn, *, blank_values: bool = True) -> Machine:
    gpus = draw(st.integers(1, 12))
    count = draw(st.sampled_from((0, 0, 1, 2, 5, 12)))
    pattern = draw(st.sampled_from(("NIC{}", "mlx5_{}", "mlx5_bond_{}")))
    nics = tuple(pattern.format(k) for k in range(count))
    menu = draw(st.lists(st.sampled_from(CODES), min_size=1, max_size=4, unique=True))
    size = gpus + count
    codes = {(i, j): draw(st.sampled_from(menu)) for i in range(size) for j in range(i + 1, size)}
    columns = draw(st.integers(0, 3))
    cpus = st.sampled_from(("0-31,64-95", "32-63,96-127", "0", "8-15", *([""] if blank_values else ())))
    numa = st.sampled_from(("0", "1", "0-1", "N/A", *([""] if blank_values else ())))
    ids = st.sampled_from(("N/A", "4"))
    values = tuple(tuple(draw(s) for s in (cpus, numa, ids)[:columns]) for _ in range(gpus))
    return Machine(gpus, nics, codes, values, draw(st.booleans()))


def expand(text: str) -> str:
    """Turn tabs into spaces, as terminals do."""
    return "\n".join(line.expandtabs(8) for line in text.split("\n"))


def collapse(text: str) -> str:
    """Leave one space between words."""
    return re.sub(r"[ \t]+", " ", re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE))


def prefix(word: str) -> Callable[[str], str]:
    """Put *word* before every line."""
    return lambda text: "".join(word + line + "\n" for line in text.rstrip("\n").split("\n"))


def count_lines(text: str) -> str:
    """Put a time that goes on before every line."""
    return "".join(f"[11:{n // 60:02}:{n % 60:02}] {line}\n" for n, line in enumerate(text.rstrip("\n").split("\n")))


def wrap(width: int) -> Callable[[str], str]:
    """Break lines as a terminal of *width* columns does, tabs expanded."""

    def damage(text: str) -> str:
        lines = []
        for line in expand(text).split("\n"):
            lines += [line[k : k + width] for k in range(0, max(1, len(line)), width)]
        return "\n".join(lines)

    return damage


def one_line(text: str) -> str:
    """Put everything on one line."""
    return " ".join(text.split())


def literal(text: str) -> str:
    """Quote *text* as a C string."""
    return 'const char *s = "' + text.replace("\t", "\\t").replace("\n", "\\n") + '";\n'


def literal_lines(text: str) -> str:
    """Quote *text* as one Python string a line."""
    return "".join("    '" + line.replace("\t", "\\t") + "\\n'\n" for line in text.split("\n"))


def markdown(text: str) -> str:
    """Make a Markdown table of the matrix."""
    rows = [line.split("\t") for line in text.split("\n") if "\t" in line]
    width = len(rows[0])
    lines = ["| " + " | ".join(cell.strip() for cell in (row + [""] * width)[: max(width, len(row))]) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * width)
    return "\n".join(lines) + "\n"


def underline(text: str) -> str:
    """Underline the header, as the driver does on a terminal."""
    header, _, rest = text.partition("\n")
    return "\t\x1b[4m" + header[1:] + "\x1b[0m\n" + rest


def strip_lines(text: str) -> str:
    """Take blanks off both ends of all lines."""
    return "\n".join(line.strip() for line in text.split("\n"))


def twice(text: str) -> str:
    """Paste it twice."""
    return "$ nvidia-smi topo -m\n" + text + "\n$ nvidia-smi topo -m\n" + text
