"""What clients do: a publisher seals events, a subscriber filters, and opens what it gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from policyengine import sde
from policyengine.attributes import (
    ANY,
    Element,
    Expression,
    Schema,
    Value,
    access_tree,
    elements_of,
    names,
    parse,
    to_text,
)
from policyengine.blind.apart import take_apart
from policyengine.blind.filters import BlindAlternative, BlindFilter
from policyengine.blind.keys import BlindPublic, ClientKeys
from policyengine.blind.parts import BlindDelivery, BlindPart, Sealed, Searchable, Values
from policyengine.blind.policy import ReadPolicy
from policyengine.blind.sealing import (
    CapsuleMaker,
    CapsuleOpener,
    Context,
    LockMaker,
    check_place,
    open_lock,
    open_value,
    seal_value,
)
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

TEXT_PADDING: Final = 16
"""Trapdoors of a string's value come in multiples of this; other values always have as many."""
_CLEAR: Final = "clear"
_SEARCHABLE: Final = "searchable"


class EventSealer:
    """Seals a publisher's events in one blind epoch. Safe to share between threads.

    Args:
        public: of the epoch.
        keys: the publisher's.
        random: source of all secrets.

    Raises:
        RejectedError: `blind-epoch` when the two are of different epochs.
    """

    def __init__(
        self, public: BlindPublic, keys: ClientKeys, *, random: RandomSource = SYSTEM_RANDOM
    ) -> None:
        check_place(keys.place, public.place)
        self._place, self._random = keys.place, random
        self._trapdoors = sde.TrapdoorMaker(keys.search, random=random)
        self._locks = LockMaker(public, random)
        self._capsules = CapsuleMaker(keys, random=random)

    def seal(
        self,
        context: Context,
        values: Mapping[str, Value],
        searchable: Schema,
        policies: Mapping[str, ReadPolicy],
    ) -> BlindPart:
        """Seal what a part of an event carries (paper 001, section 5.2; 004, section 4.4).

        Args:
            context: what it is bound to.
            values: checked values of the part's blind attributes; some may be absent.
            searchable: attributes of the part that agents match on, absent ones included.
            policies: of each attribute whose value travels, who may read it. An attribute
                without a policy, or with one that nobody meets, is matched and never read.

        Raises:
            InputError: as `attributes.elements_of` and `abe.cp_encapsulate`.
        """
        groups = [self._searchable(name, values, searchable) for name in sorted(searchable)]
        always = self._trapdoors.event([ANY]) if groups else None
        return BlindPart(
            self._place, always, tuple(groups), self._values(context, values, policies)
        )

    def _searchable(
        self, name: str, values: Mapping[str, Value], searchable: Schema
    ) -> Searchable[sde.UserEvent]:
        schema = {name: searchable[name]}
        absent = self._trapdoors.event(_elements({}, schema))
        if name not in values:
            return Searchable(name, absent, None)
        # Only texts have more or fewer elements by their value.
        padding = TEXT_PADDING if searchable[name].kind == "string" else 1
        elements = _elements({name: values[name]}, schema)
        return Searchable(name, absent, self._trapdoors.event(elements, padding=padding))

    def _values(
        self, context: Context, values: Mapping[str, Value], policies: Mapping[str, ReadPolicy]
    ) -> Values:
        wanted = sorted(name for name in values if name in policies and policies[name].alternatives)
        if not wanted:
            return Values()
        numbers: dict[ReadPolicy, int] = {}
        for name in wanted:
            numbers.setdefault(policies[name], len(numbers))
        capsules = [self._capsules.capsule(policy) for policy in numbers]
        lock, sent = self._locks.make()
        sealed = []
        for name in wanted:
            number = numbers[policies[name]]
            bound = context.bound(self._place, name)
            data = seal_value(values[name], bound, lock, capsules[number][0], self._random)
            sealed.append(Sealed(name, number, data))
        return Values(sent, tuple(data for _, data in capsules), tuple(sealed))


def _elements(values: dict[str, Value], schema: Schema) -> list[Element]:
    return [element for element in elements_of(values, schema) if element != ANY]


def split_filter(
    expression: Expression, schema: Schema, searchable: Collection[str]
) -> tuple[tuple[Expression | None, Expression | None], ...]:
    """Take a filter apart into what agents read and what they match blindly.

    Args:
        expression: the filter.
        schema: attributes that agents can match on, in clear or searchable.
        searchable: those that are searchable.

    Returns:
        Alternatives, any of which is enough: the clear expression and the searchable one, None
        where there is none.

    Raises:
        InputError: `unsupported` for an attribute that agents cannot match on, or two that
            cannot be compared; `too-large` for a filter that is too entangled.
    """
    for name in names(expression):
        if name not in schema:
            raise InputError(
                "unsupported",
                f"agents cannot match on `{name}`, because its value is sealed from them",
                where=name,
            )
    apart = take_apart(expression, lambda name: _SEARCHABLE if name in searchable else _CLEAR)
    return tuple((one.get(_CLEAR), one.get(_SEARCHABLE)) for one in apart)


def seal_filter(
    keys: ClientKeys,
    alternatives: Sequence[tuple[Expression | None, Expression | None]],
    schema: Schema,
    *,
    random: RandomSource = SYSTEM_RANDOM,
) -> BlindFilter:
    """Encrypt a filter (paper 001, section 5.3).

    Args:
        keys: the subscriber's.
        alternatives: from `split_filter`.
        schema: the searchable attributes.
        random: source of the blinding.

    Raises:
        InputError: as `attributes.access_tree`.
    """
    made = []
    for clear, search in alternatives:
        encrypted = None
        if search is not None:
            tree = access_tree(search, schema)
            encrypted = sde.encrypt_filter(keys.search, tree, random=random).filter
        made.append(BlindAlternative("" if clear is None else to_text(clear), encrypted))
    return BlindFilter(keys.place, tuple(made))


def seal_filter_text(
    keys: ClientKeys,
    text: str,
    schema: Schema,
    searchable: Collection[str],
    *,
    random: RandomSource = SYSTEM_RANDOM,
) -> BlindFilter:
    """Parse, take apart and encrypt a filter.

    Args:
        keys: the subscriber's.
        text: the filter.
        schema: attributes that agents can match on, in clear or searchable.
        searchable: those that are searchable.
        random: source of the blinding.

    Raises:
        InputError: as `attributes.parse`, `split_filter` and `seal_filter`.
    """
    alternatives = split_filter(parse(text, schema), schema, searchable)
    return seal_filter(keys, alternatives, schema, random=random)


class DeliveryOpener:
    """Opens what a subscriber gets in one blind epoch. Safe to share between threads.

    Args:
        keys: the subscriber's.
    """

    def __init__(self, keys: ClientKeys) -> None:
        self._keys = keys
        self._capsules = CapsuleOpener(keys.readers)

    def open(
        self, delivery: BlindDelivery, context: Context
    ) -> tuple[dict[str, Value], tuple[str, ...]]:
        """Open a delivery (paper 004, step 21).

        Args:
            delivery: from the home agent.
            context: what it must be bound to.

        Returns:
            Name -> value of what could be opened; the names of what could not.

        Raises:
            RejectedError: `blind-epoch` when the keys are of another epoch.
        """
        held = delivery.values
        check_place(self._keys.place, delivery.place)
        try:
            lock = open_lock(self._keys, delivery.place, held.lock, delivery.half)
        except (DecodeError, DecryptionError):
            return {}, tuple(one.name for one in held.sealed)
        found: dict[str, Value] = {}
        for one in held.sealed:
            secret = self._capsules.secret(held.capsules[one.capsule])
            bound = context.bound(delivery.place, one.name)
            try:
                if secret is not None:
                    found[one.name] = open_value(one.data, bound, lock, secret)
            except DecryptionError:
                continue
        return found, tuple(one.name for one in held.sealed if one.name not in found)
