"""A list of a thousand costs as many queries as one of ten."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator

from adminapp.agreements.models import Agreement, AgreementRound
from adminapp.audit.models import Checkpoint
from adminapp.catalog.models import (
    Attribute,
    AttributeKey,
    EventType,
    RiskAcceptance,
    SubjectAttribute,
)
from adminapp.changes.models import Announcement, ChangeSet, Decision
from adminapp.distribution.models import (
    ActivityDay,
    ActivityRun,
    Bundle,
    EncodingEpoch,
    Enforcement,
    Notice,
    PolicyRollout,
    Recipient,
    RecomputeJob,
    Revocation,
    RevocationEvent,
    RolloutPlan,
    RotationSchedule,
)
from adminapp.enrolment.models import Certificate, Enrolment, EnrolmentToken, Fleet
from adminapp.identity.models import (
    Agent,
    ApiToken,
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
from adminapp.webhooks.models import Webhook
from tests.support.api_rows import TERMS
from tests.support.control_plane import World, key

API = "/api/v1"
JSON = "application/json"
FEW, MANY = 10, 1_000
# Built into the program: their rows do not become more.
FIXED = {"profiles"}
# Answered domain by domain: what grows is a domain, not how many there are.
OF_ONE_DOMAIN = {"access", "access/matrix"}
NOW = timezone.now()
IN_A_DAY = NOW + timedelta(days=1)


def paths() -> list[str]:
    """Every list of the API, from its document: whatever is added is counted here."""
    document = SchemaGenerator().get_schema(request=None, public=True)
    found = []
    for path, operations in document["paths"].items():
        answer = operations.get("get", {}).get("responses", {}).get("200", {})
        schema = answer.get("content", {}).get(JSON, {}).get("schema", {})
        named = document["components"]["schemas"].get(schema.get("$ref", "").rsplit("/", 1)[-1], {})
        if "results" in named.get("properties", {}) and "{" not in path:
            found.append(path.removeprefix(f"{API}/"))
    return found


def grow(world: World, numbers: range) -> None:
    for number in numbers:
        _platform(world, number)
        _model(world, number)
        _distribution(world, number)
        _own(world, number)
        _enrolment(world, number)


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
    Enforcement.objects.create(audience="agent:alpha", domain=domain, revision=1)
    RolloutPlan.objects.create(domain=domain)
    PolicyRollout.objects.create(domain=domain, revision=1, content=[], stages=[], stage_revision=1)
    ActivityRun.objects.create(domain=domain, cause="asked")
    ActivityDay.objects.create(domain=domain, day=NOW.date(), kind="policy", subject="p")
    RotationSchedule.objects.create(domain=domain, key="all", every_days=30)


def _own(world: World, number: int) -> None:
    """What everybody has for themselves, and what was agreed on."""
    ApiToken.objects.create(
        user=world.operator, name="t", hash=f"{number:064}", scopes=["read"], expires=IN_A_DAY
    )
    pilot = Principal.objects.create(domain=world.flights, name=f"P{number}", kind="subscriber")
    Appointment.objects.create(principal=pilot, name="licensed")
    Policy.objects.create(
        domain=world.flights,
        name=f"p{number}",
        action="subscribe",
        event_type=world.flight,
        expression='subject.role == "airline"',
    )
    Webhook.objects.create(
        domain=Domain.objects.get(name=f"d{number}"), name="w", url="https://x", secret=b"s"
    )
    Checkpoint.objects.create(size=number + 1, root="0" * 64, at=NOW, note="n")
    domain = Domain.objects.get(name=f"d{number}")
    changed = ChangeSet.objects.create(domain=domain, domain_name=domain.name, source="api")
    Decision.objects.create(change_set=changed, verdict="approved", base_revision=0)
    Announcement.objects.create(user=world.operator, change_set=changed, text="look")
    agreed = Agreement.objects.create(provider=domain, consumer=world.flights, name="a")
    AgreementRound.objects.create(
        agreement=agreed,
        number=1,
        side="provider",
        terms=TERMS,
        digest="0" * 64,
        starts=NOW,
        ends=IN_A_DAY,
    )


def _enrolment(world: World, number: int) -> None:
    domain = Domain.objects.get(name=f"d{number}")
    principal = Principal.objects.get(domain=domain)
    overlay = Overlay.objects.get(name=f"o{number}")
    fleet = Fleet.objects.create(
        name=f"f{number}", overlay=overlay, pattern="f-*", most=1, ends=IN_A_DAY
    )
    EnrolmentToken.objects.create(
        kind="agent", overlay=overlay, fleet=fleet, hash=f"a{number}", expires=NOW
    )
    token = EnrolmentToken.objects.create(
        kind="client", principal=principal, domain=domain, hash=f"c{number}", expires=NOW
    )
    row = Enrolment.objects.create(
        token=token, kind="client", name="p", principal=principal, domain=domain, expires=NOW
    )
    Certificate.objects.create(enrolment=row, serial=f"{number:x}", begins=NOW, ends=IN_A_DAY)


def queries(browser: Client, path: str) -> int:
    """How many it takes to answer with a whole page, or with all there is."""
    needed = {"limit": 200, "domain": "flights"} if path in OF_ONE_DOMAIN else {"limit": 200}
    with CaptureQueriesContext(connection) as captured:
        answer = browser.get(f"{API}/{path}", needed)
    assert answer.status_code == 200, (path, answer.content)
    assert len(answer.json()["results"]) >= 5 or path in FIXED, f"{path} has too few rows here"
    return len(captured)


@pytest.mark.slow
def test_lists_cost_the_same_however_long(world: World, browsers: dict[str, Client]) -> None:
    operator, lists = browsers["operator"], paths()
    assert len(lists) > 30
    grow(world, range(FEW))
    few = {path: queries(operator, path) for path in lists}
    grow(world, range(FEW, MANY))
    many = {path: queries(operator, path) for path in lists}
    assert many == few
    assert max(count for path, count in many.items() if path not in OF_ONE_DOMAIN) <= 8, many
