"""What happened, line by line, and how much of it: the same bytes for the same seed."""

from __future__ import annotations

import json
from collections import Counter
from hashlib import blake2b

from brokers.simulation.timeline import Timeline


class History:
    """Lines of JSON with the virtual time of each; keys and ciphertexts never stand in it.

    Args:
        timeline: gives the time.
        keep: whether the lines are kept; their digest always is.
    """

    def __init__(self, timeline: Timeline, *, keep: bool = True) -> None:
        self._timeline = timeline
        self._keep = keep
        self._digest = blake2b(digest_size=16)
        self.lines: list[str] = []
        self.counts: Counter[str] = Counter()

    def note(self, who: str, what: str, **details: object) -> None:
        """Add a line.

        Args:
            who: the node.
            what: what happened to it, or what it did.
            details: names, numbers and values of the scenario.
        """
        self.counts[what] += 1
        entry = {"at": f"{self._timeline.now:.6f}", "who": who, "what": what, **details}
        line = json.dumps(entry, sort_keys=True, separators=(",", ":"))
        self._digest.update(line.encode() + b"\n")
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """Digest of all lines, 32 hexadecimal digits."""
        return self._digest.hexdigest()
