"""Questions that are taken at once are answered as they would be one by one, and bundles that are
to be made again at once.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.distribution import building, delivery, leases, services
from adminapp.distribution import compile as compiler
from adminapp.distribution.models import Bundle, Enforcement, Recipient
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.outbox import relay
from adminapp.outbox.models import OutboxRow
from policyengine.bundles import messages
from policyengine.primitives.signatures import generate_signing_key
from tasks import handlers
from tests.support.audiences import Audience, Plane
from tests.support.kept_planes import PlaneKeeper
from tests.unit.distribution.conftest import at_rest

WHEN = timezone.now() - timedelta(minutes=5)


@pytest.fixture
def heating(plane: Plane, planes: PlaneKeeper) -> Domain:
    return at_rest(plane, planes, "heating")


def answered(*requests: bytes) -> list[list[str]]:
    """The queues that each question was answered on."""
    found = {
        place: [queue for queue, _ in answers]
        for group in services.answer_requests(requests)
        for place, answers in group
    }
    return [found[place] for place in range(len(requests))]


def revoke(name: str) -> None:
    principal = Principal.objects.get(name=name)
    services.revoke_principal(actor=None, principal=principal, reason="moved away")


def forged(audience: Audience) -> bytes:
    request = messages.LeaseRequest(
        audience=audience.address, nonce="ab" * 16, held={}, at=int(timezone.now().timestamp())
    )
    return messages.sign_lease_request(request, generate_signing_key()).encode()


def row_of(name: str) -> Recipient:
    return Recipient.objects.get(audience=f"agent:{name}", domain__name="heating")


def test_each_gets_what_it_would_get_alone(plane: Plane, heating: Domain) -> None:
    alpha, beta = plane.audiences["agent:alpha"], plane.audiences["agent:beta"]
    gone = plane.audiences[f"client:{Principal.objects.get(name='X-104211').handle}"]
    stays = plane.audiences[f"client:{Principal.objects.get(name='X-104212').handle}"]
    revoke("X-104211")
    unknown = Audience("agent:nobody", plane.anchors)
    found = answered(
        alpha.lease_request(),
        b"\xff" * 40,
        forged(beta),
        gone.lease_request(),
        unknown.lease_request(),
        stays.lease_request(),
        alpha.lease_request(),
    )
    mine = "pc.control.agent.alpha"
    assert found == [[mine], [], [], [], [], [f"pc.control.client.{stays.address[7:]}"], [mine]]


def test_leases_come_before_what_others_report(plane: Plane, heating: Domain) -> None:
    alpha, beta = plane.audiences["agent:alpha"], plane.audiences["agent:beta"]
    bundle = Bundle.objects.filter(audience="agent:beta").latest("revision")
    held = {"revision": bundle.revision, "digest": bundle.digest, "notice": 0, "epochs": {}}
    now = int(timezone.now().timestamp())
    ack = messages.Acknowledgement(
        audience=beta.address, domain="heating", what="bundle", number=bundle.revision,
        digest=bundle.digest, status="applied", reason="", at=now, held={"heating": held},
    )  # fmt: skip
    requests = [messages.sign_ack(ack, beta.signing).encode(), alpha.lease_request()]
    groups = [[place for place, _ in group] for group in services.answer_requests(requests)]
    assert groups == [[1], [0]]


def test_who_was_overtaken_by_a_revocation_is_given_one_that_demands_it(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal, calls = leases._seal, []

    def overtaken(*arguments: Any) -> bytes:
        calls.append(arguments)
        made = seal(*arguments)
        if len(calls) == 1:
            revoke("X-104211")
        return made

    monkeypatch.setattr(leases, "_seal", overtaken)
    told = [plane.audiences[f"agent:{name}"] for name in ("alpha", "beta")]
    plane.receive(*(each.lease_request() for each in told))
    plane.deliver()
    # Beta has nothing to do with it: its own is good.
    assert [wish.asked.address for wish, *_ in calls] == [
        "agent:alpha", "agent:beta", "agent:alpha",
    ]  # fmt: skip
    minimums = [each.leases[-1].domains["heating"]["minimum_notice"] for each in told]
    assert minimums == [1, 0]


def test_who_is_banned_while_it_is_signed_gets_none(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal = leases._seal

    def banned(*arguments: Any) -> bytes:
        Agent.objects.filter(name="alpha").update(state="banned")
        return seal(*arguments)

    monkeypatch.setattr(leases, "_seal", banned)
    Recipient.objects.update(leased_until=None)
    alpha, beta = plane.audiences["agent:alpha"], plane.audiences["agent:beta"]
    found = answered(alpha.lease_request(), beta.lease_request())
    assert found == [[], ["pc.control.agent.beta"]]
    assert row_of("alpha").leased_until is None
    assert row_of("beta").leased_until is not None


def test_one_that_cannot_be_answered_takes_nobody_with_it(plane: Plane, heating: Domain) -> None:
    Agent.objects.filter(name="alpha").update(sealing_key="AAAA")
    alpha, beta = plane.audiences["agent:alpha"], plane.audiences["agent:beta"]
    assert answered(alpha.lease_request(), beta.lease_request()) == [[], ["pc.control.agent.beta"]]


def test_who_says_nothing_new_was_seen_and_who_does_is_written_down(
    plane: Plane, heating: Domain
) -> None:
    plane.lease_all()
    Recipient.objects.update(last_seen=WHEN, reported_at=1)
    count = Enforcement.objects.count()
    alpha, beta = plane.audiences["agent:alpha"], plane.audiences["agent:beta"]
    before = row_of("alpha")
    beta.forget()
    answered(alpha.lease_request(), beta.lease_request())
    after = row_of("alpha")
    assert after.last_seen > WHEN
    assert after.reported_at > 1
    assert (after.revision, after.digest, after.keys) == (
        before.revision, before.digest, before.keys,
    )  # fmt: skip
    assert row_of("beta").revision == 0
    assert list(Enforcement.objects.values_list("audience", "revision"))[count:] == [
        ("agent:beta", 0)
    ]


def test_what_two_processes_are_told_at_once_is_kept_whole(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row changed after it was read: then nothing is taken for known."""
    from adminapp.distribution import reports

    plane.lease_all()
    Recipient.objects.update(reported_at=1)
    divide = reports._sorted

    def late(told: Any) -> Any:
        Recipient.objects.filter(audience="agent:alpha").update(reported_at=2, revision=0)
        return divide(told)

    monkeypatch.setattr(reports, "_sorted", late)
    alpha = plane.audiences["agent:alpha"]
    answered(alpha.lease_request(), plane.audiences["agent:beta"].lease_request())
    assert row_of("alpha").revision == alpha.state.revisions["heating"].revision


def test_forty_cost_hardly_more_than_two(plane: Plane, heating: Domain) -> None:
    alpha, beta = plane.audiences["agent:alpha"], plane.audiences["agent:beta"]
    plane.lease_all()

    def queries(rounds: int) -> int:
        asked = [each.lease_request() for each in (alpha, beta) * rounds]
        with CaptureQueriesContext(
            connection,
        ) as captured:
            answered(*asked)
        return len(captured)

    few = queries(1)
    assert queries(1) == few
    Recipient.objects.update(leased_until=None)
    assert queries(1) <= few + 2


def waiting() -> list[str]:
    rows = OutboxRow.objects.filter(topic="rebuild", state="pending").order_by("id")
    return list(rows.values_list("key", flat=True))


def test_bundles_of_a_domain_are_made_again_together(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    Bundle.objects.update(sent_at=WHEN, built_at=WHEN)
    agents = [plane.audiences[f"agent:{name}"] for name in ("alpha", "beta")]
    for each in agents:
        each.forget()
    plane.receive(*(each.lease_request() for each in agents))
    # Asked once more, later: it waits already.
    Bundle.objects.update(sent_at=WHEN)
    plane.receive(*(each.lease_request() for each in agents))
    rows = waiting()
    assert len(rows) == 2
    read, snapshots = compiler._snapshot, []

    def counted(domain_id: int) -> Any:
        snapshots.append(domain_id)
        return read(domain_id)

    monkeypatch.setattr(compiler, "_snapshot", counted)
    assert handlers.work(rows[0], sender=lambda: plane)
    assert (snapshots, waiting()) == ([heating.pk], [])
    assert not handlers.work(rows[1], sender=lambda: plane)
    plane.settle()
    for each in agents:
        assert each.bundles["heating"].header.revision == heating.revision
        assert each.refusals == []


def test_whoever_makes_many_says_after_each_that_it_is_alive(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("alpha", "beta"):
        bundle = Bundle.objects.filter(audience=f"agent:{name}").latest("revision")
        delivery.request_rebuild(bundle)
    rows, touched = waiting(), []
    monkeypatch.setattr(relay, "touch", lambda *keys: touched.append(keys))
    assert handlers.work(rows[0], sender=lambda: plane)
    assert touched == [tuple(rows)] * 2


def test_one_that_cannot_be_made_holds_up_the_others_once(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundles = {
        name: Bundle.objects.filter(audience=f"agent:{name}").latest("revision")
        for name in ("alpha", "beta")
    }
    for bundle in bundles.values():
        delivery.request_rebuild(bundle)
    replace = building.replace

    def cannot(snapshot: Any, job: Any, old: Bundle) -> None:
        if old.audience == "agent:alpha":
            raise MemoryError
        replace(snapshot, job, old)

    monkeypatch.setattr(building, "replace", cannot)
    first, second = waiting()
    assert handlers.work(first, sender=lambda: plane)
    assert len(waiting()) == 2
    for key in (first, second):
        assert handlers.work(key, sender=lambda: plane)
    assert waiting() == [first]
    bundles["beta"].refresh_from_db()
    assert bundles["beta"].replaced


def test_a_row_of_the_release_before_is_made_alone(plane: Plane, heating: Domain) -> None:
    (bundle, *_) = Bundle.objects.filter(audience="agent:alpha").order_by("-revision")
    OutboxRow.objects.create(
        topic="rebuild", key=f"rebuild:{bundle.pk}:1", payload={"bundle": bundle.pk},
        available_at=timezone.now(),
    )  # fmt: skip
    assert handlers.work(f"rebuild:{bundle.pk}:1", sender=lambda: plane)
    bundle.refresh_from_db()
    assert bundle.replaced
    assert OutboxRow.objects.get(key=f"rebuild:{bundle.pk}:1").state == "done"
