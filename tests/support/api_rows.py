"""A row for every collection of the API, and how each is addressed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.test import Client
from django.utils import timezone

from adminapp.agreements import services as agreements
from adminapp.api.throttling import AddressThrottle, UserThrottle
from adminapp.catalog import services as catalog
from adminapp.changes import services as changes
from adminapp.changes.models import Announcement
from adminapp.distribution.models import (
    ActivityRun,
    Bundle,
    EncodingEpoch,
    Enforcement,
    PolicyRollout,
    Recipient,
    RecomputeJob,
    Revocation,
    RolloutPlan,
    RotationSchedule,
)
from adminapp.enrolment import services as enrolment
from adminapp.enrolment.models import Certificate, Enrolment
from adminapp.identity import services as identity
from adminapp.identity.models import PrincipalImport, User
from adminapp.outbox.models import OutboxRow
from adminapp.policies.representation import represent
from adminapp.policies.variables import declare_variable
from adminapp.privacy.services import set_split
from adminapp.roles import services as roles
from adminapp.roles.models import AppointmentRule, RoleSession, RoleSettings
from adminapp.trustgroups.models import KeyEpoch
from adminapp.webhooks import services as webhooks
from adminapp.webhooks.models import Delivery, Webhook
from tests.support.control_plane import World

BACKEND = "adminapp.identity.backends.ThrottledBackend"
IN_A_MONTH = timedelta(days=30)
GROUPS = [
    {"overlay": "a", "attributes": ["carrier", "tail"]},
    {"overlay": "b", "attributes": ["origin"]},
]
TERMS: dict[str, Any] = {
    "roles": [{"role": "engineer", "as": "airline"}],
    "opens": [{"type": "Flight", "action": "subscribe", "attributes": ["carrier"]}],
    "subject_attributes": [],
    "ends": "2100-01-01T00:00:00Z",
    "purpose": "to heat the gates in time",
}


def people(world: World) -> dict[str, User]:
    """Everybody who may call, by standing; nobody is `anonymous`."""
    roles.create_role(actor=world.manager, domain=world.flights, name="press")
    made = {name: getattr(world, name) for name in ("operator", "manager", "auditor", "stranger")}
    for standing, scope in (("delegate", "airline"), ("other", "press")):
        made[standing] = identity.create_user(actor=world.operator, username=standing)
        identity.delegate(
            actor=world.manager,
            user=made[standing],
            domain=world.flights,
            roles=[scope],
            event_types=["Flight"] if scope == "airline" else [],
            ends=timezone.now() + IN_A_MONTH,
        )
    made["colleague"] = identity.create_user(actor=world.operator, username="cora")
    return made


def clients(users: dict[str, User]) -> dict[str, Client]:
    """A signed-in client for each, and `anonymous`."""
    made = {"anonymous": Client()}
    for standing, user in users.items():
        made[standing] = Client()
        made[standing].force_login(user, backend=BACKEND)
    return made


def rows(world: World) -> dict[str, Any]:
    """By collection, a row that belongs to the domain `flights` or to its manager."""
    return {
        "domains": world.flights,
        "memberships": world.flights.memberships.get(user=world.auditor),
        "delegations": world.flights.delegations.first(),
        "users": world.stranger,
        "overlays": world.overlay_b,
        "agents": world.beta,
        "principals": world.united,
        "subject-attributes": world.flights.subject_attributes.get(name="carrier"),
        "attribute-keys": world.tail,
        "event-types": world.departure,
        "roles": world.airline,
        "appointments": world.appointment,
        "trust-groups": world.group,
        "policies": world.policy,
        "classifications": world.flight.attributes.get(name="carrier"),
        **_made(world),
        **_enrolment(world),
        **_distribution(world),
    }


def _made(world: World) -> dict[str, Any]:
    until = timezone.now() + IN_A_MONTH
    token, _secret = identity.issue_token(
        actor=world.manager, user=world.manager, name="mine", scopes=["read"]
    )
    return {
        "tokens": token,
        "environment": declare_variable(
            actor=world.manager, domain=world.flights, name="alarm", type={"type": "bool"}
        ),
        "risk-acceptances": catalog.accept_risk(
            actor=world.manager,
            event_type=world.flight,
            attribute="tail",
            justification="ranges are needed",
            until=until,
        ),
        "split-plans": set_split(actor=world.manager, event_type=world.flight, groups=GROUPS),
        "representatives": represent(
            actor=world.manager, user=world.manager, principal=world.airport
        ),
        "role-settings": RoleSettings.objects.create(domain=world.flights),
        "sessions": RoleSession.objects.create(principal=world.united),
        "appointment-rules": AppointmentRule.objects.create(domain=world.flights, name="licensed"),
        "principal-imports": PrincipalImport.objects.create(
            domain=world.flights, user=world.manager
        ),
        "webhooks": _webhook(world),
        **_changes(world),
    }


def _enrolment(world: World) -> dict[str, Any]:
    token, _ = enrolment.issue_client_token(actor=world.manager, principal=world.united)
    spent, _ = enrolment.issue_client_token(actor=world.manager, principal=world.united)
    row = Enrolment.objects.create(
        token=spent,
        kind="client",
        name=world.united.handle,
        principal=world.united,
        domain=world.flights,
        request=b"{}",
        offer=b"{}",
        fingerprint="00000 11111",
        expires=timezone.now() + IN_A_MONTH,
    )
    return {
        "enrolment-tokens": token,
        "enrolments": row,
        "certificates": Certificate.objects.create(
            enrolment=row, serial="1f", subject="CN=x", begins=row.created, ends=row.expires
        ),
        "fleets": enrolment.create_fleet(
            actor=world.operator,
            name="north",
            overlay=world.overlay_a,
            pattern="north-*",
            most=3,
            ends=timezone.now() + IN_A_MONTH,
        ),
    }


def _webhook(world: World) -> Webhook:
    row, _secret = webhooks.create_webhook(
        actor=world.manager,
        domain=world.flights,
        name="desk",
        url="https://hooks.example.com/in",
        events=["agreement.*"],
    )
    Delivery.objects.create(
        webhook=row, number=1, message_id="m", event="e", payload={}, state="failed"
    )
    return row


def _changes(world: World) -> dict[str, Any]:
    document = {"name": "press", "title": "Press"}
    drafted = changes.draft(
        actor=world.manager,
        domain=world.flights,
        operations=[{"op": "put", "kind": "role", "document": document}],
    )
    said = Announcement.objects.create(user=world.manager, change_set=drafted, text="look")
    roles.create_role(actor=world.stranger, domain=world.heating, name="engineer")
    agreed = agreements.propose_agreement(
        actor=world.manager,
        provider=world.flights,
        consumer=world.heating,
        name="gates",
        terms=TERMS,
    )
    return {"change-sets": drafted, "announcements": said, "agreements": agreed}


def _distribution(world: World) -> dict[str, Any]:
    flights = world.flights
    epoch = EncodingEpoch.objects.create(domain=flights, number=9, cause="first", parameters={})
    sent = {"audience": "agent:alpha", "domain": flights}
    return {
        "key-epochs": KeyEpoch.objects.create(
            domain=flights, group_ref="overlay:a", number=1, wrapped="w"
        ),
        "activity-runs": ActivityRun.objects.create(domain=flights, cause="asked"),
        "jobs": RecomputeJob.objects.create(domain=flights, epoch=epoch, cause="revocation"),
        "bundles": Bundle.objects.create(
            **sent, revision=1, digest="0" * 64, size=1, message=b"x", expires_at=timezone.now()
        ),
        "recipients": Recipient.objects.create(**sent),
        "rotations": RotationSchedule.objects.create(
            domain=flights, key="overlay:a", every_days=90
        ),
        "rollout-plans": RolloutPlan.objects.create(
            domain=flights, stages=[{"agents": [], "share": 10, "wait_seconds": 0}]
        ),
        "rollouts": PolicyRollout.objects.create(
            domain=flights,
            state="stopped",
            revision=1,
            stage_revision=1,
            content={},
            stages=[{"agents": ["alpha"], "wait_seconds": 0}],
        ),
        "enforcements": Enforcement.objects.create(**sent, revision=1, digest="0" * 64),
        "revocations": Revocation.objects.create(
            domain=flights, principal=world.airport, reason="r"
        ),
        "outbox": OutboxRow.objects.create(topic="t", key="k", state="failed"),
    }


def unthrottle(monkeypatch: Any) -> None:
    """What tests try comes faster than any caller may."""
    for throttle in (UserThrottle, AddressThrottle):
        monkeypatch.setattr(throttle, "allow_request", lambda *_: True)
