"""Restriction by value: conditions on events, checked where the client is connected.

Paper 002, section 4.2: a role may be restricted to a subset of the values of attributes.
Where a condition does not hold, the value is left out (`drop`) or its place kept empty
(`suppress`), the event is published as one of a super-type that has no such attribute
(`super-type`), or it is not passed on at all (`withhold`). Conditions name attributes of
the event and, as `subject.<name>`, facts about the client that may change while it is
connected, such as where an officer is (section 5, step 1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast, get_args

from policyengine.attributes import (
    And,
    Expression,
    Or,
    Schema,
    Value,
    check_values,
    evaluate,
    parse,
    shown,
    unknown,
)
from policyengine.errors import InputError
from policyengine.events.reading import as_object, as_text, at, placed
from policyengine.events.restriction import AttributePolicy, Direction, Removed
from policyengine.events.types import AttributeSpec, EventTypes

Action: TypeAlias = Literal["suppress", "drop", "super-type", "withhold"]

ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
"""What happens where a condition does not hold, from the mildest to the strictest."""
DIRECTIONS: Final[tuple[Direction, ...]] = get_args(Direction)
"""What a rule concerns: deliveries, or publications."""
CONDITION: Final = "condition"
"""The attribute's value does not meet the condition of any role that may have it."""
SUPER_TYPE: Final = "super-type"
"""The event became one of a super-type that does not have the attribute."""
SUBJECT: Final = "subject."
"""How the names of a client's facts begin."""


@dataclass(frozen=True, slots=True)
class AttributeRule:
    """A condition under which a role may have an attribute, or a whole event.

    It holds for the sub-types of its type too; rules at a nearer type replace those of the
    same role about the same attribute above it. All rules of a role at one type must hold.

    Args:
        direction: `read` concerns deliveries, `write` publications.
        role: whom it restricts.
        type: the event type.
        condition: an expression over the type's attributes and `subject.*`; two of them
            may be compared (`location == subject.location`).
        action: what happens otherwise. `super-type` is for `write` only.
        attribute: the attribute; None concerns the event as a whole, which can only be
            lowered to a super-type or withheld.
    """

    direction: Direction
    role: str
    type: str
    condition: str
    action: Action
    attribute: str | None = None

    def to_json(self) -> dict[str, object]:
        """Write `{"direction", "role", "type", "attribute", "condition", "action"}`."""
        return {
            "direction": self.direction,
            "role": self.role,
            "type": self.type,
            "attribute": self.attribute,
            "condition": self.condition,
            "action": self.action,
        }

    @classmethod
    def from_json(cls, obj: object, *, where: str = "rule") -> AttributeRule:
        """Read what `to_json` wrote; `attribute` may be left out for the event as a whole.

        Whether it fits the types is for `ValuePolicy` to say.

        Args:
            obj: the JSON object.
            where: its name, for errors.

        Raises:
            InputError: `invalid` for another shape, `unknown` for a direction or an action
                that does not exist; `where` names the place.
        """
        wanted = ("direction", "role", "type", "condition", "action")
        fields = as_object(obj, where, required=wanted, optional=("attribute",))
        texts = {name: as_text(fields[name], at(where, name)) for name in wanted}
        for name, known in (("direction", DIRECTIONS), ("action", ACTIONS)):
            if texts[name] not in known:
                raise unknown(name, texts[name], known, where=at(where, name))
        attribute = fields.get("attribute")
        return cls(
            direction=cast(Direction, texts["direction"]),
            role=texts["role"],
            type=texts["type"],
            condition=texts["condition"],
            action=cast(Action, texts["action"]),
            attribute=None if attribute is None else as_text(attribute, at(where, "attribute")),
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of an event.

    Args:
        type: its type, the given one or one above it.
        values: the values that are left, in the given order.
        suppressed: attributes whose place is kept and whose value is not.
        removed: attributes that are left out.
        withheld: why the event is not passed on at all, in plain words; `""` when it is.
            Nothing is left of it then.
        specs: how the values that are left must be protected: with the keys that they have
            at the *given* type. A super-type may name more keys for an attribute, and
            using them would show it to more brokers than before.
    """

    type: str
    values: Mapping[str, Value]
    suppressed: tuple[Removed, ...] = ()
    removed: tuple[Removed, ...] = ()
    withheld: str = ""
    specs: tuple[AttributeSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class _Failure:
    action: Action
    detail: str


def lower(types: EventTypes, type_name: str, allowed: Collection[str]) -> str | None:
    """Return the nearest type that is allowed: the given one or one above it.

    Args:
        types: the known types.
        type_name: the requested type.
        allowed: types that advertisement policy permits.

    Returns:
        None when none of them is.

    Raises:
        InputError: `unknown` for the requested type.
    """
    line = (type_name, *types.ancestors(type_name))
    return next((name for name in line if name in allowed), None)


class ValuePolicy:
    """The read-write policy by attribute and by value.

    Several roles add up: what one of them may have under its conditions is kept. A role of
    which no rule speaks of an attribute adds its entry without a condition; where no entry
    of any role decides, the roles that have rules decide alone.

    Args:
        attributes: the policy by attribute.
        rules: conditions.
        subject: the facts about a client that conditions may name, with `subject.` before.

    Raises:
        InputError: what is wrong with a rule; `where` is `rules[<number>]`.
    """

    def __init__(
        self,
        attributes: AttributePolicy,
        rules: Iterable[AttributeRule] = (),
        *,
        subject: Schema = MappingProxyType({}),
    ) -> None:
        self._attributes = attributes
        self._types = attributes.types
        self._subject = dict(subject)
        for name in subject:
            if not name.startswith(SUBJECT):
                raise InputError(
                    "invalid", f"{shown(name)} does not begin with `{SUBJECT}`", where=name
                )
        self._rules: dict[tuple[Direction, str, str | None], dict[str, list[AttributeRule]]] = {}
        self._conditions: dict[AttributeRule, Expression] = {}
        for number, rule in enumerate(rules):
            with placed(f"rules[{number}]"):
                self._conditions[rule] = self._condition(rule)
            at_types = self._rules.setdefault((rule.direction, rule.role, rule.attribute), {})
            at_types.setdefault(rule.type, []).append(rule)

    def publication(
        self,
        roles: Sequence[str],
        type_name: str,
        values: Mapping[str, Value],
        *,
        subject: Mapping[str, Value] = MappingProxyType({}),
        advertised: Collection[str] | None = None,
    ) -> Outcome:
        """Narrow a publication to what its roles may write.

        Args:
            roles: the publisher's active roles.
            type_name: the requested type.
            values: the event's attributes.
            subject: facts about the publisher, `subject.` before each.
            advertised: types that it may publish; None: the requested one and no other.
                A publication of another type becomes one of the nearest super-type that
                is among them.

        Raises:
            InputError: what is wrong with the type or a value.
        """
        given = self._types.validate(type_name, values)
        facts = check_values(subject, self._subject)
        may = (type_name,) if advertised is None else advertised
        target = lower(self._types, type_name, may)
        if target is None:
            detail = f"neither {shown(type_name)} nor a type above it may be published"
            return Outcome(type_name, {}, withheld=detail)
        seen = {**given, **facts}
        outcome = self._lowered(Outcome(type_name, given), target, "it may not be published as is")
        # INVARIANT: each round either settles or climbs to a super-type, so it ends
        while True:
            outcome, wanted = self._narrow("write", roles, outcome, seen)
            above = [name for name in self._types.ancestors(outcome.type) if name in may]
            target = next((name for name in above if self._lacks(name, wanted)), None)
            if not wanted or target is None:
                return self._protected(self._settled(outcome, wanted), type_name)
            outcome = self._lowered(outcome, target, next(iter(wanted.values())).detail)

    def delivery(
        self,
        roles: Sequence[str],
        type_name: str,
        values: Mapping[str, Value],
        *,
        subject: Mapping[str, Value] = MappingProxyType({}),
    ) -> Outcome:
        """Narrow an event to what a subscriber's roles may read, at its local broker.

        Args:
            roles: the subscriber's active roles.
            type_name: the event's type.
            values: the attributes that the broker could open.
            subject: facts about the subscriber now, `subject.` before each.

        Raises:
            InputError: what is wrong with the type or a value.
        """
        event = Outcome(type_name, self._types.validate(type_name, values))
        seen = {**event.values, **check_values(subject, self._subject)}
        return self._protected(self._narrow("read", roles, event, seen)[0], type_name)

    def predicate(self, roles: Sequence[str], type_name: str) -> Expression:
        """Return what must hold for an event to be delivered at all.

        A subscription is granted with this predicate attached; the local broker checks it
        at each delivery (paper 002, section 5, step 1 and Fig. 4); `delivery` asks the rules
        of the event's own type.

        Args:
            roles: the subscriber's active roles.
            type_name: the subscription's type.

        Raises:
            InputError: `unknown` for the type.
        """
        speaking = [
            And(tuple(self._conditions[rule] for rule in rules))
            for role in dict.fromkeys(roles)
            if (rules := self._nearest("read", role, type_name, None))
        ]
        return Or(tuple(speaking)) if speaking else And(())

    def _narrow(
        self, direction: Direction, roles: Sequence[str], event: Outcome, seen: Mapping[str, Value]
    ) -> tuple[Outcome, dict[str | None, _Failure]]:
        """Apply entries and rules; also return what asks for a super-type, None for the event."""
        values = event.values
        plain = self._attributes.restrict(direction, roles, event.type, tuple(values))
        lowering: dict[str | None, _Failure] = {}
        removed, suppressed = [*event.removed, *plain.removed], list(event.suppressed)
        for name in (None, *plain.kept):
            failure = self._failure(direction, roles, event.type, name, seen)
            if failure is None:
                continue
            if failure.action == "withhold":
                return Outcome(event.type, {}, withheld=failure.detail), {}
            if name is None or failure.action == "super-type":  # all that is left for an event
                lowering[name] = failure
            else:
                kind = suppressed if failure.action == "suppress" else removed
                kind.append(Removed(name, CONDITION, failure.detail))
        gone = {one.attribute for one in (*removed, *suppressed)}
        left = {name: value for name, value in values.items() if name not in gone}
        return Outcome(event.type, left, tuple(suppressed), tuple(removed)), lowering

    def _failure(
        self,
        direction: Direction,
        roles: Sequence[str],
        type_name: str,
        attribute: str | None,
        seen: Mapping[str, Value],
    ) -> _Failure | None:
        """Ask each role that may have the attribute; the mildest refusal counts."""
        entries = self._attributes.entries(direction, roles, type_name)
        asked = list(dict.fromkeys(roles))
        if attribute is not None and entries:
            asked = [role for role in entries if attribute in entries[role].attributes]
        rules = {role: self._nearest(direction, role, type_name, attribute) for role in asked}
        if attribute is None or not entries:  # only roles that have rules say anything
            rules = {role: own for role, own in rules.items() if own}
        failures: list[_Failure] = []
        for role, own in rules.items():
            broken = [rule for rule in own if not evaluate(self._conditions[rule], seen)]
            if not broken:
                return None
            worst = max(broken, key=lambda rule: ACTIONS.index(rule.action))
            detail = f"{shown(role)} has it only where {shown(worst.condition)}"
            failures.append(_Failure(worst.action, f"{detail}, by the rule at {shown(worst.type)}"))
        return min(failures, key=lambda one: ACTIONS.index(one.action), default=None)

    def _nearest(
        self, direction: Direction, role: str, type_name: str, attribute: str | None
    ) -> list[AttributeRule]:
        own = self._rules.get((direction, role, attribute), {})
        line = (type_name, *self._types.ancestors(type_name))
        return next((own[name] for name in line if name in own), [])

    def _lacks(self, type_name: str, wanted: Collection[str | None]) -> bool:
        """Tell whether a type has none of the attributes that ask for a super-type."""
        return not any(name in self._types.schema(type_name) for name in wanted if name)

    def _lowered(self, event: Outcome, target: str, why: str) -> Outcome:
        if target == event.type:
            return event
        there = self._types.schema(target)
        detail = f"published as {shown(target)}, which does not have it: {why}"
        names = (*event.values, *(one.attribute for one in event.suppressed))
        gone = tuple(Removed(name, SUPER_TYPE, detail) for name in names if name not in there)
        return Outcome(
            target,
            {name: value for name, value in event.values.items() if name in there},
            tuple(one for one in event.suppressed if one.attribute in there),
            (*event.removed, *gone),
        )

    def _settled(self, event: Outcome, wanted: Mapping[str | None, _Failure]) -> Outcome:
        """Where no super-type can be had, leave the attribute out, or keep the event back."""
        if None in wanted:
            return Outcome(event.type, {}, withheld=wanted[None].detail)
        gone = tuple(
            Removed(name, CONDITION, failure.detail) for name, failure in wanted.items() if name
        )
        left = {name: value for name, value in event.values.items() if name not in wanted}
        return replace(event, values=left, removed=(*event.removed, *gone))

    def _protected(self, event: Outcome, given: str) -> Outcome:
        """Say with which keys what is left travels: those of the type that was asked for."""
        specs = tuple(self._types.attribute(given, name) for name in event.values)
        return replace(event, specs=specs)

    def _condition(self, rule: AttributeRule) -> Expression:
        schema = self._types.schema(rule.type)
        if rule.action not in ACTIONS:
            raise unknown("action", rule.action, ACTIONS)
        if rule.attribute is not None:
            self._types.attribute(rule.type, rule.attribute)
        elif rule.action in ("drop", "suppress"):
            raise InputError("invalid", f"an event as a whole cannot be {_DONE[rule.action]}")
        if rule.action == "super-type" and rule.direction == "read":
            raise InputError("invalid", "only what is published becomes one of a super-type")
        doubled = sorted(set(schema) & set(self._subject))
        if doubled:
            raise InputError(
                "invalid", f"{shown(doubled[0])} is an attribute of {shown(rule.type)} too"
            )
        return parse(rule.condition, {**schema, **self._subject}, joins=True)


_DONE: Final[Mapping[str, str]] = {"drop": "dropped", "suppress": "suppressed"}
