"""Parts with a broker and `kafkafs serve` over the same directory: random requests, and equal answers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from tests.fixtures_data import log_dir
from tests.soak.judged import obstacle, quiet
from tests.soak.parts import Job, Part

BATCH = 100
"""Requests with their own connections and fetch sessions."""


def answer_alike(job: Job, kind: str) -> None:
    """Random requests to both servers of a directory; an input is a request."""
    from tests.kafka.wire import directories
    from tests.kafka.wire.conversation import Conversation
    from tests.kafka.wire.known import FETCH, known
    from tests.kafka.wire.peers import REFUSES_OTHER_NODES

    with tempfile.TemporaryDirectory(prefix="soak-wire-") as work:
        home = Path(work, "home")
        if kind == "written":
            with quiet():
                directories.written(home, job.seed)
        else:
            directories.copied(log_dir(kind), home)
        with directories.both(home) as both:
            facts = known(both.broker)
            job.start()
            for numbers in job.batches(BATCH):
                conversation = Conversation(both, facts, Random(f"{job.seed} {numbers.start}"))
                found = [
                    each
                    for each in conversation.run(len(numbers))
                    if each.request[:2] != REFUSES_OTHER_NODES
                ]
                if found:
                    job.find(numbers.start, "\n".join(map(str, found)), count=len(numbers))
                fetches = sum(n for (key, _), n in conversation.asked.items() if key == FETCH)
                job.note("of them for records", fetches)
                both.broker.close()
                both.ours.close()


def members_answer_alike(job: Job) -> None:
    """Members of random groups at both servers of a directory; an input is a request."""
    from tests.kafka.wire import directories
    from tests.kafka.wire.known import known
    from tests.kafka.wire.members.conversation import MemberConversation

    with tempfile.TemporaryDirectory(prefix="soak-members-") as work:
        home = Path(work, "home")
        directories.copied(log_dir("current"), home)
        with directories.both(home, version=directories.MEMBERS_VERSION) as both:
            facts = known(both.broker)
            job.start()
            for numbers in job.batches(BATCH):
                name = f"{job.seed} {numbers.start}"
                with MemberConversation(both, facts, Random(name), f"members {name}") as talk:
                    found = list(talk.run(len(numbers)))
                if found:
                    job.find(numbers.start, "\n".join(map(str, found)), count=len(numbers))
                job.note("groups that a broker's hash map parted", talk.parted)
                both.broker.close()
                both.ours.close()


PARTS = (
    Part(
        "wire/current",
        "a fixture, served by a broker and by kafkafs",
        "requests",
        lambda job: answer_alike(job, "current"),
        obstacle,
    ),
    Part(
        "wire/written",
        "a directory with every shape, served by both",
        "requests",
        lambda job: answer_alike(job, "written"),
        obstacle,
    ),
    Part(
        "wire/members",
        "groups with members, at a broker and at kafkafs",
        "requests",
        members_answer_alike,
        obstacle,
    ),
)
