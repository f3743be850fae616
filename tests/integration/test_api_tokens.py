"""Bearer tokens: hashed, scoped, ending; limits on calls."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone
from rest_framework.throttling import SimpleRateThrottle

from adminapp.api.throttling import AddressThrottle, UserThrottle
from adminapp.identity.models import ApiToken
from adminapp.identity.services import deactivate_user, issue_token
from tests.support.control_plane import World

API = "/api/v1"
JSON = "application/json"


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def token(world: World, *scopes: str) -> tuple[ApiToken, str]:
    return issue_token(actor=world.manager, user=world.manager, name="robot", scopes=scopes)


def test_a_token_is_made_once_and_works(world: World, browsers: dict[str, Client]) -> None:
    made = browsers["manager"].post(
        f"{API}/tokens", {"name": "robot", "scopes": ["read", "write"], "days": 7}, JSON
    )
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    secret = made.json()["secret"]
    assert secret.startswith("pct_")
    row = ApiToken.objects.get()
    assert secret not in row.hash
    assert timedelta(days=6) < row.expires - timezone.now() <= timedelta(days=7)
    answer = Client().get(f"{API}/policies", headers=bearer(secret))
    assert [each["name"] for each in answer.json()["results"]] == ["own flights"]
    assert ApiToken.objects.get().last_used is not None


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer pct_wrong", "Bearer a b", "Bearer pct_\u00e9", "bearer pct_x"]
)
def test_wrong_tokens(header: str, world: World) -> None:
    answer = Client().get(
        f"{API}/policies", headers={"Authorization": header.encode().decode("latin-1")}
    )
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"


def test_tokens_end(world: World) -> None:
    row, secret = token(world, "read")
    assert Client().get(f"{API}/policies", headers=bearer(secret)).status_code == 200
    ApiToken.objects.filter(pk=row.pk).update(expires=timezone.now())
    assert Client().get(f"{API}/policies", headers=bearer(secret)).status_code == 401


def test_tokens_of_somebody_who_left(world: World) -> None:
    _row, secret = token(world, "read")
    deactivate_user(actor=world.operator, user=world.manager)
    assert Client().get(f"{API}/policies", headers=bearer(secret)).status_code == 401


@pytest.mark.parametrize(
    ("scope", "codes"),
    [
        ("read", {"list": 200, "create": 403, "revoke": 403}),
        ("write", {"list": 403, "create": 201, "revoke": 403}),
        ("revoke", {"list": 403, "create": 403, "revoke": 202}),
    ],
)
def test_scopes(scope: str, codes: dict[str, int], world: World) -> None:
    _row, secret = token(world, scope)
    browser, headers = Client(), bearer(secret)
    principal = {"domain": "flights", "name": "Delta", "kind": "subscriber"}
    revocation = {"principal": world.united.pk, "reason": "contract ended"}
    assert {
        "list": browser.get(f"{API}/principals", headers=headers).status_code,
        "create": browser.post(f"{API}/principals", principal, JSON, headers=headers).status_code,
        "revoke": browser.post(f"{API}/revocations", revocation, JSON, headers=headers).status_code,
    } == codes


def test_a_token_makes_and_withdraws_no_tokens(world: World) -> None:
    row, secret = token(world, "read", "write")
    body = {"name": "second", "scopes": ["revoke"]}
    made = Client().post(f"{API}/tokens", body, JSON, headers=bearer(secret))
    gone = Client().delete(f"{API}/tokens/{row.pk}", headers={**bearer(secret), "If-Match": '"1"'})
    assert (made.status_code, gone.status_code) == (401, 401)
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize(
    "body",
    [
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["operate"]},
        {"name": "x", "scopes": ["read"], "days": 400},
        {"name": "", "scopes": ["read"]},
    ],
)
def test_tokens_have_limits(
    body: dict[str, Any], world: World, browsers: dict[str, Client]
) -> None:
    assert browsers["manager"].post(f"{API}/tokens", body, JSON).status_code == 400


@pytest.fixture
def two_a_minute() -> Any:
    kept = {cls: cls.THROTTLE_RATES for cls in (UserThrottle, AddressThrottle)}
    for cls in kept:
        cls.THROTTLE_RATES = {"user": "2/min", "address": "2/min"}
    yield
    for cls, rates in kept.items():
        cls.THROTTLE_RATES = rates
    assert SimpleRateThrottle.THROTTLE_RATES["user"] != "2/min"


def test_calls_are_counted_by_user(
    two_a_minute: None, world: World, browsers: dict[str, Client]
) -> None:
    codes = [browsers["manager"].get(f"{API}/policies").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    slow = browsers["manager"].get(f"{API}/policies")
    assert int(slow["Retry-After"]) > 0
    assert slow.json()["type"] == "urn:portcullis:problem:throttled"
    assert browsers["auditor"].get(f"{API}/policies").status_code == 200


def test_strangers_are_counted_by_the_address_that_our_proxy_saw(
    two_a_minute: None, world: World, settings: Any
) -> None:
    def codes(tail: str) -> list[int]:
        cache.clear()
        chains = [f"{each}{tail}" for each in ("1.1.1.1", "2.2.2.2", "3.3.3.3")]
        guess = bearer("pct_guess")
        return [
            Client().get(f"{API}/policies", headers={**guess, "X-Forwarded-For": chain}).status_code
            for chain in chains
        ]

    settings.TRUSTED_PROXIES = 0
    assert codes(tail="") == [401, 401, 429]  # a header that anybody can write changes nothing
    settings.TRUSTED_PROXIES = 1
    assert codes(tail="") == [401, 401, 401]
    assert codes(tail=", 9.9.9.9") == [401, 401, 429]
