"""Roles: who may activate them, and why?"""

from __future__ import annotations

from dataclasses import dataclass

from bitarray import bitarray
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from adminapp.console import words
from adminapp.console.pages import in_domain, show
from adminapp.distribution import usage
from adminapp.distribution.usage import Use
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain, Principal
from adminapp.policies import selectors as policies
from adminapp.policies.models import Policy
from adminapp.roles import selectors
from adminapp.roles.activations import Activations
from adminapp.roles.findings import RoleFinding, findings
from adminapp.roles.mapping import parameters
from adminapp.roles.models import Role
from adminapp.roles.reading import head


@dataclass(frozen=True)
class Row:
    """A role, how it comes about, who has it now, which policies speak of it, and what was found
    about it that its author hardly meant.
    """

    role: Role
    origin: str
    head: str
    rules: list[str]
    holders: list[Principal]
    policies: list[Policy]
    findings: list[RoleFinding]
    use: Use


@require_safe
@in_domain
def index(request: HttpRequest, domain: Domain) -> HttpResponse:
    principals = list(identity.active_principals(domain))
    having = selectors.activations(domain, principals=[each.pk for each in principals])
    named = list(policies.policies(request.user, domain))
    found = findings(domain)
    effective = selectors.effective_roles(domain)
    uses = usage.of_roles(domain, [each.row.name for each in effective])
    rows = [
        Row(
            role=each.row,
            origin=each.origin,
            head=head(each.row.name, [p.name for p in parameters(each.row)]),
            rules=[
                words.role_rule(rule.prerequisites, rule.appointments, rule.constraints)
                for rule in each.row.rules.all()
            ],
            holders=_holders(having, each.row.name, principals),
            policies=[policy for policy in named if _speaks_of(policy, each.row.name)],
            findings=[one for one in found if one.role == each.row.name],
            use=uses[each.row.name],
        )
        for each in effective
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
        by_session=selectors.by_session(domain),
        appointers=selectors.effective_appointment_rules(domain),
        sessions=selectors.sessions(request.user, domain).filter(closed__isnull=True)[:50],
        appointments=selectors.appointments(request.user, domain).order_by("-starts", "-pk")[:50],
    )


def _holders(having: Activations, role: str, principals: list[Principal]) -> list[Principal]:
    rows = having.roles.get(role)
    if rows is None:
        return []
    return [principals[position] for position in having.holders(rows).search(bitarray("1"))]


def _speaks_of(policy: Policy, role: str) -> bool:
    return f'"{role}"' in policy.expression or f"subject.role.{role}." in policy.expression
