"""What is hard to take back asks for the password again; what is read does not."""

from __future__ import annotations

import json

import pytest
from django.conf import settings
from django.test import Client

from adminapp.identity import services as identity
from adminapp.identity.models import Agent, ApiToken
from tests.support.control_plane import World

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery staple"
REVOKE = "/d/flights/principals/p/United/revoke/"


@pytest.fixture
def left_open(world: World, browsers: dict[str, Client]) -> Client:
    """A session of a manager who gave the password long ago."""
    return aged(browsers["manager"])


def aged(client: Client) -> Client:
    session = client.session
    session["confirmed_at"] -= settings.STEP_UP_SECONDS + 1
    session.save()
    return client


ASKING = (
    REVOKE,
    "/d/flights/revocations/new/?kind=role&role=airline",
)
DOING = (
    "/d/flights/keys/renew/",
    "/d/flights/trust-groups/handlers/",
    "/settings/tokens/",
)


def test_a_session_that_was_left_open_reads_and_ends_nothing(left_open: Client) -> None:
    assert left_open.get("/d/flights/principals/p/United/").status_code == 200
    for address in ASKING:
        answer = left_open.get(address)
        assert answer.status_code == 302, address
        assert answer["Location"].startswith("/confirm/?next=%2Fd%2Fflights%2F"), address
    for address in (*DOING, *ASKING):
        answer = left_open.post(
            address, {"version": 1}, headers={"Referer": "http://testserver/d/flights/keys/"}
        )
        assert answer["Location"] == "/confirm/?next=%2Fd%2Fflights%2Fkeys%2F", address
    assert not ApiToken.objects.exists()
    page = left_open.get("/confirm/?next=/d/flights/keys/").content.decode()
    assert "Nothing was changed" in page


def test_agents_and_enrolments_too(world: World, browsers: dict[str, Client]) -> None:
    operator = aged(browsers["operator"])
    assert operator.get("/agents/alpha/revoke/")["Location"].startswith("/confirm/")
    operator.post("/agents/alpha/state/", {"state": "banned", "version": world.alpha.version})
    assert Agent.objects.get(name="alpha").state == "active"
    made = operator.post("/enrolments/token/", {"name": "delta", "overlay": "a"})
    assert made["Location"] == "/confirm/?next=%2F"
    for came, to in (("enrolments/token/", "enrolments/"), ("nowhere/", "")):
        made = operator.post(
            "/enrolments/token/", {"fleet": "edge"}, headers={"Referer": f"http://x/{came}"}
        )
        assert made["Location"] == f"/confirm/?next=%2F{to.replace('/', '%2F')}"
    # Who may not do it at all is told so, and not asked for anything.
    assert aged(browsers["manager"]).get("/agents/alpha/revoke/").status_code == 403
    signed_out = browsers["anonymous"].get("/agents/alpha/revoke/")
    assert signed_out["Location"].startswith("/sign-in/")


def test_the_password_opens_it_again(world: World, left_open: Client) -> None:
    identity.set_password(actor=None, user=world.manager, password=PASSWORD)
    world.manager.refresh_from_db()
    left_open.force_login(world.manager, backend="adminapp.identity.backends.ThrottledBackend")
    aged(left_open)
    wrong = left_open.post("/confirm/", {"password": "guessed", "next": REVOKE})
    assert wrong.status_code == 422
    assert "not your password" in wrong.content.decode()
    assert left_open.get(REVOKE).status_code == 302
    right = left_open.post("/confirm/", {"password": PASSWORD, "next": REVOKE})
    assert right["Location"] == REVOKE
    assert left_open.get(REVOKE).status_code == 200


def test_guessing_is_slowed_down(world: World, left_open: Client) -> None:
    for _ in range(5):
        left_open.post("/confirm/", {"password": "guessed"})
    answer = left_open.post("/confirm/", {"password": "guessed"})
    assert "Too many failed attempts" in answer.content.decode()


@pytest.mark.parametrize("away", ["https://evil.example/", "//evil.example/", "javascript:1", ""])
def test_it_leads_nowhere_else(world: World, left_open: Client, away: str) -> None:
    page = left_open.get("/confirm/", {"next": away}).content.decode()
    assert 'name="next" value="/"' in page


def test_the_api_asks_sessions_and_not_tokens(world: World, left_open: Client) -> None:
    address = "/api/v1/revocations"
    body = json.dumps({"kind": "role", "domain": "flights", "role": "airline", "reason": "over"})
    answer = left_open.post(address, body, content_type="application/json")
    assert answer.status_code == 403
    assert "password" in answer.json()["detail"]
    assert left_open.get(address).status_code == 200
    made = left_open.post(
        "/api/v1/tokens", json.dumps({"name": "t", "scopes": ["revoke"]}),
        content_type="application/json",
    )  # fmt: skip
    assert made.status_code == 403
    _, secret = identity.issue_token(
        actor=world.manager, user=world.manager, name="t", scopes=["read", "write"], days=1
    )
    changed = Client().patch(
        f"/api/v1/policies/{world.policy.pk}", json.dumps({"title": "Another"}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}", "If-Match": "*"},
    )  # fmt: skip
    assert changed.status_code == 200
