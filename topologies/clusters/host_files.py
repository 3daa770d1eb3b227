"""
Files about several hosts, read host by host: one file for each, several of one host, a folder, or a text in which many talk.

When to modify: files can say in another way which host they are about.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from topologies.clusters.by_host import by_host, stated_host
from topologies.clusters.marks import prefixes_of_outputs
from topologies.clusters.outputs import repeated, tells_of_gpus
from topologies.clusters.paths import host_of_path, stem_of
from topologies.clusters.short_form import no_file
from topologies.documents import document_read
from topologies.errors import NotRecognised, TopologyError
from topologies.files import read_source
from topologies.merging.merge import merge
from topologies.model import Topology
from topologies.pages.reading import listing
from topologies.pages.text import TAKEN_AS_ONE, decode
from topologies.read import read_text

MOST_FILES = 2**14

_NO_OUTPUTS = frozenset(
    {".md", ".rst", ".adoc", ".org", ".sh", ".bash", ".py", ".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".conf", ".html", ".svg"}
)
"""Ends of names of files that may lie beside outputs: one in which nothing about GPUs stands is skipped."""

_NO_OUTPUT_STEMS = frozenset({"readme", "license", "makefile", "notes"})


def read_hosts(
    sources: Sequence[str],
    *,
    leave_out: Sequence[str] = (),
    keep_going: bool = False,
    stdin: BinaryIO | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> tuple[dict[str, Topology], tuple[str, ...]]:
    """
    Return the machine of each host that *sources* are about, and warnings.

    Parameters
    ----------
    sources
        Files, folders, ``-``. A file is about the host that each of its lines begins with (``node0: …``), else about that of its
        stem (up to the first dot: ``node0.topo.txt`` and ``node0.gpus.csv`` are one), or about its folder where the stem only says
        what output it is (``node0/topo.txt``) or other folders have files of that name; files in folders of a folder are about those.
    leave_out
        Files that are something else.
    keep_going
        Leave hosts that cannot be read out, with a warning each.
    say
        Takes a sentence about each file of a folder that is skipped since nothing about GPUs stands in it, such as ``README.md``.

    Raises
    ------
    TopologyError
        If a source cannot be read; the message names file and host.
    """
    texts: dict[str, list[tuple[str, str]]] = {}
    machines: dict[str, Topology] = {}
    warnings: list[str] = []
    others = {os.path.realpath(path) for path in leave_out}

    failures: dict[str, TopologyError] = {}

    def fail(host: str, error: TopologyError) -> None:
        failures.setdefault(host, error)
        warnings.append(f"the host {host} was left out: {error}")

    failed: set[str] = set()
    alone: dict[str, tuple[str, str]] = {}
    for path, stem, is_found in _files(sources, others, say):
        host = stem
        try:
            if path != "-" and not os.path.lexists(path):
                raise _missing(path)
            text = decode(read_source(path, stdin), name=path)
            if document_read.looks_like(text):
                texts.setdefault(host, []).append((path, text))
                continue
            if is_found and _is_no_output(Path(path), text):
                say(f"{path} was skipped: it has no output about GPUs")
                continue
            said = by_host(text, is_collecting=True)
            if path == "-" and not said:
                host = stated_host(text) or host
            if len(said) == 1:
                _refuse_one_name(next(iter(said)), path, stem, alone)
            for name, part in (said or {host: text}).items():
                texts.setdefault(name, []).append((path if name == host or len(said) == 1 else f"{path}[{name}]", part))
        except TopologyError as error:
            failed.add(host)
            fail(host, error)
    read: dict[str, Topology] = {}
    for host, found in texts.items():
        if host in failed:
            continue
        try:
            parts = [_read_once(text, name, read) for name, text in found]
            machine = merge(parts, names=[name for name, _ in found])
            _refuse_several(machine, found)
            told = repeated(text for _, text in found if not document_read.looks_like(text))
            machines[host] = machine.replace(warnings=(*machine.warnings, *told))
        except TopologyError as error:
            fail(host, error)
    if failures and not keep_going:
        raise _failed(failures, is_alone=len({*failures, *texts}) == 1)
    return machines, tuple(warnings)


def _missing(path: str) -> TopologyError:
    """Return the refusal of *path*, which is neither a file nor a folder, with the name beside it that is most like it."""
    folder, name = os.path.split(path)
    try:
        close = difflib.get_close_matches(name, sorted(os.listdir(folder or os.curdir))[:MOST_FILES], n=1)
    except OSError:
        close = []
    hint = f"; did you mean {os.path.join(folder, close[0])!r}?" if close else ";"
    return TopologyError(
        f"there is no such file or folder{hint} FILE is a file for each host (node0.txt), a folder of them, the output of pdsh, srun -l, "
        "clush or ansible in a file, or - for standard input",
        where=path,
    )


def _failed(failures: Mapping[str, TopologyError], *, is_alone: bool) -> TopologyError:
    """Return what went wrong with the first host, and which others failed; *is_alone*: it is all that there is, and none would be left."""
    (host, error), *others = failures.items()
    about = "" if host in str(error) else f"host {host}: "
    also = f"; {listing([name for name, _ in others])} failed, too" if others else ""
    hint = "" if is_alone else " (--keep-going leaves out hosts that cannot be read)"
    return TopologyError(f"{about}{error}{also}{hint}")


def _read_once(text: str, name: str, read: dict[str, Topology]) -> Topology:
    """Return the machine that *text* describes, out of *read* if it is there: hosts of one kind print the same."""
    if (known := read.get(text)) is not None:
        return known
    machine = read_text(text, name=name)
    if not any(name in warning for warning in machine.warnings):
        read[text] = machine
    return machine


def _is_no_output(path: Path, text: str) -> bool:
    """Whether *path* is called like something that lies beside outputs, and is none."""
    if path.suffix.lower() not in _NO_OUTPUTS and path.name.lower() not in _NO_OUTPUT_STEMS:
        return False
    if not tells_of_gpus(text):
        return True
    try:
        read_text(text, name=str(path))
    except NotRecognised:
        return True
    except TopologyError:
        return False
    return False


def _refuse_several(machine: Topology, found: list[tuple[str, str]]) -> None:
    """Refuse a machine that may be several hosts: as one, half of the GPUs would be gone."""
    for path, text in found:
        if document_read.looks_like(text):
            continue
        said = ", ".join(map(repr, prefixes_of_outputs(text)[:3]))
        if not said:
            warning = next((warning for warning in machine.warnings if TAKEN_AS_ONE in warning), "")
            said = warning.partition("(")[2].partition("), and are taken")[0]
        if said:
            raise TopologyError(
                f"{TAKEN_AS_ONE} ({said}), which name no host: write its name before each line (node0: ), or give each host a file of "
                "its own",
                where=path,
            )


def _refuse_one_name(host: str, path: str, stem: str, alone: dict[str, tuple[str, str]]) -> None:
    """Refuse the files of two hosts whose lines begin with one name: as one host, the second would vanish in the first."""
    other, other_stem = alone.setdefault(host, (path, stem))
    if stem not in (other_stem, host) and other_stem != host:
        raise TopologyError(
            f"the lines of {other} and of {path} begin with the same name, {host!r}: join the two (cat {other} {path} > {host}.txt) "
            "if both are about that host, else take the name off"
        )


def _files(sources: Sequence[str], others: set[str], say: Callable[[str], None]) -> list[tuple[str, str, bool]]:
    """Return each file, the host that it is about unless its text says otherwise, and whether it was found in a folder."""
    found: list[tuple[str, str | None]] = []
    named: set[str] = set()
    for source in sources:
        if source == "-":
            found.append((source, "stdin"))
        elif os.path.isdir(source):
            found += _in_folder(source)
        else:
            if not os.path.lexists(source) and (told := no_file(source)) is not None:
                raise TopologyError(told)
            found.append((source, None))
            named.add(source)
        if len(found) > MOST_FILES:
            raise TopologyError(f"more than {MOST_FILES:,} files", where=source)
    kept = [(path, host) for path, host in found if path == "-" or os.path.realpath(path) not in others]
    if not kept:
        raise TopologyError("there is no file to collect", where=", ".join(sources)[:200] or None)
    folders: dict[str, set[Path]] = {}
    for path, host in kept:
        if host is None:
            folders.setdefault(stem_of(Path(path).name), set()).add(Path(path).absolute().parent)
    # A letter says what output a file is (q.txt, of -q) only where all files beside it say so, else it is a host among others.
    mixed = {folder for stem, of_stem in folders.items() if host_of_path(Path("folder", stem)) == stem for folder in of_stem}
    hosts = {path: host or _host(Path(path), folders, mixed) for path, host in kept}
    for sentence in _called_after_folders([(Path(path), hosts[path]) for path, host in kept if host is None and path != "-"]):
        say(sentence)
    return [(path, hosts[path], path not in named and path != "-") for path, _ in kept]


def _called_after_folders(found: Sequence[tuple[Path, str]]) -> Iterator[str]:
    """Yield which files give a host the name of their folder, where files beside them give theirs: few expect both in one folder."""
    own = {path.absolute().parent for path, host in found if stem_of(path.name) == host}
    for path, host in found:
        if stem_of(path.name) != host and path.absolute().parent in own:
            yield f"{path} is taken as the host {host}, after its folder: its own name says only what output it is; the others keep theirs"


def _host(path: Path, folders: dict[str, set[Path]], mixed: set[Path]) -> str:
    stem = stem_of(path.name)
    if len(stem) == 1 and len(folders[stem]) == 1 and path.absolute().parent in mixed:
        return stem
    return path.absolute().parent.name if len(folders[stem]) > 1 else host_of_path(path.absolute())


def _in_folder(folder: str) -> list[tuple[str, str | None]]:
    """Return the files of *folder*, and of the folders in it with the hosts that those are about."""
    found: list[tuple[str, str | None]] = []
    try:
        for entry in sorted(Path(folder).iterdir()):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                inner = [(str(path), entry.name) for path in sorted(entry.iterdir()) if not path.name.startswith(".")]
                deeper = next((path for path, _ in inner if os.path.isdir(path)), None)
                if deeper is not None:
                    raise TopologyError("a folder of a host holds files only; name the folders above it instead", where=deeper)
                found += inner
            else:
                found.append((str(entry), None))
    except OSError as error:
        raise TopologyError(f"cannot be read: {error.strerror}", where=folder) from None
    return found
