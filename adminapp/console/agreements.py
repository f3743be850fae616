"""Agreements: what do we share with whom, and who has to say yes?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms as fields
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.agreements import selectors, services
from adminapp.agreements.models import Agreement, AgreementRound, Side
from adminapp.console import access, forms
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.core.errors import Invalid, ServiceError
from adminapp.identity.models import Domain

State = Agreement.State


class AgreeForm(forms.VersionForm):
    """A yes to exactly the terms that the page showed."""

    number = fields.IntegerField(widget=fields.HiddenInput)
    digest = fields.CharField(widget=fields.HiddenInput, max_length=64)


class EndForm(forms.VersionForm):
    """A no, with the reason that both sides read."""

    reason = fields.CharField(
        label="Why", max_length=2000, required=False, help_text="The other side reads this."
    )


@dataclass(frozen=True)
class Word:
    """One side's yes; people of a side that one does not see are its own business."""

    side: str
    by: str
    at: Any


@dataclass(frozen=True)
class Version:
    """One proposal of terms, and who said yes to it."""

    row: AgreementRound
    by: str
    words: tuple[Word, ...]


@dataclass(frozen=True)
class Shown:
    """An agreement as one of its domains sees it."""

    row: Agreement
    state: str
    side: str
    versions: tuple[Version, ...]

    @property
    def newest(self) -> Version:
        """The proposal that came last."""
        return self.versions[-1]

    @property
    def accepted(self) -> Version | None:
        """What was agreed on last."""
        found = self.row.accepted_round_id
        return next((each for each in self.versions if each.row.pk == found), None)

    @property
    def proposed(self) -> bool:
        """Whether the newest terms still wait for somebody's yes."""
        last = self.newest.row
        waits = last.rejected_at is None and last.pk != self.row.accepted_round_id
        return waits and self.row.state not in (State.WITHDRAWN, State.REJECTED)

    @property
    def open(self) -> bool:
        """Whether it can be withdrawn from."""
        return self.row.state not in (State.WITHDRAWN, State.REJECTED)


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    rows = selectors.agreements(request.user, domain)
    sees = selectors.seen_domains(request.user)
    return show(
        request,
        "console/agreements/index.html",
        title="Agreements",
        area="agreements",
        question="What do we share with whom, and who has to say yes?",
        domain=domain,
        agreements=[_shown(sees, domain, row) for row in rows],
    )


@require_safe
@in_domain
def detail(request: HttpRequest, domain: Domain, pk: int) -> HttpResponse:
    return _detail(request, domain, _find(request, domain, pk))


@require_POST
@in_domain
@managers_only
def decide(request: HttpRequest, domain: Domain, pk: int, deed: str) -> HttpResponse:
    """Say yes or no for this domain's side, or end what was agreed on."""
    row = _find(request, domain, pk)
    form = _FORMS[deed](request.POST)
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return _detail(request, domain, row, status=422)
    values = dict(form.cleaned_data)
    values["expected_version"] = values.pop("version")
    try:
        done = _DEEDS[deed](actor=request.user, agreement=row, side=row.side_of(domain), **values)
    except Invalid as error:
        forms.tell(request, error)
        return _detail(request, domain, row, status=422)
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, _said(deed, done))
    return HttpResponseRedirect(reverse("console:agreement", args=[domain.name, pk]))


def _said(deed: str, row: Agreement) -> str:
    if deed == "agree":
        agreed = row.accepted_round_id == row.rounds.order_by("-number").values_list("pk")[0][0]
        return (
            "Both sides have agreed; it holds from its beginning on."
            if agreed
            else "Your yes is kept. It holds when everybody who has to has said yes."
        )
    if deed == "refuse":
        return "Said no. What was agreed on before stays as it was."
    return f"Agreement {row.name} has ended; nobody comes in through it any more."


def _find(request: HttpRequest, domain: Domain, pk: int) -> Agreement:
    found: Agreement = get_object_or_404(selectors.agreements(request.user, domain), pk=pk)
    return found


def _detail(
    request: HttpRequest, domain: Domain, row: Agreement, status: int = 200
) -> HttpResponse:
    shown = _shown(selectors.seen_domains(request.user), domain, row)
    last, version = shown.newest.row, {"version": row.version}
    return show(
        request,
        "console/agreements/detail.html",
        title=row.name,
        area="agreements",
        question=f"What {row.provider.title or row.provider.name} opens to "
        f"{row.consumer.title or row.consumer.name}, and since when.",
        domain=domain,
        status=status,
        agreement=shown,
        history=shown.versions[::-1],
        said_yes=any(word.side == shown.side for word in shown.newest.words)
        and domain.approval == Domain.Approval.NEVER,
        may_change=access.may_change(request.user, domain),
        agreeing=AgreeForm(initial=version | {"number": last.number, "digest": last.digest}),
        refusing=EndForm(initial=version, auto_id="id_refuse_%s"),
        ending=EndForm(initial=version, auto_id="id_end_%s"),
    )


def _shown(sees: frozenset[int], domain: Domain, row: Agreement) -> Shown:
    sides = {side for side in Side.values if row.domain_of(side).pk in sees}
    return Shown(
        row,
        selectors.state(row),
        row.side_of(domain),
        tuple(_version(each, sides) for each in row.rounds.all()),
    )


def _version(row: AgreementRound, sides: set[str]) -> Version:
    words = tuple(Word(each.side, _name(each, sides), each.at) for each in row.acceptances.all())
    return Version(row, _name(row, sides), words)


def _name(row: Any, sides: set[str]) -> str:
    return row.actor.get_username() if row.actor and row.side in sides else ""


_FORMS: dict[str, type[forms.VersionForm]] = {
    "agree": AgreeForm,
    "refuse": EndForm,
    "withdraw": EndForm,
}
_DEEDS: dict[str, Callable[..., Agreement]] = {
    "agree": services.accept_agreement,
    "refuse": services.reject_agreement,
    "withdraw": services.withdraw_agreement,
}
