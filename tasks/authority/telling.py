"""What the authority tells of its journal."""

from __future__ import annotations

from typing import Any, Final

from tasks.authority.journal import Journal
from tasks.authority.refusals import RefusedError

MAX_ENTRIES: Final = 500


class JournalOperations:
    """Reads of the journal, over the socket."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def head(self) -> dict[str, Any]:
        """Number of entries, and digest of the last."""
        head = self._journal.head
        return {"size": head.size, "digest": head.digest}

    def entries(self, *, after: int, limit: int) -> dict[str, Any]:
        """Entries by number, from the one after `after` on, as they stand in the journal."""
        if type(after) is not int or type(limit) is not int or not 0 < limit <= MAX_ENTRIES:
            raise RefusedError(f"entries are asked for by number, at most {MAX_ENTRIES} at a time")
        return {"entries": self._journal.entries(max(after, 0), limit)}
