"""Keys and trust groups: which key protects this, which agents hold it, when was it renewed?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from adminapp.catalog import selectors as catalog
from adminapp.catalog.models import AttributeKey
from adminapp.console import forms
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.core.authority import AuthorityError
from adminapp.core.errors import Conflict, Invalid, ServiceError
from adminapp.identity import selectors as identity
from adminapp.identity.models import Agent, Domain
from adminapp.trustgroups import mapping, selectors, services
from adminapp.trustgroups.models import KeyEpoch, TrustGroup


@dataclass(frozen=True)
class KeyRow:
    """An attribute key with everything that is asked about it."""

    key: AttributeKey
    protects: list[str]
    holders: list[Agent]
    epochs: list[KeyEpoch]

    @property
    def current(self) -> KeyEpoch | None:
        return next((e for e in self.epochs if e.state == KeyEpoch.State.CURRENT), None)


@dataclass(frozen=True)
class GroupRow:
    """A trust group, its members' names, and the form that changes them."""

    group: TrustGroup
    members: set[str]
    keys: set[str]
    said: tuple[str, ...] = ()


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    return _page(request, domain)


@require_POST
@in_domain
@managers_only
def save_group(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    """Who is in a group and which keys it gives; who leaves cannot read what comes after."""
    group = get_object_or_404(selectors.trust_groups(request.user, domain), name=name)
    form = forms.VersionForm(request.POST)
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return _back(domain)
    members = identity.agents(request.user).filter(name__in=request.POST.getlist("members"))
    keys = catalog.attribute_keys(request.user, domain).filter(
        name__in=request.POST.getlist("keys")
    )
    try:
        services.update_trust_group(
            actor=request.user,
            trust_group=group,
            members=list(members),
            keys=list(keys) if group.kind == TrustGroup.Kind.ATTRIBUTE else None,
            expected_version=form.cleaned_data["version"],
        )
    except Conflict:
        messages.warning(
            request,
            f"Somebody changed trust group {name} after you opened this page. Nothing was saved; "
            "below is how it is now.",
        )
    except Invalid as error:
        messages.error(request, "Nothing was changed. " + " ".join(forms.said_by(error)))
    except AuthorityError:
        messages.error(
            request,
            "Nothing was changed: the trusted authority, which makes the new key, does not answer.",
        )
    except ServiceError as error:
        messages.error(request, f"Nothing was changed: {error.message}.")
    else:
        messages.success(request, f"Trust group {name} is saved; agents get it with the next keys.")
    return _back(domain)


@require_POST
@in_domain
@managers_only
def renew(request: HttpRequest, domain: Domain) -> HttpResponse:
    """Stage a new epoch of a key; agents learn it before anybody uses it."""
    reference = request.POST.get("group_ref", "")
    try:
        epoch = services.stage_epoch(actor=request.user, domain=domain, group_ref=reference)
    except AuthorityError:
        messages.error(
            request,
            "No new key was made: the trusted authority, which makes keys, does not answer.",
        )
    except Invalid as error:
        messages.error(request, "No new key was made. " + " ".join(forms.said_by(error)))
    else:
        messages.success(
            request,
            f"Epoch {epoch.number} of {words_of(reference)} is made. Agents get it first and "
            "switch to it when all of them hold it.",
        )
    return _back(domain)


def words_of(reference: str) -> str:
    """A group reference in words."""
    kind, _separator, name = reference.partition(":")
    return f"key {name}" if f"{kind}:" == mapping.KEY else f"the key of overlay {name}"


def _back(domain: Domain) -> HttpResponse:
    return HttpResponseRedirect(reverse("console:keys", args=[domain.name]))


def _page(request: HttpRequest, domain: Domain) -> HttpResponse:
    epochs: dict[str, list[KeyEpoch]] = {}
    for epoch in selectors.key_epochs(request.user, domain).order_by("-number"):
        epochs.setdefault(epoch.group_ref, []).append(epoch)
    keys = list(catalog.attribute_keys(request.user, domain).prefetch_related("attributes"))
    agents = list(identity.agents(request.user))
    return show(
        request,
        "console/keys/index.html",
        title="Keys and trust groups",
        area="keys",
        question="Which key protects what, which agents hold it, and when was it last renewed? The "
        "keys themselves never come here.",
        domain=domain,
        keys=[_key_row(request.user, key, epochs) for key in keys],
        hops=[
            {"name": ref.partition(":")[2], "ref": ref, "epoch": _current(found)}
            for ref, found in sorted(epochs.items())
            if ref.startswith(mapping.OVERLAY)
        ],
        groups=[_group_row(group) for group in selectors.trust_groups(request.user, domain)],
        agents=agents,
    )


def _key_row(user: Any, key: AttributeKey, epochs: dict[str, list[KeyEpoch]]) -> KeyRow:
    attributes = key.attributes.select_related("event_type")
    return KeyRow(
        key,
        sorted(f"{row.event_type.name}.{row.name}" for row in attributes),
        list(selectors.agents_holding(key)),
        epochs.get(mapping.key_ref(key.name), []),
    )


def _current(epochs: Iterable[KeyEpoch]) -> KeyEpoch | None:
    return next((e for e in epochs if e.state == KeyEpoch.State.CURRENT), None)


def _group_row(group: TrustGroup) -> GroupRow:
    return GroupRow(
        group,
        {agent.name for agent in group.members.all()},
        {key.name for key in group.keys.all()},
    )
