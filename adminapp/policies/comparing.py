"""Findings about two policies at a time: rules that another policy makes void, and doubles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from adminapp.policies import valuerules
from adminapp.policies.finding import Finding
from adminapp.policies.grants import Grant
from adminapp.policies.judging import contradict, implied
from adminapp.policies.language import PolicyConjunction
from adminapp.policies.models import Policy
from adminapp.policies.scene import DONE, Scene, covers, including
from adminapp.policies.valuerules import ValueRule

PAIRS = 4_000
"""Most pairs of policies that are compared; what is left out is said."""


def compared(scene: Scene, only: str | None) -> Iterator[Finding]:
    """Findings about pairs, of which one is `only` where that is given."""
    budget = _Budget()
    for one, others in _families(scene):
        yield from _void(scene, one, others, only, budget)
        yield from _double(scene, one, others, only, budget)
    if budget.left_out:
        said = f"there are too many policies to compare each with each: {budget.left_out} pairs"
        yield Finding("incomplete", "unknown", only or "", f"{said} were left out")


class _Budget:
    """Counts pairs."""

    def __init__(self) -> None:
        self.left = PAIRS
        self.left_out = 0

    def take(self) -> bool:
        self.left -= 1
        self.left_out += self.left < 0
        return self.left >= 0


def _families(scene: Scene) -> Iterator[tuple[Policy, list[Policy]]]:
    """Every policy with those that can be about the same events."""
    by_place: dict[tuple[str, str], list[Policy]] = defaultdict(list)
    for row in scene.fit:
        by_place[row.action, row.event_type.name].append(row)
    types = scene.spoken.types
    for row in scene.fit:
        name = row.event_type.name
        kin = dict.fromkeys((*types.ancestors(name), *types.subtree(name)))
        found = [other for kind in kin for other in by_place.get((row.action, kind), ())]
        yield row, [other for other in found if other is not row and scene.related(row, other)]


# -- rules that another policy makes void ------------------------------------------------------


def _void(
    scene: Scene, one: Policy, others: Sequence[Policy], only: str | None, budget: _Budget
) -> Iterator[Finding]:
    for rule in valuerules.read(one):
        if rule.when is None:
            continue
        voiding = [
            other.name
            for other in others
            if only in (None, one.name, other.name)
            and budget.take()
            and _opens(scene, one, rule, other)
        ]
        if voiding:
            yield Finding("conflict", "warning", one.name, _said(one, rule), tuple(voiding))


def _said(one: Policy, rule: ValueRule) -> str:
    about = "an event" if rule.attribute is None else f"`{rule.attribute}`"
    if valuerules.withholds(rule):
        return f"it passes {about} on only where `{rule.when}`, and others do so elsewhere too"
    done = DONE[one.action]
    return f"{about} may be {done} only where `{rule.when}`, and others let it be {done} elsewhere"


def _opens(scene: Scene, one: Policy, rule: ValueRule, other: Policy) -> bool:
    """Whether somebody who meets both gets from the other what the rule keeps back."""
    assert rule.when is not None
    text = valuerules.keeps_event(rule) if valuerules.withholds(rule) else rule.when
    assert text is not None
    root = one.event_type.name
    allowed = scene.spoken.ways(text, root)
    attribute = None if valuerules.withholds(rule) else rule.attribute
    held = scene.grants[other.name]
    above = {each.root for each in held}
    schema_of = scene.top(one, other)
    for mine in scene.ways(one):
        for theirs in including(held, attribute, above):
            both = mine.both(theirs)
            schema = scene.schema(schema_of, [both], allowed)
            if implied(both, allowed, schema) == "no":
                return True
    return False


# -- doubles -----------------------------------------------------------------------------------


def _double(
    scene: Scene, one: Policy, others: Sequence[Policy], only: str | None, budget: _Budget
) -> Iterator[Finding]:
    if only not in (None, one.name):
        return
    above = (one.event_type.name, *scene.spoken.types.ancestors(one.event_type.name))
    for other in others:
        if other.event_type.name not in above or not covers(other, one):
            continue
        if other.name > one.name and _says_no_more(scene, other, one, budget):
            continue  # they say the same: only the later one is a double
        if _says_no_more(scene, one, other, budget):
            said = "it permits nothing that another policy does not permit"
            yield Finding("redundant", "notice", one.name, said, (other.name,))
            return


def _says_no_more(scene: Scene, one: Policy, other: Policy, budget: _Budget) -> bool:
    """Whether all that a policy permits is permitted by another one."""
    above = (one.event_type.name, *scene.spoken.types.ancestors(one.event_type.name))
    if other.event_type.name not in above or not covers(other, one):
        return False
    held = scene.grants[one.name]
    if not any(grant.conjunctions for grant in held):
        return False  # it permits nothing at all, and that is said
    if not all(_likely(grant, scene.grants[other.name]) for grant in held) or not budget.take():
        return False
    return all(
        _within(scene, grant, way, scene.grants[other.name])
        for grant in held
        for way in grant.conjunctions
    )


def _within(scene: Scene, grant: Grant, way: PolicyConjunction, held: Iterable[Grant]) -> bool:
    above = {grant.root, *scene.spoken.types.ancestors(grant.root)}
    wider = [
        conjunction
        for each in held
        if each.root in above and _at_least(each.attributes, grant.attributes)
        for conjunction in each.conjunctions
    ]
    top = min(
        (each.root for each in held if each.root in above),
        key=lambda name: len(scene.spoken.types.ancestors(name)),
        default=grant.root,
    )
    return implied(way, wider, scene.schema(top, [way], wider)) == "yes"


def _at_least(wider: tuple[str, ...] | None, attributes: tuple[str, ...] | None) -> bool:
    if wider is None:
        return True
    return attributes is not None and set(attributes) <= set(wider)


def _likely(grant: Grant, held: Iterable[Grant]) -> bool:
    """Without a search: whether something is there that could imply each way of a grant."""
    asked = [_named(way) for each in held for way in each.conjunctions]
    return all(any(names <= _named(way) for names in asked) for way in grant.conjunctions)


def _named(way: PolicyConjunction) -> frozenset[str]:
    literals = (*way.subject, *way.event, *way.environment)
    joined = [name for join in (*way.joins, *way.ties) for name in (join.left, join.right)]
    return frozenset([*(each.attribute for each in literals if each.op != "!has"), *joined])


# -- within one policy -------------------------------------------------------------------------


def at_odds(scene: Scene, row: Policy) -> Iterator[Finding]:
    """Rules of one policy that can never all be met."""
    if not valuerules.read(row):
        return
    for grant in scene.grants[row.name]:
        schema = scene.schema(row.event_type.name, grant.conjunctions)
        if any(not contradict(way, way, schema) for way in grant.conjunctions):
            continue
        names = ", ".join(f"`{name}`" for name in grant.attributes or ())
        what = f"{names} can never be {DONE[row.action]}" if names else "it lets nothing through"
        yield Finding("conflict", "warning", row.name, f"its rules contradict one another: {what}")
        return
