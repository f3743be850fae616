"""Roles: who may activate them, and why?"""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from adminapp.console import words
from adminapp.console.pages import in_domain, show
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain, Principal
from adminapp.policies import selectors as policies
from adminapp.policies.models import Policy
from adminapp.roles import selectors
from adminapp.roles.mapping import role_attribute
from adminapp.roles.models import Role


@dataclass(frozen=True)
class Row:
    """A role, how it comes about, who has it now and which policies speak of it."""

    role: Role
    rules: list[str]
    holders: list[Principal]
    policies: list[Policy]


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    principals = list(identity.active_principals(domain))
    values = selectors.subject_values_of(domain, principals)
    named = list(policies.policies(request.user, domain))
    rows = [
        Row(
            role,
            [
                words.role_rule(rule.prerequisites, rule.appointments, rule.constraints)
                for rule in role.rules.all()
            ],
            [p for p in principals if (role_attribute(role.name), True) in values[p.pk]],
            [policy for policy in named if f'"{role.name}"' in policy.expression],
        )
        for role in selectors.roles(request.user, domain)
    ]
    return show(
        request,
        "console/roles/index.html",
        title="Roles",
        area="roles",
        question="Who has which role, and why? Policies speak of roles; appointments, given to "
        "principals, bring them about.",
        domain=domain,
        rows=rows,
        appointments=selectors.appointments(request.user, domain).order_by("-starts")[:50],
    )
