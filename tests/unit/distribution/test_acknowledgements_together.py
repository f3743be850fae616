"""Acknowledgements that are taken in together leave what they leave one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from adminapp.audit.models import Entry
from adminapp.distribution import acknowledgements, rollouts, services
from adminapp.distribution.models import (
    Bundle,
    Enforcement,
    Notice,
    Recipient,
    Revocation,
    RevocationEvent,
)
from adminapp.identity.models import Domain, Principal
from adminapp.outbox.models import OutboxRow
from brokers.simulation.chance import Chance
from policyengine.bundles import messages
from policyengine.bundles.addresses import control_queue
from policyengine.errors import PortcullisError
from policyengine.primitives.signatures import generate_signing_key
from tests.support.audiences import Plane

Deliver = Callable[[Plane, list[bytes]], None]


def said(plane: Plane) -> list[bytes]:
    """What everybody answers to what stands in the queues."""
    found: list[bytes] = []
    for audience in plane.audiences.values():
        for body in plane.queues.pop(control_queue(audience.address), []):
            found += audience.take(body)
    return found


def one_by_one(plane: Plane, requests: list[bytes]) -> None:
    for request in requests:
        plane.receive(request)


def together(plane: Plane, requests: list[bytes]) -> None:
    plane.receive(*requests)


def in_disorder(plane: Plane, requests: list[bytes]) -> None:
    """Some come twice, as they do after a lost connection, and all in another order."""
    chance = Chance(f"disorder/{len(requests)}")
    many = [*requests, *chance.sample(requests, len(requests) // 2)]
    plane.receive(*chance.sample(many, len(many)))


def settle(plane: Plane, deliver: Deliver) -> None:
    for _ in range(100):
        worked = plane.work()
        requests = said(plane)
        if not worked and not requests:
            return
        deliver(plane, requests)
    raise AssertionError("the control plane does not come to rest")


def left() -> dict[str, Any]:
    """What stands in the database, without what is drawn at random."""
    events = RevocationEvent.objects.exclude(kind="recomputed").values_list("kind", flat=True)
    return {
        "bundles": sorted(Bundle.objects.values_list("audience", "revision", "state")),
        "notices": sorted(Notice.objects.values_list("audience", "number", "state")),
        "recipients": sorted(
            Recipient.objects.values_list("audience", "revision", "notice", "state")
        ),
        "history": sorted(Enforcement.objects.values_list("audience", "revision", "proven")),
        "events": Counter(events),
        "revocations": sorted(Revocation.objects.values_list("state", flat=True)),
    }


def story(plane: Plane, domain: Domain, deliver: Deliver) -> dict[str, Any]:
    services.compile_domain(domain.pk)
    settle(plane, deliver)
    tenant = Principal.objects.get(name="X-104211")
    services.revoke_principal(actor=None, principal=tenant, reason="moved away")
    settle(plane, deliver)
    rollouts.begin(domain=domain, cause="schedule")
    settle(plane, deliver)
    return left()


@pytest.mark.parametrize("deliver", [one_by_one, together, in_disorder])
def test_a_revocation_and_a_rotation_end_alike(
    plane: Plane, heating: Domain, deliver: Deliver
) -> None:
    found = story(plane, heating, deliver)
    assert found["revocations"] == ["complete"]
    agents = {f"agent:{name}" for name in ("alpha", "beta")}
    heating.refresh_from_db()
    held = {who: number for who, number, _, _ in found["recipients"] if who in agents}
    assert held == dict.fromkeys(agents, heating.revision)
    assert {state for who, _, state in found["notices"]} == {"applied"}
    assert found["events"]["notice-applied"] == len(found["notices"])
    assert all(proven for _, _, proven in found["history"])
    assert {state for _, _, state in found["bundles"]} <= {"applied", "superseded"}


def first_words(plane: Plane, domain: Domain) -> list[bytes]:
    services.compile_domain(domain.pk)
    plane.work()
    return said(plane)


def test_what_cannot_be_believed_changes_nothing_for_the_others(
    plane: Plane, heating: Domain
) -> None:
    requests = first_words(plane, heating)
    alpha = plane.audiences["agent:alpha"]
    bundle = Bundle.objects.get(audience="agent:beta")
    lie = messages.Acknowledgement(
        audience="agent:beta", domain="heating", what="bundle", number=bundle.revision,
        digest=bundle.digest, status="rejected", reason="malformed", held={}, at=1,
    )  # fmt: skip
    forged = messages.sign_ack(lie, generate_signing_key()).encode()
    nowhere = alpha.ack("nowhere", "bundle", 1, "0" * 64, "applied")
    stray = alpha.ack("heating", "bundle", 99, "0" * 64, "rejected", "signature")
    plane.receive(forged, b"\xff" * 40, *requests, nowhere, stray, stray)
    agents = Bundle.objects.filter(audience__startswith="agent:")
    assert set(agents.values_list("state", flat=True)) == {"applied"}
    refused = Entry.objects.filter(action="bundle.refused")
    assert [row.object_id for row in refused] == ["agent:alpha"]


def test_one_that_cannot_be_taken_in_is_set_apart(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = first_words(plane, heating)
    take, sizes = acknowledgements.take, []

    def broken(acks: Sequence[messages.Acknowledgement]) -> None:
        sizes.append(len(acks))
        if any(ack.audience == "agent:alpha" for ack in acks):
            raise PortcullisError("it cannot be written")
        take(acks)

    monkeypatch.setattr(acknowledgements, "take", broken)
    plane.receive(*requests)
    assert sizes[0] == len(requests) > len([size for size in sizes if size > 1]) == 1
    states = dict(Bundle.objects.values_list("audience", "state"))
    assert (states["agent:alpha"], states["agent:beta"]) == ("sent", "applied")


def test_many_take_few_statements_more_than_few(plane: Plane, heating: Domain) -> None:
    requests = first_words(plane, heating)

    def statements(some: list[bytes]) -> int:
        with CaptureQueriesContext(connection) as told:
            plane.receive(*some)
        return len(told)

    few, many = requests[:1], requests[1:]
    assert len(many) > 6
    alone = statements(few)
    # what each says of itself is still written alone, in a transaction of its own
    assert statements(many) < alone + 6 * (len(many) - 1)


def test_whoever_waits_is_woken_once(plane: Plane, heating: Domain) -> None:
    services.compile_domain(heating.pk)
    settle(plane, together)
    tenant = Principal.objects.get(name="X-104211")
    services.revoke_principal(actor=None, principal=tenant, reason="moved away")
    plane.work()
    requests = said(plane)
    OutboxRow.objects.filter(topic="advance").delete()
    plane.receive(*requests)
    assert OutboxRow.objects.filter(topic="advance").count() == 1
