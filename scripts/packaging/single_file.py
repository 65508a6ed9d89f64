"""One executable file: a shell script with the program's folder behind it.

The first start unpacks the folder below ~/.cache/kafkafs (or, where that cannot be written, below /var/tmp or /tmp, in a
folder of the user's own); later starts run from there, as fast as an installed program. A self-extracting file that unpacks for each run
would take a second each time, and would remove its folder while a mount's daemon still runs from it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

from build_backend import version

SCRIPT = """#!/bin/sh
# kafkafs, with its own Python, in one file. The first start unpacks it to a folder of yours.
# KAFKAFS_UNPACKED names another folder for that.
id={id}
mine() {{ [ -d "$1" ] && [ ! -h "$1" ] && [ -O "$1" ]; }}
for above in "${{KAFKAFS_UNPACKED:-}}" "${{XDG_CACHE_HOME:-${{HOME:+$HOME/.cache}}}}" /var/tmp /tmp; do
    [ -n "$above" ] || continue
    case $above in /var/tmp|/tmp) folder=$above/kafkafs-$(id -u) ;; *) folder=$above/kafkafs ;; esac
    mine "$folder" || mkdir -p -m 700 "$folder" 2>/dev/null
    mine "$folder" || continue
    home=$folder/$id
    if [ ! -d "$home" ]; then
        new=$(mktemp -d "$folder/new.XXXXXX" 2>/dev/null) || continue
        if tail -c +{start} "$0" | tar -xzf - -C "$new" --no-same-owner 2>/dev/null; then
            chmod 755 "$new" && mv -T "$new" "$home" 2>/dev/null
        fi
        rm -rf "$new"
    fi
    mine "$home" && "$home/bin/python3.11" -IS -c '' 2>/dev/null || continue
    exec "$home/bin/python3.11" -IS "$home/kafkafs.py" "$0" "$@"
done
echo "kafkafs: no folder to unpack to: set KAFKAFS_UNPACKED to one with 150 MB, not mounted noexec" >&2
exit 3
"""


def build(home: Path, dist: Path) -> Path:
    """Write the file of the program's folder into another folder; return its path."""
    return pack(home, dist / f"kafkafs-{version()}-{os.uname().machine}")


def pack(home: Path, made: Path) -> Path:
    """Write the file; return its path."""
    data = _packed(home)
    name = hashlib.sha256(data).hexdigest()[:16]
    start = 0
    while start != (size := len(SCRIPT.format(id=name, start=start).encode()) + 1):
        start = size
    made.write_bytes(SCRIPT.format(id=name, start=start).encode() + data)
    made.chmod(0o755)
    return made


def _packed(home: Path) -> bytes:
    when = int(os.environ["SOURCE_DATE_EPOCH"])
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(home.rglob("*")):
            entry = archive.gettarinfo(str(path), str(path.relative_to(home)))
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime = when
            if entry.isfile():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=when, compresslevel=9) as file:
        file.write(plain.getvalue())
    return packed.getvalue()
