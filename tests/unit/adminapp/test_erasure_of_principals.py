"""Erasing a principal: what identifies it goes everywhere, and what happened stays verifiable."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from django.db import IntegrityError, transaction
from django.test import Client

from adminapp.audit.models import Entry
from adminapp.audit.selectors import visible_to
from adminapp.core.errors import Forbidden, InUse, Invalid
from adminapp.identity import ports, services
from adminapp.identity.models import HomeAgent, Principal, User
from tests.support.certificates import client_certificate
from tests.support.control_plane import World, key

API = "/api/v1"
SIGNER = ed25519.Ed25519PrivateKey.from_private_bytes(b"\x05" * 32)


@pytest.fixture
def revoked(world: World) -> Principal:
    services.register_credentials(
        actor=world.manager,
        principal=world.united,
        certificate=client_certificate(SIGNER, name="secret person"),
        sealing_key=key(5),
    )
    return services.mark_revoked(actor=world.manager, principal=world.united)


def erase(world: World, row: Principal, **more: Any) -> Principal:
    values = {"actor": world.manager, "reason": "asked to", **more}
    return services.erase_principal(principal=row, **values)


def test_nothing_is_left_that_identifies(world: World, revoked: Principal) -> None:
    seen = [str((entry.before, entry.after)) for entry in visible_to(world.operator)]
    assert any("UA" in text for text in seen)
    assert any("BEGIN CERTIFICATE" in text for text in seen)
    entries = Entry.objects.count()
    row = erase(world, revoked)
    assert row.name == f"erased-{revoked.handle}"
    assert row.handle == revoked.handle
    kept = Principal.objects.filter(pk=row.pk).values().get()
    assert (kept["attributes"], kept["certificate"], kept["certificate_subject"]) == ({}, "", "")
    assert (kept["sealing_key"], kept["verify_key"], kept["certificate_fingerprint"]) == ("",) * 3
    assert not HomeAgent.objects.filter(principal=row).exists()
    assert Entry.objects.count() == entries + 1
    after = [
        str((entry.object_name, entry.before, entry.after)) for entry in visible_to(world.operator)
    ]
    for text in after:
        assert "BEGIN CERTIFICATE" not in text
        assert "United" not in text
    entry = Entry.objects.latest("sequence")
    assert (entry.action, entry.object_id) == ("principal.erased", str(row.pk))


def test_only_what_was_revoked_and_only_once(world: World, revoked: Principal) -> None:
    with pytest.raises(InUse, match="revoke it first"):
        erase(world, world.airport)
    for reason in ("", "  ", "x" * 501):
        with pytest.raises(Invalid) as failure:
            erase(world, revoked, reason=reason)
        assert failure.value.problems[0].pointer == "/reason"
    for actor in (world.auditor, world.stranger):
        with pytest.raises(Forbidden):
            erase(world, revoked, actor=actor)
    row = erase(world, revoked)
    with pytest.raises(InUse, match="erased already"):
        erase(world, row)
    with pytest.raises(InUse, match="nothing of it comes back"):
        services.update_principal(actor=world.manager, principal=row, data={"name": "United"})
    with pytest.raises(IntegrityError), transaction.atomic():
        Principal.objects.filter(pk=row.pk).update(sealing_key=key(1))


def test_others_erase_what_they_keep(
    world: World, revoked: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr(ports, "_erasers", [])
    ports.add_eraser(lambda row: seen.append((row.name, row.handle)))
    erase(world, revoked)
    assert seen == [("United", revoked.handle)]


def test_an_eraser_that_fails_stops_all(
    world: World, revoked: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_row: Principal) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr(ports, "_erasers", [fail])
    entries = Entry.objects.count()
    with pytest.raises(RuntimeError):
        erase(world, revoked)
    assert Principal.objects.get(pk=revoked.pk).name == "United"
    assert Entry.objects.count() == entries


def test_over_rest(
    world: World, revoked: Principal, browsers: dict[str, Client], delegate: User
) -> None:
    browsers["delegate"] = Client()
    browsers["delegate"].force_login(
        delegate, backend="adminapp.identity.backends.ThrottledBackend"
    )
    url = f"{API}/principals/{revoked.pk}/erase"
    body = {"confirm": "United", "reason": "asked to"}
    wrong = browsers["manager"].post(url, {**body, "confirm": "united"}, "application/json")
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "/confirm")
    living = f"{API}/principals/{world.airport.pk}/erase"
    early = browsers["manager"].post(living, {**body, "confirm": "JFK"}, "application/json")
    assert early.status_code == 409
    expected = {
        "anonymous": 401,
        "stranger": 404,
        "auditor": 403,
        "delegate": 403,
        "manager": 200,
    }
    codes = {name: browsers[name].post(url, body, "application/json") for name in expected}
    assert {name: answer.status_code for name, answer in codes.items()} == expected
    shown = codes["manager"].json()
    assert (shown["name"], shown["attributes"]) == (f"erased-{revoked.handle}", {})
    assert shown["erased_at"] is not None
