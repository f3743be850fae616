"""The principals of a domain as policies see them at a moment, column by column."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

import numpy as np
from bitarray import bitarray
from django.db.models import TextField
from django.db.models.functions import Cast

from adminapp.catalog.mapping import SUBJECT
from adminapp.identity.models import Domain, Principal
from adminapp.policies import columns
from adminapp.policies.columns import Columns, Mask, Positions
from adminapp.policies.language import PolicyConjunction
from adminapp.roles import selectors
from adminapp.roles.mapping import role_attribute

_READ = 20_000  # rows fetched at a time


@dataclass(frozen=True)
class Crowd:
    """Everybody who may take part. Row i is principal i; further variants of a principal, with
    other parameters of its roles, are further rows.

    Args:
        pks: primary keys, by position.
        names: names, ascending.
        handles: handles.
        domain: name of the domain that they belong to.
        owners: for each row the position of its principal.
        present: the rows that count.
        values: what policies may test.
    """

    pks: tuple[int, ...]
    names: tuple[str, ...]
    handles: tuple[str, ...]
    domain: str
    owners: Positions
    present: Mask
    values: Columns

    @property
    def count(self) -> int:
        """How many principals there are."""
        return len(self.pks)

    def fitting(self, way: PolicyConjunction) -> Mask:
        """The rows that meet the subject's side of a conjunction."""
        found = self.present.copy()
        for literal in way.subject:
            found &= self.values.mask(literal)
        for join in way.joins:
            found &= self.values.given(join.left)
        return found

    def holders(self, rows: Mask) -> Mask:
        """The principals of some rows."""
        if len(self.owners) == self.count:
            return rows
        return columns.mask_of(
            self.owners[columns.positions_of(rows, len(self.owners))], self.count
        )

    def rows_of(self, position: int) -> Sequence[int]:
        """The rows of one principal."""
        if len(self.owners) == self.count:
            return (position,)
        further = self.count + np.flatnonzero(self.owners[self.count :] == position)
        return (position, *further.tolist())

    def combinations(self, names: Sequence[str]) -> int:
        """How many different values these attributes have together, where all are given."""
        codes = np.stack([self.values.column(name).codes for name in names])
        return len(np.unique(codes[:, (codes >= 0).all(axis=0)], axis=1).T)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.values.nbytes + self.owners.nbytes + 260 * self.count


def gather(
    domain: Domain,
    *,
    roles: Collection[str],
    at: datetime | None = None,
    only: Sequence[int] | None = None,
) -> Crowd:
    """Read the active principals of a domain in a constant number of queries.

    Args:
        roles: names of the roles that matter.
        only: primary keys of those that matter; all by default.
    """
    found = Principal.objects.filter(domain=domain, state=Principal.State.ACTIVE)
    if only is not None:
        found = found.filter(pk__in=only)
    written: Any = Cast("attributes", output_field=TextField())
    fields = found.order_by().values_list("name", "pk", "handle", written)
    people = sorted(fields.iterator(_READ), key=itemgetter(0))
    pks = tuple(row[1] for row in people)
    held = selectors.activations(domain, at=at, principals=pks, roles=roles)
    owners = np.array(held.owners, dtype=np.intp)
    values = Columns(_read(row[3] for row in people), SUBJECT, owners)
    for role, having in held.roles.items():
        if role not in roles:
            continue
        values.flag(role_attribute(role), _mask(having))
    for name, by_value in held.parameters.items():
        values.add(name, ((row, value) for value, rows in by_value.items() for row in rows))
    return Crowd(
        pks=pks,
        names=tuple(row[0] for row in people),
        handles=tuple(row[2] for row in people),
        domain=domain.name,
        owners=owners,
        present=_mask(held.present),
        values=values,
    )


def _read(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Attributes from their JSON; many principals have the same."""
    known: dict[str, dict[str, Any]] = {}
    found = []
    for text in texts:
        values = known.get(text)
        if values is None:
            values = known[text] = json.loads(text)
        found.append(values)
    return found


def _mask(bits: bitarray) -> Mask:
    return np.frombuffer(bits.tobytes(), dtype=np.uint8)
