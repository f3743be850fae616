"""Read and write by value: conditions under which a policy permits single attributes.

A rule `{"attribute", "access", "when", "otherwise"}` says that the attribute (null: the event as a
whole) may be read or written only `when` a condition of the policy language holds, and what happens
`otherwise` (paper 002, section 4.2; `policyengine.events.rules`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from adminapp.catalog.mapping import EVENT
from adminapp.core.errors import Invalid, Problem
from adminapp.policies import blind
from adminapp.policies.language import ENVIRONMENT, Language
from adminapp.policies.models import Policy
from policyengine.attributes import (
    And,
    AtLeast,
    Equal,
    Expression,
    Not,
    Or,
    Test,
    Value,
    evaluate,
    names,
    to_text,
    unknown,
)
from policyengine.errors import InputError
from policyengine.events import (
    ACTIONS,
    Action,
    AttributePolicy,
    AttributeRule,
    Direction,
    ValuePolicy,
)

ACCESS: Mapping[str, str] = {"publish": "write", "subscribe": "read"}
"""What the rules of a policy are about, by its action."""
FIELDS = ("attribute", "access", "when", "otherwise")
MAX_RULES = 256
_LOWERING = "super-type"


@dataclass(frozen=True)
class ValueRule:
    """A condition on one attribute, or on the event as a whole.

    Args:
        attribute: its name; None is the event.
        access: `read` or `write`.
        when: the condition; None is always.
        otherwise: what happens where it does not hold.
    """

    attribute: str | None
    access: str
    when: str | None
    otherwise: str

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}


def read(policy: Policy) -> tuple[ValueRule, ...]:
    """The rules of a policy that was checked when it was saved."""
    return tuple(ValueRule(**rule) for rule in policy.rules)


def canonical(obj: Any, action: str) -> list[dict[str, Any]]:
    """Rules with every field.

    Raises:
        Invalid: their shape is wrong.
    """
    if not isinstance(obj, Sequence) or isinstance(obj, str | bytes):
        raise Invalid.at("/rules", "this is a list of rules", "type")
    if len(obj) > MAX_RULES:
        raise Invalid.at("/rules", f"a policy has at most {MAX_RULES} rules", "too-large")
    return [_rule(each, action, f"/rules/{index}").to_json() for index, each in enumerate(obj)]


def _rule(obj: Any, action: str, place: str) -> ValueRule:
    if not isinstance(obj, Mapping):
        raise Invalid.at(place, "a rule is an object with `attribute` and `when`", "type")
    for name in obj:
        if name not in FIELDS:
            error = unknown("field of a rule", str(name), FIELDS)
            raise Invalid([Problem.from_input_error(error, f"{place}/{name}")])
    values = {"access": ACCESS.get(action, "read"), "otherwise": "drop", **obj}
    for name in FIELDS:
        value = values.setdefault(name, None)
        if not isinstance(value, str) and not (value is None and name in ("attribute", "when")):
            raise Invalid.at(f"{place}/{name}", "this is text", "type")
    if isinstance(values["when"], str) and not values["when"].strip():
        values["when"] = None
    if values["attribute"] is None and "otherwise" not in obj:
        values["otherwise"] = "withhold"
    return ValueRule(**values)


def withholds(rule: ValueRule) -> bool:
    """Whether no event of the type is passed on as it is where the condition does not hold."""
    return rule.otherwise in ("withhold", _LOWERING)


def lowers(rule: ValueRule) -> bool:
    """Whether an event that fails the condition may become one of a super-type."""
    return rule.otherwise == _LOWERING and rule.when is not None


def keeps_event(rule: ValueRule) -> str | None:
    """Where the event is passed on for all the rule says, as an expression; None: everywhere."""
    if rule.when is None:
        return None
    if rule.attribute is None:
        return rule.when
    # An event without the attribute has nothing that the rule could be about.
    return f"!has({EVENT}{rule.attribute}) || ({rule.when})"


# -- what may be said ------------------------------------------------------------------------


def problems(row: Policy, spoken: Language) -> list[Problem]:
    """What is wrong with the rules of a policy."""
    found: list[Problem] = []
    if row.rules and row.action not in ACCESS:
        return [Problem("/rules", f"to {row.action} a type is not about single attributes")]
    for index, rule in enumerate(read(row)):
        place = f"/rules/{index}"
        found += _problems(row, rule, spoken, place) or _engine(row, rule, spoken, place)
    return found


def _problems(row: Policy, rule: ValueRule, spoken: Language, place: str) -> list[Problem]:
    kind = row.event_type.name
    wanted = ACCESS[row.action]
    if rule.access != wanted:
        message = f"a policy to {row.action} is about what may be {_DONE[wanted]}"
        return [Problem(f"{place}/access", f"{message}: expected `{wanted}`")]
    if rule.otherwise not in ACTIONS:
        error = unknown("action", rule.otherwise, ACTIONS)
        return [Problem.from_input_error(error, f"{place}/otherwise")]
    known = [spec.name for spec in spoken.types.attributes(kind)]
    if rule.attribute is not None and rule.attribute not in known:
        error = unknown(f"attribute of `{kind}`", rule.attribute, known)
        return [Problem.from_input_error(error, f"{place}/attribute")]
    if rule.when is None:
        if rule.attribute is not None and row.attributes is not None:
            return []
        return [Problem(f"{place}/when", "without a condition this rule says nothing")]
    return _condition(rule, spoken, kind, known, f"{place}/when")


def _condition(
    rule: ValueRule, spoken: Language, kind: str, known: list[str], place: str
) -> list[Problem]:
    assert rule.when is not None
    try:
        named = names(spoken.parse(rule.when, kind))
        for name in (each.removeprefix(EVENT) for each in named if each.startswith(EVENT)):
            if name not in known:
                raise unknown(f"attribute of `{kind}`", name, known)
        ways = [spoken.ways(text, kind) for text in (keeps_event(rule) or rule.when, rule.when)]
    except InputError as error:
        if error.kind not in ("unsupported", "too-large"):
            return [Problem.from_input_error(error, place)]
        message = f"no agent could check this without reading events: {error.message}"
        return [Problem(place, message, "gate", error.at)]
    held = spoken.protections.get(kind, {})
    return [
        Problem(place, message, "gate")
        for message in blind.unanswered(ways[-1], held, spoken.schema(kind))
    ]


_DONE = {"read": "read", "write": "written"}


def _engine(row: Policy, rule: ValueRule, spoken: Language, place: str) -> list[Problem]:
    """What the engine has against a rule: it has the last word on what actions are for."""
    if rule.when is None:
        return []
    try:
        engine_policy(row.event_type.name, [rule], spoken)
    except InputError as error:
        return [Problem(f"{place}/otherwise", error.message, error.kind)]
    return []


# -- as the engine has them ------------------------------------------------------------------

HOLDER = "policy"
"""Whom the engine's rules are about: whoever the policy permits."""


def engine_policy(event_type: str, rules: Sequence[ValueRule], spoken: Language) -> ValuePolicy:
    """The engine's policy by value for whoever a policy permits, as the environment now is.

    Raises:
        InputError: a rule is none for the engine.
    """
    made: list[AttributeRule] = []
    subject = dict(spoken.subject)
    for rule in rules:
        if rule.when is not None:
            expression = spoken.by_role(spoken.parse(rule.when, event_type))
            subject |= spoken.roles_of(expression)
            condition = to_text(_bare(expression, spoken.values))
            made.append(
                AttributeRule(
                    direction=cast(Direction, rule.access),
                    role=HOLDER,
                    type=event_type,
                    condition=condition,
                    action=cast(Action, rule.otherwise),
                    attribute=rule.attribute,
                )
            )
    return ValuePolicy(AttributePolicy(spoken.types), made, subject=subject)


def _bare(expression: Expression, environment: Mapping[str, Value]) -> Expression:
    """An expression with the environment settled and attributes of the event by their own name."""
    match expression:
        case Not(term):
            return Not(_bare(term, environment))
        case And(terms):
            return And(tuple(_bare(term, environment) for term in terms))
        case Or(terms):
            return Or(tuple(_bare(term, environment) for term in terms))
        case AtLeast(count, terms):
            return AtLeast(count, tuple(_bare(term, environment) for term in terms))
        case Equal(left, right):
            return _bare_equal(left, right, environment)
        case _:
            if expression.attribute.startswith(ENVIRONMENT):
                return And(()) if evaluate(expression, environment) else Or(())
            return replace(expression, attribute=expression.attribute.removeprefix(EVENT))


def _bare_equal(left: str, right: str, environment: Mapping[str, Value]) -> Expression:
    known, other = sorted((left, right), key=lambda name: not name.startswith(ENVIRONMENT))
    if not known.startswith(ENVIRONMENT):
        return Equal(left.removeprefix(EVENT), right.removeprefix(EVENT))
    if known not in environment:
        return Or(())
    return Test(other.removeprefix(EVENT), "==", environment[known])
