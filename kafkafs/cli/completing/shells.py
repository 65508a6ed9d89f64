"""`kafkafs completion`: the script that a shell reads to complete the arguments of kafkafs."""

from __future__ import annotations

import click

VARIABLE = "_KAFKAFS_COMPLETE"
"""click's variable: the shell sets it when it asks for completions."""
_ZSH_FOLDERS = """if [ -n "$folders" ]; then
        compadd -U -S '' -V unsorted -a folders
    fi

    if [ -n "$completions" ]; then
"""
_FOLDERS = {
    "bash": [
        (
            "COMPREPLY+=($value)\n",
            """COMPREPLY+=("$value")
            [[ $value == */ ]] && compopt -o nospace
            [[ $value == *[[:space:][:punct:]]* ]] && compopt -o filenames
""",
        )
    ],
    "zsh": [
        ("local -a response\n", "local -a response\n    local -a folders\n"),
        (
            'completions+=("$key")\n',
            'if [[ "$key" == */ ]]; then folders+=("$key"); else completions+=("$key"); fi\n',
        ),
        ('if [ -n "$completions" ]; then\n', _ZSH_FOLDERS),
    ],
}
"""Changes to click's scripts: no space after a folder, whose names come next; bash quotes names as it quotes those of
files. fish does both by itself."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, options, files, and names in a SOURCE.

    \b
    kafkafs completion bash > ~/.local/share/bash-completion/completions/kafkafs
    kafkafs completion zsh  > ~/.zfunc/_kafkafs      with ~/.zfunc in $fpath
    kafkafs completion fish > ~/.config/fish/completions/kafkafs.fish
    eval "$(kafkafs completion bash)"                in this shell only

    Once SOURCE is on the command line, its topics, partitions, groups and the paths of its tree are completed.
    """
    click.echo(script(shell), nl=False)


def script(shell: str) -> str:
    """Return the script for a shell."""
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    text = ShellComplete.source(kind(click.Command("kafkafs"), {}, "kafkafs", VARIABLE))
    for old, new in _FOLDERS.get(shell, []):
        text = text.replace(old, new)
    return text
