"""Messages that stand in place of an output say what they mean; beside an output they are a warning."""

from __future__ import annotations

import pytest

from topologies.errors import TopologyError
from topologies.read import read_text

MATRIX = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n"

MESSAGES = {
    "Failed to run topology matrix": ("nvidia-smi says", "could not build the matrix"),
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.": ("nvidia-smi says", "modprobe nvidia"),
    "NVIDIA-SMI has failed because you do not have permission to communicate with the driver": ("nvidia-smi says", "/dev/nvidia*"),
    "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.": ("nvidia-smi says", "install the driver"),
    "Failed to initialize NVML: GPU access blocked by the operating system": ("nvidia-smi says", "WSL"),
    "Failed to initialize NVML: Driver/library version mismatch": ("nvidia-smi says", "different versions"),
    "Failed to initialize NVML: Unknown Error": ("nvidia-smi says", "restart the container"),
    "Failed to initialize NVML: Insufficient Permissions": ("nvidia-smi says", "/dev/nvidia*"),
    "Failed to initialize NVML: Driver Not Loaded": ("nvidia-smi says", "check that it is loaded"),
    "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU":
        ("0000:3B:00.0", "a GPU is lost"),
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.": ("the driver says", "a GPU is lost"),
    "NVRM: Xid (PCI:0000:3b:00): 74, pid=1, NVLink: fatal error": ("the driver says", "a fault of a GPU"),
    "No devices were found": ("nvidia-smi says", "finds no GPU"),
    "No devices found.": ("nvidia-smi says", "finds no GPU"),
    'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].':
        ("the container runtime says", "Container Toolkit"),
    "Error: unable to establish a connection to the specified host: localhost": ("dcgmi says", "nv-hostengine"),
    "ERROR:root:Driver not initialized (amdgpu not found in modules)": ("rocm-smi says", "modprobe amdgpu"),
    'Field "memory.totl" is not a valid field to query.': ("nvidia-smi says", "--help-query-gpu"),
}  # fmt: skip
"""Messages that also count beside an output, and what is said of each."""

ONLY_ALONE = {
    "bash: nvidia-smi: command not found": ("the shell says", "not installed"),
    "'nvidia-smi' is not recognized as an internal or external command,": ("the shell says", "not installed"),
    'exec: "nvidia-smi": executable file not found in $PATH: unknown.': ("the shell says", "--gpus all"),
    "Insufficient Permissions": ("nvidia-smi says", "rights"),
    "NVML: Unable to retrieve NVLink information as all links are inActive": ("nvidia-smi says", "all links are inactive"),
    "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.": ("nvidia-smi says", "called wrongly"),
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, MMU Fault": ("the driver says", "names no links"),
    "ssh: connect to host node2 port 22: Connection refused": ("the launcher says", "port 22", "was not reached"),
    "ssh: Could not resolve hostname node2: Name or service not known": ("the launcher says", "was not reached"),
    "me@node2: Permission denied (publickey).": ("the launcher says", "was not reached", "your key"),
    'node2 | UNREACHABLE! => { "changed": false }': ("the launcher says", "was not reached"),
    "srun: error: node2: task 2: Exited with exit code 127": ("the launcher says", "127", "failed there"),
    "task 2: Exited with exit code 127": ("the launcher says", "failed there"),
    "ssh exited with exit code 1": ("the launcher says", "failed there"),
}
"""Messages in words that other lines have too."""


@pytest.mark.parametrize(("text", "words"), (MESSAGES | ONLY_ALONE).items(), ids=(MESSAGES | ONLY_ALONE).keys())
@pytest.mark.parametrize("put", ["{}", "$ nvidia-smi topo -m\n{}\n", "gpu-1  | {}\n", "Some words before it.\n\n> {}\n"])
def test_a_message_alone_is_refused_with_its_meaning(text: str, words: tuple[str, ...], put: str) -> None:
    with pytest.raises(TopologyError) as caught:
        read_text(put.format(text))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(("text", "words"), MESSAGES.items(), ids=MESSAGES.keys())
def test_a_message_beside_an_output_is_a_warning(text: str, words: tuple[str, ...]) -> None:
    topology = read_text(f"{text}\n{MATRIX}")
    assert dict(topology.links) == {(0, 1): "NV4"}
    assert len(topology.warnings) == 1
    for word in words:
        assert word in topology.warnings[0]


@pytest.mark.parametrize("text", ONLY_ALONE)
def test_words_that_may_mean_anything_are_no_warning_beside_an_output(text: str) -> None:
    assert read_text(f"{text}\n{MATRIX}").warnings == ()


def test_a_message_that_says_more_counts() -> None:
    """Not the first line that begins with "error"."""
    with pytest.raises(TopologyError, match=r"text:2: .*different versions"):
        read_text("ERROR: job failed\nFailed to initialize NVML: Driver/library version mismatch\n", name="text")


@pytest.mark.parametrize(
    ("name", "above", "kind"),
    [
        ("a.txt", "$ nvidia-smi topo -p2p r\n", "r"),
        ("a-p2p-n.txt", "$ nvidia-smi topo -p2p w\n", "w"),
        ("204-p2p-n-fabric.txt", "", "n"),
        ("logs/p2p_a.log", "", "a"),
        ("p2p-w/a.txt", "", "unknown"),
        ("p2p-matrix.txt", "", "unknown"),
        ("a.txt", "", "unknown"),
    ],
)
def test_the_kind_of_a_peer_matrix_is_told_by_the_command_else_by_the_name(name: str, above: str, kind: str) -> None:
    text = f"{above}\tGPU0\tGPU1\nGPU0\tX\tOK\nGPU1\tOK\tX\n"
    assert read_text(text, name=name).p2p_kind == kind
