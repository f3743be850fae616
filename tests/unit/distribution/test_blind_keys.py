"""Keys of blind profiles: who gets which, from an organisation's file to bundles."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from django.db import connection

from adminapp.distribution import services
from adminapp.distribution.models import BlindEpoch, BlindKey
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal
from policyengine.blind import AgentShare, BlindMaster, ClientKeys
from policyengine.ope import RangeKey, Slot
from policyengine.primitives.canonical import b64
from tasks.authority.store import load_state
from tests.support.audiences import Plane
from tests.support.blind_reading import share_of
from tests.unit.distribution.conftest import load
from tests.unit.distribution.stocks import (
    CUSTOMERS,
    EXCHANGES,
    QUOTE,
    agent,
    client,
    handle,
    home,
    ordered,
    quoted,
    read,
    stocks,
)

__all__ = ["ordered", "stocks"]


def test_shares_stand_with_homes_and_keys_with_those_concerned(
    plane: Plane, stocks: Domain
) -> None:
    held = {name: agent(plane, name).blind for name in ("alpha", "beta")}
    assert {name: [one.epoch for one in found] for name, found in held.items()} == {
        "alpha": [1],
        "beta": [1],
    }
    # The agency only publishes stories, of which nothing is hidden: it needs no keys.
    assert set(held["alpha"][0].shares) == {handle("nasdaq"), handle("small-investor")}
    assert set(held["beta"][0].shares) == {handle("nyse"), handle("pension-fund")}
    assert client(plane, "newswire").blind == ()
    assert len({client(plane, name).blind[0].public for name in (*CUSTOMERS, *EXCHANGES)}) == 1
    keys = [client(plane, name).blind[0].keys for name in (*CUSTOMERS, *EXCHANGES)]
    assert len(set(keys)) == 4
    for name, data in zip((*CUSTOMERS, *EXCHANGES), keys, strict=True):
        assert ClientKeys.from_bytes(data).handle == handle(name)


def test_publishers_are_told_for_whom_to_seal_and_nobody_else_is(
    plane: Plane, stocks: Domain
) -> None:
    for name in EXCHANGES:
        (epoch,) = client(plane, name).blind
        assert set(epoch.read_policies) == {"Quote"}
        assert set(epoch.read_policies["Quote"]) == set(QUOTE)
        (term,) = epoch.read_policies["Quote"]["price"]
        assert len(term.subject) == 1
        assert "customer" in term.subject[0]
    assert all(client(plane, name).blind[0].read_policies == {} for name in CUSTOMERS)


def test_customers_read_quotes_and_exchanges_do_not(plane: Plane, stocks: Domain) -> None:
    event = quoted(plane)
    assert [read(plane, name, event) for name in CUSTOMERS] == [QUOTE, QUOTE]
    assert [read(plane, name, event) for name in EXCHANGES] == [{}, {}]
    texts = [event.to_bytes(), quoted(plane).to_bytes()]
    # Three letters stand in a ciphertext by chance, and not in each of two.
    assert not all(b"IBM" in text for text in texts)
    assert not any(b"NASDAQ" in text for text in texts)


def test_a_client_with_anothers_half_reads_nothing(plane: Plane, stocks: Domain) -> None:
    event = quoted(plane)
    other = agent(plane, "alpha").blind[0].shares
    (mine,) = agent(plane, "beta").blind
    swapped = {**mine.shares, handle("pension-fund"): other[handle("small-investor")]}
    object.__setattr__(mine, "shares", swapped)
    assert read(plane, "pension-fund", event) == {}


def test_nothing_changes_for_those_whom_a_change_does_not_concern(
    plane: Plane, stocks: Domain
) -> None:
    before = [client(plane, name).blind for name in (*CUSTOMERS, *EXCHANGES)]
    rows = sorted(BlindKey.objects.values_list("pk", "sealed"))
    identity.update_domain(actor=None, domain=stocks, data={"title": "Stocks"})
    plane.settle()
    assert [client(plane, name).blind for name in (*CUSTOMERS, *EXCHANGES)] == before
    assert sorted(BlindKey.objects.values_list("pk", "sealed")) == rows
    assert BlindEpoch.objects.count() == 1


def test_a_domain_that_hides_nothing_has_no_keys(plane: Plane, compiled_heating: Domain) -> None:
    assert not BlindEpoch.objects.exists()
    assert plane.audiences["agent:alpha"].agent("heating").blind == ()


def test_agents_get_shares_of_clients_that_move_in(plane: Plane, stocks: Domain) -> None:
    row = Principal.objects.get(name="small-investor")
    beta = Agent.objects.get(name="beta")
    identity.update_principal(actor=None, principal=row, data={}, agents=[beta])
    plane.settle()
    assert handle("small-investor") not in agent(plane, "alpha").blind[0].shares
    assert read(plane, "small-investor", quoted(plane)) == QUOTE
    shares = BlindKey.objects.filter(kind="share", name=row.handle)
    assert [each.audience for each in shares] == ["agent:beta"]


def test_keys_of_order_go_to_clients_and_columns_to_agents(plane: Plane, ordered: Domain) -> None:
    found = {}
    for name in (*CUSTOMERS, *EXCHANGES):
        (key,) = client(plane, name).ordered
        assert (key.type, key.attribute, key.epoch, key.state) == ("Quote", "price", 1, "current")
        found[name] = key.key
    assert len(set(found.values())) == 1
    (secret,) = set(found.values())
    assert RangeKey.from_bytes(secret).slot == Slot("stocks", "Quote", "price", 1)
    assert client(plane, "newswire").ordered == ()
    for name in ("alpha", "beta"):
        (column,) = agent(plane, name).ordered
        assert (column.type, column.attribute, column.epoch) == ("Quote", "price", 1)
        assert column.scheme == "sbm1"
        assert b64(secret) not in str(agent(plane, name).to_json())


def test_no_key_stands_in_the_database_or_in_logs(
    plane: Plane, live_authority: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    load(plane, "stocks")
    plane.settle()
    services.revoke_principal(
        actor=None, principal=Principal.objects.get(name="nyse"), reason="left"
    )
    plane.settle()
    seen = _everything() + caplog.text.encode()
    (epoch,) = BlindEpoch.objects.exclude(wrapped="")
    # The search finds what is there.
    assert epoch.wrapped.encode() in seen
    state = load_state(live_authority.parent / "state")
    data = state.unwrap(f"blind:stocks:master:{epoch.number}", epoch.wrapped)
    master = BlindMaster.from_bytes(data)
    secrets = [data[40:], master.seed, _scalar(master.lock)]
    for one in CUSTOMERS:
        keys = ClientKeys.from_bytes(client(plane, one).blind[0].keys)
        share = share_of(home(plane, one), handle(one), epoch.number)
        assert share is not None
        assert isinstance(share, AgentShare)
        secrets += [_scalar(keys.share), _scalar(share.share), *_middles(keys, share)]
    for secret in secrets:
        for form in _forms(secret):
            assert form not in seen


def _middles(keys: ClientKeys, share: AgentShare) -> list[bytes]:
    """What is in the middle of the written keys, past everything that many of them share."""
    return [keys.search.encode()[-32:], share.search.encode()[-32:]]


def _scalar(number: int) -> bytes:
    return number.to_bytes(32, "big")


def _forms(secret: bytes) -> list[bytes]:
    found = [secret, secret.hex().encode()]
    # Base64 of whatever stands around it: each of the three ways to fall on groups of three.
    for shift in range(3):
        middle = secret[shift : shift + (len(secret) - shift) // 3 * 3]
        found.append(b64(middle).rstrip("=").encode())
    return found


def _everything() -> bytes:
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            for row in cursor.fetchall():
                found += [each if isinstance(each, bytes) else str(each).encode() for each in row]
    return b"\n".join(found)
