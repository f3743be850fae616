"""Keys and trust groups: which key protects this, which agents hold it, when was it renewed?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from adminapp.catalog import selectors as catalog
from adminapp.catalog.models import AttributeKey
from adminapp.console import forms, keyforms
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.console.stepup import confirmed_lately
from adminapp.core.authority import AuthorityError
from adminapp.core.errors import Conflict, Invalid, ServiceError
from adminapp.distribution import aliases, coverage, rotation
from adminapp.distribution import services as distribution
from adminapp.distribution.models import RotationSchedule
from adminapp.identity import selectors as identity
from adminapp.identity.models import Agent, Domain
from adminapp.trustgroups import emergency, mapping, selectors, services
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
        return _current(self.epochs)

    @property
    def live(self) -> list[KeyEpoch]:
        """Those that somebody still opens or seals under."""
        return _live(self.epochs)


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
    if request.htmx and request.GET.get("part") == "coverage":
        # Asked for again and again while somebody looks on: that alone.
        return _show(request, domain, coverage=coverage.coverage(domain))
    return _page(request, domain)


@require_POST
@in_domain
@managers_only
@confirmed_lately
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
    except AuthorityError:
        messages.error(
            request,
            "Nothing was changed: the trusted authority, which makes the new key, does not answer.",
        )
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, f"Trust group {name} is saved; agents get it with the next keys.")
    return _back(domain)


@require_POST
@in_domain
@managers_only
@confirmed_lately
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
    except ServiceError as error:
        forms.tell(request, error, "No new key was made")
    else:
        words = keyforms.key_in_words(reference)
        messages.success(
            request,
            f"Epoch {epoch.number} of {words} is made. Agents get it first and switch to it when "
            "all of them hold it.",
        )
    return _back(domain)


@require_POST
@in_domain
@managers_only
def save_rotation(request: HttpRequest, domain: Domain) -> HttpResponse:
    """Have a key renewed every so many days, or change how often."""
    held = rotation.schedules(request.user, domain).filter(key=request.POST.get("key", "")).first()
    form = keyforms.RotationForm(request.POST, keys=_choices(domain, held))
    if not form.is_valid():
        return _page(request, domain, form, status=422)
    data = form.cleaned_data
    try:
        row = distribution.set_schedule(
            actor=request.user,
            domain=domain,
            key=data["key"],
            every_days=data["every_days"],
            jitter_percent=data["jitter_percent"],
            # Of dates that came to be since the page was opened, 0 is no version.
            expected_version=None if held is None else data["version"],
        )
    except Invalid as error:
        form.take(error.problems)
        return _page(request, domain, form, status=422)
    except ServiceError as error:
        forms.tell(request, error)
    else:
        when = f"{row.next_at:%d %B %Y}"
        messages.success(request, f"Saved: {keyforms.key_in_words(row.key)}, next on {when}.")
    return _back(domain)


@require_POST
@in_domain
@managers_only
def remove_rotation(request: HttpRequest, domain: Domain, pk: int) -> HttpResponse:
    """Have a key renewed only where somebody asks for it."""
    row = get_object_or_404(rotation.schedules(request.user, domain), pk=pk)
    form = forms.VersionForm(request.POST)
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return _back(domain)
    try:
        distribution.remove_schedule(
            actor=request.user, schedule=row, expected_version=form.cleaned_data["version"]
        )
    except ServiceError as error:
        forms.tell(request, error)
    else:
        name = keyforms.key_in_words(row.key)
        messages.success(request, f"No more dates: {name} is renewed when somebody asks for it.")
    return _back(domain)


@require_http_methods(["GET", "HEAD", "POST"])
@in_domain
@managers_only
@confirmed_lately
def end_epoch(request: HttpRequest, domain: Domain, pk: int) -> HttpResponse:
    """Who would lose what if a generation of a key ended at once; then, with its name typed, so."""
    epoch = get_object_or_404(selectors.key_epochs(request.user, domain), pk=pk)
    name = keyforms.name_of(epoch)
    if request.method != "POST":
        form = keyforms.EndEpochForm(name=name, initial={"version": epoch.version})
        return _ending(request, domain, epoch, form)
    form = keyforms.EndEpochForm(request.POST, name=name)
    if not form.is_valid():
        return _ending(request, domain, epoch, form, status=422)
    try:
        emergency.retire_now(
            actor=request.user,
            epoch=epoch,
            reason=form.cleaned_data["reason"],
            expected_version=form.cleaned_data["version"],
        )
    except Invalid as error:
        form.take(error.problems)
        return _ending(request, domain, epoch, form, status=422)
    except AuthorityError:
        form.add_error(
            None,
            "Nothing was changed: the trusted authority, which makes the next key, does not "
            "answer.",
        )
        return _ending(request, domain, epoch, form, status=503)
    except Conflict as error:
        form.add_error(None, f"Nothing was changed: {error.message}.")
        return _ending(request, domain, epoch, form, status=409)
    messages.success(request, f"Epoch {epoch.number} has ended; every agent is told to forget it.")
    return _back(domain)


def _ending(
    request: HttpRequest,
    domain: Domain,
    epoch: KeyEpoch,
    form: keyforms.EndEpochForm,
    *,
    status: int = 200,
) -> HttpResponse:
    words = keyforms.key_in_words(epoch.group_ref)
    return show(
        request,
        "console/keys/end.html",
        title=f"End epoch {epoch.number} of {words}",
        area="keys",
        question="What ending it at once would do. Nothing is changed yet.",
        domain=domain,
        status=status,
        epoch=epoch,
        over=epoch.state == KeyEpoch.State.RETIRED,
        losses=coverage.losses(epoch),
        confirm=keyforms.name_of(epoch),
        form=form,
    )


def _choices(domain: Domain, held: RotationSchedule | None = None) -> list[tuple[str, str]]:
    found = keyforms.choices(selectors.group_refs(domain))
    known = {reference for reference, _words in found}
    if held is not None and held.key not in known:
        # Its key is gone since; the service says so.
        found.append((held.key, held.key))
    return found


def _back(domain: Domain) -> HttpResponse:
    return HttpResponseRedirect(reverse("console:keys", args=[domain.name]))


def _page(
    request: HttpRequest,
    domain: Domain,
    sent: keyforms.RotationForm | None = None,
    status: int = 200,
) -> HttpResponse:
    epochs: dict[str, list[KeyEpoch]] = {}
    for epoch in selectors.key_epochs(request.user, domain).order_by("-number"):
        epochs.setdefault(epoch.group_ref, []).append(epoch)
    keys = catalog.attribute_keys(request.user, domain).prefetch_related("attributes__event_type")
    groups = list(selectors.trust_groups(request.user, domain))
    holders = _holders(groups)
    agents = list(identity.agents(request.user))
    choices = _choices(domain)
    rotations = keyforms.schedule_rows(rotation.schedules(request.user, domain), choices, sent)
    dated = {each.row.key for each in rotations}
    left = [each for each in choices if each[0] not in dated]
    fresh = sent if sent is not None and sent.data.get("key") not in dated else None
    return _show(
        request,
        domain,
        status=status,
        keys=[_key_row(key, holders.get(key.name, ()), epochs) for key in keys],
        hops=[
            {
                "name": ref.partition(":")[2],
                "ref": ref,
                "epoch": _current(found),
                "live": _live(found),
            }
            for ref, found in sorted(epochs.items())
            if ref.startswith(mapping.OVERLAY)
        ],
        groups=[_group_row(group) for group in groups],
        agents=agents,
        coverage=coverage.coverage(domain),
        aliases=aliases.aliases(domain),
        rotations=rotations,
        fresh=fresh or keyforms.RotationForm(keys=left, initial={"version": 0}),
        left=left,
    )


def _show(request: HttpRequest, domain: Domain, **context: Any) -> HttpResponse:
    return show(
        request,
        "console/keys/index.html",
        title="Keys and trust groups",
        area="keys",
        question="Which key protects what, which agents hold it, and when was it last renewed? The "
        "keys themselves never come here.",
        domain=domain,
        live=True,
        parts={"coverage": "console/keys/_coverage.html"},
        **context,
    )


def _holders(groups: Iterable[TrustGroup]) -> dict[str, list[Agent]]:
    """Key -> the active agents that a trust group gives it, by name."""
    found: dict[str, dict[str, Agent]] = {}
    for group in groups:
        active = [each for each in group.members.all() if each.state == Agent.State.ACTIVE]
        if group.kind == TrustGroup.Kind.ATTRIBUTE:
            for key in group.keys.all():
                found.setdefault(key.name, {}).update((each.name, each) for each in active)
    return {key: [each for _, each in sorted(held.items())] for key, held in found.items()}


def _key_row(
    key: AttributeKey, holders: Iterable[Agent], epochs: dict[str, list[KeyEpoch]]
) -> KeyRow:
    return KeyRow(
        key,
        sorted(f"{row.event_type.name}.{row.name}" for row in key.attributes.all()),
        list(holders),
        epochs.get(mapping.key_ref(key.name), []),
    )


def _current(epochs: Iterable[KeyEpoch]) -> KeyEpoch | None:
    return next((e for e in epochs if e.state == KeyEpoch.State.CURRENT), None)


def _live(epochs: Iterable[KeyEpoch]) -> list[KeyEpoch]:
    return [epoch for epoch in epochs if epoch.state != KeyEpoch.State.RETIRED]


def _group_row(group: TrustGroup) -> GroupRow:
    return GroupRow(
        group,
        {agent.name for agent in group.members.all()},
        {key.name for key in group.keys.all()},
    )
