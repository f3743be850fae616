"""A list of fifty costs as many queries as one of five."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.catalog.models import (
    Attribute,
    AttributeKey,
    EventType,
    RiskAcceptance,
    SubjectAttribute,
)
from adminapp.distribution.models import (
    Bundle,
    EncodingEpoch,
    Notice,
    Recipient,
    RecomputeJob,
    Revocation,
    RevocationEvent,
)
from adminapp.identity.models import (
    Agent,
    Delegation,
    Domain,
    HomeAgent,
    Membership,
    Overlay,
    Principal,
    PrincipalImport,
    User,
)
from adminapp.outbox.models import OutboxRow
from adminapp.policies.models import EnvironmentVariable, Policy, Representative
from adminapp.privacy.models import SplitPlan
from adminapp.roles.models import (
    Appointment,
    AppointmentRule,
    Role,
    RoleRule,
    RoleSession,
    RoleSettings,
    SessionRole,
)
from adminapp.trustgroups.models import KeyEpoch, TrustGroup
from tests.support.control_plane import World, key

API = "/api/v1"
PATHS = [
    "domains",
    "memberships",
    "delegations",
    "users",
    "overlays",
    "agents",
    "principals",
    "principal-imports",
    "subject-attributes",
    "attribute-keys",
    "event-types",
    "roles",
    "appointments",
    "appointment-rules",
    "role-settings",
    "sessions",
    "trust-groups",
    "key-epochs",
    "policies",
    "environment",
    "representatives",
    "classifications",
    "split-plans",
    "risk-acceptances",
    "revisions",
    "bundles",
    "recipients",
    "revocations",
    "jobs",
    "audit",
    "outbox",
]


def grow(world: World, numbers: range) -> None:
    for number in numbers:
        _platform(world, number)
        _model(world, number)
        _distribution(world, number)


def _platform(world: World, number: int) -> None:
    user = User.objects.create(username=f"user{number}")
    domain = Domain.objects.create(name=f"d{number}", title="D", parent=world.flights)
    Membership.objects.create(user=user, domain=domain, role="auditor")
    Delegation.objects.create(
        user=user, domain=domain, granted_by=world.manager, ends=timezone.now() + timedelta(days=1)
    )
    overlay = Overlay.objects.create(name=f"o{number}", title="O")
    agent = Agent.objects.create(
        name=f"agent{number}", overlay=overlay, sealing_key=key(1), verify_key=key(2)
    )
    principal = Principal.objects.create(domain=domain, name="P", kind="person")
    HomeAgent.objects.create(principal=principal, overlay=overlay, agent=agent)
    PrincipalImport.objects.create(domain=domain, user=user)
    Appointment.objects.create(principal=principal, name="licensed", issuer=user)
    AppointmentRule.objects.create(domain=domain, name="licensed")
    RoleSettings.objects.create(domain=domain)
    session = RoleSession.objects.create(principal=principal, opened_by=user)
    SessionRole.objects.create(session=session, atom="r", rule={}, grounds={}, since=timezone.now())
    OutboxRow.objects.create(topic="t", key=f"k{number}")


def _model(world: World, number: int) -> None:
    domain = Domain.objects.get(name=f"d{number}")
    attribute_key = AttributeKey.objects.create(domain=domain, name="k")
    SubjectAttribute.objects.create(domain=domain, name="s", type={"type": "string"})
    parent = EventType.objects.create(domain=domain, name="T")
    event_type = EventType.objects.create(domain=domain, name="U", parent=parent)
    attribute = Attribute.objects.create(event_type=event_type, name="a", type={"type": "string"})
    attribute.keys.add(attribute_key)
    role = Role.objects.create(domain=domain, name="r")
    RoleRule.objects.create(role=role)
    group = TrustGroup.objects.create(domain=domain, name="g")
    group.members.add(world.alpha)
    group.keys.add(attribute_key)
    KeyEpoch.objects.create(domain=domain, group_ref="key:k", number=1, wrapped="w")
    Policy.objects.create(
        domain=domain, name="p", action="publish", event_type=event_type, expression="true"
    )
    Representative.objects.create(
        user=world.stranger, principal=Principal.objects.get(domain=domain)
    )
    EnvironmentVariable.objects.create(domain=domain, name="v", type={"type": "bool"})
    SplitPlan.objects.create(event_type=event_type, groups=[])
    RiskAcceptance.objects.create(
        event_type=event_type,
        attribute="a",
        pia_class="identifying",
        protection="order-preserving",
        justification="why",
        accepted_by="who",
        until=timezone.now(),
    )


def _distribution(world: World, number: int) -> None:
    domain = Domain.objects.get(name=f"d{number}")
    principal = Principal.objects.get(domain=domain)
    epoch = EncodingEpoch.objects.create(domain=domain, number=1, cause="first", parameters={})
    RecomputeJob.objects.create(domain=domain, epoch=epoch, cause="revocation")
    Bundle.objects.create(
        audience="agent:alpha",
        domain=domain,
        revision=1,
        digest="0" * 64,
        size=1,
        message=b"x",
        expires_at=timezone.now(),
    )
    Recipient.objects.create(audience="agent:alpha", domain=domain)
    revocation = Revocation.objects.create(domain=domain, principal=principal, reason="r")
    RevocationEvent.objects.create(revocation=revocation, kind="revoked")
    Notice.objects.create(audience="agent:alpha", domain=domain, number=1, revocation=revocation)


def queries(browser: Client, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        answer = browser.get(f"{API}/{path}", {"limit": 200})
    assert answer.status_code == 200
    assert len(answer.json()["results"]) >= 5
    return len(captured)


@pytest.mark.django_db
def test_lists_cost_the_same_however_long(world: World, browsers: dict[str, Client]) -> None:
    operator = browsers["operator"]
    grow(world, range(5))
    few = {path: queries(operator, path) for path in PATHS}
    grow(world, range(5, 50))
    many = {path: queries(operator, path) for path in PATHS}
    assert many == few
    assert max(many.values()) <= 8, many
