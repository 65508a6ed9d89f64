"""Completion as a person meets it: a shell on a terminal, and the tabulator key."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.fixtures_data import log_dir

SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
START = {
    "bash": 'eval "$(kafkafs completion bash)"; echo rea""dy',
    "zsh": 'setopt noautoremoveslash; autoload -U compinit; compinit -u; eval "$(kafkafs completion zsh)"; echo rea""dy',
    "fish": 'kafkafs completion fish | source; echo rea""dy',
}
_ESCAPE = re.compile(r"\x1b[\[\]()>=][0-9;?]*[A-Za-z]?")
each_shell = pytest.mark.parametrize(
    "shell",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(not shutil.which(name), reason=f"{name} is not installed"),
        )
        for name in SHELLS
    ],
)


class Terminal:
    """A shell on a pseudo-terminal, with `kafkafs` in its PATH."""

    def __init__(self, shell: str, folder: Path) -> None:
        commands = folder / "bin"
        commands.mkdir()
        (commands / "kafkafs").write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkafs "$@"\n')
        (commands / "kafkafs").chmod(0o755)
        shutil.copytree(log_dir("sample"), folder / "Dätä x")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            path = f"{commands}:{os.environ['PATH']}"
            names = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "PS1": "$ "}
            os.execvpe(shell, SHELLS[shell], {**names, "TERM": "xterm", "INPUTRC": "/dev/null"})
        self.send(START[shell] + "\r", "ready")

    def send(self, keys: str, expected: str) -> str:
        """Type keys; return what is shown once the expected text is on the terminal, or after a while."""
        os.write(self.fd, keys.encode())
        shown, text, end = b"", "", time.monotonic() + 20
        while time.monotonic() < end and expected not in text:
            if select.select([self.fd], [], [], 0.1)[0]:
                shown += os.read(self.fd, 65536)
                text = _ESCAPE.sub("", shown.decode("utf-8", "replace"))
        return text

    def completed(self, typed: str, *expected: str) -> bool:
        """Press the tabulator behind a line, then let the shell print its words; return whether they are as expected."""
        words = "".join(f"<{word}>" for word in ("kafkafs", *expected))
        return words in self.send(f"{typed}\t\x01printf '<%s>' \x05\r", words)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@each_shell
def test_the_tabulator_completes_commands_options_files_and_paths(
    shell: str, tmp_path: Path
) -> None:
    terminal = Terminal(shell, tmp_path)
    try:
        for typed, *expected in (
            ("kafkafs rebu", "rebuild"),
            ("kafkafs offsets --topic-p", "offsets", "--topic-partitions"),
            ("kafkafs cat D", "cat", "Dätä x/"),
            ("kafkafs cat Dätä\\ x txn-0/off", "cat", "Dätä x", "txn-0/offset/"),
            ("kafkafs check Dätä\\ x --topic o", "check", "Dätä x", "--topic", "orders"),
        ):
            assert terminal.completed(typed, *expected), typed
    finally:
        terminal.close()


@each_shell
def test_a_name_with_a_space_is_quoted(shell: str, tmp_path: Path) -> None:
    terminal = Terminal(shell, tmp_path)
    try:
        # Offers one name, as a group's may be, in the form of each shell.
        offer = {"bash": "plain,my group", "zsh": "plain\\nmy group\\n_", "fish": "plain,my group"}
        script = f"#!/bin/sh\nprintf '{offer[shell]}\\n'\n"
        (tmp_path / "bin" / "kafkafs").write_text(script)
        assert terminal.completed("kafkafs groups data my", "groups", "data", "my group")
    finally:
        terminal.close()
