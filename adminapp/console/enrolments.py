"""Enrolment: who asks to take part, and is it the machine that it says?"""

from __future__ import annotations

from typing import Any

from django import forms as django_forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from adminapp.console import forms
from adminapp.console.pages import operators_only, show, signed_in
from adminapp.console.stepup import confirmed_lately
from adminapp.core.authority import AuthorityError
from adminapp.core.errors import Invalid, ServiceError
from adminapp.enrolment import selectors, services
from adminapp.enrolment.models import MAX_FLEET, Enrolment, Fleet
from adminapp.identity import permissions
from adminapp.identity import selectors as identity

SHOWN = 50
MINUTES = 5


class AgentTokenForm(forms.StyledForm):
    """Which agent a token is for."""

    name = django_forms.CharField(
        label="Name of the agent",
        max_length=64,
        help_text="Small letters, digits and hyphens. One that is there already gets other keys.",
        widget=django_forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    overlay = django_forms.ChoiceField(label="Overlay")

    def __init__(self, *args: Any, overlays: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["overlay"].choices = overlays


class ConfirmForm(forms.VersionForm):
    """The last digits as the machine shows them: whoever types them has looked there."""

    digits = django_forms.CharField(
        label="The last five digits on the machine",
        max_length=8,
        widget=django_forms.TextInput(
            attrs={"autocomplete": "off", "inputmode": "numeric", "class": "code"}
        ),
    )


class FleetForm(forms.StyledForm):
    """A new fleet: agents that nobody has to look at one by one."""

    name = django_forms.CharField(
        label="Name of the fleet",
        max_length=64,
        widget=django_forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    overlay = django_forms.ChoiceField(label="Overlay")
    pattern = django_forms.CharField(
        label="Names that may be",
        max_length=64,
        help_text="With one * for any letters, digits and hyphens, such as edge-*.",
        widget=django_forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "class": "code"}
        ),
    )
    most = django_forms.IntegerField(
        label="At most so many agents", min_value=1, max_value=MAX_FLEET, initial=10
    )
    ends = django_forms.DateTimeField(
        label="Until",
        help_text="From then on nobody is let in because of it. Choose a short time.",
        widget=django_forms.DateTimeInput(
            attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"
        ),
    )

    def __init__(self, *args: Any, overlays: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, auto_id="id_fleet_%s", **kwargs)
        self.fields["overlay"].choices = overlays


class RefuseForm(forms.VersionForm):
    """Why somebody is not let in."""

    reason = django_forms.CharField(label="Why", max_length=500)


@require_safe
@signed_in
def index(request: HttpRequest) -> HttpResponse:
    return _index(request)


@require_POST
@signed_in
@confirmed_lately
def issue(request: HttpRequest) -> HttpResponse:
    """Make a token, for an agent, one of a fleet or a principal's client.

    It is shown in this answer alone.
    """
    try:
        if request.POST.get("fleet"):
            fleet = get_object_or_404(selectors.fleets(request.user), name=request.POST["fleet"])
            token, secret = services.issue_agent_token(actor=request.user, fleet=fleet)
        elif request.POST.get("principal"):
            principal = get_object_or_404(
                identity.principals(request.user), handle=request.POST["principal"]
            )
            token, secret = services.issue_client_token(actor=request.user, principal=principal)
        else:
            form = AgentTokenForm(request.POST, overlays=_overlays(request.user))
            if not form.is_valid():
                return _index(request, form=form, status=422)
            overlay = identity.overlays(request.user).get(name=form.cleaned_data["overlay"])
            token, secret = services.issue_agent_token(
                actor=request.user, name=form.cleaned_data["name"], overlay=overlay
            )
    except Invalid as error:
        messages.error(request, "No token was made. " + " ".join(forms.said_by(error)))
        return _index(request, status=422)
    except ServiceError as error:
        messages.error(request, f"No token was made: {error.message}.")
        return _index(request, status=403)
    return _index(request, token=token, secret=secret)


@require_safe
@signed_in
def detail(request: HttpRequest, uid: str) -> HttpResponse:
    return _detail(request, _find(request, uid))


@require_POST
@signed_in
@confirmed_lately
def confirm(request: HttpRequest, uid: str) -> HttpResponse:
    """Let it in, once the last digits were read from the machine."""
    row = _find(request, uid)
    form = ConfirmForm(request.POST)
    if not form.is_valid():
        return _detail(request, row, confirming=form, status=422)
    typed = "".join(form.cleaned_data["digits"].split())
    if typed != row.fingerprint.rsplit(" ", 1)[-1]:
        form.add_error(
            "digits",
            "These are not the last digits above. If the machine shows them, refuse the request: "
            "somebody may stand in between.",
        )
        return _detail(request, row, confirming=form, status=422)
    try:
        services.confirm_enrolment(
            actor=request.user,
            enrolment=row,
            fingerprint=row.fingerprint,
            expected_version=form.cleaned_data["version"],
        )
    except AuthorityError:
        messages.error(
            request,
            "Nothing was changed: the trusted authority, which issues certificates, does not "
            "answer.",
        )
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, f"{row.whom} takes part now; its command ends by itself.")
    return HttpResponseRedirect(reverse("console:enrolment", args=[uid]))


@require_POST
@signed_in
def refuse(request: HttpRequest, uid: str) -> HttpResponse:
    """Keep it out."""
    row = _find(request, uid)
    form = RefuseForm(request.POST)
    if not form.is_valid():
        return _detail(request, row, refusing=form, status=422)
    try:
        services.refuse_enrolment(
            actor=request.user,
            enrolment=row,
            reason=form.cleaned_data["reason"],
            expected_version=form.cleaned_data["version"],
        )
    except ServiceError as error:
        messages.error(request, f"Nothing was changed: {error.message}.")
    else:
        messages.success(request, f"The request for {row.whom} is refused; its keys never count.")
    return HttpResponseRedirect(reverse("console:enrolment", args=[uid]))


@require_POST
@signed_in
@operators_only
@confirmed_lately
def add_fleet(request: HttpRequest) -> HttpResponse:
    """Let agents of such names in without anybody looking, so many, until an end."""
    form = FleetForm(request.POST, overlays=_overlays(request.user))
    if not form.is_valid():
        return _index(request, fleet=form, status=422)
    data = form.cleaned_data
    overlay = identity.overlays(request.user).get(name=data["overlay"])
    try:
        services.create_fleet(actor=request.user, **(data | {"overlay": overlay}))
    except Invalid as error:
        form.take(error.problems)
        return _index(request, fleet=form, status=422)
    messages.success(request, f"Fleet {data['name']} is there. Make a token for each agent of it.")
    return HttpResponseRedirect(reverse("console:enrolments"))


@require_POST
@signed_in
@operators_only
def end_fleet(request: HttpRequest, name: str) -> HttpResponse:
    """Nobody is let in because of it from now on; the agents that were stay."""
    row = get_object_or_404(selectors.fleets(request.user), name=name)
    form = forms.VersionForm(request.POST)
    if not form.is_valid():
        messages.error(request, "The form was incomplete. Nothing was changed.")
        return HttpResponseRedirect(reverse("console:enrolments"))
    try:
        services.end_fleet(
            actor=request.user, fleet=row, expected_version=form.cleaned_data["version"]
        )
    except ServiceError as error:
        forms.tell(request, error)
    else:
        messages.success(request, f"Fleet {name} has ended. Its agents stay.")
    return HttpResponseRedirect(reverse("console:enrolments"))


def _find(request: HttpRequest, uid: str) -> Enrolment:
    found: Enrolment = get_object_or_404(selectors.enrolments(request.user), uid=uid)
    return found


def _overlays(user: Any) -> list[tuple[str, str]]:
    return [(row.name, row.title or row.name) for row in identity.overlays(user)]


def may_decide(user: Any, row: Enrolment) -> bool:
    """Whether the user may let it in: an operator an agent, a manager a client of the domain."""
    if row.domain is None:
        return bool(permissions.is_operator(user))
    return permissions.may_manage(user, row.domain)


def _fleets(user: Any) -> list[tuple[Fleet, str]]:
    """Fleets with a word of the vocabulary `fleet`, those that still let somebody in first."""
    now = timezone.now()
    found = [
        (row, "over" if row.ends <= now else "full" if row.confirmed >= row.most else "open")
        for row in selectors.fleets(user).order_by("-ends")
    ]
    return sorted(found, key=lambda each: each[1] == "over")[:SHOWN]


def _index(
    request: HttpRequest,
    *,
    form: AgentTokenForm | None = None,
    fleet: FleetForm | None = None,
    token: object = None,
    secret: str = "",
    status: int = 200,
) -> HttpResponse:
    rows = selectors.enrolments(request.user)
    waiting = selectors.waiting(rows)
    return show(
        request,
        "console/enrolments/index.html",
        title="Enrolment",
        area="enrolments",
        question="Who asks to take part, and is it the machine that it says it is?",
        live=True,
        parts={
            "waiting": "console/enrolments/_waiting.html",
            "decided": "console/enrolments/_decided.html",
        },
        status=status,
        waiting=waiting.order_by("-pk"),
        decided=rows.exclude(pk__in=waiting.values("pk")).order_by("-pk")[:SHOWN],
        banned=selectors.banned(selectors.certificates(request.user))[:SHOWN],
        may_operate=permissions.is_operator(request.user),
        form=form or AgentTokenForm(overlays=_overlays(request.user)),
        fleets=_fleets(request.user),
        fleet=fleet or FleetForm(overlays=_overlays(request.user)),
        token=token,
        secret=secret,
        minutes=MINUTES,
        address=request.build_absolute_uri("/").rstrip("/"),
    )


def _detail(
    request: HttpRequest,
    row: Enrolment,
    *,
    confirming: ConfirmForm | None = None,
    refusing: RefuseForm | None = None,
    status: int = 200,
) -> HttpResponse:
    version = {"version": row.version}
    return show(
        request,
        "console/enrolments/detail.html",
        title=row.whom,
        area="enrolments",
        question="Compare the digits with those on the machine before you let it in.",
        live=True,
        parts={"proof": "console/enrolments/_proof.html"},
        status=status,
        # A page that was opened while somebody could decide says when that is over.
        asked=request.GET.get("asked") == "1",
        enrolment=row,
        pending=selectors.waiting(Enrolment.objects.filter(pk=row.pk)).exists(),
        may_decide=may_decide(request.user, row),
        certificates=row.certificates.order_by("-pk")[:SHOWN],
        confirming=confirming or ConfirmForm(initial=version),
        refusing=refusing or RefuseForm(initial=version),
    )
