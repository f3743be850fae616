"""Editing a policy: condition checked as one types, then the plan, then the change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST, require_safe

from adminapp.catalog import selectors as catalog
from adminapp.console import diffs, forms, policies, words
from adminapp.console.pages import in_domain, managers_only, show
from adminapp.core.errors import Conflict, Invalid, Problem, ServiceError
from adminapp.core.moments import moment
from adminapp.identity.models import Domain
from adminapp.policies import mapping, selectors, services
from adminapp.policies.language import Language
from adminapp.policies.models import Policy

DATA_FIELDS = (
    "name",
    "title",
    "action",
    "event_type",
    "expression",
    "enabled",
    "valid_from",
    "valid_until",
    "limit_count",
    "limit_seconds",
)


@require_safe
@in_domain
@managers_only
def create(request: HttpRequest, domain: Domain) -> HttpResponse:
    types = list(catalog.event_types(request.user, domain))
    wanted = request.GET.get("type", "")
    first = next((row.name for row in types if row.name == wanted), types[0].name if types else "")
    form = _form(domain, None, initial={"event_type": first, "restrict": "all", "enabled": True})
    return _edit_page(request, domain, None, form)


@require_safe
@in_domain
@managers_only
def edit(request: HttpRequest, domain: Domain, name: str) -> HttpResponse:
    policy = policies.find(request, domain, name)
    return _edit_page(request, domain, policy, _form(domain, policy, initial=_initial(policy)))


@require_POST
@in_domain
@managers_only
def plan(request: HttpRequest, domain: Domain, name: str = "") -> HttpResponse:
    """Show what the edited policy would do. Nothing is written."""
    policy = policies.find(request, domain, name) if name else None
    form = _form(domain, policy, data=request.POST)
    if "back" in request.POST or not form.is_valid():
        status = 200 if "back" in request.POST else 422
        return _edit_page(request, domain, policy, form, status=status)
    return _plan_page(request, domain, policy, form)


@require_POST
@in_domain
@managers_only
def apply(request: HttpRequest, domain: Domain, name: str = "") -> HttpResponse:
    """Make the planned change, if nobody changed anything since the plan was shown."""
    policy = policies.find(request, domain, name) if name else None
    form = _form(domain, policy, data=request.POST)
    if not form.is_valid():
        return _edit_page(request, domain, policy, form, status=422)
    if request.POST.get("revision") != str(domain.revision):
        return _plan_page(request, domain, policy, form, outdated=True, status=409)
    try:
        saved = _save(request, domain, policy, form)
    except Conflict:
        return _stale(request, domain, policy, form)
    except Invalid as error:
        return _refused(request, domain, policy, form, error.problems)
    except ServiceError as error:
        form.add_error(None, error.message)
        return _edit_page(request, domain, policy, form, status=422)
    done = "changed" if policy else "made"
    messages.success(
        request,
        f"Policy {saved.name} is {done}. Agents get it with revision {saved.domain.revision}.",
    )
    return HttpResponseRedirect(reverse("console:policy", args=[domain.name, saved.name]))


def _save(
    request: HttpRequest, domain: Domain, policy: Policy | None, form: forms.PolicyForm
) -> Policy:
    data = _data(form)
    if policy is None:
        return services.create_policy(actor=request.user, domain=domain, **data)
    return services.update_policy(
        actor=request.user,
        policy=policy,
        data=data,
        expected_version=form.cleaned_data["version"] or 0,
    )


@require_POST
@in_domain
@managers_only
def check(request: HttpRequest, domain: Domain) -> HttpResponse:
    """What is wrong with an expression, while it is being typed."""
    spoken = selectors.language(domain)
    text = request.POST.get("expression", "")
    kind = request.POST.get("event_type", "")
    context: dict[str, Any] = {"text": text}
    if text.strip() and _known(spoken, kind):
        problems = spoken.problems(text, kind)
        context["faults"] = [Fault.of(problem, text) for problem in problems]
        if not problems:
            found = spoken.ways(text, kind)
            context["ways"] = [words.conjunction(each) for each in found]
    return render(request, "console/policies/_verdict.html", context)


@require_GET
@in_domain
@managers_only
def attribute_choices(request: HttpRequest, domain: Domain) -> HttpResponse:
    """The attributes that a policy on the chosen type may be restricted to."""
    form = _form(domain, None, initial={"event_type": request.GET.get("event_type", "")})
    return render(request, "console/policies/_attributes.html", {"form": form})


def _known(spoken: Language, kind: str) -> bool:
    return kind in spoken.types.names


def _edit_page(
    request: HttpRequest,
    domain: Domain,
    policy: Policy | None,
    form: forms.PolicyForm,
    *,
    status: int = 200,
    faults: tuple[Fault, ...] = (),
    **context: Any,
) -> HttpResponse:
    return show(
        request,
        "console/policies/edit.html",
        title=f"Change {policy.name}" if policy else "New policy",
        area="policies",
        question="First the plan shows who would gain and lose what; nothing changes before you "
        "apply it.",
        domain=domain,
        trail=policies.trail(policy),
        status=status,
        policy=policy,
        form=form,
        vocabulary=_vocabulary(domain, form),
        faults=faults,
        **context,
    )


def _plan_page(
    request: HttpRequest,
    domain: Domain,
    policy: Policy | None,
    form: forms.PolicyForm,
    *,
    outdated: bool = False,
    status: int = 200,
) -> HttpResponse:
    data = _data(form)
    found = services.plan_policy_change(actor=request.user, domain=domain, policy=policy, data=data)
    if found.problems:
        return _refused(request, domain, policy, form, found.problems)
    before = mapping.snapshot(policy) if policy else None
    return show(
        request,
        "console/policies/plan.html",
        title="Plan",
        area="policies",
        question="What the change would do. Nothing is changed yet.",
        domain=domain,
        trail=policies.trail(policy),
        status=status,
        policy=policy,
        form=form,
        plan=found,
        outdated=outdated,
        changes=diffs.between(before, _snapshot(policy, data)),
        fields=list(_hidden(request)),
    )


def _refused(
    request: HttpRequest,
    domain: Domain,
    policy: Policy | None,
    form: forms.PolicyForm,
    problems: tuple[Problem, ...],
) -> HttpResponse:
    text = form.cleaned_data.get("expression", "")
    at_expression = [p for p in problems if p.pointer == "/expression"]
    form.take(p for p in problems if p.pointer != "/expression")
    return _edit_page(
        request,
        domain,
        policy,
        form,
        status=422,
        faults=tuple(Fault.of(problem, text) for problem in at_expression),
        text=text,
    )


def _stale(
    request: HttpRequest, domain: Domain, policy: Policy | None, form: forms.PolicyForm
) -> HttpResponse:
    """Somebody else changed the policy: show both changes, keep what this person typed."""
    assert policy is not None  # a new policy has no version to be stale
    base = form.cleaned_data["version"]
    known = {v.number: v.snapshot for v in selectors.versions(request.user, policy)}
    theirs = diffs.between(known.get(base), mapping.snapshot(policy))
    fresh = _form(domain, policy, data=_with(request.POST, version=str(policy.version)))
    fresh.is_valid()
    return _edit_page(
        request,
        domain,
        policy,
        fresh,
        status=409,
        stale={
            "theirs": theirs,
            "yours": diffs.between(mapping.snapshot(policy), _snapshot(policy, _data(form))),
        },
    )


def _with(data: Any, **values: str) -> Any:
    changed = data.copy()
    for name, value in values.items():
        changed[name] = value
    return changed


def _form(domain: Domain, policy: Policy | None, **values: Any) -> forms.PolicyForm:
    spoken = selectors.language(domain)
    types = list(catalog.tree(domain))
    source = values.get("data") or values.get("initial") or {}
    kind = source.get("event_type", "")
    names = spoken.attribute_names(kind) if _known(spoken, kind) else ()
    return forms.PolicyForm(
        values.get("data"),
        initial=values.get("initial"),
        types=[(node.type.name, f"{'— ' * node.depth}{node.type.name}") for node in types],
        attributes=names,
    )


def _initial(policy: Policy) -> dict[str, Any]:
    state = {name: getattr(policy, name) for name in DATA_FIELDS}
    return {
        **state,
        "event_type": policy.event_type.name,
        "restrict": "all" if policy.attributes is None else "some",
        "attributes": policy.attributes or [],
        "version": policy.version,
    }


def _data(form: forms.PolicyForm) -> dict[str, Any]:
    cleaned = form.cleaned_data
    data = {name: cleaned[name] for name in DATA_FIELDS}
    data["attributes"] = list(cleaned["attributes"]) if cleaned["restrict"] == "some" else None
    return data


def _snapshot(policy: Policy | None, data: Mapping[str, Any]) -> dict[str, Any]:
    """The form's data in the shape of a stored snapshot, for a comparison."""
    state = {name: data[name] for name in (*DATA_FIELDS[:5], "attributes", *DATA_FIELDS[5:])}
    for name in ("valid_from", "valid_until"):
        state[name] = moment(state[name])
    # Rules by value are not in the form: they stay as they are.
    return {**state, "rules": policy.rules if policy else []}


def _hidden(request: HttpRequest) -> Any:
    for name, values in request.POST.lists():
        if name not in {"csrfmiddlewaretoken", "revision", "back"}:
            for value in values:
                yield name, value


def _vocabulary(domain: Domain, form: forms.PolicyForm) -> list[tuple[str, str]]:
    """What a condition may name, with its type in words."""
    spoken = selectors.language(domain)
    kind = str(form["event_type"].value() or "")
    if not _known(spoken, kind):
        return []
    schema = spoken.schema(kind)
    return [(name, words.type_in_words(found.to_json())) for name, found in schema.items()]


@dataclass(frozen=True)
class Fault:
    """A problem of an expression, with the place cut out of the text."""

    message: str
    before: str
    place: str
    after: str
    position: int | None
    suggestion: str | None

    @classmethod
    def of(cls, problem: Problem, text: str) -> Fault:
        start, end = words.place(text, problem.position)
        message = problem.message[:1].upper() + problem.message[1:]
        return cls(
            message, text[:start], text[start:end], text[end:], problem.position, problem.suggestion
        )
