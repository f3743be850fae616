"""Blind profiles at a client: hide attributes from agents, encrypt filters, open what comes.

Everything names its blind epoch and is handled with keys of that epoch or not at all: new
events are sealed in the current one, a filter in every one that is open, a delivery is opened
in the one that it names.

Source: papers 001, sections 5.2 to 5.4, and 004, steps 5 and 14 to 21.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from brokers.client.epochkeys import EpochKeys, epoch_keys
from brokers.client.errors import NotReady
from brokers.client.ranges import compared_filter, compared_values, range_cipher
from brokers.data.reasons import EPOCH_UNKNOWN, MALFORMED, NO_KEY
from brokers.data.subscriptions import compile_filter
from policyengine.attributes import (
    Expression,
    Literal,
    Or,
    Predicate,
    Value,
    literal_token,
    names,
    to_text,
    tokens_of,
)
from policyengine.blind import (
    BlindDelivery,
    Context,
    DeliveryOpener,
    Place,
    seal_filter,
    split_filter,
)
from policyengine.bundles import BlindClientEpoch, Delivery, OrderKey, ReadTerm, read_policy
from policyengine.errors import DecodeError, InputError, RejectedError
from policyengine.events import AttributeSpec, EventTypes
from policyengine.ope import RangeCipher
from policyengine.ope import split_filter as range_split
from policyengine.trustgroups import may_open, may_seal
from policyengine.trustgroups.epochs import EpochState

_SEARCHABLE = "searchable"
_EVENT = "event."
_Terms = Mapping[str, tuple[ReadTerm, ...]]


@dataclass(frozen=True)
class HiddenPart:
    """A part of an event as agents get it.

    Args:
        attributes: what they may read.
        blind: `blind.BlindPart` of the others; empty where there are none.
        ordered: `ope.RangeValues` of those that agents compare; empty where there are none.
    """

    attributes: Mapping[str, Value]
    blind: bytes = b""
    ordered: bytes = b""


@dataclass(frozen=True)
class AskedFor:
    """A filter as agents get it; an event must meet all of it.

    Args:
        clear: the part over attributes that agents read, or empty.
        blind: for each open blind epoch `blind.BlindFilter`; none where agents read all of it.
        ordered: `ope.RangeFilter` of what they compare; empty for nothing.
    """

    clear: str
    blind: tuple[bytes, ...] = ()
    ordered: bytes = b""


@dataclass(frozen=True)
class _Asked:
    """What policies ask of a type's events.

    Args:
        tests: tests of the event alone.
        compared: attributes (by full name) that are compared with one of the reader.
    """

    tests: tuple[Literal, ...] = ()
    compared: frozenset[str] = frozenset()

    @classmethod
    def of(cls, terms: Iterable[ReadTerm]) -> _Asked:
        """Collect it."""
        listed = list(terms)
        tests = [Literal.from_json(test) for term in listed for test in term.event]
        unique = {literal_token(test): test for test in tests}
        compared = frozenset(right for term in listed for _, right in term.joins)
        return cls(tuple(unique.values()), compared)


_NOTHING = _Asked()


@dataclass(frozen=True)
class _Epoch:
    state: EpochState
    keys: EpochKeys = field(repr=False)
    policies: Mapping[str, _Terms] = field(repr=False)
    asked: Mapping[str, _Asked] = field(repr=False)
    opener: DeliveryOpener = field(repr=False)


@dataclass(frozen=True)
class BlindProfile:
    """What a client hides from agents, and the keys for it.

    Args:
        types: the domain's event types.
        ranges: encrypts order-preserving attributes.
        epochs: those that are not retired, by number.
        lacking: of these where the key of a filter is on its way.
    """

    types: EventTypes
    ranges: RangeCipher = field(repr=False)
    epochs: Mapping[int, _Epoch] = field(default_factory=dict, repr=False)
    lacking: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        domain: str,
        handle: str,
        types: EventTypes,
        content: Iterable[BlindClientEpoch],
        ordered: Iterable[OrderKey] = (),
    ) -> BlindProfile:
        """Read what a bundle brings.

        Args:
            domain: the domain.
            handle: whose it is.
            types: the domain's event types.
            content: keys of blind epochs.
            ordered: keys of order-preserving attributes.

        Raises:
            DecodeError: keys that are none, or stand in the place of others.
        """
        ranges = range_cipher(domain, types, ordered)
        found = {one.epoch: _epoch(domain, handle, one) for one in content}
        return cls(
            types, ranges, {number: one for number, one in found.items() if may_open(one.state)}
        )

    def with_filters(
        self, filters: Mapping[int, tuple[bytes, ...]], lacking: Iterable[int]
    ) -> BlindProfile:
        """The same, reading also what the keys of filters open.

        Args:
            filters: epoch -> `blind.ClientKeys` of each filter.
            lacking: epochs in which the key of a filter is on its way.

        Raises:
            DecodeError: keys that are none, or of another client or epoch.
        """
        epochs = {
            number: replace(one, opener=one.keys.opener_with(tuple(filters.get(number, ()))))
            for number, one in self.epochs.items()
        }
        return replace(self, epochs=epochs, lacking=frozenset(lacking))

    def hidden(self, event_type: str) -> Mapping[str, AttributeSpec]:
        """The attributes of a type that agents may not have; none for an unknown type."""
        try:
            specs = self.types.attributes(event_type)
        except InputError:
            return {}
        return {spec.name: spec for spec in specs if spec.blind}

    def tokens(
        self, event_type: str, values: Mapping[str, Value], predicates: Iterable[Predicate]
    ) -> tuple[str, ...]:
        """What routing tags are made of: all that holds of an event, and of what is hidden only
        what policies ask for, so that tags do not tell that two hidden values are equal.

        Args:
            event_type: the event's type.
            values: of the whole event.
            predicates: what policies ask for beside equality.
        """
        hidden = self.hidden(event_type)
        named = {_EVENT + name: value for name, value in values.items()}
        if not hidden:
            return tokens_of(named, predicates)
        asked = self._asked(event_type)
        shown = {
            name: value
            for name, value in named.items()
            if name.removeprefix(_EVENT) not in hidden or name in asked.compared
        }
        held = (one for one in (*predicates, *asked.tests) if one.holds(named))
        return tuple(sorted({*tokens_of(shown, ()), *map(literal_token, held)}))

    def _asked(self, event_type: str) -> _Asked:
        current = (one for one in self.epochs.values() if may_seal(one.state))
        return next((one.asked.get(event_type, _NOTHING) for one in current), _NOTHING)

    # publishing

    def hide(
        self,
        event_type: str,
        part: Mapping[str, Value],
        values: Mapping[str, Value],
        context: Context,
        *,
        whole: bool,
    ) -> HiddenPart:
        """Hide what agents may not have of a part.

        Args:
            event_type: the event's type.
            part: the part's values, in canonical form.
            values: those of the whole event: they decide who may read.
            context: what ciphertexts are bound to.
            whole: whether the part is the whole event.

        Raises:
            NotReady: `not-ready`, where no key to hide a value with is current.
            InputError: a value that does not fit its type, or a policy that is too large.
        """
        hidden = self.hidden(event_type)
        concealed = {name: value for name, value in part.items() if name in hidden}
        searchable = {
            name: spec.type
            for name, spec in hidden.items()
            # Whether an attribute is absent is hidden where its agent sees all of the event.
            if spec.blind == _SEARCHABLE and (whole or name in concealed)
        }
        if not concealed and not searchable:
            return HiddenPart(part)
        shown = {name: value for name, value in part.items() if name not in hidden}
        # INVARIANT: what does not fit its type is not sealed, for no agent could refuse it.
        self.types.validate(event_type, concealed)
        ordered = compared_values(self.ranges, event_type, concealed)
        if not searchable and not any(hidden[name].sealed for name in concealed):
            return HiddenPart(shown, ordered=ordered)
        epoch = self._current()
        terms = epoch.policies.get(event_type, {})
        policies = {
            name: read_policy(terms[name], values)
            for name in concealed
            if hidden[name].sealed and name in terms
        }
        made = epoch.keys.sealer.seal(context, concealed, searchable, policies)
        return HiddenPart(shown, made.to_bytes(), ordered)

    def _current(self) -> _Epoch:
        for epoch in self.epochs.values():
            if may_seal(epoch.state):
                return epoch
        raise NotReady("not-ready", "no current key to hide attributes with has arrived")

    # subscribing

    def ask(self, event_type: str, text: str) -> AskedFor:
        """Take a filter apart into what agents may read and what they match blindly.

        Args:
            event_type: the type that is asked for.
            text: the filter; empty for all events.

        Raises:
            NotReady: `not-ready`, where no key of a blind epoch has arrived.
            InputError: the filter is wrong, or asks what agents cannot answer.
        """
        hidden = self.hidden(event_type)
        specs = tuple(self.types.attributes(event_type)) if hidden else ()
        expression = compile_filter(text, specs) if hidden else None
        if expression is None or hidden.keys().isdisjoint(names(expression)):
            return AskedFor(text)
        inside, outside = range_split(expression, self.ranges.attributes(event_type))
        ordered = compared_filter(self.ranges, event_type, inside)
        if outside is None or hidden.keys().isdisjoint(names(outside)):
            return AskedFor("" if outside is None else to_text(outside), ordered=ordered)
        matched = {s.name: s.type for s in specs if s.blind in ("", _SEARCHABLE)}
        searchable = {name: kind for name, kind in matched.items() if name in hidden}
        alternatives = split_filter(outside, matched, searchable)
        if not self.epochs:
            raise NotReady("not-ready", "no key to encrypt the filter with has arrived")
        blind = tuple(
            seal_filter(one.keys.own, alternatives, searchable).to_bytes()
            for _, one in sorted(self.epochs.items())
        )
        return AskedFor(_common([clear for clear, _ in alternatives]), blind, ordered)

    def asked_under(self, event_type: str) -> Hashable:
        """Changes where filters on a type must be encrypted anew."""
        hidden = self.hidden(event_type).values()
        kinds = tuple(sorted((spec.name, spec.blind) for spec in hidden))
        keys = (tuple(sorted(self.epochs)), self.ranges.slots(event_type)) if kinds else ()
        return (kinds, keys) if kinds else ()

    # receiving

    def awaits(self, delivery: Delivery) -> bool:
        """Whether a delivery is of an epoch whose keys are on their way here."""
        try:
            epoch = BlindDelivery.from_bytes(delivery.blind).place.epoch
        except DecodeError:
            return False
        return epoch > max(self.epochs, default=-1) or epoch in self.lacking

    def open(self, delivery: Delivery) -> Delivery:
        """Open what agents could not read of a delivery.

        What does not open is withheld, with the reason: `no-key` where a policy or a missing
        share says no, `epoch-unknown` without the epoch's keys, `malformed` where the value
        is none of its type.

        Args:
            delivery: verified.

        Raises:
            InputError: `invalid`, where its agent sealed something else.
        """
        if not delivery.blind:
            return delivery
        try:
            came = BlindDelivery.from_bytes(delivery.blind)
        except DecodeError as error:
            raise InputError("invalid", "the delivery's sealed values are damaged") from error
        sealed = [one.name for one in came.values.sealed]
        held = self.epochs.get(came.place.epoch)
        if held is None:
            return _opened(delivery, {}, dict.fromkeys(sealed, EPOCH_UNKNOWN))
        context = Context(delivery.publication, delivery.part)
        try:
            values, closed = held.opener.open(came, context)
        except RejectedError:  # of another domain
            values, closed = {}, tuple(sealed)
        fitting = {name: v for name, v in values.items() if self._fits(delivery, name, v)}
        misfits = dict.fromkeys(values.keys() - fitting.keys(), MALFORMED)
        return _opened(delivery, fitting, dict.fromkeys(closed, NO_KEY) | misfits)

    def _fits(self, delivery: Delivery, name: str, value: Value) -> bool:
        # INVARIANT: what agents pass on in clear is never replaced by what is sealed.
        if name in delivery.attributes or name not in self.hidden(delivery.type):
            return False
        try:
            self.types.validate(delivery.type, {name: value})
        except InputError:
            return False
        return True


def _epoch(domain: str, handle: str, content: BlindClientEpoch) -> _Epoch:
    keys = epoch_keys(content.public, content.keys)
    place = Place(domain, content.epoch)
    held = (keys.public.place, keys.own.place, keys.own.handle, keys.own.search.system)
    if held != (place, place, handle, keys.public.search):
        raise DecodeError("a key stands in the place of another one")
    asked = {
        name: _Asked.of(term for terms in by_name.values() for term in terms)
        for name, by_name in content.read_policies.items()
    }
    return _Epoch(_state(content.state), keys, content.read_policies, asked, keys.opener)


def _state(word: str) -> EpochState:
    for state in ("staged", "current", "draining", "retired"):
        if word == state:
            return state
    raise DecodeError(f"`{word}` is no state of an epoch")


def _common(clear: list[Expression | None]) -> str:
    """What every event that meets a filter meets of what agents read; empty for nothing."""
    terms = [one for one in clear if one is not None]
    if not terms or len(terms) < len(clear):
        return ""
    distinct = list({to_text(one): one for one in terms}.values())
    return to_text(distinct[0] if len(distinct) == 1 else Or(tuple(distinct)))


def _opened(
    delivery: Delivery, values: Mapping[str, Value], withheld: Mapping[str, str]
) -> Delivery:
    return replace(
        delivery,
        attributes={**delivery.attributes, **values},
        withheld={**delivery.withheld, **withheld},
        blind=b"",
    )
