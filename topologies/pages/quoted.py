r"""
Outputs that stand in source code or data as strings, as they were printed: ``{"stdout": "…\n…"}``, lists of lines, blocks of YAML.

When to modify: outputs are kept as strings of another language, or a new output has a beginning that `_LITERAL` does not know.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from topologies import codes
from topologies.errors import TopologyError

_MOST_ESCAPES = 2**17
"""Most escapes of a source-code string; a matrix of 256 devices has less."""

_MOST_STRINGS = 2**17
"""Most strings that are looked at; `nvidia-smi -q` of 16 GPUs has a tenth of these lines."""

_MOST_BLOCKS = 2**13
"""Most blocks of YAML that are looked at; a playbook on a thousand hosts has fewer."""

DECODED = "the text is a source-code string: its escapes (\\t, \\n …) were decoded"
UNQUOTED = "the lines stood in a list as strings: its marks and their quotes were taken off"

_LITERAL = re.compile(
    rf"\\[tn](?:\\(?:u001b|x1b|033|e)\[[0-9;]*m| ){{0,200}}(?:{codes.DEVICE})"
    r"|\\n(?:\\t| ){0,200}(?:"
    r"GPU [0-9]+: |Link [0-9]+[:,] |gpuId [0-9]+:|[0-9.]{1,15}(?: MiB)?, |GPU ?\[[0-9]+\]|GPU: [0-9]+"
    r"|(?:Attached GPUs|Product Name|GPU UUID) {1,64}:|(?:LnkCap|LnkSta|NUMA node|Bus):|\+-(?:\[|[0-9a-f]{2}\.)"
    r"|<(?:nvidia_smi_log|gpu|system|cpu|pci|nic)\b)"
    r"|\\n(?:NVIDIA|Tesla|GPU-|Enabled|Disabled|[0-9A-F]{8}:|\|[ =-]|GPU [0-9A-F]{8}:|-\[[0-9A-F]{4}:"
    r"|(?:[0-9A-F]{4,8}:)?[0-9A-F]{2}:[0-9A-F]{2}\.[0-7])",
    re.IGNORECASE,
)
_LITERAL_LABEL = re.compile(rf"(?:{codes.DEVICE})\Z", re.IGNORECASE)
_LITERAL_END = re.compile(r"\\n['\"][,)]?[ \t]*$", re.IGNORECASE | re.MULTILINE)
_LITERAL_LINE = re.compile(
    r"[ \t]*[bfr]?['\"](?=[^\n]{0,400}(?:GPU|NVIDIA|gpuId|Link [0-9]))[^\n]{1,400}\Z", re.IGNORECASE
)
_LONGEST_LABEL = 40
_LONGEST_LITERAL = 500
_LITERAL_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3})|([tnre\"'\\/]))")
_LITERAL_LETTERS = {"t": "\t", "n": "\n", "r": "", "e": "\x1b"}

_QUOTE = re.compile(r"^[ \t]*[\"'](?=[ \t]*\S)|[\"'],?[ \t]*$", re.MULTILINE)
"""What stands round a line that was a string of its own."""

_ONE = r"(?<![\w\\])[bBfFuU]?(?:\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\"|'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+')"
_STRING = re.compile(_ONE)
_RUN = re.compile(
    rf"(?P<open>\[\s*+)?(?P<run>{_ONE}(?![ \t]{{0,8}}:)(?:\s*+,\s*+{_ONE}(?![ \t]{{0,8}}:))*+)(?P<close>(?=\s*+(?:,\s*+)?\]))?|{_ONE}"
)
"""Strings with nothing but commas between them, none of which is a key, and whether they are a whole list; or one that is a key."""

_LOGGED = re.compile(
    r"^[ \t]*\{(?:[^\n]{0,400}?[,{ ])?\"(?:log|message|msg|MESSAGE|line|text)\":[ ]?"
    r"(?P<said>\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*+\")[^\n]*\}[ \t]*$",
    re.MULTILINE,
)
"""A line of a log as JSON: of Docker, journalctl, a logger."""

_TELLING = re.compile(
    r"GPU|NVIDIA|Tesla|GeForce|Quadro|Radeon|Instinct|[0-9] MiB|Link [0-9]|NVLink|XGMI|<system\b"
    r"|\b[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b",
    re.IGNORECASE,
)
"""What an output about GPUs has, and most other strings have not."""

_SEQUENCE = re.compile(
    r"^(?P<indent>[ ]{0,64})- [^\n]*+(?:\n(?P=indent)(?:-(?: [^\n]*+|(?=\n|\Z))|[ ]{2}(?![ -])[^\n]*+))*+", re.MULTILINE
)
"""Entries of a list of YAML, one a line, with further lines of long ones."""

_ENTRY = re.compile(r"^[ ]*-(?: |$)", re.MULTILINE)
_OF_KEY = re.compile(r"(?:\A|\n)[ ]*[\"']?[\w.-]{0,64}(?:lines|stdout|output|log)[\"']?:[ ]*\n\Z")
_SHORTEST_WRAPPED = 60
"""Shortest line that a writer of YAML breaks; others end where the output ends them."""

_WRAPPED = re.compile(r"(?<=[:-] )\"[^\"\\\n]*+(?:\\[^\n][^\"\\\n]*+)*+\\\n[^\"\\\n]*+(?:\\(?:.|\n)[^\"\\\n]*+)*+\"")
_WRAP = re.compile(r"\\\n[ \t]*(?:\\(?= ))?")
"""A string of YAML of several lines, and what stands between two."""

_BLOCK = re.compile(
    r"^(?P<outer>[ ]{0,64})(?:- )?[\"']?[\w.][\w. -]{0,64}[\"']?:[ ]{1,8}\|(?P<number>[1-9]?)[-+]?(?P<after>[1-9]?)[ \t]*\n", re.MULTILINE
)
"""What stands before a block of YAML."""


def unquoted(text: str, *, name: str) -> tuple[str, list[str]]:
    """
    Return *text* with the outputs that stand in it as strings as they were printed, and what was undone as warnings.

    Raises
    ------
    TopologyError
        If a string is longer than any output.
    """
    if text.count("\\") > _MOST_ESCAPES:
        if "\\tGPU0" in text or "GPU0\\t" in text:
            message = "the source-code string is too long: cut it down to the outputs of one machine"
            raise TopologyError(message, where=name)
        return text, []
    text, warnings = out_of_strings(text)
    if "\\" in text and _is_literal(text):
        text = _QUOTE.sub("", _decode(text))
        warnings.append(DECODED)
    return text, list(dict.fromkeys(warnings))


def out_of_strings(text: str) -> tuple[str, list[str]]:
    """Return *text* with the strings and lists of JSON, Python and YAML that are outputs as lines, and what was undone as warnings."""
    text = _without_indent(text)
    if "\\\n" in text:
        text = _WRAPPED.sub(lambda match: _WRAP.sub("", match[0]), text)
    warnings = []
    for undo in (_logged, _strings, _sequences):
        text, found = undo(text)
        warnings += found
    return text, warnings


def _decode(string: str) -> str:
    return _LITERAL_ESCAPE.sub(_decode_escape, string) if "\\" in string else string


def _decode_escape(match: re.Match[str]) -> str:
    unicode, byte, octal, letter = match.groups()
    if letter:
        return _LITERAL_LETTERS.get(letter, letter)
    character = chr(int(unicode or byte, 16) if unicode or byte else int(octal, 8) & 0xFF)
    return character if character in "\t\n\x1b" or character.isprintable() else " "


def _is_literal(text: str) -> bool:
    """Whether *text* is a source-code string: an escape stands beside a label, or at the end of a quoted line that shows an output."""
    position = -1
    while (position := text.find("\\", position + 1)) >= 0:
        letter = text[position + 1 : position + 2]
        if letter not in ("t", "n", "T", "N"):
            continue
        if _LITERAL.match(text, position):
            return True
        if letter in "tT":
            if _LITERAL_LABEL.search(text, max(0, position - _LONGEST_LABEL), position):
                return True
        elif _LITERAL_END.match(text, position):
            start = text.rfind("\n", max(0, position - _LONGEST_LITERAL), position) + 1
            if (start or position < _LONGEST_LITERAL) and _LITERAL_LINE.match(text, start, position):
                return True
    return False


def _logged(text: str) -> tuple[str, list[str]]:
    """Return *text* with the lines of a log that has an object of JSON for each."""
    if "{" not in text or text.count("{") > _MOST_STRINGS:
        return text, []
    found = [match["said"] for match in _LOGGED.finditer(text)]
    if len(found) < 2 or not any(map(_TELLING.search, found)):
        return text, []
    return _LOGGED.sub(lambda match: _decode(match["said"][1:-1]).rstrip("\n"), text), [DECODED]


def _strings(text: str) -> tuple[str, list[str]]:
    """Return *text* with lists of lines, and strings of several lines, of JSON or Python on lines of their own."""
    if '"' not in text and "'" not in text:
        return text, []
    parts: list[str] = []
    warnings: list[str] = []
    position, last = 0, ("", 0)
    for number, match in enumerate(_RUN.finditer(text)):
        run = match["run"]
        if number == _MOST_STRINGS:
            break
        is_whole = match["open"] is not None and match["close"] is not None
        if run is None or not (is_whole or "\n" in run or "\\n" in run[:-3]) or run.count(",") > _MOST_STRINGS:
            continue
        strings = [*_STRING.finditer(text, match.start("run"), match.end())]
        if _is_list(text, match, strings):
            lines = [_decode(_inner(string[0])).rstrip("\n") for string in strings]
            said = _bare("\n".join(lines))
            # Some say everything twice, as a string and as a list.
            again = said == last[0] and "}" not in text[last[1] : strings[0].start()]
            if not again and not any(map(_TELLING.search, lines)):
                continue
            gaps = [text[a.end() : b.start()].count("\n") or 1 for a, b in zip(strings, strings[1:], strict=False)]
            before = text[position : strings[0].start()].rstrip(" \t")
            parts += (before, "" if before.endswith("\n") else "\n")
            parts += (part for line, gap in zip(lines, (*gaps, 0), strict=True) for part in ("" if again else line, "\n" * gap))
            # What ends a list ends no line of an output.
            parts.append("" if text.startswith("\n", match.end()) else "\n")
            warnings.append(DECODED if "\\" in run else UNQUOTED)
            position, last = match.end(), (said, match.end())
            continue
        for string in strings:
            if "\\n" not in string[0][:-3] or not _TELLING.search(string[0]) or "\n" not in _bare(said := _decode(_inner(string[0]))):
                continue
            parts += (text[position : string.start()], "\n", said.rstrip("\n"), "\n\n")
            warnings.append(DECODED)
            position, last = string.end(), (_bare(said), string.end())
    if not parts:
        return text, []
    rest = text[position:]
    return "".join((*parts, rest, "" if rest.endswith("\n") else "\n")), warnings


def _is_list(text: str, run: re.Match[str], strings: Sequence[re.Match[str]]) -> bool:
    """Whether the *strings* of *run* are a list of lines: a whole one, or cut out of one with a line each; no row of a table of cells."""
    if run["open"] is not None and run["close"] is not None:
        is_row = (outer := _before(text, run.start())) >= 0 and text[outer] in "[,"
        return not is_row or any(len(_inner(string[0]).split()) > 2 for string in strings)
    return len(strings) > 1 and all("\n" in text[a.end() : b.start()] for a, b in zip(strings, strings[1:], strict=False))


def _before(text: str, position: int) -> int:
    """Return where the last character before *position* stands that is no blank, or -1."""
    position -= 1
    while position >= 0 and text[position].isspace():
        position -= 1
    return position


def _inner(string: str) -> str:
    return string.lstrip("bBfFuU")[1:-1]


def _bare(text: str) -> str:
    return "\n".join(map(str.rstrip, text.strip().split("\n")))


def _sequences(text: str) -> tuple[str, list[str]]:
    """Return *text* with the entries of those lists of YAML that are outputs as lines."""
    if "\n" not in text or "- " not in text:
        return text, []
    warnings: list[str] = []

    def lines(match: re.Match[str]) -> str:
        found = match[0]
        if found.count("\n") > _MOST_STRINGS:
            return found
        entries = [entry.removesuffix("\n") for entry in _ENTRY.split(found)[1:]]
        is_quoted = any(_entry(entry) != entry for entry in entries if "\n" not in entry)
        if len(entries) < 2 or not _TELLING.search(found):
            return found
        if not is_quoted and not _OF_KEY.search(text, max(0, match.start() - 200), match.start()):
            return found
        wrapped = [line for entry in entries for line in entry.split("\n")[:-1]]
        if any(len(line) + len(match["indent"]) < _SHORTEST_WRAPPED for line in wrapped):
            return found
        warnings.append(DECODED if "\\" in found else UNQUOTED)
        return "\n".join(_entry(re.sub(r"\n[ ]*", " ", entry)) for entry in entries)

    return _SEQUENCE.sub(lines, text), warnings


def _entry(entry: str) -> str:
    """Return what *entry* of a list of YAML is: what stands between its quotes, if it has some."""
    bare = entry.strip(" ")
    if len(bare) > 1 and bare[0] == bare[-1] == "'":
        return bare[1:-1].replace("''", "'")
    if len(bare) > 1 and bare[0] == bare[-1] == '"':
        return _decode(bare[1:-1])
    return entry


def _without_indent(text: str) -> str:
    """Return *text* with the blocks of YAML at the beginning of their lines."""
    if ": |" not in text:
        return text
    parts: list[str] = []
    position = 0
    while len(parts) < _MOST_BLOCKS and (match := _BLOCK.search(text, position)):
        parts.append(text[position : match.end()])
        position = match.end()
        number = match["number"] or match["after"]
        first = re.compile(r"(?:[ \t]*\n)*([ ]*)").match(text, position)
        width = len(match["outer"]) + int(number) if number else len(first[1]) if first else 0
        if width <= len(match["outer"]):
            continue
        block = re.compile(rf"(?:[ ]{{{width}}}[^\n]*+\n?|[ \t]*\n)*+").match(text, position)
        if block is not None:
            parts.append(re.sub(rf"^[ ]{{1,{width}}}", "", block[0], flags=re.MULTILINE))
            position = block.end()
    return "".join((*parts, text[position:]))
