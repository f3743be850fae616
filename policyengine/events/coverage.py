"""Filters under attribute keys, and which subscription covers which.

Paper 002, section 4.3, formula 3 and Fig. 3, as corrected: a filter is encrypted under
*any of* a set of keys. It matches an event when, for one of them, the expression holds for
the values that the event carries under that key. So a filter covers another one when the
other's expression implies its own and the other's keys are among its own. A filter in clear
sees public values only: it neither covers nor is covered by one under keys, since neither
sees what the other sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policyengine.attributes import Expression, Schema, Value, evaluate, parse, to_text
from policyengine.attributes.syntax import walk
from policyengine.events.implication import WORK, Search, TooMuchWork
from policyengine.events.reading import as_list, as_object, as_text, as_texts, at, placed
from policyengine.events.types import EventTypes

MAX_FILTERS: Final = 1024
"""Most filters that a subscription in JSON may have."""


@dataclass(frozen=True, slots=True)
class Filter:
    """One condition of a subscription.

    Args:
        expression: a typed expression over the attributes of the subscription's type.
        keys: names of the attribute keys; it is encrypted under any of them. None of
            them: it travels in clear.

    Raises:
        InputError: `too-large` for a tree that is too deep.
    """

    expression: Expression
    keys: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for _ in walk(self.expression):
            pass  # refuses trees that would exhaust the stack

    def matches(self, views: Mapping[str | None, Mapping[str, Value]]) -> bool:
        """Tell whether an event meets the filter.

        Args:
            views: what the event shows under each key, None for what it shows in clear.
                A key that the event does not use shows what is public.
        """
        keys: Iterable[str | None] = self.keys or (None,)
        return any(evaluate(self.expression, views.get(key, views[None])) for key in keys)

    def to_json(self) -> dict[str, object]:
        """Write `{"expression", "keys"}`, keys sorted."""
        return {"expression": to_text(self.expression), "keys": sorted(self.keys)}


@dataclass(frozen=True, slots=True)
class Subscription:
    """An event type and filters that must all be met.

    Args:
        type: name of the event type; events of its sub-types are asked for too.
        filters: none asks for every event of the type.
    """

    type: str
    filters: tuple[Filter, ...] = ()

    @classmethod
    def from_json(
        cls, obj: object, types: EventTypes, *, where: str = "subscription"
    ) -> Subscription:
        """Read `{"type", "filters": [{"expression", "keys"}]}`.

        Args:
            obj: the JSON object.
            types: the known types; an expression may name the attributes that are
                visible at the subscription's type, inherited ones included.
            where: name of the object, for errors.

        Raises:
            InputError: `invalid`, `too-large` for over `MAX_FILTERS` filters, or what is
                wrong with the type (`unknown`) or an expression; `where` names the place.
        """
        fields = as_object(obj, where, required=("type", "filters"))
        name = as_text(fields["type"], at(where, "type"))
        with placed(at(where, "type")):
            schema = types.schema(name)
        filters = []
        listed = as_list(fields["filters"], at(where, "filters"), limit=MAX_FILTERS)
        for number, item in enumerate(listed):
            filters.append(_filter(item, schema, f"{at(where, 'filters')}[{number}]"))
        return cls(name, tuple(filters))

    def to_json(self) -> dict[str, object]:
        """Write what `from_json` reads."""
        return {"type": self.type, "filters": [each.to_json() for each in self.filters]}

    def matches(
        self, types: EventTypes, type_name: str, views: Mapping[str | None, Mapping[str, Value]]
    ) -> bool:
        """Tell whether an event is asked for.

        Args:
            types: the known types.
            type_name: the event's type.
            views: as for `Filter.matches`.
        """
        return types.is_a(type_name, self.type) and all(one.matches(views) for one in self.filters)


def views(
    types: EventTypes, type_name: str, values: Mapping[str, Value]
) -> dict[str | None, dict[str, Value]]:
    """Return what an event shows under each key, beside what is public.

    Args:
        types: the known types.
        type_name: the event's type.
        values: its attributes.

    Returns:
        Key name, None for an event in clear, to the values that can be read with it.

    Raises:
        InputError: `unknown` for the type or an attribute.
    """
    keys = {name: types.attribute(type_name, name).keys for name in values}
    every = sorted({key for of_one in keys.values() for key in of_one})
    return {
        view: {
            name: value for name, value in values.items() if not keys[name] or view in keys[name]
        }
        for view in (None, *every)
    }


def covers(
    types: EventTypes, first: Subscription, second: Subscription, *, work: int = WORK
) -> bool:
    """Tell whether a subscription covers another one: matches whatever that one matches.

    Sound: never a false yes. It is complete, for filters as formula 3 judges them, as
    long as the implications can be decided within the bound of work. Filters in clear
    imply together; a filter under keys implies together with those under the one key by
    which it is met. A filter that always holds is as good as none: the paper gives every
    subscription empty filters under all keys.

    Args:
        types: the known types.
        first: the one that may be more general.
        second: the one that may be more special.
        work: bound of each implication, in steps.

    Raises:
        InputError: `unknown` for a type that does not exist.
    """
    if not types.is_a(second.type, first.type):
        return False
    given = _Given(second.filters, Search(types.schema(second.type), work))
    # What both ask for word for word needs no search: reflexive whatever the bound
    wanted = [one for one in first.filters if not given.has(one)]
    try:
        return all(given.covered(one) for one in wanted)
    except TooMuchWork:
        return False


def equivalent(
    types: EventTypes, first: Subscription, second: Subscription, *, work: int = WORK
) -> bool:
    """Tell whether two subscriptions cover each other."""
    return covers(types, first, second, work=work) and covers(types, second, first, work=work)


def _admits(wanted: Filter, given: Filter) -> bool:
    """Tell whether the keys of one filter are among another's; clear only covers clear."""
    return given.keys <= wanted.keys and bool(given.keys) == bool(wanted.keys)


class _Given:
    """The filters of the subscription that is to be covered."""

    def __init__(self, filters: Sequence[Filter], search: Search) -> None:
        self._search = search
        self._sealed = [one for one in filters if one.keys]
        self._clear = [one.expression for one in filters if not one.keys]
        self._alike: dict[Expression, list[Filter]] = {}
        self._under: dict[str, list[Expression]] = {}  # what must hold under one key
        for one in filters:
            self._alike.setdefault(one.expression, []).append(one)
            if len(one.keys) == 1:
                (key,) = one.keys
                self._under.setdefault(key, []).append(one.expression)

    def has(self, wanted: Filter) -> bool:
        """Tell whether one of them says the same under keys that are among the wanted."""
        return any(_admits(wanted, one) for one in self._alike.get(wanted.expression, ()))

    def covered(self, wanted: Filter) -> bool:
        """Tell whether a filter holds wherever all of them hold (formula 3)."""
        if not wanted.keys:  # all that is in clear sees the same values: it implies together
            return self._search.implies(self._clear, wanted.expression)
        for one in self._sealed:
            self._search.spend(len(one.keys))
            if _admits(wanted, one) and all(
                self._search.implies([one.expression, *self._under.get(key, ())], wanted.expression)
                for key in sorted(one.keys)
            ):
                return True
        # paper 002, section 4.3: every subscription has empty filters under all keys
        return self._search.implies((), wanted.expression)


def _filter(obj: object, schema: Schema, where: str) -> Filter:
    fields = as_object(obj, where, required=("expression",), optional=("keys",))
    text = as_text(fields["expression"], at(where, "expression"))
    keys = as_texts(fields.get("keys", []), at(where, "keys"))
    with placed(at(where, "expression")):
        return Filter(parse(text, schema), frozenset(keys))
