"""What is worth a second look about the policies of a domain; a policy with findings works.

Nothing here decides what anybody may do. It is for the person who writes a policy, and for whoever
approves it: what contradicts something, can never hold, lets nobody do anything, or lets more be
done than the domain above does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from django.utils import timezone

from adminapp.agreements import selectors as agreements
from adminapp.agreements.effect import Opening
from adminapp.identity.lineage import lineage
from adminapp.identity.models import Domain
from adminapp.policies import comparing, reach, selectors, valuerules, widening
from adminapp.policies.finding import Finding
from adminapp.policies.judging import implied
from adminapp.policies.language import PolicyConjunction
from adminapp.policies.models import Policy
from adminapp.policies.reach import Reach
from adminapp.policies.scene import Scene, who
from adminapp.policies.widening import Above
from adminapp.roles import selectors as roles
from adminapp.roles.mapping import ROLE
from policyengine.errors import InputError
from policyengine.roles import Rule

__all__ = ["Finding", "findings"]

_ALTERNATIVES = 64  # of one policy, compared each with each


@dataclass(frozen=True)
class _Place:
    """A domain as its findings need it."""

    domain: Domain
    scene: Scene
    reach: Reach
    roles: frozenset[str]
    openings: tuple[Opening, ...]
    above: Above | None

    @cached_property
    def granting(self) -> frozenset[str]:
        """Names of the policies that somebody meets."""
        return frozenset(grant.rule.policy for grant in self.reach.grants)

    @cached_property
    def possible(self) -> dict[str, set[str]]:
        """Event types that somebody may publish, and receive."""
        found: dict[str, set[str]] = defaultdict(set)
        for grant in self.reach.grants:
            found[grant.rule.action] |= grant.types.keys()
        return found


def findings(
    domain: Domain,
    *,
    only: Collection[str] | None = None,
    among: Sequence[Policy] | None = None,
    held: Reach | None = None,
) -> list[Finding]:
    """Everything that is worth a second look, warnings first.

    Args:
        only: names of policies; only what concerns one of them.
        among: every policy to go by; those of the effective model by default.
        held: what everybody may do by them, when the caller has it already.
    """
    try:
        place = _place(domain, among, held)
    except InputError:
        return []  # the event types do not fit together, and the catalog says so
    found = _all(place, None if only is None else frozenset(only))
    order = ("warning", "unknown", "notice")
    return sorted(set(found), key=lambda each: (order.index(each.severity), each))


def _place(domain: Domain, among: Sequence[Policy] | None, held: Reach | None) -> _Place:
    now = timezone.now()
    rows = selectors.effective_rows(domain) if among is None else among
    parent = lineage(domain)[1:2]
    return _Place(
        domain=domain,
        scene=Scene(tuple(rows), selectors.language(domain), now),
        reach=reach.take(domain) if held is None else held,
        roles=reachable(roles.rules(domain)),
        openings=agreements.openings(domain),
        above=_above(parent[0], now) if parent else None,
    )


def _above(domain: Domain, now: datetime) -> Above:
    rows = tuple(selectors.effective_rows(domain))
    return Above(domain.name, Scene(rows, selectors.language(domain), now))


def _all(place: _Place, only: frozenset[str] | None) -> Iterator[Finding]:
    scene = place.scene
    for row in scene.live:
        if only is not None and row.name not in only:
            continue
        if row.name in scene.unfit:
            yield Finding(
                "unfit", "warning", row.name, f"it grants nothing: {scene.unfit[row.name]}"
            )
        else:
            yield from _about(place, row)
    yield from comparing.compared(scene, only)


def _about(place: _Place, row: Policy) -> Iterator[Finding]:
    scene = place.scene
    never = [*_never(scene, row), *_nobodys_role(place, row)]
    yield from never
    yield from _adds_nothing(scene, row)
    yield from comparing.at_odds(scene, row)
    yield from _nobody(place, row, explained=bool(never))
    yield from _nobody_else(place, row)
    inherited = row.event_type.domain_id != place.domain.pk
    if place.above is not None and inherited and row.domain_id == place.domain.pk:
        yield from widening.wider(scene, place.above, row)


# -- what a policy says by itself --------------------------------------------------------------


def _never(scene: Scene, row: Policy) -> Iterator[Finding]:
    """Parts that no event and nobody can ever meet."""
    if not scene.ways(row):
        yield Finding("unreachable", "warning", row.name, "its condition can never be met")
        return
    kind = row.event_type.name
    for text, ways in scene.spoken.alternatives(row.expression, kind):
        if not _possible(scene, kind, ways):
            yield Finding("unreachable", "warning", row.name, f"`{text}` can never be met")
    for rule in valuerules.read(row):
        if rule.when is not None and not _possible(scene, kind, scene.spoken.ways(rule.when, kind)):
            said = f"the condition of its rule, `{rule.when}`, can never be met"
            yield Finding("unreachable", "warning", row.name, said)


def _possible(scene: Scene, kind: str, ways: tuple[PolicyConjunction, ...]) -> bool:
    return any(implied(way, (), scene.schema(kind, [way])) != "yes" for way in ways)


def _adds_nothing(scene: Scene, row: Policy) -> Iterator[Finding]:
    """Alternatives that others imply."""
    kind = row.event_type.name
    terms = scene.spoken.alternatives(row.expression, kind)
    kept = [(text, ways) for text, ways in terms[:_ALTERNATIVES] if ways]
    for index in range(len(kept) - 1, -1, -1):  # of two that say the same the later one goes
        text, ways = kept[index]
        others = [way for other, (_, held) in enumerate(kept) if other != index for way in held]
        schema = scene.schema(kind, ways, others)
        if others and all(implied(way, others, schema) == "yes" for way in ways):
            said = f"`{text}` adds nothing: whoever meets it meets another alternative"
            yield Finding("unreachable", "notice", row.name, said)
            del kept[index]


def _nobodys_role(place: _Place, row: Policy) -> Iterator[Finding]:
    """Roles that are asked for and that nothing can activate."""
    asked = {
        literal.attribute.removeprefix(f"{ROLE}.").partition(".")[0]
        for way in place.scene.ways(row)
        for literal in way.subject
        if literal.attribute.startswith(f"{ROLE}.")
        and literal.op != "!has"
        and literal.value is not False
    }
    for name in sorted(asked - place.roles):
        said = f"it asks for the role `{name}`, which nothing can activate"
        yield Finding("unreachable", "warning", row.name, said)


def reachable(rules: Iterable[Rule]) -> frozenset[str]:
    """Names of the roles that appointments and other roles can lead to.

    Constraints are left aside: what the environment forbids now it may let through later.
    """
    known = list(rules)
    found: set[str] = set()
    while True:
        new = {
            rule.role.name
            for rule in known
            if all(each.atom.name in found for each in rule.credentials if each.kind == "role")
        }
        if new <= found:
            return frozenset(found)
        found |= new


# -- who there is to do it ---------------------------------------------------------------------


def _nobody(place: _Place, row: Policy, *, explained: bool) -> Iterator[Finding]:
    if explained or not row.in_force(place.scene.now) or row.name in place.granting:
        return
    if _open_to_guests(place, row, row.action):
        return
    ways = place.scene.ways(row)
    values = place.scene.spoken.values
    if all(way.settled(values) is None for way in ways):
        said = "the environment lets nobody do anything by it now"
        yield Finding("grants-nobody", "notice", row.name, said)
        return
    wanted = who(ways[0]) if len(ways) == 1 else "any of its alternatives"
    said = f"no active principal of `{place.domain.name}` meets it now: {wanted}"
    yield Finding("grants-nobody", "warning", row.name, said)


def _nobody_else(place: _Place, row: Policy) -> Iterator[Finding]:
    """Publishing without anybody who may receive it, and the other way round."""
    opposite = {"publish": "subscribe", "subscribe": "publish"}.get(row.action)
    if opposite is None or not row.in_force(place.scene.now) or row.name not in place.granting:
        return
    kind = row.event_type.name
    below = {kind, *place.scene.spoken.types.subtree(kind)}
    if below & place.possible[opposite] or _open_to_guests(place, row, opposite):
        return
    if row.action == "publish":
        said = "nobody may receive what it lets be published"
        yield Finding("no-audience", "notice", row.name, said)
    else:
        yield Finding(
            "no-source", "notice", row.name, "nobody may publish what it lets be received"
        )


def _open_to_guests(place: _Place, row: Policy, action: str) -> bool:
    """Whether an agreement opens the policy's types to another domain for an action."""
    family = place.scene.family(row.event_type.name)
    return any(
        ceiling.action == action and ceiling.type in family
        for opening in place.openings
        for ceiling in opening.ceilings
    )
