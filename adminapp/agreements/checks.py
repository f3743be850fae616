"""Whether terms fit the models of the two domains; each side answers for its own names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from django.db.models import Q
from django.utils import timezone

from adminapp.agreements import terms as forms
from adminapp.agreements.models import Agreement, Side
from adminapp.agreements.terms import Terms
from adminapp.catalog import selectors as catalog
from adminapp.catalog.mapping import SUBJECT
from adminapp.core.errors import Problem
from adminapp.identity.models import Domain
from adminapp.roles import selectors as roles
from policyengine.attributes import unknown
from policyengine.errors import InputError
from policyengine.events import EventTypes


def agreements(domain: Domain) -> Iterator[Problem]:
    """Accepted agreements that a change of the domain's model would break."""
    rows = (
        Agreement.objects.filter(Q(provider=domain) | Q(consumer=domain))
        .filter(state=Agreement.State.ACCEPTED, accepted_round__ends__gt=timezone.now())
        .select_related("accepted_round")
    )
    for row in rows:
        found = forms.from_json(row.accepted_round.terms)
        for problem in problems(found, domain, row.side_of(domain)):
            yield Problem("", f"agreement `{row.name}`: {problem.message}", problem.kind)


def problems(terms: Terms, domain: Domain, side: str) -> list[Problem]:
    """What is wrong with terms for one side, whose domain this is.

    The names of the other side are its own business: to say here which of them exist would tell
    strangers what stands in its model.
    """
    if side == Side.CONSUMER:
        return list(_consumer(terms, domain))
    return list(_provider(terms, domain))


def _consumer(terms: Terms, domain: Domain) -> Iterator[Problem]:
    names = set(roles.role_names(domain))
    for index, each in enumerate(terms.roles):
        yield from _known("role", each.role, names, f"/terms/roles/{index}/role")
    yield from _subject_attributes(terms, domain)


def _provider(terms: Terms, domain: Domain) -> Iterator[Problem]:
    names = set(roles.role_names(domain))
    for index, each in enumerate(terms.roles):
        yield from _known("role", each.known_as, names, f"/terms/roles/{index}/as")
    yield from _subject_attributes(terms, domain)
    try:
        types = catalog.engine_types(domain)
    except InputError:
        return  # the event types themselves do not fit together; the catalog says so
    for index, ceiling in enumerate(terms.opens):
        here = f"/terms/opens/{index}"
        missing = list(_known("event type", ceiling.type, types.names, f"{here}/type"))
        yield from missing
        if ceiling.attributes is None or missing:
            continue
        known = _attributes(types, ceiling.type)
        for number, name in enumerate(ceiling.attributes):
            yield from _known("attribute", name, known, f"{here}/attributes/{number}")


def _attributes(types: EventTypes, event_type: str) -> set[str]:
    """Attributes of a type, of those above it and of those below it, as policies may name them."""
    tree = {event_type, *types.subtree(event_type)}
    return {spec.name for name in tree for spec in types.attributes(name)}


def _subject_attributes(terms: Terms, domain: Domain) -> Iterator[Problem]:
    known = {name.removeprefix(SUBJECT) for name in catalog.subject_schema(domain)}
    for index, name in enumerate(terms.subject_attributes):
        yield from _known("subject attribute", name, known, f"/terms/subject_attributes/{index}")


def _known(what: str, name: str, known: Iterable[str], pointer: str) -> Iterator[Problem]:
    names = sorted(known)
    if name not in names:
        yield Problem.from_input_error(unknown(what, name, names), pointer)
