"""What is in force at this agent: one snapshot a domain, swapped as a whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from brokers.data.blindfilters import BlindStore
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.ports import ComparatorPort
from brokers.snapshot import DomainSnapshot, build_snapshot
from policyengine.bundles import Floors, OpenedBundle, TrustedState
from policyengine.errors import RejectedError
from policyengine.ope import RangeIndex
from policyengine.primitives.hpke import SealingKey


@dataclass(frozen=True)
class InForce:
    """One domain's policy with the subscriptions compiled against it."""

    snapshot: DomainSnapshot
    subscriptions: SubscriptionIndex


class Progress:
    """Counts batches, so that others can wait for those that began before a change."""

    def __init__(self) -> None:
        self._begun = 0
        self._finished = 0

    def begin(self) -> None:
        """A batch begins; call it before reading what is in force."""
        self._begun += 1

    def finish(self) -> None:
        """The batch is over: sent, or given up."""
        self._finished = self._begun

    def settled(self) -> Callable[[], bool]:
        """A question: is every batch over that had begun by now?"""
        begun = self._begun
        return lambda: self._finished >= begun


class SubscriptionStore(Protocol):
    """Where durable subscriptions of own clients are kept over a restart."""

    def load(self) -> tuple[Subscription, ...]:
        """The subscriptions kept."""

    def save(self, subscriptions: Iterable[Subscription]) -> None:
        """Keep them; returns when they survive a crash."""


class PolicyInForce:
    """Holds what is in force; readers take `domains` once and see one consistent policy.

    Args:
        agent: this agent's name.
        overlay: the overlay it stands on.
        sealing_key: opens the key wraps of bundles.
        subscription_file: keeps the subscriptions of own clients.
        progress: of the data plane.
        comparator: compares order-preserving ciphertexts of SBM-II; None where there is none.
    """

    def __init__(
        self,
        *,
        agent: str,
        overlay: str,
        sealing_key: SealingKey,
        subscription_file: SubscriptionStore,
        progress: Progress,
        comparator: ComparatorPort | None = None,
    ) -> None:
        self._agent = agent
        self._overlay = overlay
        self._sealing_key = sealing_key
        self._file = subscription_file
        self._progress = progress
        self._lock = threading.Lock()
        self._subscriptions = {_place(one): one for one in subscription_file.load()}
        self._stores: dict[str, BlindStore] = {}
        self._comparator = comparator
        self._ranges: dict[str, RangeIndex] = {}
        self.domains: Mapping[str, InForce] = {}
        self.version = 0

    # called by the control side

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> InForce:
        """Build a snapshot from a bundle.

        Raises:
            RejectedError: `malformed` or `audience`.
        """
        denied = state.denied.get(opened.header.domain, frozenset())
        built = build_snapshot(opened, sealing_key=self._sealing_key, denied=denied)
        snapshot = built.under(state.floors_of(built.domain))
        if (snapshot.agent, snapshot.overlay) != (self._agent, self._overlay):
            raise RejectedError("audience", "the bundle is for another agent or overlay")
        return self._in_force(snapshot)

    def commit(self, domain: str, prepared: object) -> None:
        """Swap a prepared domain in."""
        if not isinstance(prepared, InForce):
            raise TypeError("not prepared by this object")
        with self._lock:
            # Clients may have subscribed while it was prepared.
            self._swap(domain, self._in_force(prepared.snapshot, prepared.subscriptions))

    def deny(self, domain: str, handles: frozenset[str]) -> None:
        """Take handles out of a domain at once."""
        with self._lock:
            held = self.domains.get(domain)
            if held is not None:
                snapshot = replace(held.snapshot, denied=held.snapshot.denied | handles)
                self._swap(domain, replace(held, snapshot=snapshot))

    def hold(self, domain: str, floors: Floors) -> None:
        """Give parties nothing before the revision that knows what they lost."""
        with self._lock:
            held = self.domains.get(domain)
            if held is not None:
                snapshot = held.snapshot.under(floors)
                self._swap(domain, replace(held, snapshot=snapshot))

    def settled(self) -> Callable[[], bool]:
        """A question: is every batch over that began under an earlier policy?"""
        return self._progress.settled()

    # called by the data plane

    def own_subscriptions(self, domain: str) -> tuple[Subscription, ...]:
        """The subscriptions of own clients in a domain."""
        with self._lock:
            return tuple(one for one in self._subscriptions.values() if one.domain == domain)

    def change_subscriptions(
        self, added: list[Subscription], removed: list[tuple[str, str, str]]
    ) -> None:
        """Keep and put into force a batch of changes; returns when they survive a crash.

        Args:
            added: new subscriptions; one of the same client and name is replaced.
            removed: (domain, handle, identifier) of subscriptions that end.
        """
        with self._lock:
            changed = dict(self._subscriptions)
            for place in removed:
                changed.pop(place, None)
            changed.update({_place(one): one for one in added})
            if changed == self._subscriptions:
                return
            self._file.save(changed.values())
            self._subscriptions = changed
            touched = {one.domain for one in added} | {place[0] for place in removed}
            for domain in touched & self.domains.keys():
                held = self.domains[domain]
                self._swap(domain, self._in_force(held.snapshot, held.subscriptions))

    def _swap(self, domain: str, held: InForce) -> None:
        self.domains = {**self.domains, domain: held}
        self.version += 1

    def _in_force(
        self, snapshot: DomainSnapshot, previous: SubscriptionIndex | None = None
    ) -> InForce:
        own = [one for one in self._subscriptions.values() if one.domain == snapshot.domain]
        store = self._stores.setdefault(snapshot.domain, BlindStore())
        # outlives policies and subscriptions: entering a filter costs questions
        ranges = self._ranges.setdefault(snapshot.domain, RangeIndex(self._comparator))
        index = SubscriptionIndex.build(snapshot, own, store, previous, ranges)
        return InForce(snapshot, index)


def _place(one: Subscription) -> tuple[str, str, str]:
    return one.domain, one.handle, one.identifier
