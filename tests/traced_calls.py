"""System calls of a traced process that name files of a source, or change files."""

from __future__ import annotations

import re
from pathlib import Path

OPENING = re.compile(r'(?:open|openat|openat2|creat)\(.*?"(?P<path>[^"]*)".*')
WRITING = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")
CHANGING = (
    "unlink,unlinkat,rename,renameat,renameat2,mkdir,mkdirat,rmdir,link,linkat,symlink,symlinkat,"
    "truncate,ftruncate,chmod,fchmod,fchmodat,chown,fchown,fchownat,lchown,utimensat,futimesat,"
    "setxattr,fsetxattr,lsetxattr,fallocate,mknod,mknodat,flock"
)


def strace(trace: Path, *options: str) -> tuple[str, ...]:
    """The command before a traced command."""
    calls = f"trace=open,openat,openat2,creat,{CHANGING}"
    return ("strace", *options, "-f", "-qq", "-e", calls, "-o", str(trace))


def assert_only_read(trace: Path, source: Path) -> None:
    """Every call below the source opens a file, and only to read; some do."""
    names = {path.name for path in source.rglob("*")}
    below = [
        line
        for line in trace.read_text().splitlines()
        if str(source) in line
        or ((match := OPENING.search(line)) and match["path"].rsplit("/", 1)[-1] in names)
    ]
    assert any("00000000000000000000.log" in line for line in below)
    assert [line for line in below if WRITING.search(line)] == []
    opening = ("open(", "openat(", "openat2(")
    assert [line for line in below if not any(call in line for call in opening)] == []
