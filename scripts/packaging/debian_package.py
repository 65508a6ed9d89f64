"""The Debian package: the program's folder as /usr/lib/kafkafs, its commands, man pages, completion and examples.

Codecs and small libraries come from Debian's packages here, so that they get its security updates.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from build_backend import ROOT, version

HOME = "usr/lib/kafkafs"
DEPENDS = (
    "libc6 (>= 2.36), libexpat1, libffi8, zlib1g, libstdc++6, libssl3t64 | libssl3, fuse3, "
    "libzstd1, liblz4-1, libdeflate0, libsnappy1v5"
)
CONTROL = """Package: kafkafs
Version: {version}
Architecture: {architecture}
Maintainer: The kafkafs authors <kafkafs@localhost>
Installed-Size: {size}
Depends: {depends}
Section: utils
Priority: optional
Description: read, check, mount and rebuild Apache Kafka log directories
 Works without a broker, and without changing a byte of the source: shows
 log directories as a tree in which offsets and timestamps are paths, finds
 damage, predicts what a broker would do, and makes a log directory that a
 broker loads. It has its own Python.
"""
COMMAND = """#!/usr/lib/kafkafs/bin/python3.11 -IS
import sys

sys.argv.insert(0, "")
exec(compile(open("/usr/lib/kafkafs/kafkafs.py").read(), "/usr/lib/kafkafs/kafkafs.py", "exec"))
"""
FSTAB = """# Lines of /etc/fstab. The source must be mounted before it.
/var/lib/kafka/data  /mnt/kafka  fuse.kafkafs  ro,allow_other,nofail,x-systemd.requires-mounts-for=/var/lib/kafka  0 0
"""
MOUNT_UNIT = """[Unit]
Description=Kafka's log directories as files
Documentation=man:kafkafs-mount(1)
ConditionPathExists=/etc/default/kafkafs-mount

# No ProtectSystem= and the like: a service with a mount namespace of its own mounts for nobody else.
[Service]
Type=notify
EnvironmentFile=/etc/default/kafkafs-mount
ExecStart=/usr/bin/kafkafs mount -f $OPTIONS $SOURCES $MOUNTPOINT
ExecStop=/usr/bin/kafkafs umount $MOUNTPOINT
Restart=on-failure
User=root
MemoryMax=2G

[Install]
WantedBy=multi-user.target
"""
SERVE_UNIT = """[Unit]
Description=Kafka's log directories as a read-only broker
Documentation=man:kafkafs-serve(1)
ConditionPathExists=/etc/default/kafkafs-serve
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
EnvironmentFile=/etc/default/kafkafs-serve
ExecStart=/usr/bin/kafkafs serve -f $OPTIONS $SOURCES
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
User=kafka
StateDirectory=kafkafs
MemoryMax=2G
LimitNOFILE=65536
ProtectSystem=strict
ReadOnlyPaths=/
ReadWritePaths=/var/lib/kafkafs
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6

[Install]
WantedBy=multi-user.target
"""
MOUNT_DEFAULTS = """# Copy this file to /etc/default/kafkafs-mount, then: systemctl enable --now kafkafs-mount
SOURCES=/var/lib/kafka/data
MOUNTPOINT=/mnt/kafka
OPTIONS="-o allow_other"
"""
SERVE_DEFAULTS = """# Copy this file to /etc/default/kafkafs-serve, then: systemctl enable --now kafkafs-serve
# The server has the user kafka, who can read the sources; another one: systemctl edit kafkafs-serve
SOURCES=/var/lib/kafka/data
OPTIONS="--listen 127.0.0.1:9092 --metrics 127.0.0.1:9308 --commit-to /var/lib/kafkafs/commits"
"""
SHELLS = {
    "bash": "usr/share/bash-completion/completions/kafkafs",
    "zsh": "usr/share/zsh/vendor-completions/_kafkafs",
    "fish": "usr/share/fish/vendor_completions.d/kafkafs.fish",
}


def build(bundle: Path, dist: Path) -> Path:
    """Make the package out of the program's folder; return its path."""
    tree = bundle.parent / "deb"
    home = tree / HOME
    home.parent.mkdir(parents=True)
    bundle.rename(home)
    shutil.rmtree(home / "lib" / "system")
    shutil.rmtree(home / "lib/python3.11/site-packages/kafkafs/engine/kernel/codecs")
    _write(tree / "usr/bin/kafkafs", COMMAND, 0o755)
    for name in ("mount.kafkafs", "mount.fuse.kafkafs"):
        (tree / "usr/sbin").mkdir(exist_ok=True)
        (tree / "usr/sbin" / name).symlink_to("../bin/kafkafs")
    _documents(tree, home)
    architecture = _ask("dpkg", "--print-architecture")
    size = sum(path.lstat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    control = CONTROL.format(
        version=version(), architecture=architecture, size=size, depends=DEPENDS
    )
    _write(tree / "DEBIAN/control", control)
    when = int(os.environ["SOURCE_DATE_EPOCH"])
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (when, when), follow_symlinks=False)
    made = dist / f"kafkafs_{version()}_{architecture}.deb"
    # One thread: zstd compresses otherwise with several.
    options = ("--root-owner-group", "-Zzstd", "-z9", "--threads-max=1")
    _ask("dpkg-deb", *options, "--build", str(tree), str(made))
    return made


def _documents(tree: Path, home: Path) -> None:
    """Write man pages, completion, examples, the licence and the list of changes."""
    documents = tree / "usr/share/doc/kafkafs"
    _write(documents / "copyright", (ROOT / "LICENSE").read_text(encoding="utf-8"))
    _write(documents / "changelog.gz", (ROOT / "CHANGELOG.md").read_bytes())
    _write(documents / "examples/fstab", FSTAB)
    _write(documents / "examples/kafkafs-mount", MOUNT_DEFAULTS)
    _write(documents / "examples/kafkafs-serve", SERVE_DEFAULTS)
    _write(tree / "usr/lib/systemd/system/kafkafs-mount.service", MOUNT_UNIT)
    _write(tree / "usr/lib/systemd/system/kafkafs-serve.service", SERVE_UNIT)
    licences = sorted(home.glob("lib/python3.11/site-packages/*.dist-info/METADATA"))
    names = [f"{path.parent.name.removesuffix('.dist-info')}\n" for path in licences]
    notice = "Inside /usr/lib/kafkafs: Debian's Python (lib/python3.11/LICENSE), and, each with its licence in\nlib/python3.11/site-packages/*.dist-info:\n\n"
    _write(documents / "NOTICE", notice + "".join(names))
    # Without -I, for PYTHONPATH: these are run before the package has its launcher.
    environment = {
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(home / "lib/python3.11/site-packages"),
        "SOURCE_DATE_EPOCH": os.environ["SOURCE_DATE_EPOCH"],
    }
    python = [str(home / "bin/python3.11"), "-SB"]
    with tempfile.TemporaryDirectory() as folder:
        _ask(*python, str(Path(__file__).with_name("man_pages.py")), folder, env=environment)
        for page in sorted(Path(folder).iterdir()):
            place = tree / f"usr/share/man/man{page.suffix.removeprefix('.')}" / f"{page.name}.gz"
            _write(place, page.read_bytes())
    for shell, name in SHELLS.items():
        script = _ask(*python, "-m", "kafkafs", "completion", shell, env=environment)
        _write(tree / name, script + "\n")


def _write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Write a file; one whose name ends with .gz is compressed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data, 9, mtime=0) if path.suffix == ".gz" else data)
    path.chmod(mode)


def _ask(*command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=env)
    return done.stdout.strip()
