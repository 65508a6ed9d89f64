"""Man pages: `python man_pages.py FOLDER` writes kafkafs(1), a page for each command, and kafkafs-tree(5).

The page of a command is its help, and kafkafs-tree(5) is kafkafs/docs/tree.md: each has one source.
"""

from __future__ import annotations

import datetime
import os
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from command_help import commands
from markdown_it import MarkdownIt
from markdown_it.token import Token

from kafkafs.cli.documents import pages as documents

_ROFF = {
    "\\": "\\e",
    "-": "\\-",
    "'": "\\(aq",
    "`": "\\(ga",
    "^": "\\(ha",
    "~": "\\(ti",
}
"""Characters that groff would show as others, or take for its own."""
_WORDS = {
    "strong_open": "\\fB",
    "strong_close": "\\fR",
    "em_open": "\\fI",
    "em_close": "\\fR",
    "softbreak": "\n",
    "link_open": "",
    "link_close": "",
}
_ROUND_TEXT = {
    "heading_open": ".SH ",
    "paragraph_open": ".PP\n",
    "list_item_open": ".IP \\(bu 2\n",
    **dict.fromkeys(
        (
            "heading_close",
            "paragraph_close",
            "list_item_close",
            "bullet_list_open",
            "bullet_list_close",
        ),
        "",
    ),
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield each page as (file name, text)."""
    for context, helped in commands():
        title = context.command_path.replace(" ", "-")
        summary = context.command.get_short_help_str(limit=200).rstrip(".")
        usage, _, rest = helped.partition("\n\n")
        sections = (
            f".SH SYNOPSIS\n.nf\n{_lines(usage.removeprefix('Usage: '))}\n.fi\n"
            f".SH DESCRIPTION\n.nf\n{_lines(rest)}\n.fi\n"
        )
        yield f"{title}.1", _head(title, 1, summary) + sections
    tree = documents()["tree"].read_text(encoding="utf-8")
    yield (
        "kafkafs-tree.5",
        _head("kafkafs-tree", 5, "files and folders of a mount") + document(tree),
    )


def document(markdown: str) -> str:
    """Return the body of a page that is written in Markdown; its title becomes the section DESCRIPTION.

    Raises:
        KeyError: the page uses a kind of text that has no rule here, such as a table.
    """
    tokens = MarkdownIt().enable("table").parse(markdown)
    tokens[1].children = [Token("text", "", 0, content="DESCRIPTION")]
    parts = []
    for before, token in pairwise([tokens[0], *tokens]):
        if token.type == "inline":
            parts.append(_inline(token) + "\n")
        elif token.type == "fence":
            parts.append(f".PP\n.nf\n{_lines(token.content)}\n.fi\n")
        elif not (token.type == "paragraph_open" and before.type == "list_item_open"):
            parts.append(_ROUND_TEXT[token.type])
    return "".join(parts)


def _head(title: str, section: int, summary: str) -> str:
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    day = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return (
        f".TH {title.upper()} {section} {day:%Y-%m-%d} kafkafs kafkafs\n"
        f".SH NAME\n{_plain(title)} \\- {_plain(summary)}\n"
    )


def _inline(token: Token) -> str:
    assert token.children is not None
    parts = []
    for child in token.children:
        match child.type:
            case "text":
                parts.append(_plain(child.content))
            case "code_inline":
                parts.append(f"\\fB{_plain(child.content)}\\fR")
            case kind:
                parts.append(_WORDS[kind])
    return _not_requests("".join(parts))


def _lines(text: str) -> str:
    """Return lines of text that groff shows as they are."""
    return _not_requests(_plain(text.strip("\n")))


def _plain(text: str) -> str:
    return "".join(_ROFF.get(character, character) for character in text)


def _not_requests(text: str) -> str:
    """Return text without a line that groff takes for a request."""
    return re.sub(r"^(?=\.)", r"\\&", text, flags=re.MULTILINE)


if __name__ == "__main__":
    for _name, _text in pages():
        Path(sys.argv[1], _name).write_text(_text, encoding="utf-8")
