"""What principals could activate, and what they have activated in sessions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from bitarray import bitarray
from django.db.models import TextField
from django.db.models.functions import Cast

from adminapp.core.canonical import dumps
from adminapp.core.moments import moment
from adminapp.identity.lineage import lineage, nearest
from adminapp.identity.models import Domain, Principal
from adminapp.roles import activations as columns
from adminapp.roles import mapping, reading
from adminapp.roles.environment import environment
from adminapp.roles.models import Appointment, Role, RoleRule, RoleSession, RoleSettings
from policyengine.attributes import Value
from policyengine.roles import (
    Activation,
    Atom,
    Crowd,
    Fallen,
    RolePolicy,
    Rule,
    Session,
    activation_from_json,
    crowd,
    in_order,
)

_RULE_TEXTS = ("arguments", *reading.RULE_FIELDS[1:])
FEW = 500
"""Up to so many principals their appointments are asked for by name."""
MANY = 5_000
"""Up to so many names of appointments they are asked for by name."""


def hidden(domain: Domain) -> frozenset[int]:
    """Roles from above in whose place the domain, or one between, has its own."""
    above = lineage(domain)
    if len(above) == 1:
        return frozenset()
    rows = list(Role.objects.filter(domain__in=above).only("pk", "name", "domain_id"))
    kept = {row.pk for row in nearest(rows, above).values()}
    return frozenset(row.pk for row in rows if row.pk not in kept)


def rules(domain: Domain) -> tuple[Rule, ...]:
    """The rules that hold in a domain, for the engine; a role's own in their order.

    They are read as texts: of ten thousand rules hardly one is new since they were last read.
    """
    without = hidden(domain)
    texts: list[Any] = [Cast(name, output_field=TextField()) for name in _RULE_TEXTS]
    rows = RoleRule.objects.filter(role__domain__in=lineage(domain)).order_by("role_id", "pk")
    found = rows.values_list("role_id", "role__name", *texts)
    return tuple(reading.rule_of_texts(*row[1:]) for row in found if row[0] not in without)


def rules_about(domain: Domain, names: Iterable[str]) -> tuple[Rule, ...]:
    """The rules of some roles and of all that these need, near or far; a query for each step."""
    above = lineage(domain)
    found: dict[str, list[Rule]] = {}
    wanted = set(names)
    while wanted:
        rows = Role.objects.filter(domain__in=above, name__in=wanted).prefetch_related("rules")
        read = {name: list(row.rules.all()) for name, row in nearest(rows, above).items()}
        found.update({name: list(mapping.rules(held)) for name, held in read.items()})
        needed = {
            each.atom.name
            for name in read
            for rule in found[name]
            for each in rule.credentials
            if each.kind == "role"
        }
        wanted = needed - found.keys()
    return tuple(rule for name in sorted(found) for rule in found[name])


def with_parameters(domain: Domain) -> list[Role]:
    """The roles that hold in a domain and have parameters, by name."""
    without = hidden(domain)
    rows = Role.objects.filter(domain__in=lineage(domain)).exclude(parameters=[])
    return [row for row in rows.order_by("name") if row.pk not in without]


def by_session(domain: Domain) -> bool:
    """Whether only roles that are active in an open session count."""
    return RoleSettings.objects.filter(domain=domain, by_session=True).exists()


def possible(
    domain: Domain,
    principals: Sequence[int],
    at: datetime,
    *,
    roles: Collection[str] | None = None,
) -> Crowd:
    """What each of some principals could activate at a moment, sessions or not.

    Args:
        roles: names of the roles that matter; all by default.
    """
    held = Appointment.objects.filter(principal__domain=domain).active(at).order_by()
    if len(principals) <= FEW:
        held = held.filter(principal__in=principals)
    among = rules(domain) if roles is None else rules_about(domain, roles)
    if roles is not None:
        asked = {e.atom.name for r in among for e in r.credentials if e.kind == "appointment"}
        if len(asked) <= MANY:
            held = held.filter(name__in=asked)
    positions = {pk: position for position, pk in enumerate(principals)}
    return crowd(among, columns.held(held, positions), len(principals), environment(domain, at))


def activated(
    domain: Domain, principals: Sequence[int], at: datetime
) -> tuple[Crowd, tuple[int, ...]]:
    """What each of some principals has activated in sessions that are open at a moment.

    Each session stands for itself: roles of two are never put together.

    Returns:
        A crowd in which every principal has its first session, or none, at its own position, and
        further sessions behind them; and for each position that of its principal.
    """
    held = Surroundings.of(domain, at)
    rows = RoleSession.objects.filter(principal__domain=domain, opened__lte=at)
    rows = rows.exclude(closed__lte=at).select_related("principal").prefetch_related("roles")
    if len(principals) <= FEW:
        rows = rows.filter(principal__in=principals)
    positions = {pk: position for position, pk in enumerate(principals)}
    found = [row for row in rows.order_by("pk") if row.principal_id in positions]
    held.preload(row.principal_id for row in found)
    owners, taken = list(range(len(principals))), set()
    flat: dict[str, list[int]] = {}
    rows_of: dict[tuple[str, int], dict[int, set[columns.Terms]]] = {}
    for row in found:
        position = positions[row.principal_id]
        place = position
        if position in taken:
            place = len(owners)
            owners.append(position)
        taken.add(position)
        session, _ = held.resume(row)
        for each in session.activations:
            if each.role.terms:
                by_place = rows_of.setdefault(each.role.signature, {})
                by_place.setdefault(place, set()).add(each.role.terms)  # type: ignore[arg-type]
            else:
                flat.setdefault(each.role.name, []).append(place)
    count = len(owners)
    return Crowd(count, _columns(flat, count), rows_of, frozenset()), tuple(owners)


def _columns(flat: dict[str, list[int]], count: int) -> dict[str, bitarray]:
    found = {}
    for name, places in flat.items():
        column = bitarray(count)
        column.setall(0)
        for place in places:
            column[place] = 1
        found[name] = column
    return found


def atoms_at(found: Crowd, position: int) -> frozenset[Atom]:
    """The roles of one principal of a crowd."""
    plain = (Atom(name) for name, column in found.columns.items() if column[position])
    joined = (
        Atom(name, tuple(terms))
        for (name, _), held in found.rows.items()
        for terms in held.get(position, ())
    )
    return frozenset((*plain, *joined))


def possible_atoms(principal: Principal, *, at: datetime) -> frozenset[Atom]:
    """Every role that a principal could activate at a moment."""
    return atoms_at(possible(principal.domain, [principal.pk], at), 0)


def active_atoms(principal: Principal, *, at: datetime) -> frozenset[Atom]:
    """Every role that counts for a principal at a moment."""
    if not by_session(principal.domain):
        return possible_atoms(principal, at=at)
    found, owners = activated(principal.domain, [principal.pk], at)
    return frozenset(atom for place in range(len(owners)) for atom in atoms_at(found, place))


def possible_by(around: Surroundings, principal: Principal) -> frozenset[Atom]:
    """Every role that some rules alone would let a principal activate."""
    held = [(0, atom.name, atom.terms) for atom in around.held(principal.pk)]
    found = crowd(around.policy.rules, held, 1, around.environment)  # type: ignore[arg-type]
    return atoms_at(found, 0)


def open_sessions(around: Surroundings, principal: Principal) -> dict[Atom, int] | None:
    """The roles that a principal has in open sessions, with one of them; None where sessions do
    not count.
    """
    if not by_session(around.domain):
        return None
    rows = RoleSession.objects.filter(principal=principal, opened__lte=around.at)
    found: dict[Atom, int] = {}
    for row in rows.exclude(closed__lte=around.at).prefetch_related("roles").order_by("pk"):
        whole = Surroundings.of(around.domain, around.at)
        session, _ = whole.resume(row)
        for each in session.activations:
            found.setdefault(each.role, row.pk)
    return found


@dataclass
class Surroundings:
    """What sessions of a domain stand in at one moment: rules, environment, appointments."""

    domain: Domain
    at: datetime
    policy: RolePolicy
    environment: dict[str, Value]

    @classmethod
    def of(
        cls, domain: Domain, at: datetime, among: tuple[Rule, ...] | None = None
    ) -> Surroundings:
        """Read them.

        Args:
            among: the rules that are needed; all of the domain by default.
        """
        found = rules(domain) if among is None else among
        return cls(domain, at, RolePolicy(found), environment(domain, at))

    @property
    def now(self) -> int:
        """The moment in whole seconds, as the engine counts."""
        return int(self.at.timestamp())

    def preload(self, principals: Iterable[int]) -> None:
        """Read the appointments of many principals at once."""
        wanted = list(dict.fromkeys(principals))
        rows = Appointment.objects.filter(principal__domain=self.domain).active(self.at)
        if len(wanted) <= FEW:
            rows = rows.filter(principal__in=wanted)
        self._held.update({pk: [] for pk in wanted})
        for row in rows.order_by("pk"):
            if row.principal_id in self._held:
                self._held[row.principal_id].append(Atom(row.name, tuple(row.parameters)))

    def held(self, principal: int) -> list[Atom]:
        """What a principal is appointed to."""
        if principal not in self._held:
            self.preload([principal])
        return self._held[principal]

    def session(self, principal: Principal) -> Session:
        """A session of a principal in which nothing is active yet."""
        session, _ = Session.resume(
            self.policy,
            now=self.now,
            appointments=self.held(principal.pk),
            environment=self.environment,
            activations=(),
        )
        return session

    def resume(self, row: RoleSession) -> tuple[Session, tuple[Fallen, ...]]:
        """Take up a session from its row; what must have ended by now has fallen."""
        active = [each for each in row.roles.all() if each.ended is None or each.ended > self.at]
        activations = [activation_from_json(each.grounds) for each in active]
        ended = {
            activation.role: why
            for each, activation in zip(active, activations, strict=True)
            if (why := self._ruled_out(each.rule, activation.role)) is not None
        }
        return Session.resume(
            self.policy,
            now=self.now,
            appointments=self.held(row.principal_id),
            environment=self.environment,
            activations=activations,
            ended=ended,
            lost=self._lost(row.principal_id, activations),
        )

    def order(self, atoms: Iterable[Atom]) -> list[Atom]:
        """Roles so that each comes after those that it may need."""
        places = {rule.role.signature: at for at, rule in enumerate(in_order(self.policy.rules))}
        return sorted(atoms, key=lambda atom: (places.get(atom.signature, 0), atom.text))

    def rule_of(self, activation: Activation) -> Any:
        """The rule that granted a role, as a document."""
        return self._documents[activation.rule - 1]

    @cached_property
    def _held(self) -> dict[int, list[Atom]]:
        return {}

    @cached_property
    def _documents(self) -> list[Any]:
        listed: Any = self.policy.to_json()["rules"]
        return list(listed)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(dumps(each) for each in self._documents)

    def _ruled_out(self, document: Any, role: Atom) -> str | None:
        """Why no rule stands behind a role any more, or None."""
        if dumps(document) in self._known:
            return None
        if role.signature in self.policy.roles:
            return f"the rule that granted role `{role.text}` is there no more"
        return f"role `{role.name}` was deleted"

    def _lost(self, principal: int, activations: Iterable[Activation]) -> dict[Atom, str]:
        """Why appointments that roles rest on are not held any more."""
        held = set(self.held(principal))
        wanted = {
            condition.atom
            for activation in activations
            for condition in activation.membership
            if getattr(condition, "kind", "") == "appointment" and condition.atom not in held
        }
        if not wanted:
            return {}
        names = [atom.name for atom in wanted]
        rows = Appointment.objects.filter(principal=principal, name__in=names, ends__lte=self.at)
        found = {}
        for row in rows.order_by("ends", "pk"):
            atom = Atom(row.name, tuple(row.parameters))
            why = f": {row.reason}" if row.reason else ""
            found[atom] = f"appointment `{atom.text}` ended at {moment(row.ends)}{why}"
        return {atom: why for atom, why in found.items() if atom in wanted}
