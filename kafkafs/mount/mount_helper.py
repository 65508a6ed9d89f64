"""Parser for the arguments of the mount helper, as called by mount(8) and for /etc/fstab.

mount(8) runs `/sbin/mount.fuse.kafkafs SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-o options] [-t type]`,
see mount(8), EXTERNAL HELPERS; libfuse's own helper, mount.fuse3, runs `kafkafs SOURCE MOUNTPOINT -o …`.
A line of fstab:

    /var/lib/kafka/data  /mnt/kafka  fuse.kafkafs  allow_other,nofail,x-systemd.automount  0 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kafkafs.mount.mounting import MountError, MountOptions, parse_options

_PREFIXES = ("kafkafs:", "kafkafs#")
_SWITCHES = frozenset("sfnvrwi")


def parse_helper_args(argv: Sequence[str]) -> tuple[list[str], str, MountOptions]:
    """Parse a helper's arguments to (sources, mountpoint, options).

    -f is «fake» in mount(8): everything but the mount. Raises MountError.
    """
    places: list[str] = []
    options: list[str] = []
    fake = False
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        if argument in ("-o", "-N", "-t"):
            if not rest:
                raise MountError(f"{argument} needs a value", usage=True)
            value = rest.pop(0)
            if argument == "-o":
                options.append(value)
        elif argument.startswith("-o"):
            options.append(argument[2:])
        elif argument.startswith("-") and len(argument) > 1:
            if not set(argument[1:]) <= _SWITCHES:
                raise MountError(f"unknown switch {argument}", usage=True)
            fake = fake or "f" in argument
        else:
            places.append(argument)
    if len(places) < 2:
        raise MountError("mount helper: SOURCE MOUNTPOINT [-o OPTIONS] expected", usage=True)
    sources = [_source(place) for place in places[:-1]]
    # mount(8) adds rw if fstab has no ro; the mount is read-only anyway, and shown as such.
    chosen = parse_options(_without_rw(options))
    return sources, places[-1], replace(chosen, foreground=False, dry_run=fake or chosen.dry_run)


def _without_rw(options: Sequence[str]) -> list[str]:
    return [",".join(item for item in text.split(",") if item != "rw") for text in options]


def _source(text: str) -> str:
    for prefix in _PREFIXES:
        text = text.removeprefix(prefix)
    return text
