"""
The command line. Each command is a module of its own and imports what it needs when it runs.

When to modify: a command is added (one line here, one module beside).
"""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import NoReturn

EXIT_NO = 1
EXIT_INPUT = 2
EXIT_TIME = 3
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE = 141


def main() -> NoReturn:
    """Run the command line; end with one of the documented exit codes, without a traceback for what a user can cause."""
    from placement.cli.interrupts import Interrupts

    # A command makes many objects and few cycles of them: looking for cycles at every 700th costs a twentieth of its time.
    gc.set_threshold(50_000)
    interrupts = Interrupts()
    interrupts.listen()
    try:
        code = run()
    except KeyboardInterrupt:
        code = _say("interrupted", EXIT_INTERRUPTED)
    except Exception:
        # Stopped in the middle of an import, ortools raises an error of its own.
        if not interrupts.count:
            raise
        code = _say("interrupted", EXIT_INTERRUPTED)
    interrupts.ignore()
    sys.exit(code)


def run() -> int:
    """Run the command line and return its exit code."""
    # Looking for plugins reads the metadata of every installed distribution, and would run code that is not ours.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from placement.cli.app import app
    from placement.errors import PlacementError, SolverBug
    from placement.text.output import ReaderGone
    from topologies.errors import TopologyError

    try:
        code = app(standalone_mode=False)
    except ReaderGone:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE
    except SolverBug as error:
        return _say(f"internal error: {error}", EXIT_BUG)
    except (PlacementError, TopologyError) as error:
        return _say(f"error: {error}", EXIT_INPUT)
    except OSError as error:
        # Help is printed by typer, which does not mind a full disk.
        return _say(f"error: cannot write: {error.strerror or error}", EXIT_INPUT)
    except Exception as error:
        return _usage(error)
    if code == EXIT_INTERRUPTED:
        return _say("interrupted", code)
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> int:
    """Report what click says about the command line; anything else is our bug and stays loud."""
    show = getattr(error, "show", None)
    exit_code = getattr(error, "exit_code", None)
    if show is None or exit_code is None:
        raise error
    from placement.cli.usage import remedy

    text = io.StringIO()
    show(file=text)
    said = text.getvalue().rstrip()
    way_on = remedy(error, said)
    return _say(f"{said}\nInstead: {way_on}" if way_on else said, int(exit_code))


def _say(text: str, code: int) -> int:
    from placement.cli.say import note

    note(text)
    return code
