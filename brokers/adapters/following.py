"""Following the root of trust: to disk first, then believed, then what it has forgotten."""

from __future__ import annotations

from dataclasses import replace

from brokers.control.roots import follow
from brokers.control.sync import Identity
from brokers.ports import RootStore, StateStore
from policyengine.bundles import Root, TrustedState


class RootFollower:
    """The root that one audience trusts.

    Args:
        roots: keeps the chain; None where only keys are pinned.
        state_file: keeps the trusted state.
    """

    def __init__(self, roots: RootStore | None, state_file: StateStore) -> None:
        self._roots = roots
        self._state_file = state_file
        self.root: Root | None = None if roots is None else roots.load()

    def trusting(self, identity: Identity) -> Identity:
        """The identity with the keys of the root in force."""
        return identity if self.root is None else replace(identity, anchors=self.root.anchors())

    def settled(self, state: TrustedState) -> TrustedState:
        """The state once everything is forgotten that roots ask for, also after a crash."""
        if self._roots is None or not (pending := self._roots.pending()):
            return state
        after = state.reset(pending)
        # INVARIANT: the root is on disk before, so that what it ends is never believed again.
        self._state_file.save(after)
        self._roots.settle()
        return after

    def take(self, message: bytes, *, state: TrustedState, now: float) -> TrustedState | None:
        """Follow roots that were sent; gives the state after it, or None where nothing is new.

        Raises:
            RejectedError: see `follow`.
            OSError: not kept, and so not believed.
        """
        followed = follow(message, current=self.root, now=now)
        if self._roots is None or not followed.roots:
            return None
        self._roots.save(followed.roots)
        self.root = followed.root
        return self.settled(state)
