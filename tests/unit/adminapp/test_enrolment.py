"""Enrolment at the control plane: tokens, requests, decisions, certificates, renewal, bans."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.throttling import SimpleRateThrottle

from adminapp.api.enrolment import EnrolmentThrottle
from adminapp.audit.models import Entry
from adminapp.changes import services as changes
from adminapp.changes.models import ChangeSet
from adminapp.core.errors import AwaitingApproval, Conflict, Forbidden, InUse, Invalid
from adminapp.enrolment import selectors, services
from adminapp.enrolment.models import Certificate, Enrolment, EnrolmentToken, Fleet
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal
from brokers.control import enrol
from policyengine.bundles.enrolment import sign_enrolment, verify_enrolment_request
from policyengine.primitives.canonical import b64
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.signatures import generate_signing_key, sign
from tests.support.api_rows import unthrottle
from tests.support.control_plane import World
from tests.support.enrolling import (
    CertifyingAuthority,
    Machine,
    certifying,
    post,
    renew,
)

__all__ = ["certifying"]
pytestmark = pytest.mark.usefixtures("certifying")


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    unthrottle(monkeypatch)


def agent_machine(world: World, name: str = "delta") -> Machine:
    _, secret = services.issue_agent_token(actor=world.operator, name=name, overlay=world.overlay_a)
    return Machine("agent", secret, name)


def client_machine(world: World) -> Machine:
    _, secret = services.issue_client_token(actor=world.manager, principal=world.united)
    return Machine("client", secret)


def waiting(machine: Machine) -> Enrolment:
    """Its request, with all of its keys proven."""
    assert machine.request()[0] == 201
    assert machine.question()[1]["state"] == "pending"
    return Enrolment.objects.get(uid=machine.offered.enrolment)


def confirmed(world: World, machine: Machine) -> Enrolment:
    row = waiting(machine)
    actor = world.operator if row.domain is None else world.manager
    return services.confirm_enrolment(actor=actor, enrolment=row, fingerprint=machine.fingerprint)


def actions() -> list[str]:
    return list(Entry.objects.order_by("sequence").values_list("action", flat=True))


# -- an agent from its token to its certificate ----------------------------------------------


def test_an_agent_enrols(world: World) -> None:
    machine = agent_machine(world)
    row = waiting(machine)
    assert not Agent.objects.filter(name="delta").exists()
    assert machine.question()[1]["place"] is None
    # Both ends show the same, each computed by itself.
    assert row.fingerprint == machine.fingerprint
    services.confirm_enrolment(
        actor=world.operator, enrolment=row, fingerprint=machine.fingerprint.replace(" ", "")
    )
    agent = Agent.objects.get(name="delta")
    assert (agent.sealing_key, agent.verify_key) == (
        b64(machine.sealing.public),
        b64(machine.signing.public),
    )
    place = machine.place()
    assert (place.name, place.place) == ("delta", "a")
    held = Certificate.objects.get(serial=place.serial)
    assert held.subject == f"CN=delta, OU=agents, UID={row.uid}"
    assert held.ends - timezone.now() < timedelta(days=14)
    assert actions()[-5:] == [
        "enrolment-token.issued",
        "enrolment.requested",
        "agent.registered",
        "enrolment.confirmed",
        "certificate.issued",
    ]


def test_a_client_enrols(world: World) -> None:
    machine = client_machine(world)
    confirmed(world, machine)
    place = machine.place()
    assert (place.kind, place.name, place.place) == ("client", world.united.handle, "flights")
    held = Principal.objects.get(pk=world.united.pk)
    assert held.verify_key == b64(machine.signing.public)


def test_no_secret_is_kept(world: World) -> None:
    machine = agent_machine(world)
    waiting(machine)
    token = EnrolmentToken.objects.get()
    assert machine.token not in str(vars(token))
    texts = [str(vars(entry)) for entry in Entry.objects.all()]
    assert not [text for text in texts if machine.token in text]


# -- tokens ----------------------------------------------------------------------------------


def test_a_token_ends_after_five_minutes(world: World) -> None:
    machine = agent_machine(world)
    token = EnrolmentToken.objects.get()
    assert token.expires - token.created == timedelta(minutes=5)
    EnrolmentToken.objects.update(expires=timezone.now())
    code, answer = machine.request()
    assert (code, "not valid" in answer["detail"]) == (403, True)
    assert not Enrolment.objects.exists()


def test_a_token_is_spent_by_the_first_keys(world: World) -> None:
    machine = agent_machine(world)
    row = waiting(machine)
    thief = Machine("agent", machine.token, "delta")
    code, answer = thief.request()
    assert (code, "not valid" in answer["detail"]) == (403, True)
    assert Enrolment.objects.get().pk == row.pk
    assert actions()[-1] == "enrolment.token-reused"
    # The same request again is the same enrolment, also after the token's end.
    EnrolmentToken.objects.update(expires=timezone.now())
    assert machine.request()[1]["enrolment"] == row.uid
    assert machine.question()[1]["state"] == "pending"


def test_a_token_of_another_kind_or_nobody_is_none(world: World) -> None:
    secret = agent_machine(world).token
    assert Machine("client", secret).request()[0] == 403
    assert Machine("agent", "pce_" + "x" * 43, "delta").request()[0] == 403
    # A request that was signed for one token does not spend another.
    first, second = agent_machine(world), agent_machine(world, "epsilon")
    assert first.request(token=second.token)[0] == 403
    assert not Enrolment.objects.exists()


def test_a_request_names_whom_the_token_is_for(world: World) -> None:
    machine = agent_machine(world)
    code, answer = Machine("agent", machine.token, "beta").request()
    assert (code, answer["errors"][0]["pointer"]) == (400, "/name")
    assert EnrolmentToken.objects.get().spent_at is None
    assert machine.request()[0] == 201


def test_a_withdrawn_token_is_gone(world: World) -> None:
    machine = agent_machine(world)
    services.withdraw_token(actor=world.operator, token=EnrolmentToken.objects.get())
    assert machine.request()[0] == 403
    spent = agent_machine(world)
    waiting(spent)
    with pytest.raises(InUse):
        services.withdraw_token(actor=world.operator, token=EnrolmentToken.objects.get())


def test_tokens_that_nobody_spent_are_forgotten(world: World) -> None:
    waiting(agent_machine(world))
    agent_machine(world, "epsilon")
    EnrolmentToken.objects.update(expires=timezone.now() - timedelta(days=2))
    assert services.prune_tokens() == 1
    assert EnrolmentToken.objects.get().name == "delta"


def test_who_may_issue(world: World) -> None:
    for actor in (world.manager, world.auditor, world.stranger):
        with pytest.raises(Forbidden):
            services.issue_agent_token(actor=actor, name="delta", overlay=world.overlay_a)
    for actor in (world.auditor, world.stranger):
        with pytest.raises(Forbidden):
            services.issue_client_token(actor=actor, principal=world.united)


def test_tokens_for_what_cannot_be(world: World) -> None:
    operator = world.operator
    with pytest.raises(Invalid, match="stands on overlay"):
        services.issue_agent_token(actor=operator, name="alpha", overlay=world.overlay_b)
    with pytest.raises(Invalid, match="has a name"):
        services.issue_agent_token(actor=operator, name="delta")
    identity.set_agent_state(actor=operator, agent=world.beta, state="banned")
    with pytest.raises(Invalid, match="banned"):
        services.issue_agent_token(actor=operator, name="beta", overlay=world.overlay_a)
    identity.mark_revoked(actor=world.manager, principal=world.united)
    world.united.refresh_from_db()
    with pytest.raises(Invalid, match="revoked"):
        services.issue_client_token(actor=world.manager, principal=world.united)


# -- proofs ----------------------------------------------------------------------------------


def test_every_key_is_proven(world: World) -> None:
    machine = agent_machine(world)
    application = machine.application
    stranger = generate_signing_key()
    request = verify_enrolment_request(application.record, application.signature)
    forged = sign_enrolment(request, stranger)[1]
    assert post("/enrol", application.record, forged, token=machine.token)[0] == 403
    assert machine.request()[0] == 201
    # Only who opens the challenge may ask, and only with the key that was named.
    row = Enrolment.objects.get()
    assert row.proven_at is None
    with pytest.raises(InUse, match="proven"):
        services.confirm_enrolment(
            actor=world.operator, enrolment=row, fingerprint=machine.fingerprint
        )
    record, signature = sign_enrolment_question(machine)
    assert post("/enrol/question", record, sign(stranger, b"x", record))[0] == 403
    wrong = Machine("agent", machine.token, "delta", generate_sealing_key(), machine.signing)
    wrong.offered = type(machine.offered)(row.uid, machine.offered.offer, b"0" * 32)
    assert wrong.question()[0] == 403
    assert machine.question()[0] == 200
    assert Enrolment.objects.get().proven_at is not None
    assert post("/enrol/question", record, signature)[0] == 200


def sign_enrolment_question(machine: Machine) -> tuple[bytes, bytes]:
    assert machine.offered is not None
    return enrol.question(machine.offered, machine.signing)


# -- decisions -------------------------------------------------------------------------------


def test_another_fingerprint_confirms_nothing(world: World) -> None:
    machine = agent_machine(world)
    row = waiting(machine)
    other = Machine("agent", machine.token, "delta")
    other.offered = machine.offered
    with pytest.raises(Invalid, match="refuse it"):
        services.confirm_enrolment(
            actor=world.operator, enrolment=row, fingerprint=other.fingerprint
        )
    assert not Agent.objects.filter(name="delta").exists()


def test_a_refusal_is_told_with_its_reason(world: World) -> None:
    machine = agent_machine(world)
    row = waiting(machine)
    with pytest.raises(Invalid):
        services.refuse_enrolment(actor=world.operator, enrolment=row, reason=" ")
    services.refuse_enrolment(actor=world.operator, enrolment=row, reason="not ours")
    answer = machine.question()[1]
    assert (answer["state"], answer["reason"], answer["place"]) == ("refused", "not ours", None)
    with pytest.raises(Conflict):
        services.confirm_enrolment(
            actor=world.operator, enrolment=row, fingerprint=machine.fingerprint
        )


def test_a_request_that_nobody_decides_expires(world: World) -> None:
    machine = agent_machine(world)
    row = waiting(machine)
    Enrolment.objects.update(expires=timezone.now())
    with pytest.raises(InUse, match="new token"):
        services.confirm_enrolment(
            actor=world.operator, enrolment=row, fingerprint=machine.fingerprint
        )
    assert machine.question()[1]["state"] == "expired"
    second = agent_machine(world)
    waiting(second)
    Enrolment.objects.update(expires=timezone.now())
    assert services.expire_old() == 1
    assert services.expire_old() == 0


def test_who_may_decide(world: World) -> None:
    agent, client = agent_machine(world), client_machine(world)
    agent_row, client_row = waiting(agent), waiting(client)
    for actor, row, machine in (
        (world.manager, agent_row, agent),
        (world.auditor, client_row, client),
        (world.stranger, client_row, client),
    ):
        with pytest.raises(Forbidden):
            services.confirm_enrolment(actor=actor, enrolment=row, fingerprint=machine.fingerprint)
        with pytest.raises(Forbidden):
            services.refuse_enrolment(actor=actor, enrolment=row, reason="no")


def test_a_second_person_agrees_to_a_clients_keys(world: World) -> None:
    """Where a domain asks for two persons: the keys wait, then the request is complete."""
    second = identity.create_user(actor=world.operator, username="nina")
    identity.set_membership(actor=world.operator, user=second, domain=world.flights, role="manager")
    Domain.objects.filter(pk=world.flights.pk).update(approval="always")
    machine = client_machine(world)
    row = waiting(machine)
    wanted = {"actor": world.manager, "enrolment": row, "fingerprint": machine.fingerprint}
    with pytest.raises(AwaitingApproval) as told:
        services.confirm_enrolment(**wanted)
    assert machine.question()[1]["state"] == "pending"
    held = ChangeSet.objects.get(pk=told.value.change_set)
    changes.approve(actor=second, change_set=held)
    services.confirm_enrolment(**wanted)
    assert machine.place().name == world.united.handle


# -- fleets ----------------------------------------------------------------------------------


def fleet(world: World, most: int = 2) -> Fleet:
    return services.create_fleet(
        actor=world.operator,
        name="edge",
        overlay=world.overlay_a,
        pattern="edge-*",
        most=most,
        ends=timezone.now() + timedelta(hours=1),
    )


def of_fleet(world: World, made: Fleet, name: str) -> Machine:
    _, secret = services.issue_agent_token(actor=world.operator, fleet=made)
    return Machine("agent", secret, name)


def test_a_fleet_confirms_by_itself_so_many(world: World) -> None:
    made = fleet(world, most=1)
    first, second = of_fleet(world, made, "edge-1"), of_fleet(world, made, "edge-2")
    for machine in (first, second):
        assert machine.request()[0] == 201
    assert not Agent.objects.filter(name__startswith="edge").exists()
    assert first.place().place == "a"
    answer = second.question()[1]
    assert (answer["state"], answer["reason"]) == ("refused", "fleet edge has its 1 agents")
    assert Enrolment.objects.get(name="edge-1").decided_by is None
    with pytest.raises(Invalid, match="has its 1"):
        services.issue_agent_token(actor=world.operator, fleet=made)


def test_a_fleet_takes_its_names_alone_and_nobody_elses_place(world: World) -> None:
    made = fleet(world)
    for name in ("core-1", ""):
        assert of_fleet(world, made, name).request()[0] == 400
    identity.register_agent(
        actor=world.operator,
        name="edge-9",
        overlay=world.overlay_a,
        sealing_key=b"k" * 32,
        verify_key=b"v" * 32,
    )
    assert of_fleet(world, made, "edge-9").request()[0] == 400


def test_a_fleet_ends(world: World) -> None:
    made = fleet(world)
    machine = of_fleet(world, made, "edge-1")
    assert machine.request()[0] == 201
    services.end_fleet(actor=world.operator, fleet=made)
    answer = machine.question()[1]
    assert (answer["state"], answer["reason"]) == ("refused", "fleet edge is over")
    made.refresh_from_db()
    with pytest.raises(Invalid, match="over"):
        services.issue_agent_token(actor=world.operator, fleet=made)
    with pytest.raises(InUse):
        services.delete_fleet(actor=world.operator, fleet=made)
    with pytest.raises(Forbidden):
        services.end_fleet(actor=world.manager, fleet=made)


# -- renewal and bans ------------------------------------------------------------------------


def test_a_certificate_is_followed_once_by_the_key_that_holds(world: World) -> None:
    machine = agent_machine(world)
    confirmed(world, machine)
    place = machine.place()
    wish = machine.renewal(place)
    code, answer = renew(wish)
    assert (code, answer["serial"] != place.serial) == (200, True)
    # Asked again after an answer that was lost, it is the same one; another wish gets nothing.
    assert renew(wish) == (200, answer)
    assert renew(machine.renewal(place))[0] == 403
    assert renew(machine.renewal(place, answer["serial"]))[0] == 200
    stranger = Machine("agent", "pce_none", "delta")
    assert renew(stranger.renewal(place))[0] == 403
    subjects, _ = selectors.subjects()
    assert subjects["delta"].startswith("CN=delta, OU=agents, UID=")


def test_what_is_over_is_not_renewed(world: World) -> None:
    machine = agent_machine(world)
    confirmed(world, machine)
    Certificate.objects.update(ends=timezone.now())
    assert renew(machine.renewal(machine_place(machine)))[0] == 403


def machine_place(machine: Machine) -> object:
    row = Certificate.objects.get()
    return type("Place", (), {"kind": "agent", "name": "delta", "serial": row.serial})()


def test_a_banned_agent_gets_no_certificate_and_stands_on_the_list(world: World) -> None:
    machine = agent_machine(world)
    confirmed(world, machine)
    place = machine.place()
    rows = Certificate.objects.all()
    assert not selectors.banned(rows).exists()
    agent = Agent.objects.get(name="delta")
    identity.set_agent_state(actor=world.operator, agent=agent, state="banned")
    assert renew(machine.renewal(place))[0] == 403
    assert [row.serial for row in selectors.banned(rows)] == [place.serial]
    assert selectors.subjects()[0] == {}
    operator = Client()
    operator.force_login(world.operator, backend="adminapp.identity.backends.ThrottledBackend")
    listed = operator.get("/api/v1/certificates", {"banned": "true"}).json()["results"]
    assert [each["serial"] for each in listed] == [place.serial]


def test_enrolled_anew_the_old_keys_end(world: World) -> None:
    first, second = agent_machine(world), agent_machine(world)
    confirmed(world, first)
    place = first.place()
    confirmed(world, second)
    assert Enrolment.objects.get(uid=first.offered.enrolment).state == "replaced"
    assert renew(first.renewal(place))[0] == 403
    assert [row.serial for row in selectors.banned(Certificate.objects.all())] == [place.serial]
    assert Agent.objects.get(name="delta").verify_key == b64(second.signing.public)


def test_keys_typed_in_later_end_the_certificate(world: World) -> None:
    machine = agent_machine(world)
    confirmed(world, machine)
    place = machine.place()
    identity.update_agent(
        actor=world.operator,
        agent=Agent.objects.get(name="delta"),
        data={"verify_key": b64(b"v" * 32)},
    )
    assert renew(machine.renewal(place))[0] == 403


def test_an_erased_principal_leaves_no_keys(world: World) -> None:
    machine = client_machine(world)
    confirmed(world, machine)
    identity.mark_revoked(actor=world.manager, principal=world.united)
    world.united.refresh_from_db()
    identity.erase_principal(actor=world.manager, principal=world.united, reason="asked for")
    assert not Enrolment.objects.exists()
    assert not Certificate.objects.exists()


def test_guessing_is_slowed_down(
    world: World, certifying: CertifyingAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EnrolmentThrottle, "get_rate", lambda _self: "3/min")
    monkeypatch.setattr(EnrolmentThrottle, "allow_request", SimpleRateThrottle.allow_request)
    codes = [Machine("agent", f"pce_{n}", "delta").request()[0] for n in range(5)]
    assert codes == [403, 403, 403, 429, 429]
