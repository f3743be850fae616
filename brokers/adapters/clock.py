"""The system's clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Wall clock and boot-time clock of this machine."""

    def wall(self) -> float:
        """Unix time in seconds."""
        return time.time()

    def boot(self) -> float:
        """Seconds since boot, suspend included (the monotonic clock stands still then)."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)
