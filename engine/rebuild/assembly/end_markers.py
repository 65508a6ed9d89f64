"""End markers that a log lacks: of transactions that are open at its end, or whose marker is lost."""

from __future__ import annotations

from collections.abc import Sequence

from engine.cut.cluster_cut import CutEnd
from engine.log.view.transactions import events
from engine.rebuild.assembly.pieces import Piece
from engine.record.control_records import ControlRecordType, EndTransactionMarker
from engine.record.encoding.building import end_transaction_marker
from engine.record.fate import Fate
from engine.units import Offset, Timestamp


def end_piece(
    *,
    commits: bool,
    coordinator_epoch: int,
    producer: tuple[int, int],
    timestamp: Timestamp,
    base_offset: Offset,
    leader_epoch: int,
) -> Piece:
    """Return the piece of an end marker of a producer's id and epoch."""
    kind = ControlRecordType.COMMIT if commits else ControlRecordType.ABORT
    made = end_transaction_marker(
        EndTransactionMarker(kind, coordinator_epoch),
        producer_id=producer[0],
        producer_epoch=producer[1],
        timestamp=timestamp,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
    )
    data, following = bytes(made.buffer), base_offset + 1
    return Piece(None, 0, len(data), base_offset, following, leader_epoch, 1, 1, data=data)


def end_pieces(pieces: Sequence[Piece], log_end: Offset, then: CutEnd) -> list[Piece]:
    """Return the end markers of the transactions that are open at the end of a log, as a cut has decided them."""
    epochs: dict[int, int] = {}
    bumps = False
    for piece in pieces:
        for run in piece.runs():
            for event in events(run):
                if event.ended is None:
                    epochs[event.producer_id] = event.producer_epoch
                elif (epoch := epochs.pop(event.producer_id, None)) is not None:
                    bumps = bumps or event.producer_epoch > epoch
    return [
        end_piece(
            commits=then.ended.get(producer) is Fate.COMMITTED,
            coordinator_epoch=0,
            producer=(producer, epoch + bumps),
            timestamp=then.time,
            base_offset=log_end + at,
            leader_epoch=pieces[-1].epoch,
        )
        for at, (producer, epoch) in enumerate(sorted(epochs.items()))
    ]
