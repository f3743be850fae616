"""Subscriptions of an agent's own clients: who asked for what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from bitarray import bitarray

from brokers.data.blindfilters import (
    NOTHING_MATCHED,
    BlindStore,
    BlindWish,
    Matched,
    blind_text,
    check_blind_filters,
    check_readable,
)
from brokers.data.ranges import (
    RangeEvent,
    RangeWish,
    check_range_filter,
    keep_ranges,
    range_text,
)
from brokers.data.reasons import (
    INVALID_FILTER,
    MALFORMED,
    REVOKED,
    STALE,
    TOO_MANY,
    UNKNOWN_CLIENT,
    UNKNOWN_TYPE,
    refuse,
)
from brokers.data.wishes import TypeWishes
from brokers.matching import EpochPolicy
from brokers.snapshot import DomainSnapshot
from policyengine.attributes import Expression, Value, evaluate, parse
from policyengine.bundles import SESSIONS, SignedSubscribe, SubscribeRequest
from policyengine.errors import DecodeError, InputError, RejectedError
from policyengine.events import AttributeSpec
from policyengine.ope import RangeIndex

MOST_SUBSCRIPTIONS = 1_000
"""Subscriptions of one client in one domain, so that none fills an agent's memory."""
MOST_CHARACTERS = 4 * 2**20
"""Characters of all of a client's filters in one domain."""
MOST_NAMED = 16


@dataclass(frozen=True)
class Subscription:
    """What one client asked for.

    Args:
        domain: the domain.
        handle: the client.
        identifier: the client's own name for it.
        type: event type; its sub-types are included.
        filter: expression over the event's attributes, or empty for all events.
        blind: where the filter names attributes that agents may not have, the encrypted one
            (`blind.blind_text`); `filter` is then what all its events meet of the others.
        ordered: `ranges.range_text`: what is asked of order-preserving attributes beside it.
        reads: `sessions` where the client said with it that it reads deliveries in sessions.
    """

    domain: str
    handle: str
    identifier: str
    type: str
    filter: str
    blind: str = ""
    ordered: str = ""
    reads: str = ""

    @property
    def size(self) -> int:
        """How much its texts take, in characters."""
        return sum(len(text) for text in vars(self).values())


def compile_filter(text: str, specs: Iterable[AttributeSpec]) -> Expression | None:
    """Parse a filter over the plain attribute names of an event type; None for an empty one.

    Raises:
        InputError: with the position of what is wrong.
    """
    if not text:
        return None
    return parse(text, {spec.name: spec.type for spec in specs})


def meets(expression: Expression | None, values: Mapping[str, Value]) -> bool:
    """Whether an event passes a filter.

    The filter sees only what its subscriber may read: any other attribute counts as
    absent, so that a filter can never probe a hidden value.

    Args:
        expression: from `compile_filter`.
        values: the attributes that the subscriber may read.
    """
    return expression is None or evaluate(expression, values)


@dataclass(frozen=True)
class Wanted:
    """What one subscription asks for; all of it must hold.

    Args:
        expression: of what agents can read; None for all.
        blind: of what they match without reading; None for all.
        ordered: of what they compare without reading; None for all.
        identifier: the client's own name for it.
    """

    expression: Expression | None
    blind: BlindWish | None = None
    ordered: RangeWish | None = None
    identifier: str = ""


def _everything(name: str) -> bool:
    return True


@dataclass(frozen=True)
class Hidden:
    """What the attributes of an event that the agent does not read meet, for one subscriber.

    Args:
        matched: the encrypted filters of searchable attributes.
        ranges: the order-preserving attributes.
        permits: whether the subscriber may read an attribute.
    """

    matched: Matched = NOTHING_MATCHED
    ranges: RangeEvent | None = None
    permits: Callable[[str], bool] = _everything

    def meets(self, wanted: Wanted, values: Mapping[str, Value]) -> bool:
        """Whether they meet what a subscription asks of them.

        Raises:
            ComparatorAway: a comparator would have to be asked, and cannot be.
        """
        if wanted.blind is not None and not wanted.blind.met(values, self.matched):
            return False
        if wanted.ordered is None:
            return True
        return self.ranges is not None and self.ranges.meets(wanted.ordered, self.permits)


NOTHING_HIDDEN = Hidden()


@dataclass(frozen=True)
class Interest:
    """Everything that one client wants of one event type."""

    handle: str
    filters: tuple[Wanted, ...]

    def met(self, values: Mapping[str, Value], hidden: Hidden = NOTHING_HIDDEN) -> tuple[str, ...]:
        """The names of the subscriptions whose filters are met, the first ones of many.

        No comparator is asked about a second one: one suffices for a delivery.

        Args:
            values: what the subscriber may read of what the agent reads.
            hidden: what the agent matches without reading it.

        Raises:
            ComparatorAway: a comparator would have to be asked, and cannot be.
        """
        found: list[str] = []
        for one in self.filters:
            if found and (one.ordered is not None or len(found) == MOST_NAMED):
                continue
            if meets(one.expression, values) and hidden.meets(one, values):
                found.append(one.identifier)
        return tuple(found)


@dataclass(frozen=True)
class SubscriptionIndex:
    """Subscriptions of one domain, by event type.

    Args:
        by_type: event type -> the clients that want events of exactly that type, by handle.
        broken: subscriptions that do not fit the policy in force; nothing meets them.
        store: the encrypted filters.
        wishes: event type -> an index of the same.
        compiled: what each subscription asks for.
        ranges: what is asked of order-preserving attributes; it outlives this index.
        held: handle -> names of its subscriptions with their size.
        in_sessions: clients that read deliveries in sessions, by every subscription of theirs:
            who goes back to an earlier release tells them anew one by one.
    """

    by_type: Mapping[str, Mapping[str, Interest]]
    broken: tuple[Subscription, ...]
    store: BlindStore = field(default_factory=BlindStore)
    wishes: Mapping[str, TypeWishes] = field(default_factory=dict)
    compiled: Mapping[Subscription, Wanted] = field(default_factory=dict)
    ranges: RangeIndex | None = None
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    in_sessions: frozenset[str] = frozenset()

    @classmethod
    def build(
        cls,
        snapshot: DomainSnapshot,
        subscriptions: Iterable[Subscription],
        store: BlindStore | None = None,
        previous: SubscriptionIndex | None = None,
        ranges: RangeIndex | None = None,
    ) -> SubscriptionIndex:
        """Compile subscriptions against the types in force.

        Args:
            snapshot: the domain's policy.
            subscriptions: of this domain.
            store: the encrypted filters of the index before, to be used again.
            previous: the index before, under the same policy: what did not change is taken
                from it, and it must not be used any more.
            ranges: takes what is asked of order-preserving attributes.
        """
        store = BlindStore() if store is None else store
        wanted: dict[str, dict[str, list[Wanted]]] = defaultdict(lambda: defaultdict(list))
        known = {} if previous is None else previous.compiled
        compiled: dict[Subscription, Wanted] = {}
        asked: dict[Hashable, RangeWish] = {}
        held: dict[str, dict[str, int]] = defaultdict(dict)
        broken = []
        otherwise = set()
        for subscription in subscriptions:
            if subscription.reads != SESSIONS:
                otherwise.add(subscription.handle)
            held[subscription.handle][subscription.identifier] = subscription.size
            try:
                asks = known.get(subscription) or _wanted(snapshot, subscription, store)
                covered = snapshot.types.subtree(subscription.type)
            except (InputError, DecodeError, RejectedError, KeyError):
                broken.append(subscription)
                continue
            compiled[subscription] = asks
            if asks.ordered is not None:
                asked[asks.ordered.key] = asks.ordered
            for name in covered:
                wanted[name][subscription.handle].append(asks)
        by_type = {
            name: {handle: Interest(handle, tuple(found)) for handle, found in clients.items()}
            for name, clients in wanted.items()
        }
        keep_ranges(ranges, asked)
        store.keep(
            {epoch: held.public.search for epoch, held in snapshot.blind.items()},
            [one.blind for one in _all(by_type) if one.blind is not None],
        )
        wishes = _wishes(snapshot, by_type, {} if previous is None else previous.wishes)
        in_sessions = frozenset(held.keys() - otherwise)
        return cls(by_type, tuple(broken), store, wishes, compiled, ranges, held, in_sessions)

    def may_want(
        self,
        event_type: str,
        policy: EpochPolicy,
        authorised: bitarray,
        values: Mapping[str, Value] | None,
    ) -> list[Interest]:
        """The authorised clients that may want an event, with those filters that it may meet.

        Args:
            event_type: the event's type.
            policy: the epoch that it names.
            authorised: bit i is set where client i of the epoch is.
            values: attribute name -> value, all that this agent knows of the event; None for a
                part of a split event, whose filters only the client meets.
        """
        clients = self.by_type.get(event_type)
        if not clients:
            return []
        wishes = self.wishes[event_type]
        if values is None:
            return [clients[handle] for handle in wishes.everyone(policy, authorised)]
        return [
            Interest(handle, tuple(clients[handle].filters[number] for number in numbers))
            for handle, numbers in wishes.candidates(policy, authorised, values)
        ]


def _wishes(
    snapshot: DomainSnapshot,
    by_type: Mapping[str, Mapping[str, Interest]],
    previous: Mapping[str, TypeWishes],
) -> dict[str, TypeWishes]:
    found: dict[str, TypeWishes] = {}
    for name, clients in by_type.items():
        schema = {spec.name: spec.type for spec in snapshot.specs[name]}
        held = found[name] = previous.get(name) or TypeWishes(schema)
        held.take(
            (handle, tuple(one.expression for one in interest.filters))
            for handle, interest in clients.items()
        )
    return found


def _all(by_type: Mapping[str, Mapping[str, Interest]]) -> Iterator[Wanted]:
    for clients in by_type.values():
        for interest in clients.values():
            yield from interest.filters


def _wanted(snapshot: DomainSnapshot, one: Subscription, store: BlindStore) -> Wanted:
    specs = snapshot.specs.get(one.type, ())
    expression = compile_filter(one.filter, specs)
    check_readable(expression, specs)
    wish = store.wish(snapshot, one.handle, one.type, one.blind) if one.blind else None
    if not one.ordered:
        return Wanted(expression, wish, identifier=one.identifier)
    asked = RangeWish.of(snapshot, (one.handle, one.identifier), one.ordered)
    return Wanted(expression, wish, asked, one.identifier)


def judge_subscribe(
    snapshot: DomainSnapshot, signed: SignedSubscribe, *, now: float, oldest: float
) -> SubscribeRequest:
    """Decide about a client's request to begin or end a subscription.

    Args:
        snapshot: the domain's policy in force.
        signed: the opened request.
        now: Unix time in seconds, by the lease's signed time.
        oldest: Unix time before which a request is refused as old.

    Raises:
        RejectedError: `malformed`, `unknown-client`, `signature`, `revoked`, `stale`,
            `unknown-type`, `invalid-filter`, `no-share`, `epoch-unknown` or `epoch-retired`.
    """
    request = signed.request
    if request.domain != snapshot.domain:
        refuse(MALFORMED, "the request is for another domain")
    client = snapshot.clients.get(request.client)
    if client is None:
        refuse(UNKNOWN_CLIENT, "this agent is not the home of that client")
    signed.verify(client.verify_key)
    if request.client in snapshot.denied:
        refuse(REVOKED, "the client was revoked")
    if not oldest <= request.issued <= now + 120.0:
        refuse(STALE, "the request was issued too long ago, or in the future")
    if request.action == "subscribe":
        _check_interest(snapshot, request)
    return request


def _check_interest(snapshot: DomainSnapshot, request: SubscribeRequest) -> None:
    if request.type not in snapshot.specs:
        refuse(UNKNOWN_TYPE, f"event type `{request.type}` does not exist in this domain")
    specs = snapshot.specs[request.type]
    try:
        check_readable(compile_filter(request.filter, specs), specs)
    except InputError as error:
        place = "" if error.at is None else f" (at position {error.at})"
        refuse(INVALID_FILTER, f"{error.message}{place}")
    check_blind_filters(snapshot, request.client, request.type, request.blind)
    check_range_filter(snapshot, request.type, request.ordered)


def check_room(held: Mapping[str, int], one: Subscription) -> None:
    """Refuse a subscription beyond what one client may have at an agent.

    Args:
        held: name -> size of what the client has; one of the same name makes room.
        one: the new one.

    Raises:
        RejectedError: `too-many-subscriptions`.
    """
    others = [size for name, size in held.items() if name != one.identifier]
    if len(others) >= MOST_SUBSCRIPTIONS:
        refuse(TOO_MANY, f"a client has at most {MOST_SUBSCRIPTIONS} subscriptions at an agent")
    if sum(others) + one.size > MOST_CHARACTERS:
        refuse(TOO_MANY, f"a client's filters have at most {MOST_CHARACTERS} characters together")


def subscription_of(request: SubscribeRequest) -> Subscription:
    """The subscription that an accepted request begins."""
    return Subscription(
        domain=request.domain,
        handle=request.client,
        identifier=request.subscription,
        type=request.type,
        filter=request.filter,
        blind=blind_text(request.blind),
        ordered=range_text(request.ordered),
        # INVARIANT: of what a client reads only the words that are known here are kept.
        reads=SESSIONS if SESSIONS in request.reads else "",
    )
