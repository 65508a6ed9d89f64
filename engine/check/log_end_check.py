"""Whether the records files hold all that the log came to: its end as everything beside them states it."""

from __future__ import annotations

from collections.abc import Iterator

from engine.check.finding import Finding
from engine.check.partition_under_check import PartitionUnderCheck
from engine.file_names import log_file_name
from engine.log.proven_end import first_offset_without_records, proven_end


def check_log_end(partition: PartitionUnderCheck) -> Iterator[Finding]:
    """The offsets that were given and that no records file holds, at the end of the log."""
    view = partition.view
    if partition.is_live:
        view = view.log.view(max_age=0)
    held = view.log_end_offset
    end = proven_end(view, held)
    if not end.proofs:
        return
    name, holds = "", "there is no records file"
    if view.base_offsets:
        name = log_file_name(view.base_offsets[-1])
        holds = f"the records files end at offset {held}"
    first = held if name else max(held, first_offset_without_records(view, end.offset))
    lost = end.offset - first
    gone = (
        f"offset {first} is" if lost == 1 else f"offsets {first} to {end.offset - 1} ({lost}) are"
    )
    yield partition.found(
        "log-end-short",
        name,
        f"{gone} gone: {holds}, and {', '.join(proof.says for proof in end.proofs)}",
        first_offset=first,
        next_offset=end.offset,
        expected=end.offset,
        found=held,
        proofs={proof.file: proof.offset for proof in end.proofs},
    )
