"""What Kafka's dump tools printed of tests/data, as 4.4.0 prints it without its known bugs."""

from __future__ import annotations

import re

from engine.topics.transaction_states import STATES

DECODERS = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__cluster_metadata": "--cluster-metadata-decoder",
}
_OLD_RECORD = re.compile(
    r"\| offset: (\d+) isValid: (\w+) crc: (\w+) keySize: (-?\d+) valueSize: (-?\d+)"
    r" (\w+: -?\d+) baseOffset: .*? position: \d+"
    r"(?: sequence: (-?\d+) headerKeys: (\[[^\]]*\])| crc: \d+ isvalid: \w+)(.*)"
)


def without_false_alarms(text: str) -> str:
    """Without "-1 is followed by N", which is said of each segment whose base offset is not 0."""
    lines = [line for line in text.split("\n") if not line.startswith("  -1 is followed by ")]
    return "\n".join(
        line
        for line, after in zip(lines, [*lines[1:], ""], strict=True)
        if not line.startswith("Non-consecutive") or " is followed by " in after
    )


def as_current(text: str) -> str:
    """The text of an older Kafka's tool as that of 4.4.0."""
    return "\n".join(_line(line) for line in text.split("\n"))


def _state(match: re.Match[str]) -> str:
    return f'"transactionStatus":"{STATES[int(match[1])]}"'


def _line(line: str) -> str:
    line = re.sub(r'"transactionStatus":(\d+)', _state, line)
    match = _OLD_RECORD.fullmatch(line)
    if match is not None:
        offset, valid, crc, key, value, time, sequence, headers, rest = match.groups()
        text = f"| offset: {offset} {time} keySize: {key} valueSize: {value}"
        if sequence is None:
            return f"{text} isValid: {valid} crc: {crc}{rest}"
        return f"{text} sequence: {sequence} headerKeys: {headers}{rest}"
    line = re.sub(r"^Starting offset: ", "Log starting offset: ", line)
    line = re.sub(
        r"( isControl: \w+)( position: )", r"\1 deleteHorizonMs: OptionalLong.empty\2", line
    )
    return re.sub(r"( compresscodec: )([A-Z0-9]+)", lambda m: m[1] + m[2].lower(), line)


def apart(text: str) -> tuple[list[str], list[str]]:
    """The text on standard output, and the blocks on standard error, which a hash of paths orders."""
    lines = text.rstrip("\n").split("\n")
    starts = [
        at
        for at, line in enumerate(lines)
        if line.startswith(("Non-consecutive", "Mismatches in", "Found ", "The following"))
        and "invalid bytes" not in line
    ]
    first = starts[0] if starts else len(lines)
    ends = [*starts[1:], len(lines)][: len(starts)]
    # Tools before 4.3 list what is newest first.
    blocks = [
        "\n".join([lines[a], *sorted(lines[a + 1 : b])]) for a, b in zip(starts, ends, strict=True)
    ]
    return lines[:first], sorted(blocks)
