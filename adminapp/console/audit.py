"""Audit: who did what, and is the chain whole?"""

from __future__ import annotations

from typing import Any

import django_filters
from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from adminapp.audit import selectors, verification
from adminapp.audit.models import Entry
from adminapp.console import diffs, words
from adminapp.console.forms import style
from adminapp.console.pages import show, signed_in, visible_domain_names
from adminapp.console.tables import AuditTable, configured
from adminapp.identity import selectors as identity
from adminapp.identity.permissions import is_operator


class AuditFilter(django_filters.FilterSet):
    """What the audit may be narrowed to."""

    text = django_filters.CharFilter(label="Words", method="by_text")
    actor = django_filters.CharFilter(field_name="actor__name", label="Who")
    domain = django_filters.ChoiceFilter(
        field_name="domain_name", label="Domain", empty_label="All domains"
    )
    since = django_filters.DateFilter(
        field_name="at",
        lookup_expr="date__gte",
        label="From",
        widget=forms.DateInput(attrs={"type": "date"}),
    )
    until = django_filters.DateFilter(
        field_name="at",
        lookup_expr="date__lte",
        label="To",
        widget=forms.DateInput(attrs={"type": "date"}),
    )

    class Meta:
        model = Entry
        fields: list[str] = []

    def __init__(self, *args: Any, domains: frozenset[str], user: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        self.filters["domain"].extra["choices"] = [(name, name) for name in sorted(domains)]
        for field in self.form.fields.values():
            style(field.widget)

    def by_text(self, queryset: Any, _name: str, value: str) -> Any:
        persons = identity.pseudonyms(self.user, like=value)
        return queryset.filter(selectors.words(value, persons))


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    domains = visible_domain_names(request.user)
    found = selectors.visible_to(request.user)
    narrowed = AuditFilter(request.GET, queryset=found, domains=domains, user=request.user)
    return show(
        request,
        "console/audit/index.html",
        title="Audit",
        area="audit",
        question="Who did what, when, and what was it before? Entries are only ever added, each "
        "a leaf of one signed tree.",
        live=True,
        parts={"rows": "console/audit/_rows.html"},
        filter=narrowed,
        table=configured(request, AuditTable(narrowed.qs)),
    )


@require_safe
@signed_in
def detail(request: HttpRequest, sequence: int) -> HttpResponse:
    entry = get_object_or_404(selectors.visible_to(request.user), sequence=sequence)
    return show(
        request,
        "console/audit/detail.html",
        title=f"Entry {entry.sequence}",
        area="audit",
        question=f"{entry.actor_name}: {words.action(entry.action)} "
        f"{entry.object_name or entry.object_type}",
        entry=entry,
        changes=diffs.between(entry.before, entry.after),
    )


@require_safe
@signed_in
def chain(request: HttpRequest) -> HttpResponse:
    """The tree's state; with `check` the whole audit is read, which only a button asks for."""
    operator = is_operator(request.user)
    report = verification.verify_with_authority() if operator and "check" in request.GET else None
    return show(
        request,
        "console/audit/chain.html",
        title="The log",
        area="audit",
        question="Is the audit as it was written? Every entry is a leaf of one tree, whose root "
        "the trusted authority signs.",
        state=selectors.state(),
        report=report,
        operator=operator,
    )
