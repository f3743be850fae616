"""The broker's side of the three schemes, and matching from end to end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from policyengine.attributes import Expression, Schema, check_values
from policyengine.errors import InputError
from policyengine.ope.clients import Client, plain_client, sbm1_client, sbm2_client
from policyengine.ope.columns import Span
from policyengine.ope.comparator import Comparator, KeyedComparator
from policyengine.ope.index import ROWS, SubscriptionIndex
from policyengine.ope.orders import Locator, Search, SortedLocator, TreeLocator, TreeOrder
from policyengine.ope.wire import EncryptedEvent, EncryptedSubscription, Scheme
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

Codes: TypeAlias = Mapping[str, tuple[tuple[int | None, int | None], ...]]
"""Of each column the codes of a subscription's intervals, lower and upper ends."""


class Broker:
    """Stores encrypted subscriptions and matches encrypted events; holds no key.

    Matching is safe for several threads; a change needs the broker to itself.

    Args:
        scheme: what it accepts.
        locator: how it compares.
        rows: as in `SubscriptionIndex`.
    """

    def __init__(self, scheme: Scheme, locator: Locator, *, rows: int = ROWS) -> None:
        self.scheme = scheme
        self.index = SubscriptionIndex(locator, rows=rows)
        self._known: dict[str, Codes] = {}

    def add(self, name: str, subscription: EncryptedSubscription) -> None:
        """Add a subscription (as `add_many`)."""
        self.add_many({name: subscription})

    def add_many(self, subscriptions: Mapping[str, EncryptedSubscription]) -> None:
        """Add subscriptions, all of them or none.

        Raises:
            InputError: `invalid` for another scheme, a name that is there already, or
                intervals that are not ascending.
            DecryptionError: the comparator cannot open a ciphertext.
        """
        for subscription in subscriptions.values():
            self._check(subscription.scheme)
        self.index.add(subscriptions)

    def remove(self, name: str) -> None:
        """Remove a subscription.

        Raises:
            InputError: `unknown` for a name that is not there.
        """
        self.index.remove(name)

    def update(self, name: str, subscription: EncryptedSubscription) -> None:
        """Replace a subscription; where that fails, the old one stays.

        Raises:
            InputError: `unknown` for a name that is not there, else as `add_many`.
        """
        self._check(subscription.scheme)
        self.index.update(name, subscription)

    def match(self, event: EncryptedEvent) -> list[str]:
        """Return the names of the subscriptions that an event matches, sorted.

        Raises:
            InputError: `invalid` for another scheme.
            DecryptionError: the comparator cannot open a ciphertext.
        """
        self._check(event.scheme)
        return self.index.match(event)

    def codes(self, name: str) -> Codes:
        """Return the order-preserving codes of a subscription's bounds (SBM-II only).

        Raises:
            InputError: `invalid` for another scheme, `unknown` for a name that is not there.
        """
        return self._codes(name, self._trees())

    def code_changes(self) -> dict[str, Codes]:
        """Return the subscriptions whose codes are new or changed since this was asked last.

        An insertion rebalances a tree and so changes codes of subscriptions that were there
        before (paper 003, Alg. 4); who keeps codes elsewhere applies what this returns. A
        subscription that was removed comes with no column.

        Raises:
            InputError: `invalid` for another scheme.
        """
        trees = self._trees()
        current = {name: self._codes(name, trees) for name in self.index.names()}
        before, self._known = self._known, current
        changed = {name: codes for name, codes in current.items() if before.get(name) != codes}
        return changed | {name: {} for name in before if name not in current}

    def _trees(self) -> dict[str, dict[int, int]]:
        self._check("sbm2")
        trees: dict[str, dict[int, int]] = {}
        for name, column in self.index.columns.items():
            assert isinstance(column.order, TreeOrder)
            trees[name] = column.order.tree.codes()
        return trees

    def _codes(self, name: str, trees: Mapping[str, Mapping[int, int]]) -> Codes:
        if name not in self.index:
            raise InputError("unknown", f"there is no subscription `{name}`", where=name)
        spans = self.index.spans(name)
        return {column: _intervals(span, trees[column]) for column, span in spans.items()}

    def _check(self, scheme: Scheme) -> None:
        if scheme != self.scheme:
            raise InputError("invalid", f"`{scheme}` does not go with a broker of `{self.scheme}`")


def sbm1_broker(*, rows: int = ROWS) -> Broker:
    """Make a broker of SBM-I, which compares ciphertexts itself."""
    return Broker("sbm1", SortedLocator(), rows=rows)


def sbm2_broker(comparator: Comparator, *, search: Search = "wide", rows: int = ROWS) -> Broker:
    """Make a broker of SBM-II.

    Args:
        comparator: who compares: beside the broker (the paper's enclave, without round
            trips to the owner of the key), or the owner (each call is a round trip).
        search: `wide` for few rounds, `binary` for Alg. 3 as it is written.
        rows: as in `SubscriptionIndex`.
    """
    return Broker("sbm2", TreeLocator(comparator, search=search), rows=rows)


def plain_broker(*, rows: int = ROWS) -> Broker:
    """Make a broker that matches points in clear with the same index."""
    return Broker("plain", SortedLocator(), rows=rows)


def ope_match(
    scheme: Scheme,
    schema: Schema,
    subscriptions: Mapping[str, Expression | str],
    events: Sequence[Mapping[str, object]],
    *,
    random: RandomSource = SYSTEM_RANDOM,
) -> list[list[str]]:
    """Match events with subscriptions under a fresh key, over canonical bytes.

    Args:
        scheme: `sbm1`, `sbm2` or `plain`.
        schema: attributes of the event type.
        subscriptions: conjunctions by name.
        events: values; attributes may be absent.
        random: source of the key and of nonces.

    Returns:
        For each event the names that it matches, sorted.

    Raises:
        InputError: as `parse` and `check_values`; `unsupported` for `||`, `!` and
            `atLeast`; `unknown` for another scheme.
    """
    client, broker = _parties(scheme, schema, random)
    encrypted = {
        name: EncryptedSubscription.from_bytes(client.encrypt_subscription(asked).to_bytes())
        for name, asked in subscriptions.items()
    }
    checked = [check_values(values, schema) for values in events]
    broker.add_many(encrypted)
    sent = (client.encrypt_event(values).to_bytes() for values in checked)
    return [broker.match(EncryptedEvent.from_bytes(data)) for data in sent]


def _parties(scheme: Scheme, schema: Schema, random: RandomSource) -> tuple[Client, Broker]:
    key = random.token(32)
    if scheme == "sbm1":
        return sbm1_client(key, schema), sbm1_broker()
    if scheme == "sbm2":
        return sbm2_client(key, schema, random=random), sbm2_broker(KeyedComparator(key))
    if scheme == "plain":
        return plain_client(schema), plain_broker()
    raise InputError(
        "unknown", f"`{scheme}` is no scheme; expected `sbm1`, `sbm2` or `plain`", where="scheme"
    )


def _intervals(span: Span, codes: Mapping[int, int]) -> tuple[tuple[int | None, int | None], ...]:
    lows = [span.low, *(last + 1 for _, last in span.holes)]
    highs = [*(first - 1 for first, _ in span.holes), span.high]
    return tuple(
        (codes.get(low >> 2), codes.get(high >> 2)) for low, high in zip(lows, highs, strict=True)
    )
