"""Principals: certificates, broker agents, homes with fallbacks, and how they are found."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.core.errors import InUse, Invalid
from adminapp.distribution import serving
from adminapp.distribution.gather import gather
from adminapp.identity import mapping, selectors, services
from adminapp.identity.documents import PRINCIPAL
from adminapp.identity.models import Agent, HomeAgent, Principal
from adminapp.policies.selectors import next_boundary
from policyengine.primitives.canonical import b64
from tests.support.certificates import client_certificate
from tests.support.control_plane import World, key

API = "/api/v1"
SIGNER = ed25519.Ed25519PrivateKey.from_private_bytes(b"\x05" * 32)
VERIFY = b64(SIGNER.public_key().public_bytes_raw())


def register(world: World, **keys: Any) -> Principal:
    return services.register_credentials(actor=world.manager, principal=world.united, **keys)


def agent_principal(world: World, **more: Any) -> Principal:
    return services.create_principal(
        actor=world.manager,
        domain=world.flights,
        name="Broker",
        kind="agent",
        **{"broker": world.beta, **more},
    )


# -- certificates ----------------------------------------------------------------------------


def test_a_certificate_gives_the_key_and_says_who(world: World) -> None:
    pem = client_certificate(SIGNER, name="united.example")
    row = register(world, certificate=pem, sealing_key=key(5))
    assert (row.verify_key, row.sealing_key) == (VERIFY, key(5))
    assert row.certificate_subject == "CN=united.example"
    assert len(row.certificate_fingerprint) == 64
    assert row.certificate_from < timezone.now() < row.certificate_until
    assert Entry.objects.latest("sequence").after["certificate"] == row.certificate
    # Bare keys take its place, and nothing of it is left.
    row = register(world, sealing_key=key(5), verify_key=key(6))
    assert (row.certificate, row.certificate_subject, row.certificate_until) == ("", "", None)


def test_a_certificate_alone_leaves_the_sealing_key(world: World) -> None:
    register(world, sealing_key=key(5), verify_key=key(6))
    row = register(world, certificate=client_certificate(SIGNER))
    assert (row.sealing_key, row.verify_key) == (key(5), VERIFY)


def test_certificates_that_are_refused(world: World) -> None:
    now = timezone.now()
    day = timedelta(days=1)
    other = ec.generate_private_key(ec.SECP256R1())
    for keys, pointer, reason in (
        ({"certificate": "hello"}, "/certificate", "one certificate in PEM"),
        (
            {"certificate": client_certificate(SIGNER, begins=now - 2 * day, ends=now - day)},
            "/certificate",
            "expired",
        ),
        (
            {"certificate": client_certificate(SIGNER, begins=now + day, ends=now + 2 * day)},
            "/certificate",
            "not valid before",
        ),
        ({"certificate": client_certificate(other)}, "/certificate", "one of EC"),
        (
            {"certificate": client_certificate(SIGNER), "verify_key": key(9)},
            "/verify_key",
            "not the key of the certificate",
        ),
        ({"verify_key": key(9)}, "/sealing_key", "missing"),
        ({"sealing_key": key(9)}, "/verify_key", "missing"),
    ):
        with pytest.raises(Invalid, match=reason) as failure:
            register(world, **keys)
        assert failure.value.problems[0].pointer == pointer
    world.united.refresh_from_db()
    assert (world.united.verify_key, world.united.certificate) == ("", "")


def test_keys_run_out_with_their_certificate(world: World) -> None:
    ends = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    pem = client_certificate(SIGNER, ends=ends)
    register(world, certificate=pem, sealing_key=key(5))
    assert [row.name for row in serving.clients_of(world.flights)] == ["United"]
    assert next_boundary(world.flights, after=timezone.now()) == ends
    past = timezone.now() - timedelta(seconds=1)
    Principal.objects.filter(pk=world.united.pk).update(certificate_until=past)
    assert not serving.clients_of(world.flights)
    assert not gather(world.flights).subjects


# -- broker agents ---------------------------------------------------------------------------


def test_a_broker_agent_has_the_keys_that_operators_gave_it(world: World) -> None:
    row = agent_principal(world)
    assert (row.sealing_key, row.verify_key) == (world.beta.sealing_key, world.beta.verify_key)
    assert [home.agent.name for home in row.homes.all()] == ["beta"]
    with pytest.raises(InUse, match="operators gave it"):
        services.register_credentials(
            actor=world.manager, principal=row, sealing_key=key(1), verify_key=key(2)
        )
    services.update_agent(actor=world.operator, agent=world.beta, data={"verify_key": key(77)})
    row.refresh_from_db()
    assert row.verify_key == key(77)
    document = mapping.principal(row)
    assert (document["broker"], document["verify_key"]) == ("beta", "")
    services.set_agent_state(actor=world.operator, agent=world.beta, state="banned")
    assert not serving.clients_of(world.flights)


def test_which_principals_are_broker_agents(world: World) -> None:
    for more, pointer in (
        ({"broker": None}, "/broker"),
        ({"kind": "service"}, "/kind"),
    ):
        values = {"name": "X", "kind": "agent", "broker": world.beta, **more}
        with pytest.raises(Invalid) as failure:
            services.create_principal(actor=world.manager, domain=world.flights, **values)
        assert failure.value.problems[0].pointer == pointer
    agent_principal(world)
    with pytest.raises(Invalid):
        services.create_principal(
            actor=world.manager, domain=world.flights, name="Y", kind="agent", broker=world.beta
        )
    with pytest.raises(Invalid) as failure:
        services.update_principal(
            actor=world.manager, principal=world.united, data={"kind": "agent"}
        )
    assert failure.value.problems[0].pointer == "/broker"
    services.set_agent_state(actor=world.operator, agent=world.gamma, state="banned")
    with pytest.raises(Invalid, match="`gamma` is banned"):
        services.create_principal(
            actor=world.manager,
            domain=world.flights,
            name="Z",
            kind="agent",
            broker=Agent.objects.get(name="gamma"),
        )


@pytest.mark.parametrize(
    "values",
    [{"kind": "agent"}, {"certificate": "x"}, {"certificate_until": timezone.now()}],
    ids=["agent without broker", "certificate without end", "end without certificate"],
)
def test_the_database_says_so_too(values: dict[str, Any], world: World) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Principal.objects.filter(pk=world.united.pk).update(**values)


# -- homes -----------------------------------------------------------------------------------


def homes(world: World) -> dict[str, tuple[str, str | None]]:
    rows = HomeAgent.objects.filter(principal=world.united)
    return {
        home.overlay.name: (home.agent.name, home.fallback and home.fallback.name)
        for home in rows.select_related("overlay", "agent", "fallback")
    }


def settle(world: World, **more: Any) -> None:
    services.update_principal(actor=world.manager, principal=world.united, data={}, **more)


def test_a_fallback_on_each_overlay(world: World) -> None:
    settle(world, fallbacks=[world.beta])
    assert homes(world) == {"a": ("alpha", "beta"), "b": ("gamma", None)}
    settle(world, agents=[world.alpha])
    assert homes(world) == {"a": ("alpha", "beta")}
    settle(world, agents=[world.beta])  # who was the fallback stands in for itself no more
    assert homes(world) == {"a": ("beta", None)}
    settle(world, agents=[world.beta, world.gamma], fallbacks=[world.alpha])
    assert homes(world) == {"a": ("beta", "alpha"), "b": ("gamma", None)}
    settle(world, fallbacks=[])
    assert homes(world) == {"a": ("beta", None), "b": ("gamma", None)}
    for more, reason in (
        ({"fallbacks": [world.beta]}, "stand in for itself"),
        ({"agents": [world.beta], "fallbacks": [world.gamma]}, "without a home agent"),
        ({"fallbacks": [world.alpha, world.beta]}, "not two"),
    ):
        with pytest.raises(Invalid, match=reason):
            settle(world, **more)
    with pytest.raises(IntegrityError), transaction.atomic():
        HomeAgent.objects.filter(agent=world.beta).update(fallback=world.beta)


def test_the_fallback_stands_by_and_serves_while_the_home_is_banned(world: World) -> None:
    register(world, sealing_key=key(5), verify_key=key(6))
    settle(world, fallbacks=[world.beta])

    def served() -> tuple[list[str], dict[str, str], dict[str, str]]:
        plain = gather(world.flights)
        subject = plain.subjects[0]
        agents = [agent.name for agent in plain.agents]
        assert agents == [agent.name for agent in plain.agents if subject.served_by(agent)]
        return agents, dict(subject.homes), dict(subject.seconds)

    healthy = (["alpha", "beta", "gamma"], {"a": "alpha", "b": "gamma"}, {"a": "beta"})
    assert served() == healthy
    assert world.flights in serving.domains_of_agent(world.beta)
    services.set_agent_state(actor=world.operator, agent=world.alpha, state="banned")
    assert served() == (["beta", "gamma"], {"a": "beta", "b": "gamma"}, {})
    assert world.flights in serving.domains_of_agent(world.beta)
    assert [row.name for row in selectors.serving_agents(world.flights)] == ["beta", "gamma"]
    services.set_agent_state(
        actor=world.operator, agent=Agent.objects.get(name="alpha"), state="active"
    )
    assert served() == healthy


# -- documents -------------------------------------------------------------------------------


def test_a_document_makes_the_principal_again(world: World) -> None:
    register(world, certificate=client_certificate(SIGNER), sealing_key=key(5))
    settle(world, fallbacks=[world.beta])
    agent_principal(world)
    for name in ("United", "Broker"):
        row = PRINCIPAL.find(world.flights, name)
        document = PRINCIPAL.document(row)
        assert PRINCIPAL.whole(world.flights, PRINCIPAL.short(document)) == document
        Principal.objects.filter(pk=row.pk).delete()
        made = PRINCIPAL.create(world.manager, world.flights, name, document)
        assert PRINCIPAL.document(PRINCIPAL.find(world.flights, name)) == document
        before = made.version
        PRINCIPAL.update(world.manager, made, document)
        assert PRINCIPAL.find(world.flights, name).version == before + 1
    with CaptureQueriesContext(connection) as queries:
        assert list(PRINCIPAL.documents(world.flights)) == ["Broker", "JFK", "United"]
    assert len(queries) == 2


# -- REST ------------------------------------------------------------------------------------


def test_credentials_over_rest(world: World, browsers: dict[str, Client]) -> None:
    url = f"{API}/principals/{world.united.pk}"
    pem = client_certificate(SIGNER, name="united.example")
    body = {"certificate": pem, "sealing_key": key(5)}
    codes = {
        name: browsers[name].post(f"{url}/credentials", body, "application/json").status_code
        for name in ("anonymous", "stranger", "auditor", "manager")
    }
    assert codes == {"anonymous": 401, "stranger": 404, "auditor": 403, "manager": 200}
    shown = browsers["auditor"].get(url).json()
    assert shown["verify_key"] == VERIFY
    assert shown["certificate"]["subject"] == "CN=united.example"
    assert shown["certificate"]["pem"] == pem
    bad = browsers["manager"].post(f"{url}/credentials", {"certificate": "x"}, "application/json")
    assert (bad.status_code, bad.json()["errors"][0]["pointer"]) == (400, "/certificate")
    none = browsers["manager"].get(f"{API}/principals/{world.airport.pk}").json()
    assert none["certificate"] is None


def test_a_broker_agent_over_rest(world: World, browsers: dict[str, Client]) -> None:
    body = {
        "domain": "flights",
        "name": "Relay",
        "kind": "agent",
        "broker": "beta",
        "agents": ["beta", "gamma"],
        "fallbacks": ["alpha"],
    }
    made = browsers["manager"].post(f"{API}/principals", body, "application/json")
    assert made.status_code == 201, made.content
    shown = made.json()
    assert (shown["broker"], shown["fallbacks"]) == ("beta", ["alpha"])
    assert shown["verify_key"] == world.beta.verify_key
    again = browsers["manager"].put(
        made["Location"], shown, "application/json", headers={"If-Match": made["ETag"]}
    )
    assert again.status_code == 200, again.content
    other = browsers["manager"].patch(
        made["Location"],
        {"broker": "gamma"},
        "application/json",
        headers={"If-Match": again["ETag"]},
    )
    assert other.status_code == 400


def test_finding_principals(world: World, browsers: dict[str, Client]) -> None:
    register(world, certificate=client_certificate(SIGNER, name="u.example"), sealing_key=key(5))
    settle(world, agents=[world.beta])
    agent_principal(world)
    world.united.refresh_from_db()

    def names(**query: str) -> list[str]:
        answer = browsers["manager"].get(f"{API}/principals", query)
        assert answer.status_code == 200, answer.content
        return [each["name"] for each in answer.json()["results"]]

    assert names(kind="agent") == ["Broker"]
    assert names(search="u.exam") == ["United"]
    assert names(search=world.united.handle) == ["United"]
    assert names(search=world.united.certificate_fingerprint.upper()) == ["United"]
    assert names(search="JF") == ["JFK"]
    assert names(agent="beta") == ["United", "Broker"]
    assert names(has_keys="true") == ["United", "Broker"]
    assert names(has_keys="false") == ["JFK"]
    soon = (timezone.now() + timedelta(days=3)).isoformat()
    assert names(certificate_until=soon) == ["United"]
    assert names(ordering="name") == ["Broker", "JFK", "United"]
    assert names(ordering="-name") == ["United", "JFK", "Broker"]
    assert names(ordering="-id") == ["Broker", "JFK", "United"]
    wrong = browsers["manager"].get(f"{API}/principals", {"ordering": "state"})
    assert wrong.status_code == 400
    first = browsers["manager"].get(f"{API}/principals", {"ordering": "name", "limit": 1}).json()
    second = browsers["manager"].get(first["next"]).json()
    assert [first["results"][0]["name"], second["results"][0]["name"]] == ["Broker", "JFK"]
