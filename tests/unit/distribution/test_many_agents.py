"""What must not grow with the number of agents: work at T0, pieces of work, questions asked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.distribution import rollouts, services, waiting
from adminapp.distribution.models import Notice, Recipient, Revocation, Rollout, RolloutMember
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, Overlay, Principal
from adminapp.outbox import relay
from adminapp.outbox import services as outbox
from adminapp.outbox.models import OutboxRow
from adminapp.trustgroups import services as trustgroups
from adminapp.trustgroups.models import TrustGroup
from tasks import handlers, jobs
from tests.support.audiences import Plane
from tests.unit.distribution.conftest import register_agents

MANY = 12


@pytest.fixture
def fleet(plane: Plane) -> Domain:
    """A domain whose key many agents hold, with two publishers."""
    register_agents(plane)
    overlay = Overlay.objects.get(name="a")
    agents = []
    for number in range(MANY):
        keys = plane.agent(f"edge-{number}")
        agents.append(
            identity.register_agent(
                actor=None,
                name=f"edge-{number}",
                overlay=overlay,
                sealing_key=keys.sealing.public,
                verify_key=keys.signing.public,
            )
        )
    domain = identity.create_domain(actor=None, name="fleet", title="Fleet")
    for name in ("first", "second"):
        principal = identity.create_principal(
            actor=None, domain=domain, name=name, kind="publisher", agents=[agents[0]]
        )
        plane.client(principal)
    trustgroups.create_trust_group(actor=None, domain=domain, name="few", members=agents[:3])
    return domain


def widen(domain: Domain) -> None:
    """All of them serve the domain."""
    from adminapp.identity.models import Agent

    trustgroups.update_trust_group(
        actor=None,
        trust_group=TrustGroup.objects.get(domain=domain),
        members=Agent.objects.filter(name__startswith="edge-"),
    )


def revoke(name: str) -> tuple[Revocation, int]:
    """Revoke somebody; gives the number of statements beside it."""
    principal = Principal.objects.select_related("domain").get(name=name)
    with CaptureQueriesContext(connection) as told:
        row = services.revoke_principal(actor=None, principal=principal, reason="a test")
    return row, len(told)


def test_t0_takes_no_statement_more_for_more_agents(fleet: Domain) -> None:
    few, before = revoke("first")
    widen(fleet)
    many, after = revoke("second")
    assert (few.notices.count(), many.notices.count()) == (3, MANY)
    assert after <= before + 2
    rows = OutboxRow.objects.filter(topic="notice").order_by("pk")
    assert [row.payload for row in rows] == [{"revocation": few.pk}, {"revocation": many.pk}]
    numbers = dict(many.notices.values_list("audience", "number"))
    assert numbers.pop("agent:edge-0") == 2
    assert sorted(numbers.values())[-3:] == [1, 2, 2]
    lease = timedelta(seconds=fleet.lease_seconds)
    assert {each.deadline for each in many.notices.all()} == {many.created + lease}


def test_numbers_go_on_above_what_an_agent_says_that_it_holds(fleet: Domain) -> None:
    Recipient.objects.create(audience="agent:edge-1", domain=fleet, notice=7)
    row, _ = revoke("first")
    assert dict(row.notices.values_list("audience", "number")) == {
        "agent:edge-0": 1, "agent:edge-1": 8, "agent:edge-2": 1,
    }  # fmt: skip


def test_one_piece_of_work_tells_everybody_and_tells_the_silent_again(
    plane: Plane, fleet: Domain
) -> None:
    widen(fleet)
    plane.settle()
    plane.audiences["agent:edge-5"].deaf = True
    row, _ = revoke("first")
    plane.settle()
    states = dict(row.notices.values_list("audience", "state"))
    assert states.pop("agent:edge-5") == "sent"
    assert set(states.values()) == {"applied"}
    late = timezone.now() + timedelta(minutes=1)
    from adminapp.distribution import delivery

    plane.sent.clear()
    delivery.resend_unacknowledged(late)
    assert delivery.resend_unacknowledged(late) == 0, "asked already"
    again = OutboxRow.objects.get(topic="notice", state="pending")
    assert again.payload == {"revocation": row.pk}
    plane.audiences["agent:edge-5"].deaf = False
    plane.settle()
    assert set(row.notices.values_list("state", flat=True)) == {"applied"}


def test_an_answer_that_is_quicker_than_the_brokers_receipt_leaves_no_gap(
    plane: Plane, fleet: Domain
) -> None:
    row, _ = revoke("first")
    first, *others = row.notices.order_by("pk")
    Notice.objects.filter(pk=first.pk).update(state="applied", acknowledged_at=timezone.now())
    began = timezone.now() - timedelta(seconds=1)
    services.notices_sent([each.pk for each in (first, *others)], at=began)
    assert set(row.notices.values_list("sent_at", flat=True)) == {began}
    services.notices_sent([each.pk for each in (first, *others)], at=began + timedelta(seconds=9))
    first.refresh_from_db()
    assert (first.state, first.sent_at) == ("applied", began)
    assert {each.sent_at for each in row.notices.exclude(pk=first.pk)} == {
        began + timedelta(seconds=9)
    }


def test_a_row_of_the_release_before_is_still_understood(plane: Plane, fleet: Domain) -> None:
    row, _ = revoke("first")
    OutboxRow.objects.filter(topic="notice").delete()
    notice = row.notices.get(audience="agent:edge-1")
    outbox.put(topic="notice", key=f"notice:{notice.pk}:0", payload={"notice": notice.pk})
    assert handlers.work(f"notice:{notice.pk}:0", sender=lambda: plane)
    assert plane.sent == ["pc.control.agent.edge-1"]
    assert set(Notice.objects.values_list("audience", "state")) == {
        ("agent:edge-0", "built"), ("agent:edge-1", "sent"), ("agent:edge-2", "built"),
    }  # fmt: skip


def test_an_agent_more_takes_few_statements_more_to_compile_for(fleet: Domain) -> None:
    def compiled() -> int:
        Domain.objects.filter(pk=fleet.pk).update(revision=F("revision") + 1)
        with CaptureQueriesContext(connection) as told:
            services.compile_domain(fleet.pk)
        return len(told)

    compiled()
    few = compiled()
    widen(fleet)
    compiled()
    many = compiled()
    # its key, what is encoded for it, its wraps; and a share of what a set takes
    assert (many - few) / (MANY - 3) < 6


def test_looking_whether_all_are_there_asks_no_more_for_more_agents(
    plane: Plane, fleet: Domain
) -> None:
    widen(fleet)
    plane.settle()
    row = rollouts.begin(domain=fleet, cause="schedule")
    assert row is not None
    Rollout.objects.filter(pk=row.pk).update(state="staging", stage_revision=1)
    row.refresh_from_db()
    with CaptureQueriesContext(connection) as told:
        assert waiting.agents_ready(row)
    assert len(told) < 15
    members = RolloutMember.objects.filter(rollout=row)
    assert members.filter(staged_at__isnull=False).count() == MANY
    with CaptureQueriesContext(connection) as told:
        assert waiting.agents_ready(row)
    assert len(told) < 10


def test_notices_are_handed_out_before_whatever_waits(db: None) -> None:
    for number in range(5):
        outbox.put(topic="push", key=f"push:{number}:0", payload={})
    outbox.put(topic="notice", key="notices:1:0", payload={})
    handed = relay.hand_out(limit=3, first=jobs.FIRST)
    assert handed == [("notice", "notices:1:0"), ("push", "push:0:0"), ("push", "push:1:0")]
    assert {"notice", "advance"} == jobs.FIRST


@pytest.mark.django_db(transaction=True)
def test_hundreds_of_answers_ask_for_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of them in one moment, however long the machine takes over it.
    moment = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: moment)
    domain = Domain.objects.create(name="fleet", title="Fleet")
    for _ in range(20):
        rollouts.request_look(domain)
    (row,) = OutboxRow.objects.filter(topic="advance")
    # Somebody has begun to look: what is said from now on may come too late for that look.
    assert outbox.claim_key(key=row.key) is not None
    rollouts.request_look(domain)
    assert OutboxRow.objects.filter(topic="advance").count() == 2
    # One that nobody has begun with for so long may be lost.
    OutboxRow.objects.update(created_at=timezone.now() - 2 * rollouts.LOOK_AGAIN)
    rollouts.request_look(domain)
    assert OutboxRow.objects.filter(topic="advance").count() == 3
