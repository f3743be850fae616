"""What one principal has, and why: attributes, appointments, and the roles that they activate.

Only the rules of the roles that matter are read, with those of the roles that these need.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from adminapp.agreements.effect import Opening, foreign_values
from adminapp.catalog.mapping import SUBJECT
from adminapp.identity.lineage import lineage, nearest
from adminapp.identity.models import Domain, Principal
from adminapp.roles import mapping, selectors
from adminapp.roles import standing as role_standing
from adminapp.roles.activations import Declared, activations_of
from adminapp.roles.environment import environment
from adminapp.roles.mapping import ROLE
from adminapp.roles.models import Appointment, Role
from policyengine.attributes import Schema, Value
from policyengine.roles import Atom, Credential, Rule, crowd
from policyengine.roles.crowds import Terms

Ground: TypeAlias = tuple[str, Terms]
"""Name and parameters of a role or appointment."""
Bindings: TypeAlias = dict[str, str | int | float]
Variant: TypeAlias = dict[str, Value]
"""What policies see of a principal, with one activation of each role that has parameters."""


@dataclass(frozen=True)
class Held:
    """An appointment of the principal, whether it is in force or not.

    Args:
        ground: name and parameters.
        starts: when it begins.
        ends: when it ends; None is never.
        issuer: user name of who gave it; "" where nobody is known.
    """

    ground: Ground
    starts: datetime
    ends: datetime | None
    issuer: str


@dataclass(frozen=True)
class Proof:
    """Why a role is active.

    Args:
        role: the role.
        number: which rule of the role it is by, counted from 1.
        roles: proofs of the roles that the rule asks for.
        appointments: the appointments that it asks for.
        constraints: texts of its constraints.
    """

    role: Ground
    number: int
    roles: tuple[Proof, ...]
    appointments: tuple[Ground, ...]
    constraints: tuple[str, ...]

    def leaves(self) -> Iterator[Ground]:
        """Every appointment that it rests on."""
        yield from self.appointments
        for each in self.roles:
            yield from each.leaves()


@dataclass(frozen=True)
class Rules:
    """Rules of roles, each role with those that it needs.

    Args:
        by_role: rules by name of the role, in their order.
        declared: parameters of the roles that have some.
    """

    by_role: Mapping[str, tuple[Rule, ...]]
    declared: Declared

    def all(self) -> list[Rule]:
        """Every rule."""
        return [rule for rules in self.by_role.values() for rule in rules]

    def about(self, names: Iterable[str]) -> Rules:
        """Those of some roles and of the roles that these need."""
        found: dict[str, tuple[Rule, ...]] = {}
        wanted = [name for name in names if name in self.by_role]
        while wanted:
            name = wanted.pop()
            if name not in found:
                found[name] = self.by_role[name]
                wanted += [
                    each.atom.name
                    for rule in found[name]
                    for each in rule.credentials
                    if each.kind == "role" and each.atom.name in self.by_role
                ]
        declared = {name: self.declared[name] for name in found if name in self.declared}
        return Rules(found, declared)


@dataclass(frozen=True)
class Standing:
    """One principal at a moment.

    Args:
        pk: its primary key.
        attributes: its attributes by full name.
        appointments: all that it ever had or will have.
        held: those in force.
        rules: the rules that matter.
        environment: what constraints may speak of.
        sessions: in a domain where only roles of open sessions count, those roles, and what each
            session shows of them; else None.
    """

    pk: int
    attributes: Mapping[str, Value]
    appointments: tuple[Held, ...]
    held: frozenset[Ground]
    rules: Rules
    environment: Mapping[str, Value]
    sessions: tuple[frozenset[Ground], tuple[Variant, ...]] | None = None

    @property
    def _roles(self) -> tuple[frozenset[Ground], tuple[Variant, ...]]:
        if self.sessions is None:
            return self._crowd
        active, variants = self.sessions
        return active, tuple({**self.attributes, **each} for each in variants)

    @cached_property
    def _crowd(self) -> tuple[frozenset[Ground], tuple[Variant, ...]]:
        found = crowd(
            self.rules.all(),
            [(0, name, terms) for name, terms in sorted(self.held, key=repr)],
            1,
            self.environment,
        )
        active: set[Ground] = {(name, ()) for name in found.columns}
        for (name, _), rows in found.rows.items():
            active |= {(name, terms) for terms in rows.get(0, ())}
        laid = activations_of(found, [self.pk], self.rules.declared).variants()[self.pk]
        return frozenset(active), tuple({**self.attributes, **each} for each in laid)

    @property
    def active(self) -> frozenset[Ground]:
        """The roles that are active."""
        return self._roles[0]

    @property
    def possible(self) -> frozenset[Ground]:
        """The roles that could be active, in a session where one is needed."""
        return self._crowd[0]

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What policies see; none where there would be too many variants."""
        return self._roles[1]

    def changed(
        self,
        *,
        given: Iterable[Ground] = (),
        ended: Iterable[Ground] = (),
        attributes: Mapping[str, Value] | None = None,
        cleared: Iterable[str] = (),
    ) -> Standing:
        """What it would be after some appointments and attributes came and went.

        Roles that can be active then are, in sessions where these are needed.
        """
        gone = set(cleared)
        kept = {name: value for name, value in self.attributes.items() if name not in gone}
        return replace(
            self,
            sessions=None,
            held=(self.held - set(ended)) | set(given),
            attributes={**kept, **(attributes or {})},
        )

    # -- why ---------------------------------------------------------------------------------

    def about(self, roles: Iterable[str]) -> Standing:
        """The same principal, as far as some roles that policies name tell."""
        names = [name for role in roles for name in self.meant(role)]
        return replace(self, rules=self.rules.about(names))

    def meant(self, role: str) -> tuple[str, ...]:
        """The principal's own roles that policies know by a name."""
        return (role,)

    def activation(self, role: str, variant: Variant) -> Ground | None:
        """Which activation of a role a variant stands for."""
        wanted = {
            name: value for name, value in variant.items() if name.startswith(f"{ROLE}.{role}.")
        }
        for name, terms in sorted(self.active, key=repr):
            if name == role and self.parameters(role, terms) == wanted:
                return name, terms
        return None

    def parameters(self, role: str, terms: Terms) -> dict[str, Value | None]:
        """What policies see of the parameters of a role."""
        declared = self.rules.declared.get(role, ())
        return {
            mapping.parameter_attribute(role, each.name): each.value(term)
            for each, term in zip(declared, terms, strict=False)
        }

    def proof(self, role: Ground) -> Proof | None:
        """By which rule a role is active, and why what the rule asks for is there."""
        name, terms = role
        for number, rule in enumerate(self.rules.by_role.get(name, ()), start=1):
            bindings = _matched(rule.role, terms, {})
            if bindings is None:
                continue
            for known in self._meeting(rule, rule.credentials, bindings):
                grounds = [(each.kind, _ground(each.atom, known)) for each in rule.credentials]
                proofs = [self.proof(ground) for kind, ground in grounds if kind == "role"]
                return Proof(
                    role,
                    number,
                    tuple(each for each in proofs if each is not None),
                    tuple(ground for kind, ground in grounds if kind == "appointment"),
                    tuple(each.text for each in rule.constraints),
                )
        return None

    def _meeting(
        self, rule: Rule, credentials: tuple[Credential, ...], known: Bindings
    ) -> Iterator[Bindings]:
        """Ways to put what is there in the places of a rule's variables."""
        if not credentials:
            if all(each.problem(self.environment, known) is None for each in rule.constraints):
                yield known
            return
        first, *others = credentials
        there = self.active if first.kind == "role" else self.held
        for name, terms in sorted(there, key=repr):
            if name == first.atom.name:
                found = _matched(first.atom, terms, known)
                if found is not None:
                    yield from self._meeting(rule, tuple(others), found)


@dataclass(frozen=True, kw_only=True)
class Guest(Standing):
    """A principal of another domain, as this one's policies see it.

    Args:
        opening: the agreement that lets it in.
        schema: types of this domain's `subject.*`.
    """

    opening: Opening
    schema: Schema

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What is passed on of each variant; none where it is not let in."""
        found = (foreign_values(self.opening, each, self.schema) for each in super().variants)
        return tuple(each for each in found if each is not None)

    def meant(self, role: str) -> tuple[str, ...]:
        return tuple(each.role for each in self.opening.roles if each.known_as == role)

    def activation(self, role: str, variant: Variant) -> Ground | None:
        names = self.meant(role)
        return next((each for each in sorted(self.active, key=repr) if each[0] in names), None)


def guest(own: Standing, opening: Opening, schema: Schema) -> Guest:
    """A principal as another domain sees it through an agreement."""
    fields = {each.name: getattr(own, each.name) for each in dataclass_fields(own)}
    return Guest(**fields, opening=opening, schema=schema)


def read_rules(domain: Domain, roles: Iterable[str]) -> Rules:
    """The rules of some roles and of those that they need, as they hold in a domain."""
    line = lineage(domain)
    rows: dict[str, Role] = {}
    wanted, asked = set(roles), set()
    while wanted:
        found = Role.objects.filter(domain__in=line, name__in=wanted).prefetch_related("rules")
        rows.update(nearest(found, line))
        asked |= wanted
        wanted = {
            each.atom.name
            for name in wanted & rows.keys()
            for rule in mapping.rules(rows[name].rules.all())
            for each in rule.credentials
            if each.kind == "role"
        } - asked
    return Rules(
        {name: mapping.rules(row.rules.all()) for name, row in sorted(rows.items())},
        {name: mapping.parameters(row) for name, row in rows.items() if row.parameters},
    )


def read(principal: Principal, rules: Rules, *, at: datetime) -> Standing:
    """What a principal has at a moment."""
    rows = list(
        Appointment.objects.filter(principal=principal)
        .select_related("issuer", "issued_by")
        .order_by("starts")
    )
    found = tuple(_held(row) for row in rows)
    in_force = Appointment.objects.filter(principal=principal).active(at)
    active = set(in_force.values_list("pk", flat=True))
    return Standing(
        pk=principal.pk,
        attributes={f"{SUBJECT}{name}": value for name, value in principal.attributes.items()},
        appointments=found,
        held=frozenset(
            each.ground for row, each in zip(rows, found, strict=True) if row.pk in active
        ),
        rules=rules,
        environment=environment(principal.domain, at),
        sessions=_sessions(principal, at),
    )


def _sessions(
    principal: Principal, at: datetime
) -> tuple[frozenset[Ground], tuple[Variant, ...]] | None:
    if not role_standing.by_session(principal.domain):
        return None
    atoms = role_standing.active_atoms(principal, at=at)
    found = selectors.activations(principal.domain, at=at, principals=[principal.pk])
    grounds = frozenset((atom.name, tuple(atom.terms)) for atom in atoms)
    return grounds, found.variants()[principal.pk]  # type: ignore[return-value]


def _held(row: Appointment) -> Held:
    issuer = "" if row.issuer is None else row.issuer.username
    issuer = issuer if row.issued_by is None else row.issued_by.name
    return Held((row.name, tuple(row.parameters)), row.starts, row.ends, issuer)


def _matched(atom: Atom, terms: Terms, known: Bindings) -> Bindings | None:
    if len(atom.terms) != len(terms):
        return None
    return atom.match(Atom(atom.name, tuple(terms)), known)


def _ground(atom: Atom, known: Bindings) -> Ground:
    bound = atom.bound(known)
    return bound.name, tuple(bound.terms)  # type: ignore[arg-type]
