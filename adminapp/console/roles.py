"""Roles: who may activate them, and why?"""

from __future__ import annotations

from dataclasses import dataclass

from bitarray import bitarray
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from adminapp.console import words
from adminapp.console.pages import in_domain, show
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain, Principal
from adminapp.policies import selectors as policies
from adminapp.policies.models import Policy
from adminapp.roles import selectors
from adminapp.roles.activations import Activations
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
    having = selectors.activations(domain, principals=[each.pk for each in principals])
    named = list(policies.policies(request.user, domain))
    rows = [
        Row(
            role,
            [
                words.role_rule(rule.prerequisites, rule.appointments, rule.constraints)
                for rule in role.rules.all()
            ],
            _holders(having, role.name, principals),
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


def _holders(having: Activations, role: str, principals: list[Principal]) -> list[Principal]:
    rows = having.roles.get(role)
    if rows is None:
        return []
    return [principals[position] for position in having.holders(rows).search(bitarray("1"))]
