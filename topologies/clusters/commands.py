"""
How prompts and commands that run another one elsewhere are written, as far as they name a host.

When to modify: a shell, a launcher or a client of Kubernetes writes the name of the host in another way.
"""

from __future__ import annotations

from topologies.clusters.marks import NAME

SSH = r"(?:gcloud compute |tsh )?ssh(?: -[46AaCfGgKkMNnqsTtVvXxYy]{1,9}| -[BbcDEeFIiJLlmOopQRSWw] ?\S{1,80}){0,9}"

_KUBECTL = r"(?:kubectl|oc|k)"
_SETTING = (
    r"(?: -[itq]{1,3}| --(?:stdin|tty|quiet)(?:=\w{1,5})?| -[nc][ =]?\S{1,80}"
    r"| --(?:namespace|context|cluster|kubeconfig|container|user|as|image|profile|pod-running-timeout)[ =]\S{1,200}){0,8}"
)
EXEC = rf"{_KUBECTL}{_SETTING} exec{_SETTING}"
"""Commands that run another one elsewhere, up to the name of where."""

_SRUN = r"srun(?: (?!-w|--nodelist)-\S{1,80}(?: [^-\s]\S{0,80})?){0,9} (?:-w ?|--nodelist[= ])"
ELSEWHERE = (
    rf"{_SRUN}(?P<task>{NAME})|{_KUBECTL}{_SETTING} debug{_SETTING} node/(?P<node>{NAME})|{EXEC} (?:pods?|po)/(?P<typed>{NAME})"
)
"""Others of them, which name the host in a word with more in it: ``srun -w node0``, ``kubectl debug node/node0``, ``pod/node0``."""

TRACE = r"\+{1,9} (?:[\w./-]{1,80}:(?:[0-9]{1,6}:)? ?)?"
"""What `set -x` writes before a command, with the script and line that people let it add."""

_BEFORE_PROMPT = r"(?:\([\w./+ -]{1,60}\) ?|\[[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?\] ?){0,3}"
"""What environments (conda, venv) and times put before a prompt."""

PROMPT = (
    rf"{_BEFORE_PROMPT}(?:\[?\w[\w.-]{{0,40}}@(?P<prompt>{NAME})"
    r"(?:(?::[^$#\n]{0,200}| [^$#\]\n]{0,200}\])?[$#]|[ :][~/][^\s$#%>]{0,200} ?[%>])"
    rf"|(?P<plain>{NAME}):[~/](?!/)[^\s$#]{{0,200}}(?: \w{{0,32}})?[$#])(?: .*)?"
)
"""A prompt and what is typed behind it: ``me@node0:~$``, ``[me@node0 ~]#``, ``me@node0 ~ %``, ``node0:~ me$``, ``node0:~ #``."""
