"""Which roles the principals of a domain have, column by column.

A principal counts as having every role that it could activate. Where a role has parameters it
may be active several times (`officer(7, West)` and `officer(7, East)`), and policies may never mix
two of them. So what policies see of a principal is one or more *variants*: each holds its roles,
and the parameters of one activation of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, TypeAlias

from bitarray import bitarray
from bitarray.util import zeros
from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from adminapp.roles.mapping import parameter_attribute
from adminapp.roles.models import Appointment
from adminapp.roles.reading import Parameter
from policyengine.attributes import Value
from policyengine.roles import Crowd
from policyengine.roles.crowds import Terms

MAX_VARIANTS = 256
"""How many variants a principal may have; one with more has no rights at all."""

Binding: TypeAlias = tuple[tuple[str, Value], ...]
"""Parameters of one activation: full name and value."""
Declared: TypeAlias = Mapping[str, tuple[Parameter, ...]]
"""The parameters of roles that have some, by name of the role."""


@dataclass(frozen=True)
class Activations:
    """Active roles of many principals. Row i is the first variant of principal i, for as many
    principals as there are; further variants follow, in any order.

    Args:
        principals: primary keys, in the order that was asked for.
        owners: for each row the position of its principal.
        present: rows that count. A principal whose variants are too many has none that does, so
            that no policy permits it anything, negations included.
        roles: role to the rows that have it; roles that nobody has are left out.
        parameters: full name of a parameter to its values, each with the rows that have it.
        overfull: primary keys of principals with too many variants.
    """

    principals: tuple[int, ...]
    owners: Sequence[int]
    present: bitarray
    roles: Mapping[str, bitarray]
    parameters: Mapping[str, Mapping[Value, Sequence[int]]]
    overfull: frozenset[int]

    def holders(self, rows: bitarray) -> bitarray:
        """The principals who have one of some rows: a bit for each position."""
        count = len(self.principals)
        found = rows[:count]
        for row in rows.search(bitarray("1"), count):
            found[self.owners[row]] = 1
        return found

    def variants(self) -> dict[int, tuple[dict[str, Value], ...]]:
        """By primary key: of each variant the roles (true) and parameters, by name as policies
        know them.
        """
        rows: list[dict[str, Value]] = [{} for _ in self.owners]
        for role, having in self.roles.items():
            name = f"subject.role.{role}"
            for row in having.search(bitarray("1")):
                rows[row][name] = True
        for name, by_value in self.parameters.items():
            for value, having in by_value.items():
                for row in having:
                    rows[row][name] = value
        found: dict[int, list[dict[str, Value]]] = {pk: [] for pk in self.principals}
        for row in self.present.search(bitarray("1")):
            found[self.principals[self.owners[row]]].append(rows[row])
        return {pk: tuple(held) for pk, held in found.items()}


def activations_of(crowd: Crowd, principals: Sequence[int], declared: Declared) -> Activations:
    """Lay out what a crowd could activate as variants.

    Args:
        crowd: what everybody could activate; a position is one in `principals`.
        principals: primary keys.
        declared: parameters of the roles that have some.
    """
    count = len(principals)
    bindings = _bindings(crowd, declared)
    overfull = set(crowd.overfull)
    owners = list(range(count))
    layout: list[tuple[int, str, Binding]] = []  # row, role, its parameters there
    for position, by_role in bindings.items():
        if prod(len(each) for each in by_role.values()) > MAX_VARIANTS:
            overfull.add(position)
        elif position not in overfull:
            for number, choice in enumerate(product(*by_role.values())):
                row = position if number == 0 else len(owners)
                if number:
                    owners.append(position)
                layout.extend((row, role, each) for role, each in zip(by_role, choice, strict=True))
    present = bitarray(len(owners))
    present.setall(1)
    for position in overfull:
        present[position] = 0
    roles = _columns(crowd, declared, owners, overfull)
    parameters: dict[str, dict[Value, list[int]]] = {}
    for row, role, binding in layout:
        roles.setdefault(role, zeros(len(owners)))[row] = 1
        for name, value in binding:
            parameters.setdefault(name, {}).setdefault(value, []).append(row)
    return Activations(
        tuple(principals),
        owners,
        present,
        roles,
        parameters,
        frozenset(principals[position] for position in overfull),
    )


def of_sessions(
    crowd: Crowd, owners: Sequence[int], principals: Sequence[int], declared: Declared
) -> Activations:
    """Lay out what sessions have activated, each session as variants of its own.

    Args:
        crowd: positions are sessions; those of the principals themselves come first.
        owners: for each of its positions that of the principal.
        principals: primary keys.
        declared: parameters of the roles that have some.
    """
    keys = [principals[owner] for owner in owners]
    found = activations_of(crowd, keys, declared)
    rows = [owners[row] for row in found.owners]
    present = found.present
    if found.overfull:  # too much in one session is too much
        for row, owner in enumerate(rows):
            present[row] &= principals[owner] not in found.overfull
    return replace(found, principals=tuple(principals), owners=rows, present=present)


def _columns(
    crowd: Crowd, declared: Declared, owners: Sequence[int], overfull: Iterable[int]
) -> dict[str, bitarray]:
    """Roles without parameters: further variants of a principal have what its first has."""
    further = owners[crowd.count :]
    found = {}
    for name, column in crowd.columns.items():
        if name in declared:
            continue  # a rule of another shape than the role; the checks refuse it
        rows = column.copy()
        for position in overfull:
            rows[position] = 0
        rows.extend(column[position] for position in further)
        if rows.any():
            found[name] = rows
    return found


def _bindings(crowd: Crowd, declared: Declared) -> dict[int, dict[str, list[Binding]]]:
    """For each principal and role with parameters what they may be, in a fixed order.

    An activation whose values the declared types do not admit is none.
    """
    found: dict[int, dict[str, list[Binding]]] = {}
    for (name, count), held in sorted(crowd.rows.items()):
        parameters = declared.get(name, ())
        if len(parameters) != count:
            continue
        for position, activations in held.items():
            bindings = {
                binding
                for terms in activations
                if (binding := _binding(name, parameters, terms)) is not None
            }
            if bindings:
                ordered = sorted(bindings, key=repr)
                found.setdefault(position, {})[name] = ordered
    return found


def _binding(role: str, parameters: Sequence[Parameter], terms: Terms) -> Binding | None:
    pairs = []
    for parameter, constant in zip(parameters, terms, strict=True):
        value = parameter.value(constant)
        if value is None:
            return None
        pairs.append((parameter_attribute(role, parameter.name), value))
    return tuple(pairs)


def held(
    rows: QuerySet[Appointment], positions: Mapping[int, int]
) -> Iterator[tuple[int, str, Terms]]:
    """Appointments for the engine: position of the principal, name, values.

    Args:
        rows: the appointments in force.
        positions: position by primary key of the principal; others are left out.
    """
    read: dict[str, Terms] = {"[]": ()}
    written: Any = Cast("parameters", output_field=TextField())
    for pk, name, text in rows.values_list("principal_id", "name", written).iterator(20_000):
        position = positions.get(pk)
        if position is None:
            continue
        terms = read.get(text)
        if terms is None:
            terms = read[text] = tuple(json.loads(text))
        yield position, name, terms
