"""Agreements as documents, and as the effect that they have."""

from __future__ import annotations

from typing import Any

from adminapp.agreements import terms
from adminapp.agreements.effect import Opening
from adminapp.agreements.models import Agreement, AgreementRound


def latest(row: Agreement) -> AgreementRound:
    """The newest round; rounds that were fetched with the row cost no query."""
    return max(row.rounds.all(), key=lambda each: each.number)


def standing(row: Agreement) -> AgreementRound:
    """The round under discussion, or the accepted one where nothing else is proposed."""
    open_rounds = [each for each in row.rounds.all() if each.rejected_at is None]
    if not open_rounds:
        return latest(row)
    return max(open_rounds, key=lambda each: each.number)


def document(row: Agreement) -> dict[str, Any]:
    """What audit and files keep of an agreement: between whom, and the terms that stand.

    Not how far the two sides are: a file of one side cannot accept for the other. That stands in
    the rounds, and in the actions of the audit.
    """
    return {"name": row.name, "consumer": row.consumer.name, **standing(row).terms}


def foreign_key(row: Agreement) -> str:
    """The natural key in the consumer's domain; in the provider's the name is enough."""
    return f"{row.provider.name}/{row.name}"


def opening(row: Agreement) -> Opening:
    """An accepted agreement as the provider's decisions take it."""
    assert row.accepted_round is not None
    agreed = terms.from_json(row.accepted_round.terms)
    return Opening(
        agreement=row.pk,
        name=row.name,
        provider=row.provider.name,
        consumer=row.consumer.name,
        roles=agreed.roles,
        ceilings=agreed.opens,
        subject_attributes=agreed.subject_attributes,
        starts=row.accepted_round.starts,
        ends=row.accepted_round.ends,
    )
