"""Answers to InitProducerId of producers that are idempotent, but not transactional: an id.

Producers of Java are idempotent by default, and one that gets no id asks again as fast as it can, for as long as it
lives, without a word to its user. With an id it sends its batch, and Produce is refused with a sentence.
"""

from __future__ import annotations

from itertools import count

from kafkafs.serve.request import Fields, Request

_ids = count(1)


def wants_id_alone(request: Request) -> bool:
    """Return whether an InitProducerId is that of a producer without a transactional id."""
    return request.fields["transactionalId"] is None


def new_producer_id() -> Fields:
    """Return the answer with an id that no other producer of this server has."""
    return {"producerId": next(_ids), "producerEpoch": 0}
