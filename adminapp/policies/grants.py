"""What policies permit, ready to be compiled, evaluated and counted: pure, without rows.

A policy's expression is one condition. Two things make more of it:

- `rules` restrict single attributes by value. Permissions add up, so such a policy becomes several
  grants: what it permits always, and each attribute under its condition. What a role may have
  under no condition is in none of them (restriction instead of refusal: paper 002, section 4.2).
- An *advertise* policy about a type is asked for before anybody may publish it. To advertise a type
  is to promise events of its whole sub-tree, so a publisher needs what is asked for of every
  type in it; a publish policy becomes one grant for each sub-tree that asks for less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import product

from adminapp.policies import valuerules
from adminapp.policies.language import Language, PolicyConjunction
from adminapp.policies.models import Policy
from adminapp.policies.valuerules import ValueRule
from policyengine.attributes import LIMIT
from policyengine.errors import InputError
from policyengine.events import EventTypes

ALWAYS = PolicyConjunction((), (), ())

Ways = tuple[PolicyConjunction, ...]
Clause = frozenset[str]


@dataclass(frozen=True)
class Grant:
    """One permission of a policy.

    Args:
        policy: the policy.
        root: it holds for this type and its sub-tree.
        types: those of them for which no grant of the policy on a nearer type asks for less.
        attributes: what it permits, None for everything.
        first: how many conjunctions the policy's grants before this one have.
        conjunctions: its normal form.
        suppresses: attributes whose place is kept where no grant permits them.
        lowers: None for what permits; otherwise it only lets an event become one of a
            super-type without these attributes, or be published with `attributes` alone.
    """

    policy: Policy = field(compare=False)
    root: str
    types: tuple[str, ...]
    attributes: tuple[str, ...] | None
    first: int
    conjunctions: Ways
    suppresses: tuple[str, ...] = ()
    lowers: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Advertising:
    """Which advertise policies there are, and what satisfies them now.

    Args:
        at: names of the policies that hang on each type, those that are not valid now included:
            what is asked for stays asked for when nobody can meet it.
        ways: the normal forms of those in force.
    """

    at: Mapping[str, Clause]
    ways: Mapping[str, Ways]

    def clause(self, types: EventTypes, name: str) -> Clause:
        """The advertise policies about a type; one of them must be met, unless there is none."""
        found = (self.at.get(each, frozenset()) for each in (name, *types.ancestors(name)))
        return reduce(frozenset.union, found, frozenset())

    def asked(self, types: EventTypes, name: str) -> frozenset[Clause]:
        """What a publisher of a type needs: one of each clause."""
        own = self.clause(types, name)
        if own or not self.at:
            return frozenset({own} - {frozenset()})
        below = (self.clause(types, each) for each in types.subtree(name))
        return _least(clause for clause in below if clause)


def advertising(
    rows: Iterable[Policy], spoken: Language, in_force: Iterable[Policy]
) -> Advertising:
    """What the advertise policies of a domain ask for.

    Args:
        rows: every policy of the domain's effective model.
        in_force: those that hold now.
    """
    about: dict[str, set[str]] = {}
    for row in rows:
        if row.action == "advertise" and row.enabled:
            about.setdefault(row.event_type.name, set()).add(row.name)
    ways: dict[str, Ways] = {}
    for row in in_force:
        if row.action == "advertise":
            try:
                ways[row.name] = spoken.conjunctions(row.expression, row.event_type.name)
            except InputError:
                ways[row.name] = ()  # it no longer fits the model: nobody meets it
    return Advertising({name: frozenset(names) for name, names in about.items()}, ways)


def grants(policy: Policy, spoken: Language, advertised: Advertising) -> tuple[Grant, ...]:
    """What one policy permits while the environment is as it is.

    Raises:
        InputError: it no longer fits the model, or has too many alternatives.
    """
    root = policy.event_type.name
    spoken.types.spec(root)
    base = spoken.conjunctions(policy.expression, root)
    rules = valuerules.read(policy)
    found: list[Grant] = []
    first = 0
    for top, types, ways in _places(policy, spoken, advertised, base):
        for attributes, conjunctions in _layers(policy, rules, spoken, top, ways):
            kept = _suppressed(rules, attributes)
            found.append(Grant(policy, top, types, attributes, first, conjunctions, kept))
            first += len(conjunctions)
    return tuple(found)


def _suppressed(rules: Sequence[ValueRule], attributes: tuple[str, ...] | None) -> tuple[str, ...]:
    named = (rule.attribute for rule in rules if rule.otherwise == "suppress" and rule.when)
    known = () if attributes is None else attributes
    return tuple(dict.fromkeys(name for name in named if name and name not in known))


def lowerings(policy: Policy, spoken: Language, advertised: Advertising) -> tuple[Grant, ...]:
    """What lets events of a policy's types become events of a super-type, beside its grants.

    Where the condition of a rule `super-type` fails, and what else the policy asks for holds,
    the event may be published as one of a type above that lacks the rule's attribute, and where
    several fail, of one that lacks all their attributes.

    Raises:
        InputError: as `grants`.
    """
    rules = valuerules.read(policy)
    lowering = [rule for rule in rules if valuerules.lowers(rule)]
    if not lowering:
        return ()
    base = grants(policy, spoken, advertised)
    first = sum(len(grant.conjunctions) for grant in base)
    root = policy.event_type.name
    found: list[Grant] = []
    for top, types, ways in _places(
        policy, spoken, advertised, spoken.conjunctions(policy.expression, root)
    ):
        for failing in _failing(lowering, spoken.types, root):
            held = [rule for rule in rules if valuerules.withholds(rule) and rule not in failing]
            texts = (valuerules.keeps_event(rule) for rule in held)
            meeting = _all(ways, *(spoken.conjunctions(text, root) for text in texts if text))
            lowers = tuple(dict.fromkeys(rule.attribute for rule in failing if rule.attribute))
            left = _left(policy, spoken, top, rules, failing)
            found.append(Grant(policy, top, types, left, first, meeting, (), lowers))
            first += len(meeting)
    return tuple(found)


def _failing(
    lowering: Sequence[ValueRule], types: EventTypes, root: str
) -> list[tuple[ValueRule, ...]]:
    """Which rules may fail together: those that each type above has nothing to do with.

    An event may become one of a type exactly where the rules about its attributes hold, so there
    is one way for each type above and not one for each set of rules.
    """
    ways = [tuple(rule for rule in lowering if rule.attribute is not None)]
    for name in (root, *types.ancestors(root)):
        known = {spec.name for spec in types.attributes(name)}
        ways.append(tuple(rule for rule in lowering if rule.attribute not in known))
    return [way for way in dict.fromkeys(ways) if way]


def _left(
    policy: Policy,
    spoken: Language,
    top: str,
    rules: Sequence[ValueRule],
    failing: Sequence[ValueRule],
) -> tuple[str, ...]:
    """What may be published where no super-type can be had: nothing of a failing event."""
    if any(rule.attribute is None for rule in failing):
        return ()
    names = permitted(policy)
    known = spoken.attribute_names(top) if names is None else names
    conditional = {rule.attribute for rule in rules if rule.when}
    return tuple(name for name in known if name not in conditional)


def all_grants(
    rows: Iterable[Policy],
    spoken: Language,
    advertised: Advertising,
    unfit: Callable[[Policy, InputError], None] | None = None,
) -> list[Grant]:
    """What policies permit together; one that no longer fits the model permits nothing."""
    found: list[Grant] = []
    for row in rows:
        try:
            found += grants(row, spoken, advertised)
        except InputError as error:
            if unfit is not None:
                unfit(row, error)
    return found


def permitted(policy: Policy) -> tuple[str, ...] | None:
    """The attributes that a policy speaks of, with a condition or without; None is all."""
    if policy.attributes is None:
        return None
    ruled = (rule.attribute for rule in valuerules.read(policy) if rule.attribute is not None)
    return tuple(dict.fromkeys((*policy.attributes, *ruled)))


def _places(
    policy: Policy, spoken: Language, advertised: Advertising, base: Ways
) -> list[tuple[str, tuple[str, ...], Ways]]:
    """The sub-trees of a policy's type, each with the types it decides and what it asks for."""
    types, root = spoken.types, policy.event_type.name
    below = [root, *(name for name in types.subtree(root) if name != root)]
    if policy.action != "publish" or not advertised.at:
        return [(root, tuple(below), base)]
    tops: dict[str, list[str]] = {root: [root]}
    asked = {root: advertised.asked(types, root)}
    decided = {root: root}
    for name in _from_the_top(types, below[1:]):
        above = decided[next(each for each in types.ancestors(name) if each in decided)]
        wanted = advertised.asked(types, name)
        decided[name] = above if wanted == asked[above] else name
        asked.setdefault(decided[name], wanted)
        tops.setdefault(decided[name], []).append(name)
    return [
        (top, tuple(names), _meeting(base, asked[top], advertised.ways))
        for top, names in tops.items()
    ]


def _from_the_top(types: EventTypes, names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (len(types.ancestors(name)), name))


def _meeting(base: Ways, asked: frozenset[Clause], ways: Mapping[str, Ways]) -> Ways:
    """What satisfies a publish policy and one advertise policy of each clause."""
    clauses = [
        tuple(way for name in sorted(clause) for way in ways.get(name, ()))
        for clause in sorted(asked, key=sorted)
    ]
    return _all(base, *clauses)


def _layers(
    policy: Policy, rules: Sequence[ValueRule], spoken: Language, top: str, ways: Ways
) -> list[tuple[tuple[str, ...] | None, Ways]]:
    """What is permitted always, and each attribute that has a condition of its own."""
    names = permitted(policy)
    if not rules:
        return [(names, ways)]
    root = policy.event_type.name
    kept = [valuerules.keeps_event(rule) for rule in rules if valuerules.withholds(rule)]
    whole = _all(ways, *(spoken.conjunctions(text, root) for text in kept if text is not None))
    conditions: dict[str, list[str]] = {}
    for rule in rules:
        if rule.attribute is not None and rule.when and not valuerules.withholds(rule):
            conditions.setdefault(rule.attribute, []).append(rule.when)
    if not conditions:
        return [(names, whole)]
    known = spoken.attribute_names(top) if names is None else names
    layers = [(tuple(name for name in known if name not in conditions), whole)]
    for name, texts in conditions.items():
        meeting = _all(whole, *(spoken.conjunctions(text, root) for text in texts))
        layers.append(((name,), meeting))
    return layers


def _all(*parts: Ways) -> Ways:
    """What holds where one of each part holds.

    Raises:
        InputError: `too-large` for more alternatives than a policy may have.
    """
    if all(part == (ALWAYS,) for part in parts[1:]):
        return parts[0]
    count = reduce(lambda total, part: total * len(part), parts, 1)
    if count > LIMIT:
        raise InputError(
            "too-large",
            f"with its rules and what must be advertised it has over {LIMIT} alternatives",
        )
    found = (reduce(PolicyConjunction.both, chosen) for chosen in product(*parts))
    return tuple(dict.fromkeys(found))


def _least(clauses: Iterable[Clause]) -> frozenset[Clause]:
    """Without clauses that another one implies."""
    known = frozenset(clauses)
    return frozenset(one for one in known if not any(other < one for other in known))
