"""Agreements as a kind: they stand in the files of the provider.

A file of one side cannot accept for the other. So applying a new agreement proposes it, changed
terms are a counter-proposal, and one that is gone from a complete file is withdrawn from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from django.utils import timezone

from adminapp.agreements import mapping, selectors, services, terms
from adminapp.agreements.models import Agreement, Side
from adminapp.core.errors import Invalid
from adminapp.identity import kinds
from adminapp.identity.kinds import Document, Kind
from adminapp.identity.models import Domain, User

LIVE = (Agreement.State.PROPOSED, Agreement.State.COUNTERED, Agreement.State.ACCEPTED)


def register_all() -> None:
    """Make the kinds of this area known."""
    kinds.register(AGREEMENT)


def _documents(domain: Domain) -> dict[str, Document]:
    rows = selectors.with_rounds(Agreement.objects.filter(provider=domain, state__in=LIVE))
    return {row.name: mapping.document(row) for row in rows.order_by("name")}


def _find(domain: Domain, key: str) -> Agreement | None:
    """By name in the provider's domain, by `provider/name` in the consumer's."""
    provider, separator, name = key.rpartition("/")
    rows = selectors.with_rounds(Agreement.objects.filter(name=name, state__in=LIVE))
    if separator:
        return rows.filter(provider__name=provider, consumer=domain).first()
    return rows.filter(provider=domain).first()


def _create(actor: User | None, domain: Domain, _key: str, document: Document) -> Agreement:
    consumer = Domain.objects.filter(name=document["consumer"]).first()
    if consumer is None:
        raise Invalid.at("/consumer", f"there is no domain `{document['consumer']}`", "unknown")
    with _seen_from_a_file():
        return services.propose_agreement(
            actor=actor,
            provider=domain,
            consumer=consumer,
            name=document["name"],
            terms=_terms(document),
            side=Side.PROVIDER,
        )


def _update(actor: User | None, row: Agreement, document: Document) -> Agreement:
    if document["consumer"] != row.consumer.name:
        raise Invalid.at("/consumer", "the consumer of an agreement cannot be changed")
    with _seen_from_a_file():
        return services.counter_agreement(
            actor=actor, agreement=row, terms=_terms(document), side=Side.PROVIDER
        )


def _delete(actor: User | None, row: Agreement) -> None:
    services.withdraw_agreement(actor=actor, agreement=row, side=Side.PROVIDER)


@contextmanager
def _seen_from_a_file() -> Iterator[None]:
    """A document holds the terms among its other fields, not below one of their own."""
    try:
        yield
    except Invalid as error:
        raise Invalid(
            replace(problem, pointer=problem.pointer.removeprefix("/terms"))
            for problem in error.problems
        ) from error


def _terms(document: Document) -> dict[str, Any]:
    return {name: document[name] for name in terms.FIELDS}


def _normal(_domain: Domain | None, document: Document) -> Document:
    found = terms.read(_terms(document), now=timezone.now(), pointer="")
    return {**document, **found.to_json()}


AGREEMENT = Kind(
    name="agreement",
    rank=80,
    documents=_documents,
    find=_find,
    create=_create,
    update=_update,
    delete=_delete,
    document=mapping.document,
    required=("name", "consumer", "roles", "opens", "starts", "ends"),
    defaults={"subject_attributes": [], "purpose": ""},
    normal=_normal,
)
