"""Which root an audience trusts, and how it follows from one to the next. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policyengine.bundles import Lease, Root, SignedRoot, decode_roots, verify_chain
from policyengine.bundles.roots import MAX_ROOTS
from policyengine.errors import RejectedError


@dataclass(frozen=True)
class Followed:
    """Where a message of roots leads.

    Args:
        root: the newest.
        roots: those that were new, oldest first; empty where nothing was.
        reset: domains of which revision and notices are to be forgotten.
    """

    root: Root
    roots: tuple[SignedRoot, ...]
    reset: tuple[str, ...]


def follow(message: bytes, *, current: Root | None, now: float) -> Followed:
    """Decide about roots that somebody sent; only their holders' signatures count.

    Args:
        message: roots, oldest first; those that are known already are passed over.
        current: the root trusted so far; None where only keys are pinned.
        now: seconds since 1970.

    Raises:
        RejectedError: `malformed`, `signature`, `previous` (one in between is missing),
            `rollback` (only older ones), `expired`.
    """
    if current is None:
        raise RejectedError("signature", "keys are pinned here and no root: nothing leads on")
    sent = [(each.claimed().version, each) for each in decode_roots(message)]
    later = tuple(each for version, each in sent if version > current.version)
    if not later and all(version < current.version for version, _ in sent):
        raise RejectedError("rollback", f"root {current.version} is trusted already")
    # A whole message may end in the middle of the chain, where age is no matter.
    fresh = now if later and len(later) < MAX_ROOTS else None
    root = verify_chain(current, later, now=fresh)
    return Followed(root, later, resets(later))


def resets(roots: Sequence[SignedRoot]) -> tuple[str, ...]:
    """The domains that verified roots have forgotten."""
    return tuple(sorted({domain for each in roots for domain in each.claimed().reset}))


def check_lease(lease: Lease, *, root: Root | None, wall: float) -> None:
    """Refuse a lease that asks for another root than ours, or that comes when ours has expired.

    Args:
        lease: its signature was checked.
        root: the root trusted; None where only keys are pinned.
        wall: the own wall clock: whoever holds a stolen lease key does not set it.

    Raises:
        RejectedError: `root` or `expired`.
    """
    if lease.root > (1 if root is None else root.version):
        raise RejectedError("root", f"the lease is for those who trust root {lease.root}")
    if root is not None and root.expires <= max(wall, lease.time):
        raise RejectedError("expired", f"root {root.version} has expired")
