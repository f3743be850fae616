"""What the suite needs of an agent: the whole of it. See README.md."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from policyengine.bundles import SignedRoot
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.signatures import SigningKey


@dataclass
class Clock:
    """Both clocks of the machine; the suite moves them and nobody else does.

    Args:
        wall_time: Unix time in seconds; may be turned back.
        boot_time: seconds since boot, suspend included; never goes back.
    """

    wall_time: float
    boot_time: float = 5000.0

    def wall(self) -> float:
        """Unix time in seconds."""
        return self.wall_time

    def boot(self) -> float:
        """Seconds since boot."""
        return self.boot_time


@dataclass(frozen=True)
class Place:
    """Where and as whom an agent runs.

    Args:
        folder: its own; nothing else is kept over a restart.
        name: its name, as in `agent:<name>`.
        overlay: the overlay that it serves.
        sealing: its X25519 key.
        signing: its Ed25519 key.
        pinned: the root that a person put there.
        clock: tells the time.
    """

    folder: Path
    name: str
    overlay: str
    sealing: SealingKey
    signing: SigningKey
    pinned: SignedRoot
    clock: Clock


@dataclass(frozen=True)
class Holding:
    """What an agent holds of a domain, as its requests for leases tell it.

    Args:
        revision: of the bundle in force; 0 for none.
        digest: of its header; empty for none.
        notice: the last notice before which none is missing.
    """

    revision: int
    digest: str
    notice: int


class AgentUnderTest(Protocol):
    """An agent that the suite drives. Every call returns once everything is done that it causes."""

    def start(self) -> None:
        """Start the process, on whatever its folder keeps."""

    def kill(self) -> None:
        """End it as `kill -9` does: what was in memory alone is gone."""

    def control(self, message: bytes) -> None:
        """Put a message into its control queue."""

    def ask(self) -> None:
        """Have it ask for a lease now."""

    def said(self) -> list[bytes]:
        """What it sent to `pc.requests` since the last call."""

    def refused(self) -> list[str]:
        """The protocol's words for what it refused of its control queue since the last call."""

    def publish(self, domain: str, message: bytes) -> None:
        """Put a client's message into its `pc.in` queue of a domain."""

    def delivered(self) -> list[tuple[str, bytes]]:
        """(handle, message) of what it sent to clients since the last call."""

    def holds(self, domain: str) -> Holding:
        """What it holds of a domain at this moment."""

    def root(self) -> int:
        """Version of the root that it trusts."""

    def files(self, part: str) -> tuple[Path, ...]:
        """The files of a part of what it keeps, whether they exist or not.

        Args:
            part: `bundles` (of all domains), `state` (revisions and notices) or `roots`.
        """
