"""Keys for filters: by policy alone, for one client alone, and every answer in the audit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from adminapp.audit.answers import take_answers
from adminapp.audit.models import Entry
from adminapp.core.authority import AuthorityUnavailable
from adminapp.core.errors import Forbidden, Invalid
from adminapp.distribution import filterkeys
from adminapp.distribution.filterkeys import FilterAnswer, FilterKey
from adminapp.distribution.models import BlindEpoch
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, Principal
from adminapp.policies.explain import explain
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment
from policyengine.blind import (
    BlindDelivery,
    ClientKeys,
    DeliveryOpener,
    RoutedBlind,
    predecrypt,
)
from policyengine.bundles import open_secret
from policyengine.errors import DecryptionError
from policyengine.primitives.canonical import unb64
from tests.support.audiences import Plane
from tests.support.blind_reading import CONTEXT, share_of
from tests.unit.distribution.stocks import QUOTE, handle, home, market, quoted

__all__ = ["market"]


def ask(name: str, *attributes: str, kind: str = "Quote", **changes: Any) -> FilterAnswer:
    return filterkeys.filter_key(
        **{
            "actor": None,
            "principal": Principal.objects.get(name=name),
            "event_type": kind,
            "attributes": attributes,
            **changes,
        }
    )


def opened(plane: Plane, name: str, key: FilterKey) -> ClientKeys:
    """The key as its client opens it."""
    audience = plane.audiences[f"client:{handle(name)}"]
    place = {"domain": key.domain, "epoch": key.epoch, "name": key.type}
    sealed = open_secret(
        "filter", key.sealed, key=audience.sealing, audience=audience.address, **place
    )
    return ClientKeys.from_bytes(sealed)


def read_by(plane: Plane, name: str, keys: ClientKeys, event: RoutedBlind) -> dict[str, Any]:
    """What a client reads with these keys when its home lets it have everything."""
    share = share_of(home(plane, name), handle(name), event.place.epoch)
    assert share is not None
    delivery = predecrypt(share, event, set(QUOTE))
    assert delivery is not None
    return DeliveryOpener(keys).open(BlindDelivery.from_bytes(delivery.to_bytes()), CONTEXT)[0]


def newest() -> Entry:
    found = Entry.objects.filter(action__startswith="filter-key.").order_by("-sequence").first()
    assert found is not None
    return found


def test_a_key_opens_what_its_filter_reads_and_nothing_else(plane: Plane, market: Domain) -> None:
    event = quoted(plane)
    answer = ask("pension-fund", "price")
    assert (answer.granted, answer.reason) == (True, "")
    assert answer.key is not None
    assert read_by(plane, "pension-fund", opened(plane, "pension-fund", answer.key), event) == {
        "price": 12
    }
    wider = ask("pension-fund", "sym", "price")
    assert wider.key is not None
    found = read_by(plane, "pension-fund", opened(plane, "pension-fund", wider.key), event)
    assert found == QUOTE
    # Everything but the price stands under the same policy; the price does not.
    narrow = ask("small-investor", "sym")
    assert narrow.key is not None
    found = read_by(plane, "small-investor", opened(plane, "small-investor", narrow.key), event)
    assert found == {name: value for name, value in QUOTE.items() if name != "price"}


REFUSED = [
    ("small-investor", "Quote", "price"),
    ("nasdaq", "Quote", "sym"),
    ("small-investor", "News", "text"),
    ("pension-fund", "Quote", "nothing"),
    ("pension-fund", "Nothing", "sym"),
]


def told_by_authority() -> str:
    take_answers()
    return str([row.after for row in Entry.objects.filter(action="authority.answered")])


def test_every_answer_is_in_the_audit_and_a_refusal_says_what_people_are_told(
    plane: Plane, market: Domain
) -> None:
    for name, kind, attribute in REFUSED:
        row = Principal.objects.get(name=name)
        answer = ask(name, "sym", attribute, kind=kind)
        assert (answer.granted, answer.key) == (False, None)
        whole = explain(market, row, "subscribe", kind)
        told = explain(market, row, "subscribe", kind, attribute) if whole.allowed else whole
        assert not told.allowed
        assert told.summary in answer.reason
        assert answer.reason.startswith(f"{name} may not ")
        entry = newest()
        assert (entry.action, entry.object_name) == ("filter-key.refused", name)
        assert entry.after["reason"] == answer.reason
    # The authority was not asked: there is nothing that it could have given.
    assert "filter_key" not in told_by_authority()
    answer = ask("pension-fund", "price", "sym")
    assert answer.key is not None
    entry = newest()
    assert (entry.action, entry.domain_name) == ("filter-key.given", "stocks")
    assert entry.after == {
        "type": "Quote",
        "attributes": ["price", "sym"],
        "epoch": answer.key.epoch,
    }
    journal = told_by_authority()
    assert "'op': 'filter_key'" in journal
    assert "'filter': ['price', 'sym']" in journal
    assert "premium" not in journal


def test_nothing_is_given_beyond_what_is_held_now(
    plane: Plane, market: Domain, settings: Any, tmp_path: Path
) -> None:
    for attributes in ([], [f"a{number}" for number in range(257)]):
        with pytest.raises(Invalid, match="between one attribute and 256"):
            ask("pension-fund", *attributes)
    fund = Principal.objects.get(name="pension-fund")
    lost = Appointment.objects.get(principal=fund, name="premium_contract")
    roles.end_appointment(actor=None, appointment=lost)
    refused = ask("pension-fund", "price")
    assert refused.key is None
    assert "premium" in refused.reason
    # What it may read still: once keys of what is left were made.
    early = ask("pension-fund", "sym")
    assert early.key is None
    assert "ask again shortly" in early.reason
    plane.settle()
    assert ask("pension-fund", "sym").granted
    authority, settings.AUTHORITY_SOCKET = settings.AUTHORITY_SOCKET, tmp_path / "nothing.sock"
    count = Entry.objects.count()
    with pytest.raises(AuthorityUnavailable):
        ask("pension-fund", "sym")
    assert Entry.objects.count() == count
    settings.AUTHORITY_SOCKET = authority
    fund.homes.all().delete()
    assert "needs a home agent" in ask("pension-fund", "sym").reason
    BlindEpoch.objects.all().delete()
    assert "hides nothing" in ask("pension-fund", "sym").reason


def test_the_authority_refuses_whatever_the_control_plane_says(
    plane: Plane, market: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A taken control plane that lets everything through gets no more than was enrolled."""
    honest = filterkeys.explain
    monkeypatch.setattr(filterkeys, "explain", lambda *asked: replace(honest(*asked), allowed=True))
    answer = ask("small-investor", "price")
    assert answer.key is None
    assert answer.reason == f"no policy lets `{handle('small-investor')}` read `price` of `Quote`"
    assert newest().after["reason"] == answer.reason


def test_managers_ask_and_nobody_else(plane: Plane, market: Domain) -> None:
    boss = identity.create_user(actor=None, username="boss")
    identity.set_membership(actor=None, user=boss, domain=market, role="manager")
    eve = identity.create_user(actor=None, username="eve")
    identity.set_membership(actor=None, user=eve, domain=market, role="auditor")
    with pytest.raises(Forbidden):
        ask("pension-fund", "price", actor=eve)
    client = APIClient()
    client.force_login(boss, backend="adminapp.identity.backends.ThrottledBackend")
    url = f"/api/v1/principals/{Principal.objects.get(name='pension-fund').pk}/filter-key"
    answer = client.post(url, {"type": "Quote", "attributes": ["price"]}, format="json").json()
    assert (answer["granted"], answer["reason"]) == (True, "")
    assert [each["attribute"] for each in answer["decisions"]] == [None, "price"]
    key = FilterKey(**{**answer["key"], "sealed": unb64(answer["key"]["sealed"])})
    assert read_by(plane, "pension-fund", opened(plane, "pension-fund", key), quoted(plane)) == {
        "price": 12
    }
    assert newest().actor_name == "boss"
    refused = client.post(url, {"type": "News", "attributes": ["nothing"]}, format="json").json()
    assert (refused["granted"], refused["key"]) == (False, None)
    other = plane.audiences[f"client:{handle('small-investor')}"]
    for address in (other.address, key.audience):
        with pytest.raises(DecryptionError):
            open_secret(
                "filter", key.sealed, domain="stocks", epoch=key.epoch, name="Quote",
                key=other.sealing, audience=address,
            )  # fmt: skip
