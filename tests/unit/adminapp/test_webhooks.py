"""Webhooks: what is told, to whom, signed how, and what happens when nobody answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.core.errors import AwaitingApproval, Forbidden, InUse, Invalid
from adminapp.distribution.services import revoke_principal
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.outbox.models import OutboxRow
from adminapp.policies.services import update_policy
from adminapp.webhooks import services
from adminapp.webhooks.addresses import NotAllowed, parse
from adminapp.webhooks.events import APPLIED, APPROVAL, EVENTS, GROUPS
from adminapp.webhooks.models import Delivery, Webhook
from tasks import handlers
from tests.support.control_plane import World
from tests.support.receiver import Receiver, inbox, receiver

__all__ = ["inbox"]

API = "/api/v1/webhooks"
JSON = "application/json"


def hook(world: World, inbox: Receiver, *events: str) -> tuple[Webhook, bytes]:
    row, shown = services.create_webhook(
        actor=world.manager,
        domain=world.flights,
        name="desk",
        url=inbox.url,
        events=events or [APPLIED],
    )
    return row, base64.b64decode(shown.removeprefix("whsec_"))


def change(world: World, title: str = "changed") -> None:
    update_policy(actor=world.manager, policy=world.policy, data={"title": title})


def work() -> int:
    """Do what lies in the outbox for webhooks, whenever it is due."""
    done = 0
    for key in OutboxRow.objects.filter(topic="webhook", state="pending").values_list("key"):
        done += handlers.work(key[0])
    return done


def test_a_change_is_told_and_signed(world: World, inbox: Receiver) -> None:
    row, secret = hook(world, inbox)
    change(world)
    assert not inbox.received
    assert work() == 1
    (got,) = inbox.received
    body = json.loads(got.body)
    assert got.path == "/hook?x=1"
    assert body["type"] == "change-set.applied"
    assert body["data"]["domain"] == "flights"
    assert body["data"]["kinds"] == ["policy"]
    assert body["data"]["change_set"] == Entry.objects.latest("sequence").change_set
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.".encode() + got.body
    expected = base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 60
    (delivery,) = row.deliveries.all()
    assert (delivery.state, delivery.status, delivery.attempts) == ("delivered", 200, 1)
    assert delivery.message_id == got.headers["webhook-id"]
    assert not work()


def test_only_what_was_asked_for_and_only_ones_own(world: World, inbox: Receiver) -> None:
    hook(world, inbox, "agreement.*", "revocation.started")
    change(world)
    identity.update_domain(actor=world.operator, domain=world.heating, data={"title": "x"})
    assert not Delivery.objects.exists()
    revoke_principal(actor=world.manager, principal=world.united, reason="over")
    (delivery,) = Delivery.objects.all()
    assert delivery.event == "revocation.started"


def test_an_approval_is_asked_for(world: World, inbox: Receiver) -> None:
    hook(world, inbox, APPROVAL)
    Domain.objects.filter(pk=world.flights.pk).update(approval="always")
    with pytest.raises(AwaitingApproval):
        change(world)
    (delivery,) = Delivery.objects.all()
    assert delivery.event == APPROVAL
    assert delivery.payload["data"]["object_type"] == "change-set"


def test_a_change_that_is_taken_back_is_told_to_nobody(world: World, inbox: Receiver) -> None:
    hook(world, inbox)
    with pytest.raises(Invalid):
        update_policy(actor=world.manager, policy=world.policy, data={"expression": "nonsense("})
    assert not Delivery.objects.exists()


def test_names_of_persons_stay_inside(world: World, inbox: Receiver) -> None:
    hook(world, inbox, *EVENTS)
    revoke_principal(actor=world.manager, principal=world.united, reason="over")
    assert Delivery.objects.exists()
    assert not [each for each in Delivery.objects.all() if "United" in json.dumps(each.payload)]


def test_the_secret_is_shown_once_and_kept_sealed(
    world: World, inbox: Receiver, browsers: dict[str, Client]
) -> None:
    body = {"domain": "flights", "name": "desk", "url": inbox.url, "events": [APPLIED]}
    made = browsers["manager"].post(API, body, JSON, headers={"Idempotency-Key": "k"})
    assert made.status_code == 201, made.content
    assert made["Cache-Control"] == "no-store"
    secret = made.json()["secret"]
    row = Webhook.objects.get()
    assert base64.b64decode(secret.removeprefix("whsec_")) not in bytes(row.secret)
    for url in (API, f"{API}/{row.pk}"):
        assert secret not in browsers["manager"].get(url).content.decode()
    assert not [each for each in Entry.objects.all() if secret in json.dumps(each.after)]
    again = browsers["manager"].post(API, body, JSON, headers={"Idempotency-Key": "k"})
    assert again.status_code == 409
    rotated = browsers["manager"].post(
        f"{API}/{row.pk}/rotate-secret", {}, JSON, headers={"If-Match": '"1"'}
    )
    assert rotated.status_code == 200
    assert rotated.json()["secret"] not in ("", secret)


def test_failures_are_tried_again_later_and_later(world: World, inbox: Receiver) -> None:
    row, _ = hook(world, inbox)
    inbox.status = 500
    change(world)
    waits = []
    for attempt in range(1, len(services.PAUSES) + 2):
        before = timezone.now()
        assert work() == 1
        delivery = row.deliveries.get()
        assert before <= delivery.last_attempt <= timezone.now()
        assert (delivery.attempts, delivery.status) == (attempt, 500)
        if delivery.state == "pending":
            waits.append(delivery.next_attempt - delivery.last_attempt)
            key = OutboxRow.objects.get(topic="webhook", state="pending")
            assert key.available_at >= delivery.next_attempt
    assert waits == list(services.PAUSES)
    assert waits == sorted(waits)
    assert row.deliveries.get().state == "failed"
    assert not work()
    assert len({got.headers["webhook-id"] for got in inbox.received}) == 1


def test_a_success_forgets_the_failures(world: World, inbox: Receiver) -> None:
    row, _ = hook(world, inbox)
    inbox.status = 503
    change(world)
    work()
    row.refresh_from_db()
    assert row.failures == 1
    inbox.status = 204
    work()
    row.refresh_from_db()
    assert row.failures == 0
    assert row.deliveries.get().state == "delivered"


def test_after_many_failures_it_is_switched_off(
    world: World, inbox: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "MAX_FAILURES", 3)
    row, _ = hook(world, inbox)
    inbox.status = 410
    change(world)
    for _ in range(3):
        work()
    row.refresh_from_db()
    assert not row.enabled
    assert row.disabled_at is not None
    assert Entry.objects.filter(action="webhook.disabled", object_id=str(row.pk)).count() == 1
    change(world, "again")
    assert row.deliveries.count() == 1
    work()
    assert len(inbox.received) == 3
    assert row.deliveries.get().error == "the webhook is switched off"
    services.update_webhook(actor=world.manager, webhook=row, data={"enabled": True})
    row.refresh_from_db()
    assert (row.enabled, row.failures, row.disabled_at) == (True, 0, None)


def test_redirects_are_not_followed(world: World, inbox: Receiver) -> None:
    with receiver() as other:
        row, _ = hook(world, inbox)
        inbox.status, inbox.headers = 302, {"Location": other.url}
        change(world)
        work()
        assert not other.received
    assert "redirect" in row.deliveries.get().error


def test_nobody_there(world: World, inbox: Receiver) -> None:
    row, _ = hook(world, inbox)
    Webhook.objects.filter(pk=row.pk).update(url="http://127.0.0.1:1/")
    change(world)
    work()
    delivery = row.deliveries.get()
    assert (delivery.state, delivery.status) == ("pending", None)
    assert "no connection" in delivery.error


def test_a_delivery_is_sent_again_under_its_identifier(
    world: World, inbox: Receiver, browsers: dict[str, Client]
) -> None:
    row, _ = hook(world, inbox)
    change(world)
    url = f"{API}/{row.pk}/deliveries"
    assert browsers["manager"].post(f"{url}/1/redeliver", {}, JSON).status_code == 409
    work()
    assert browsers["manager"].post(f"{url}/1/redeliver", {}, JSON).status_code == 201
    work()
    listed = browsers["auditor"].get(url).json()["results"]
    assert [(each["number"], each["redelivers"]) for each in listed] == [(2, 1), (1, None)]
    first, second = inbox.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert browsers["manager"].post(f"{url}/9/redeliver", {}, JSON).status_code == 404
    assert browsers["auditor"].post(f"{url}/1/redeliver", {}, JSON).status_code == 403
    assert browsers["stranger"].post(f"{url}/1/redeliver", {}, JSON).status_code == 404


ANYWHERE = [
    "http://example.com/",
    "ftp://example.com/",
    "https://",
    "https:///x",
    "example.com",
    "https://a:b@example.com/",
    "https://example.com/#x",
    "https://exa mple.com/",
    "https://example.com/\r\nX: y",
    "https://example.com:99999/",
    "https://10.0.0.1/",
    "https://192.168.1.1/",
    "https://172.16.0.1/",
    "https://169.254.169.254/latest/meta-data",
    "https://100.64.0.1/",
    "https://0.0.0.0/",
    "https://224.0.0.1/",
    "https://[fe80::1]/",
    "https://[fd00::1]/",
    "https://[::]/",
    "https://[::ffff:10.0.0.1]/",
    "https://[2002:0a00:0001::]/",
    "https://example.com/" + "x" * 500,
]
HERE = ["http://localhost/", "https://127.0.0.1/", "https://[::1]/", "https://localhost:8443/"]


@pytest.mark.parametrize("url", ANYWHERE)
def test_addresses_that_webhooks_never_have(url: str, world: World) -> None:
    with pytest.raises(Invalid) as error:
        services.create_webhook(
            actor=world.manager, domain=world.flights, name="x", url=url, events=[APPLIED]
        )
    assert error.value.problems[0].pointer == "/url"


@pytest.mark.parametrize("url", HERE)
def test_this_machine_only_where_people_develop(url: str, settings: Any) -> None:
    parse(url)
    settings.WEBHOOK_LOOPBACK = False
    with pytest.raises(NotAllowed):
        parse(url)


@pytest.mark.parametrize("events", [[], ["nonsense"], ["*"], ["change-set.applied", "x.*"]])
def test_events_that_are_none(events: list[str], world: World, inbox: Receiver) -> None:
    with pytest.raises(Invalid) as error:
        services.create_webhook(
            actor=world.manager, domain=world.flights, name="x", url=inbox.url, events=events
        )
    assert error.value.problems[0].pointer == "/events"
    assert "agreement.*" in GROUPS


def test_only_managers_and_not_too_many(
    world: World, inbox: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, _ = hook(world, inbox)
    for user in (world.auditor, world.stranger):
        with pytest.raises(Forbidden):
            services.update_webhook(actor=user, webhook=row, data={"name": "x"})
        with pytest.raises(Forbidden):
            services.delete_webhook(actor=user, webhook=row)
        with pytest.raises(Forbidden):
            services.rotate_secret(actor=user, webhook=row)
    monkeypatch.setattr(services, "MAX_PER_DOMAIN", 1)
    with pytest.raises(InUse):
        hook(world, inbox)


def test_a_key_that_was_changed_is_said(world: World, inbox: Receiver, settings: Any) -> None:
    row, _ = hook(world, inbox)
    change(world)
    settings.SECRET_KEY = "another key that is long enough to be one"
    work()
    assert "rotate it" in row.deliveries.get().error
    assert not inbox.received


def test_old_deliveries_are_forgotten(world: World, inbox: Receiver) -> None:
    row, _ = hook(world, inbox)
    change(world)
    work()
    change(world, "again")
    row.deliveries.update(created=timezone.now() - services.KEPT_FOR - timedelta(days=1))
    assert services.prune() == 1
    assert [each.state for each in row.deliveries.all()] == ["pending"]
