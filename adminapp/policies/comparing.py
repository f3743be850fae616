"""Findings about two policies at a time: rules that another policy makes void, and doubles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from adminapp.policies import valuerules
from adminapp.policies.finding import Finding
from adminapp.policies.grants import Grant
from adminapp.policies.judging import contradict, implied
from adminapp.policies.language import PolicyConjunction
from adminapp.policies.models import Policy
from adminapp.policies.scene import DONE, Scene, covers, including
from adminapp.policies.valuerules import ValueRule

Only: TypeAlias = frozenset[str] | None
"""Names of the policies that are asked about; None is all."""
PAIRS = 300_000
"""Most pairs of policies that are looked at."""
SEARCHES = 1_000
"""Most of them that are compared in depth. What is left out is said."""


def compared(scene: Scene, only: Only) -> Iterator[Finding]:
    """Findings about pairs, of which one is in `only` where that is given."""
    budget = _Budget()
    for one, others in _families(scene, only):
        yield from _void(scene, one, others, only, budget)
        yield from _double(scene, one, others, only, budget)
    if budget.left_out:
        said = f"there are too many policies to compare each with each: {budget.left_out} pairs"
        yield Finding("incomplete", "unknown", "", f"{said} were left out")


class _Budget:
    """Counts pairs and searches."""

    def __init__(self) -> None:
        self.pairs, self.searches = PAIRS, SEARCHES
        self.left_out = 0

    def look(self) -> bool:
        self.pairs -= 1
        return self._within(self.pairs)

    def search(self) -> bool:
        self.searches -= 1
        return self._within(self.searches)

    def _within(self, left: int) -> bool:
        self.left_out += left < 0
        return left >= 0


def _families(scene: Scene, only: Only) -> Iterator[tuple[Policy, list[Policy]]]:
    """Policies with those that can be about the same events."""
    by_place: dict[tuple[str, str], list[Policy]] = defaultdict(list)
    for row in scene.fit:
        by_place[row.action, row.event_type.name].append(row)
    for row in scene.fit:
        if only is None or row.name in only or row.rules:
            kin = sorted(scene.family(row.event_type.name))
            found = [other for kind in kin for other in by_place.get((row.action, kind), ())]
            yield row, [other for other in found if other is not row and scene.related(row, other)]


# -- rules that another policy makes void ------------------------------------------------------


def _void(
    scene: Scene,
    one: Policy,
    others: Sequence[Policy],
    only: Only,
    budget: _Budget,
) -> Iterator[Finding]:
    for rule in valuerules.read(one):
        if rule.when is None:
            continue
        voiding = [
            other.name
            for other in others
            if (only is None or one.name in only or other.name in only)
            and budget.search()
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
    top = scene.top(root, other.event_type.name)
    for mine in scene.ways(one):
        for theirs in including(held, attribute, above):
            both = mine.both(theirs)
            schema = scene.schema(top, [both], allowed)
            if implied(both, allowed, schema) == "no":
                return True
    return False


# -- doubles -----------------------------------------------------------------------------------


def _double(
    scene: Scene,
    one: Policy,
    others: Sequence[Policy],
    only: Only,
    budget: _Budget,
) -> Iterator[Finding]:
    if only is not None and one.name not in only:
        return
    for other in others:
        if not budget.look() or not _may_contain(scene, other, one):
            continue
        twin = other.name > one.name and _may_contain(scene, one, other)
        if twin and _contains(scene, one, other, budget):
            continue  # if they say the same, only the later one is a double
        if _contains(scene, other, one, budget):
            said = "it permits nothing that another policy does not permit"
            yield Finding("redundant", "notice", one.name, said, (other.name,))
            return


def _may_contain(scene: Scene, wider: Policy, one: Policy) -> bool:
    """Without a search: whether one policy could permit all that another does."""
    if wider.event_type.name not in scene.above(one.event_type.name) or not covers(wider, one):
        return False
    if wider.limit_count is not None:
        return False  # it may be used up, by other events too, while the other one has room
    asked = [_asks(way) for each in scene.grants[wider.name] for way in each.conjunctions]
    ways = [_asks(way) for grant in scene.grants[one.name] for way in grant.conjunctions]
    # A policy that permits nothing at all is no double: that is said otherwise.
    return bool(ways) and all(any(_looser(other, way) for other in asked) for way in ways)


def _contains(scene: Scene, wider: Policy, one: Policy, budget: _Budget) -> bool:
    """Whether one policy permits all that another does."""
    return budget.search() and all(
        _within(scene, grant, way, scene.grants[wider.name])
        for grant in scene.grants[one.name]
        for way in grant.conjunctions
    )


def _within(scene: Scene, grant: Grant, way: PolicyConjunction, held: Iterable[Grant]) -> bool:
    line = scene.above(grant.root)
    wider = [
        each for each in held if each.root in line and _at_least(each.attributes, grant.attributes)
    ]
    ways = [conjunction for each in wider for conjunction in each.conjunctions]
    top = max((each.root for each in wider), key=line.index, default=grant.root)
    return implied(way, ways, scene.schema(top, [way], ways)) == "yes"


def _at_least(wider: tuple[str, ...] | None, attributes: tuple[str, ...] | None) -> bool:
    if wider is None:
        return True
    return attributes is not None and set(attributes) <= set(wider)


@dataclass(frozen=True)
class _Asked:
    """What a way asks for, as far as it can be compared without a search.

    Args:
        given: attributes that must be there.
        values: the values that some of them may have.
    """

    given: frozenset[str]
    values: Mapping[str, frozenset[object]]


@lru_cache(maxsize=8192)
def _asks(way: PolicyConjunction) -> _Asked:
    literals = (*way.subject, *way.event, *way.environment)
    joined = [name for join in (*way.joins, *way.ties) for name in (join.left, join.right)]
    values = {
        each.attribute: frozenset(each.value if isinstance(each.value, tuple) else [each.value])
        for each in literals
        if each.op in ("==", "in")
    }
    given = frozenset([*(each.attribute for each in literals if each.op != "!has"), *joined])
    return _Asked(given, values)


def _looser(one: _Asked, other: _Asked) -> bool:
    """Whether one way could hold wherever another holds."""
    return one.given <= other.given and all(
        other.values[name] <= values for name, values in one.values.items() if name in other.values
    )


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
