"""Answers to requests that write: the error of the protocol that makes a client stop at once.

Where the protocol has an error for each item, each item that was asked for has it; where it has room for a sentence,
the sentence says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafkafs.serve.error_codes import ErrorCode
from kafkafs.serve.request import Fields, Request

READ_ONLY = "kafkafs serve is read-only: it shows log directories and writes nothing"
_NOTHING: Fields = {}


class Items(NamedTuple):
    """Items of a refused request, and their places in the answer.

    Attributes:
        array: the array of the request; with dots, an array in the elements of another one.
        answered: the array of the answer.
        copied: fields of the answer's elements with the request's fields that they repeat; the one field that repeats
            the element itself if it is no structure.
        items: items inside each item, which then have the errors.
        fields: fields with other values than their defaults.
    """

    array: str
    answered: str
    copied: Mapping[str, str] | str
    items: Items | None = None
    fields: Fields = _NOTHING


class HowRefused(NamedTuple):
    """How the requests of an API are refused.

    Attributes:
        error: the error.
        items: arrays of items with an error each.
        fields: fields of the answer with other values than their defaults.
    """

    error: ErrorCode
    items: tuple[Items, ...] = ()
    fields: Fields = _NOTHING


def refuse(refusal: HowRefused, request: Request) -> Fields | None:
    """Return the answer to a request that writes; None if the client wants no answer."""
    if request.fields.get("acks") == 0:
        return None
    answer = _error(refusal.error) | refusal.fields
    for items in refusal.items:
        answer.setdefault(items.answered, []).extend(_refused(items, request.fields, refusal.error))
    return answer


def _error(error: ErrorCode) -> Fields:
    """Return the fields that state an error; an answer has those that its message knows."""
    return {"errorCode": error, "partitionErrorCode": error, "errorMessage": READ_ONLY}


def _refused(items: Items, fields: Fields, error: ErrorCode) -> Iterator[Fields]:
    for each in _elements(items.array, fields):
        if isinstance(items.copied, str):
            answer = {items.copied: each}
        else:
            answer = {name: each[theirs] for name, theirs in items.copied.items()}
        answer |= _error(error) | items.fields
        if items.items is not None:
            answer[items.items.answered] = list(_refused(items.items, each, error))
        yield answer


def _elements(path: str, fields: Fields) -> Iterator[Any]:
    name, _, rest = path.partition(".")
    for each in fields[name] or ():
        if rest:
            yield from _elements(rest, each)
        else:
            yield each
