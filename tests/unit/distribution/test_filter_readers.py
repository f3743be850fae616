"""Clients that read by filters: asked over the bus, given, renewed, refused and ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from adminapp.audit.models import Entry
from adminapp.catalog.models import EventType
from adminapp.core.errors import Forbidden
from adminapp.distribution import filterkeys, filterrequests, services
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, Principal
from adminapp.outbox.models import OutboxRow
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from adminapp.roles import services as roles
from adminapp.roles.models import Appointment
from brokers.client import NotAuthorised, NotReady, ProfileError, TimedOut
from brokers.client.filterkeys import FilterKey, FilterKeys
from brokers.client.policy import PolicyHolder, build_policy
from policyengine.blind import ClientKeys, predecrypt
from policyengine.bundles import (
    Delivery,
    FilterAnswer,
    FilterRequest,
    Request,
    messages,
    sign_filter_request,
    verify_filter_request,
)
from policyengine.errors import DecodeError, InputError
from tests.support.audiences import Audience, Plane
from tests.support.blind_reading import CONTEXT, share_of
from tests.support.overlay import Clock
from tests.unit.distribution.stocks import QUOTE, client, handle, home, market, quoted

__all__ = ["market"]

FUND = "pension-fund"
INVESTOR = "small-investor"


@dataclass
class Keys:
    """The private keys of a client in memory."""

    sealing: Any
    signing: Any


@dataclass
class Profile:
    """What a client's keys of filters ask of a profile."""

    handle: str
    domain: str
    keys: Keys


class Reader:
    """A client whose requests and answers pass over the control plane's queues.

    Args:
        plane: the control plane.
        name: the principal.
        folder: its state.
    """

    def __init__(self, plane: Plane, name: str, folder: Path) -> None:
        self.plane, self.name = plane, name
        self.audience: Audience = plane.audiences[f"client:{handle(name)}"]
        keys = Keys(self.audience.sealing, self.audience.signing)
        self.profile = Profile(handle(name), "stocks", keys)
        self.clock = Clock()
        self.policy = PolicyHolder(lambda: None, self.clock, "stocks")
        self.said: list[Request] = []
        self.take_bundle()
        self.filters = FilterKeys(self, folder / f"{name}-filters")

    def say(self, request: Request) -> None:
        self.said.append(request)

    def take_bundle(self) -> None:
        """Put what the client was sent last into force."""
        self.policy.commit("stocks", build_policy(self.audience.bundles["stocks"]))

    def move(self, seconds: float = 0.0) -> None:
        """One round of the control thread, the network and the control plane."""
        self.clock.time += seconds
        self.filters.step()
        said, self.said = self.said, []
        for request in said:
            self.plane.receive(request.encode())
        self.plane.settle()
        answers, self.audience.answers = self.audience.answers, []
        for answer in answers:
            self.filters.answered(answer)

    def ask(self, *attributes: str, kind: str = "Quote", timeout: float = 30.0) -> FilterKey:
        """What a program does, while everything else moves."""
        return self.while_moving(lambda: self.filters.ask(kind, attributes, timeout))

    def while_moving(self, work: Callable[[], FilterKey]) -> FilterKey:
        with ThreadPoolExecutor(1) as pool:
            future: Future[FilterKey] = pool.submit(work)
            while not future.done():
                self.move(1.0)
            return future.result()

    def read(self, event: Any) -> tuple[dict[str, Any], dict[str, str]]:
        """What the client has of an event whose home lets it have everything."""
        share = share_of(home(self.plane, self.name), self.profile.handle, event.place.epoch)
        assert share is not None
        sealed = predecrypt(share, event, set(QUOTE))
        assert sealed is not None
        came = Delivery(
            "stocks", CONTEXT.publication, "Quote", "p-nasdaq", 0, 1, "alpha", 1, 1, {}, {},
            sealed.to_bytes(),
        )  # fmt: skip
        policy = self.policy.current
        assert policy is not None
        opened = policy.blind.open(came)
        return dict(opened.attributes), dict(opened.withheld)

    @property
    def awaits(self) -> frozenset[int]:
        policy = self.policy.current
        assert policy is not None
        return policy.blind.lacking


@dataclass
class Site:
    """Who reads."""

    plane: Plane
    folder: Path
    readers: dict[str, Reader] = field(default_factory=dict)

    def by_filters(self, name: str) -> Reader:
        """A client that was told to read by filters, in the epoch after that."""
        filterkeys.read_by_filters(actor=None, principal=row(name), on=True)
        self.settle()
        return self.reader(name)

    def reader(self, name: str) -> Reader:
        self.readers[name] = Reader(self.plane, name, self.folder)
        return self.readers[name]

    def settle(self) -> None:
        """Let the control plane come to rest, the next epoch current everywhere."""
        for _ in range(4):
            services.advance_all()
            self.plane.settle()
            self.plane.lease_all()
        for reader in self.readers.values():
            if "stocks" in reader.audience.bundles:
                reader.take_bundle()


@pytest.fixture
def site(plane: Plane, market: Domain, tmp_path: Path) -> Site:
    plane.lease_all()
    return Site(plane, tmp_path)


def row(name: str) -> Principal:
    return Principal.objects.get(name=name)


def newest(action: str) -> Entry:
    found = Entry.objects.filter(action=action).order_by("-sequence").first()
    assert found is not None
    return found


WITHHELD = dict.fromkeys(QUOTE, "no-key")


def test_it_reads_nothing_until_it_asks_and_then_what_its_filter_reads(site: Site) -> None:
    before = client(site.plane, FUND).blind
    fund = site.by_filters(FUND)
    # What its bundle brought before opens nothing that is made from now on.
    held = client(site.plane, FUND).blind
    assert {each.epoch for each in before}.isdisjoint(each.epoch for each in held)
    assert all(ClientKeys.from_bytes(each.keys).readers == () for each in held)
    event = quoted(site.plane)
    assert fund.read(event) == ({}, WITHHELD)
    key = fund.ask("price")
    assert (key.type, key.attributes, key.reason) == ("Quote", ("price",), "")
    assert key.epochs == (event.place.epoch,)
    assert fund.read(event)[0] == {"price": 12}
    entry = newest("filter-key.given")
    assert (entry.object_name, entry.domain_name, entry.actor_name) == (FUND, "stocks", "system")
    assert entry.after == {
        "type": "Quote",
        "attributes": ["price"],
        "asked_by": "client",
        "epoch": event.place.epoch,
    }
    # A second filter, and neither is asked for twice.
    fund.ask("sym", "volume")
    assert fund.read(event)[0] == QUOTE
    count = Entry.objects.filter(action="filter-key.given").count()
    assert fund.ask("price") == key
    assert Entry.objects.filter(action="filter-key.given").count() == count == 2
    assert [each.attributes for each in fund.filters.all] == [("price",), ("sym", "volume")]


def test_it_publishes_and_searches_without_reading(site: Site) -> None:
    fund = site.by_filters(FUND)
    policy = fund.policy.current
    assert policy is not None
    assert policy.blind.ask("Quote", 'sym == "IBM"').blind
    # Everybody else reads as before.
    other = site.reader(INVESTOR)
    assert other.read(quoted(site.plane))[0] == {k: v for k, v in QUOTE.items() if k != "price"}


@pytest.mark.parametrize(
    ("name", "kind", "attributes"),
    [
        (INVESTOR, "Quote", ("price", "sym")),
        (FUND, "Quote", ("nothing",)),
        (FUND, "Nothing", ("sym",)),
    ],
)
def test_a_refusal_raises_with_the_reason_and_is_in_the_audit(
    site: Site, name: str, kind: str, attributes: tuple[str, ...]
) -> None:
    reader = site.by_filters(name)
    with pytest.raises(NotAuthorised) as refused:
        reader.ask(*attributes, kind=kind)
    told = filterkeys.filter_key(
        actor=None, principal=row(name), event_type=kind, attributes=attributes
    )
    assert refused.value.reason == "not-authorised"
    assert refused.value.message == told.reason
    assert told.reason.startswith(f"{name} may not ")
    entries = Entry.objects.filter(action="filter-key.refused").order_by("-sequence")
    by_client = entries[1]
    assert by_client.after["asked_by"] == "client"
    assert by_client.after["reason"] == told.reason
    assert reader.filters.all == ()
    assert reader.read(quoted(site.plane)) == ({}, WITHHELD)


def test_what_no_filter_has_is_not_sent(site: Site) -> None:
    reader = site.by_filters(FUND)
    for attributes in ((), tuple(f"a{number}" for number in range(257))):
        with pytest.raises(InputError, match="between one attribute and 256"):
            reader.filters.ask("Quote", attributes, 1.0)
    with pytest.raises(TimedOut):
        reader.filters.ask("Quote", ["price"], 0.0)
    assert reader.filters.all == ()


def test_keys_follow_into_the_next_epoch_before_events_come(site: Site) -> None:
    fund = site.by_filters(FUND)
    fund.ask("price")
    (first,) = fund.filters.all[0].epochs
    stocks = Domain.objects.get(name="stocks")
    services.rotate_blind_keys(actor=None, domain=stocks, reason="a drill")
    site.settle()
    late = quoted(site.plane)
    assert late.place.epoch > first
    # Its events are waited with, not read half, while the key is on its way.
    assert fund.awaits == {late.place.epoch}
    assert fund.read(late) == ({}, WITHHELD)
    fund.move(20)
    assert fund.awaits == frozenset()
    assert fund.read(late)[0] == {"price": 12}
    assert fund.filters.all[0].epochs == (late.place.epoch,)


def test_a_lost_right_ends_its_key_with_the_epoch(site: Site) -> None:
    fund = site.by_filters(FUND)
    fund.ask("price")
    kept = quoted(site.plane)
    assert fund.read(kept)[0] == {"price": 12}
    held = dict(fund.filters._filters["Quote", ("price",)].keys)
    lost = Appointment.objects.get(principal=row(FUND), name="premium_contract")
    roles.end_appointment(actor=None, appointment=lost)
    site.settle()
    fund.move(20)
    (refused,) = fund.filters.all
    assert refused.epochs == ()
    assert "premium" in refused.reason
    after = quoted(site.plane)
    assert after.place.epoch not in held
    assert fund.read(after) == ({}, WITHHELD)
    with pytest.raises(NotAuthorised, match="premium"):
        fund.ask("price")
    # Once it has the right again, the next bundle brings it to ask by itself.
    roles.appoint(actor=None, principal=row(FUND), name="premium_contract")
    site.settle()
    fund.move(400)
    assert fund.read(quoted(site.plane))[0] == {"price": 12}


def test_another_way_to_read_is_asked_for_by_itself(site: Site) -> None:
    """The client's tokens stay as they are, and a policy asks for others of them."""
    policies.create_policy(
        actor=None,
        domain=Domain.objects.get(name="stocks"),
        name="volumes for premium customers",
        action="subscribe",
        event_type=EventType.objects.get(name="Quote"),
        expression='subject.role == "premium"',
        attributes=["volume"],
    )
    fund = site.by_filters(FUND)
    fund.ask("price")
    (old,) = fund.filters.all
    policies.update_policy(
        actor=None,
        policy=Policy.objects.get(name="prices for premium customers"),
        data={"expression": 'subject.role == "customer"'},
    )
    site.settle()
    event = quoted(site.plane)
    assert fund.read(event)[1]["price"] == "no-key"
    fund.move(20)
    assert fund.read(event)[0]["price"] == 12
    (new,) = fund.filters.all
    assert (new.attributes, new.reason) == (old.attributes, "")


def test_a_revoked_client_is_not_answered(site: Site) -> None:
    fund = site.by_filters(FUND)
    fund.ask("price")
    services.revoke_principal(actor=None, principal=row(FUND), reason="unpaid")
    site.plane.settle()
    with pytest.raises(TimedOut):
        fund.ask("sym", timeout=1.0)
    assert not OutboxRow.objects.filter(topic="filter-key", state="pending").exists()


def test_keys_survive_a_restart_under_the_clients_own_key(site: Site) -> None:
    fund = site.by_filters(FUND)
    fund.ask("price")
    event = quoted(site.plane)
    path = site.folder / f"{FUND}-filters"
    data = path.read_bytes()
    (held,) = fund.filters._filters["Quote", ("price",)].keys.values()
    for told in (b"price", b"Quote", held[:64]):
        assert told not in data
    assert path.stat().st_mode & 0o077 == 0
    again = site.reader(FUND)
    assert again.read(event)[0] == {"price": 12}
    # Policies may have changed meanwhile: it asks once, and goes on with the answer.
    again.move(1)
    again.move(20)
    assert Entry.objects.filter(action="filter-key.given").count() == 2
    assert again.read(event)[0] == {"price": 12}
    again.filters.forget("Quote", ["price"])
    again.move(1)
    assert again.read(event) == ({}, WITHHELD)
    assert site.reader(FUND).filters.all == ()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ProfileError):
        site.reader(FUND)


def test_who_is_not_answered_asks_ever_more_rarely(site: Site) -> None:
    fund = site.by_filters(FUND)
    fund.ask("price")
    again = site.reader(FUND)
    moments = []
    for moment in range(1200):
        again.clock.time += 1
        again.filters.step()
        moments += [moment] * len(again.said)
        again.said.clear()
    pauses = [later - earlier for earlier, later in pairwise(moments)]
    assert moments[0] == 0
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (10, 300)
    # What it held it holds.
    assert again.read(quoted(site.plane))[0] == {"price": 12}


def test_what_is_being_made_is_asked_for_again(site: Site) -> None:
    fund = site.by_filters(FUND)
    lost = Appointment.objects.get(principal=row(FUND), name="premium_contract")
    roles.end_appointment(actor=None, appointment=lost)
    # The newest rights are not compiled yet: nothing is given by older ones.
    told = filterkeys.client_filter_keys(principal=row(FUND), event_type="Quote", names=["sym"])
    assert (told.granted, told.again) == (False, True)
    answered = fund.filters
    policy = fund.policy.current
    assert policy is not None
    with pytest.raises(NotReady, match="being made"):
        _asked_and_told(fund, told.reason)
    assert answered.all == ()


def _asked_and_told(fund: Reader, reason: str) -> None:
    """Ask; the control plane says each time that it is too early."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(fund.filters.ask, "Quote", ["sym"], 2.0)
        while not future.done():
            fund.clock.time += 1
            fund.filters.step()
            said, fund.said = fund.said, []
            for request in said:
                asked = messages_of(request, fund)
                fund.filters.answered(
                    FilterAnswer(**{**vars(asked), "at": 1, "reason": reason, "again": True})
                )
        future.result()


def messages_of(request: Request, fund: Reader) -> FilterRequest:
    return verify_filter_request(request, fund.audience.signing.public)


def _request(sender: Audience, number: int = 1, **changes: Any) -> bytes:
    made = {
        "audience": sender.address,
        "domain": "stocks",
        "request": f"{number:032x}",
        "type": "Quote",
        "attributes": ("price",),
        "at": 1,
    }
    return sign_filter_request(FilterRequest(**{**made, **changes}), sender.signing).encode()


def waiting() -> int:
    return OutboxRow.objects.filter(topic="filter-key", state="pending").count()


def test_only_living_clients_are_heard_and_each_request_once(site: Site) -> None:
    plane = site.plane
    fund, other = (plane.audiences[f"client:{handle(name)}"] for name in (FUND, INVESTOR))
    agent = plane.audiences["agent:alpha"]
    plane.receive(_request(agent))
    plane.receive(_request(fund, domain="flights"))
    forged = messages.decode_request(_request(other, audience=fund.address))
    plane.receive(
        messages.encode_request("filter-key", fund.address, forged.body, forged.signature)
    )
    plane.receive(
        messages.encode_request("filter-key", other.address, forged.body, forged.signature)
    )
    assert waiting() == 0
    for _ in range(2):
        plane.receive(_request(fund))
    assert waiting() == 1
    for number in range(2, 100):
        plane.receive(_request(fund, number))
    assert waiting() == filterrequests.MOST_WAITING
    plane.receive(_request(other))
    assert waiting() == filterrequests.MOST_WAITING + 1


def test_a_key_of_somebody_else_is_refused(site: Site) -> None:
    fund, other = site.by_filters(FUND), site.by_filters(INVESTOR)
    other.ask("sym")
    stolen = dict(other.filters._filters["Quote", ("sym",)].keys)
    policy = fund.policy.current
    assert policy is not None
    with pytest.raises(DecodeError, match="in the place of another"):
        policy.blind.with_filters({number: (key,) for number, key in stolen.items()}, ())


def test_managers_say_who_reads_by_filters(site: Site, market: Domain) -> None:
    boss = identity.create_user(actor=None, username="boss")
    identity.set_membership(actor=None, user=boss, domain=market, role="manager")
    eve = identity.create_user(actor=None, username="eve")
    identity.set_membership(actor=None, user=eve, domain=market, role="auditor")
    with pytest.raises(Forbidden):
        filterkeys.read_by_filters(actor=eve, principal=row(FUND), on=True)
    api = APIClient()
    api.force_login(boss, backend="adminapp.identity.backends.ThrottledBackend")
    url = f"/api/v1/principals/{row(FUND).pk}/reading"
    page = Client()
    page.force_login(boss, backend="adminapp.identity.backends.ThrottledBackend")
    shown = reverse("console:principal", args=["stocks", FUND])
    assert api.get(url).json() == {"by_filters": False}
    for on in (True, True, False):
        assert api.post(url, {"by_filters": on}, format="json").json() == {"by_filters": on}
        assert (b"Reads by filters" in page.get(shown).content) is on
    entries = Entry.objects.filter(action="reading.changed").order_by("sequence")
    assert [(one.object_name, one.after["by_filters"]) for one in entries] == [
        (FUND, True),
        (FUND, False),
    ]
    site.settle()
    assert site.reader(FUND).read(quoted(site.plane))[0] == QUOTE


def test_an_unasked_answer_changes_nothing(site: Site) -> None:
    fund = site.by_filters(FUND)
    fund.plane.receive(_request(fund.audience))
    fund.plane.settle()
    (answer,) = fund.audience.answers
    assert answer.granted
    fund.filters.answered(answer)
    assert fund.filters.all == ()
    assert fund.read(quoted(site.plane)) == ({}, WITHHELD)
