"""Transactions: what Delta's log remembers beside files. Each is a name and a number, and the last number counts."""

from typing import Any

import numpy as np

from quantide.errors import CorruptBytesError, InvalidArgumentError

WRITER = "quantide.writer"  # the epoch of the writer
STEP = "quantide.step"  # the last step that ended
RECENT_FILES = "quantide.recent"  # the manifest of recent files
HELD_FROM, HELD_UNTIL = "quantide.held_from", "quantide.held_until"  # steps that stay for one more retention
MOST = {WRITER: 2**31 - 2, STEP: 10**15}  # an epoch is the upper half of a manifest's number; names hold both
MOST_NUMBER = 2**63 - 1
BATCH, SOURCE = "quantide.batch:", "quantide.source:"


def check_number(app: str, number: int | None) -> int | None:
    """Refuse a number that no writer of Quantide can have written: names of files are made of it."""
    most = MOST.get(app, MOST_NUMBER)
    if number is not None and not 0 <= number <= most:
        raise CorruptBytesError(f"the log has the transaction {app!r} at {number}, which is not from 0 to {most}")
    return number


def batch_transaction(batch: Any) -> tuple[str, int]:
    """A batch as Delta's log remembers it: an id of its own, or the number in a source that counts upwards."""
    if isinstance(batch, tuple) and len(batch) == 2 and isinstance(batch[0], str) and _is_number(batch[1]):
        if not 0 <= batch[1] < 2**63:
            raise InvalidArgumentError(f"the number of a batch counts from 0 to 2**63 - 1, and is not {batch[1]}")
        return f"{SOURCE}{batch[0]}", int(batch[1])
    if isinstance(batch, str) or _is_number(batch):
        return f"{BATCH}{'str' if isinstance(batch, str) else 'int'}:{batch}", 1
    raise InvalidArgumentError(f"batch_id is text, a number, or (source, number), not {batch!r}")


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)
