"""What stands in the requests queue is believed only when it verifies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adminapp.distribution import selectors, services
from adminapp.distribution.models import Bundle, Enforcement, Recipient
from adminapp.identity.models import Domain
from policyengine.bundles import messages
from policyengine.primitives.signatures import generate_signing_key
from tests.support.audiences import Audience, Plane


def built(plane: Plane, heating: Domain) -> tuple[Audience, Bundle]:
    """Alpha and the bundle that was sent to it, nothing acknowledged yet."""
    plane.work()
    heating.refresh_from_db()
    bundle = Bundle.objects.get(audience="agent:alpha", revision=heating.revision)
    assert bundle.state == "sent"
    return plane.audiences["agent:alpha"], bundle


def just_now() -> None:
    """However long it took to make and send the bundles."""
    moment = timezone.now()
    Bundle.objects.update(sent_at=moment, built_at=moment)


def state_of(bundle: Bundle) -> tuple[str, int]:
    bundle.refresh_from_db()
    held = Recipient.objects.get(audience=bundle.audience, domain=bundle.domain)
    return bundle.state, held.revision


def applied(audience: Audience, bundle: Bundle, **changes: object) -> messages.Acknowledgement:
    values = {
        "audience": audience.address,
        "domain": "heating",
        "what": "bundle",
        "number": bundle.revision,
        "digest": bundle.digest,
        "status": "applied",
        "reason": "",
        "at": int(timezone.now().timestamp()),
        "held": {
            "heating": {
                "revision": bundle.revision,
                "digest": bundle.digest,
                "notice": 0,
                "epochs": {1: "current"},
            }
        },
    }
    return messages.Acknowledgement(**{**values, **changes})


def test_an_acknowledgement_marks_the_bundle_and_the_recipient(
    plane: Plane, heating: Domain
) -> None:
    alpha, bundle = built(plane, heating)
    plane.receive(messages.sign_ack(applied(alpha, bundle), alpha.signing).encode())
    assert state_of(bundle) == ("applied", bundle.revision)
    (entry,) = selectors.agent_rows()[0].domains
    assert (entry.state, entry.epochs) == ("current", {"1": "current"})


def test_what_was_signed_before_in_the_same_second_sets_nothing_back(
    plane: Plane, heating: Domain
) -> None:
    alpha, first = built(plane, heating)
    services.resume_after_loss(by=1)
    alpha, second = built(plane, heating)
    moment = int(timezone.now().timestamp())
    older, newer = (
        messages.sign_ack(applied(alpha, bundle, at=moment), alpha.signing).encode()
        for bundle in (first, second)
    )
    # Two processes take them in, and the newer one is quicker.
    plane.receive(newer)
    plane.receive(older)
    assert state_of(second) == ("applied", second.revision)
    told = Enforcement.objects.filter(audience="agent:alpha", domain=heating)
    assert list(told.values_list("revision", flat=True)) == [second.revision]
    # Later it may have lost its disk.
    lost = applied(alpha, first, at=moment + 1)
    plane.receive(messages.sign_ack(lost, alpha.signing).encode())
    assert state_of(second)[1] == first.revision


def test_a_foreign_signature_changes_nothing(plane: Plane, heating: Domain) -> None:
    alpha, bundle = built(plane, heating)
    forged = messages.sign_ack(applied(alpha, bundle), generate_signing_key())
    plane.receive(forged.encode())
    assert state_of(bundle) == ("sent", 0)


def test_nobody_speaks_for_somebody_else(plane: Plane, heating: Domain) -> None:
    alpha, bundle = built(plane, heating)
    beta = plane.audiences["agent:beta"]
    # Beta signs with its own key what alpha should have said, under either name.
    ack = applied(alpha, bundle)
    signed = messages.sign_ack(ack, beta.signing)
    plane.receive(signed.encode())
    plane.receive(messages.encode_request("ack", "agent:beta", signed.body, signed.signature))
    assert state_of(bundle) == ("sent", 0)


def test_a_wrong_digest_is_no_acknowledgement(plane: Plane, heating: Domain) -> None:
    alpha, bundle = built(plane, heating)
    true = applied(alpha, bundle).held["heating"]
    lies: list[dict[str, Any]] = [
        {"digest": "0" * 64, "held": {"heating": {**true, "digest": "0" * 64}}},
        {"number": bundle.revision + 1, "held": {"heating": {**true, "revision": 1_000}}},
        {"domain": "flights"},
    ]
    for changes in lies:
        ack = applied(alpha, bundle, **changes)
        plane.receive(messages.sign_ack(ack, alpha.signing).encode())
        assert state_of(bundle)[0] == "sent"


@pytest.mark.parametrize("cut", [0, 1, 10, -1])
def test_garbage_is_dropped(plane: Plane, heating: Domain, cut: int) -> None:
    alpha, bundle = built(plane, heating)
    whole = messages.sign_ack(applied(alpha, bundle), alpha.signing).encode()
    assert services.answer_request(whole[:cut]) == []
    assert services.answer_request(whole + b"x") == []
    assert services.answer_request(b"\xff" * 100) == []
    assert state_of(bundle) == ("sent", 0)


def test_an_old_report_does_not_take_back_a_newer_one(plane: Plane, heating: Domain) -> None:
    alpha, bundle = built(plane, heating)
    now = int(timezone.now().timestamp())
    plane.receive(messages.sign_ack(applied(alpha, bundle), alpha.signing).encode())
    old = applied(alpha, bundle, at=now - 60, held={}, status="received")
    plane.receive(messages.sign_ack(old, alpha.signing).encode())
    assert state_of(bundle) == ("applied", bundle.revision)


def test_a_second_copy_refused_as_a_replay_is_no_failure(plane: Plane, heating: Domain) -> None:
    alpha, bundle = built(plane, heating)
    (parcel,) = services.bundle_parcels([bundle.pk])
    plane.send(parcel.queue, parcel.body)
    plane.deliver()
    assert alpha.refusals == ["replay"]
    assert state_of(bundle) == ("applied", bundle.revision)


def test_a_rejected_bundle_is_shown_and_not_sent_again(plane: Plane, heating: Domain) -> None:
    alpha, bundle = built(plane, heating)
    plane.queues.clear()
    ack = applied(alpha, bundle, status="rejected", reason="malformed", held={})
    plane.receive(messages.sign_ack(ack, alpha.signing).encode())
    assert state_of(bundle) == ("rejected", 0)
    (entry,) = selectors.agent_rows()[0].domains
    assert (entry.state, entry.reason) == ("rejected", "malformed")
    sent = len(plane.sent)
    plane.receive(alpha.lease_request())
    plane.work()
    assert len(plane.sent) == sent


def test_what_was_not_acknowledged_in_time_is_sent_again(plane: Plane, heating: Domain) -> None:
    alpha, bundle = built(plane, heating)
    plane.queues.clear()
    just_now()
    services.reconcile()
    assert plane.work() == 0
    long_ago = timezone.now() - timedelta(minutes=1)
    Bundle.objects.update(sent_at=long_ago, built_at=long_ago)
    services.reconcile()
    plane.settle()
    assert state_of(bundle) == ("applied", bundle.revision)
    assert alpha.refusals == []


def test_a_lease_demands_a_bundle_only_after_its_grace(plane: Plane, heating: Domain) -> None:
    alpha, bundle = built(plane, heating)
    just_now()
    plane.receive(alpha.lease_request())
    plane.deliver()
    assert alpha.leases[-1].domains["heating"]["minimum_revision"] == 0
    Bundle.objects.update(built_at=timezone.now() - timedelta(seconds=16))
    plane.receive(alpha.lease_request())
    plane.deliver()
    assert alpha.leases[-1].domains["heating"]["minimum_revision"] == bundle.revision
    assert alpha.leases[-1].seconds == {"heating": 30}
