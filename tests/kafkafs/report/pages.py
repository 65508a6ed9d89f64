"""Pages as a parser of HTML sees them."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import html5lib

SECTIONS = (
    "findings", "damage", "start", "partitions", "time", "segments", "batches", "groups",
    "transactions", "disk", "source",
)  # fmt: skip


def parsed(text: str) -> Element:
    """The root of a page, by the rules of browsers; elements of SVG have their plain names too."""
    found: Element = html5lib.parse(text, namespaceHTMLElements=False)
    for each in found.iter():
        if isinstance(each.tag, str):
            each.tag = each.tag.rpartition("}")[2]
    return found


def attributes(element: Element) -> set[str]:
    """The names of an element's attributes."""
    return set(element.attrib)


def section(root: Element, name: str) -> Element:
    """A section by its id."""
    return next(each for each in root.iter("section") if each.get("id") == name)


def text_of(element: Element) -> str:
    """All text of an element, white space joined."""
    return " ".join("".join(element.itertext()).split())
