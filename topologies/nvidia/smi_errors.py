"""
What nvidia-smi, the driver, dcgmi, rocm-smi and container tools say instead of an answer, and what to do about it.

When to modify: another message of the driver or its tools is worth an explanation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from topologies.errors import TopologyError
from topologies.pages.text import Line, Page

_AGAIN = "then run `nvidia-smi topo -m` again"
_LOST = f"a GPU is lost (it does not answer): reset or reboot the host, {_AGAIN}"


@dataclass(frozen=True, slots=True)
class _Message:
    """
    A message and what to do about it.

    *speaker* says it, *is_told* tells that it is worth a warning beside an output that was read: messages in words that nothing else
    uses.
    """

    pattern: str
    remedy: str
    speaker: str = "nvidia-smi"
    is_told: bool = True


_MESSAGES = (
    _Message(
        r"Failed to run topology matrix",
        "nvidia-smi could not build the matrix; run `nvidia-smi topo -m` on the host itself, outside containers and virtual machines",
    ),
    _Message(
        r"-i command line argument must be used in conjunction with",
        "wrong flags: `nvidia-smi topo -m` shows all GPUs and takes no -i",
    ),
    _Message(
        r"because you do not have permission|you do not have permission to (?:access|communicate)",
        f"nvidia-smi was refused: run it as a user who may open /dev/nvidia* (group `video`, or `sudo`), {_AGAIN}",
    ),
    _Message(
        r"NVIDIA-SMI has failed because it couldn.{0,3}t communicate",
        f"the driver does not run on that host; load it (`modprobe nvidia`) or install it, {_AGAIN}",
    ),
    _Message(
        r"GPU access (?:is )?blocked by the operating system",
        f"the system keeps the GPU to itself (WSL, or another virtual machine): update the Windows driver and WSL, {_AGAIN}",
    ),
    _Message(r"NVIDIA-SMI has failed because", "the driver does not answer: check that it is loaded and that you may use it"),
    _Message(
        r"couldn.{0,3}t find (?:the )?(?:libnvidia-ml|nvml\.dll|NVML)[\w.-]*(?: library)?",
        "the library of the driver is not there: install the driver, or give the container the GPUs (`--gpus all`), " + _AGAIN,
    ),
    _Message(r"Unable to de(?:termine|tect) the device handle for (?:GPU|gpu)\s?[\w:.]+", _LOST),
    _Message(r"(?:GPU has )?fallen off the bus", _LOST, speaker="the driver"),
    _Message(r"(?<!\[)GPU is lost", _LOST),
    _Message(r"(?<!\[)GPU requires a? ?reset", f"a GPU must be reset (`nvidia-smi -r`) before it works again, {_AGAIN}"),
    _Message(
        r"NVRM: Xid \(PCI:[0-9A-Fa-f:.]{4,20}\): ?(?:48|74|79|92|94|95|119|120)\b",
        f"the driver reports a fault of a GPU: find what the Xid means, reset or replace the GPU, {_AGAIN}",
        speaker="the driver",
    ),
    _Message(
        r"NVRM: Xid \(", "a log of the driver, which names no links: give the output of `nvidia-smi topo -m`", "the driver", is_told=False
    ),
    _Message(
        r"infoROM is corrupted at gpu\s?[\w:.]{0,20}",
        "what that GPU stores of itself is damaged; it may work, but have it checked, and let nothing depend on it until then",
    ),
    _Message(
        r"No devices (?:were )?found|No supported (?:GPUs?|devices?) (?:were )?found|no NVIDIA GPU device is present",
        "the driver finds no GPU: check `lspci`, and which devices the container was given",
    ),
    _Message(
        r"Failed to initialize NVML: Driver/library version mismatch",
        f"driver and library have different versions: reload the driver or reboot, {_AGAIN}",
    ),
    _Message(
        r"Failed to initialize NVML: Insufficient Permissions",
        f"nvidia-smi was refused: run it as a user who may open /dev/nvidia* (group `video`, or `sudo`), {_AGAIN}",
    ),
    _Message(
        r"Failed to initialize NVML: Unknown Error",
        f"the container lost its GPUs (often after `systemctl daemon-reload` on the host): restart the container, {_AGAIN}",
    ),
    _Message(
        r"Failed to (?:initialize|properly shut ?down) NVML",
        "the driver does not answer: check that it is loaded and that you may use it",
    ),
    _Message(
        r"could not select device driver .{0,8} with capabilities|nvidia-container-cli: |unknown or invalid runtime name: nvidia",
        f"the container got no GPU: install the NVIDIA Container Toolkit and start it with `--gpus all`, {_AGAIN}",
        speaker="the container runtime",
    ),
    _Message(
        r"nvidia-smi['\"]?: (?:executable file |command |No such file )?(?:not found|or directory)|command not found: nvidia-smi"
        r"|['\"]?nvidia-smi['\"]? is not recognized",
        "nvidia-smi is not installed on that host, or the container was started without GPUs (`--gpus all`)",
        speaker="the shell", is_told=False,
    ),
    _Message(
        r"is not a valid field to query",
        "this driver does not know a field of the query: leave that out (`nvidia-smi --help-query-gpu` lists the fields)",
    ),
    _Message(
        r"Unable to retrieve NVLink information",
        "the GPUs have no NVLink, or all links are inactive; `nvidia-smi topo -m` tells how they are joined", is_told=False,
    ),
    _Message(
        r"unable to establish a connection to the specified host|unable to connect to (?:the )?host ?engine|Host engine connection invalid",
        "the host engine does not run: start `nv-hostengine` (or the service nvidia-dcgm) and run dcgmi again",
        speaker="dcgmi",
    ),
    _Message(
        r"(?:not supported|NvLink[^\n]{0,40} is not supported)[^\n]{0,40}dcgm|DCGM_ST_NOT_SUPPORTED",
        "dcgmi cannot tell this of these GPUs; give the output of `nvidia-smi topo -m`", speaker="dcgmi", is_told=False,
    ),
    _Message(
        r"Driver not initialized \(amdgpu not found|amdgpu(?: driver)? (?:is )?not (?:found|loaded|initialized)|Unable to open /dev/kfd",
        "the driver amdgpu does not run on that host; load it (`modprobe amdgpu`), then run `rocm-smi --showtopo` again",
        speaker="rocm-smi",
    ),
    _Message(
        r"No AMD GPUs? (?:specified|found|detected)|No GPUs? (?:available|detected) .{0,20}amdgpu|rsmi_init\(\) failed",
        "rocm-smi finds no GPU: check `lspci`, and which devices the container was given (/dev/kfd, /dev/dri)",
        speaker="rocm-smi",
    ),
    _Message(
        r"(?:rocm-smi|amd-smi|dcgmi)['\"]?: (?:executable file |command )?not found|command not found: (?:rocm-smi|amd-smi|dcgmi)",
        "the tool is not installed on that host", speaker="the shell", is_told=False,
    ),
    _Message(
        r"ssh: connect to host|Could not resolve host|Host key verification failed|Permission denied \((?:publickey|password|keyboard)"
        r"|(?:Connection|kex_exchange_identification: .{0,40}) (?:closed|reset) by|No route to host|ssh: .{0,200}(?:refused|timed out)"
        r"|\bUNREACHABLE\b|Failed to connect to the host via ssh|mcmd: connect failed|Timeout(?:, server [\w.-]+)? not responding",
        "the host was not reached, so that nothing ran there: check its name, that it is up, and your key, then collect again",
        speaker="the launcher", is_told=False,
    ),
    _Message(
        r"exited with exit code [1-9]|\bnon-zero return code\b|\bFAILED(?:!| \| rc=| => )|\[FAILURE\]|command exited on signal"
        r"|(?:error|task)[^\n]{0,200}: (?:Exited with exit code|Killed|Terminated|Segmentation fault|Aborted)"
        r"|\| rc=[1-9-]|(?:NODE|CANCELLED|DUE TO)[^\n]{0,80} (?:FAILURE|TIME LIMIT)|Unable to create step for job|launch failed",
        "the command failed there: run it on that host and see what it says (127: it is not installed there)",
        speaker="the launcher", is_told=False,
    ),
    _Message(
        r"(?<![\w.])pid, ?(?:process_)?name|(?<![\w.])gpu_uuid, ?pid(?![\w.])|(?<![\w.])pid, ?(?:gpu_uuid|used_gpu_memory)",
        "it lists no process, and names GPUs only where they run processes; give the output of `nvidia-smi --query-gpu=…` or `-L`",
        is_told=False,
    ),
    _Message(
        r"affinity with CPU ?#?[0-9]", "it names no GPU near that CPU; give the output of `nvidia-smi topo -m`", is_told=False,
    ),
    _Message(
        r"Insufficient Permissions", "nvidia-smi was refused: run it with the rights to see all GPUs", is_told=False
    ),
    _Message(
        r"Unable to (?:retrieve|get|query|determine)|Invalid combination of input arguments|Option .{0,60} is not recognized|ERROR: ",
        "nvidia-smi was called wrongly, or cannot tell this: run `nvidia-smi topo -m`", is_told=False,
    ),
)  # fmt: skip
_LONGEST = 200
_MOST_WARNINGS = 8
_COMPILED = tuple((re.compile(message.pattern, re.IGNORECASE), message) for message in _MESSAGES)
_ANY = re.compile("|".join(f"(?:{message.pattern})" for message in _MESSAGES), re.IGNORECASE)
_WORDS = ("fail", "lost", "fallen", "permission", "unable", "no ", "not ", "couldn", "blocked", "reset", "xid", "invalid", "error", "must ",
          "pid,", "affinity with", "exit", "unreachable", "refused", "timed out", "timeout", "denied", "closed", "rc=", "ssh", "launch",
          "resolve", "verification", "killed", "aborted", "terminated", "segmentation", "time limit",
          "corrupt")  # fmt: skip
"""Every message has one of these: a cheap test before the patterns."""


def find_message(page: Page) -> TopologyError | None:
    """
    Return the message on *page* that says most as an error, with its words and what to do; None if there is none.

    The first one counts, but one that could mean anything only where there is no other, and what a launcher says last: it only knows
    that a command failed.
    """
    found = sorted(_messages(page), key=lambda entry: (not entry[1].is_told, entry[1].speaker == "the launcher"))
    if not found:
        return None
    line, message, said = found[0]
    return TopologyError(f"{message.speaker} says {said!r}: {message.remedy}", where=page.where(line.number))


def warnings(page: Page) -> tuple[str, ...]:
    """Return what messages beside an output that was read are worth saying: that a GPU is lost, that a command failed."""
    told = (f"{message.speaker} says {said!r}: {message.remedy}" for _, message, said in _messages(page) if message.is_told)
    return tuple(dict.fromkeys(told))[:_MOST_WARNINGS]


def _messages(page: Page) -> Iterator[tuple[Line, _Message, str]]:
    """Yield the lines of *page* that are messages, with their words."""
    text = page.text.lower()
    words = [word for word in _WORDS if word in text]
    for line in page.lines if words else ():
        lower = line.text.lower()
        if not any(word in lower for word in words) or _ANY.search(line.text) is None:
            continue
        for pattern, message in _COMPILED:
            if match := pattern.search(line.text):
                yield line, message, line.text[match.start() if len(line.text) > _LONGEST else 0 :][:_LONGEST].strip()
                break
