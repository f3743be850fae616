"""What agents of two domains do with an event once the domains have agreed, end to end in memory.

The bundles are the compiler's own, opened by the agents that they were sealed for, and the messages
are handled by the code that agents run.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import pytest
from django.db.models import QuerySet
from django.utils import timezone

from adminapp.agreements import services as agreements
from adminapp.agreements.models import Agreement
from adminapp.catalog import services as catalog
from adminapp.distribution.gather import gather
from adminapp.distribution.models import Notice, Recipient
from adminapp.distribution.revocation import revoke_principal
from adminapp.distribution.serving import domains_of_agent, serving_agents
from adminapp.distribution.upkeep import apply_boundaries
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal
from adminapp.policies import services as policies
from adminapp.roles import services as roles
from brokers.client.policy import build_policy
from brokers.data.handle import Effects, Workbench, handle_client_message, handle_hop
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.ports import Outgoing
from brokers.snapshot import build_snapshot
from policyengine.bundles import (
    HomeAgent,
    PublicationPart,
    decode_framed,
    delivery_queue,
    encode_framed,
    open_delivery,
    seal_publication,
)
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.audiences import Audience, Plane
from tests.unit.distribution.conftest import register_agents

TEXT = {"type": "string"}
TERMS: dict[str, Any] = {
    "roles": [{"role": "fireman", "as": "officer"}],
    "opens": [{"type": "Incident", "action": "subscribe", "attributes": ["place", "level"]}],
    "subject_attributes": ["station"],
    "starts": "2020-01-01T00:00:00Z",
    "ends": "2099-01-01T00:00:00Z",
}
# Policies that a careless or hostile manager of the provider could write.
ADVERSARIAL = {
    "anybody": "true",
    "unranked": "!has(subject.rank)",
    "not a guard": '!(subject.role == "guard")',
    "own station": "subject.station == event.place",
}


class Town:
    """Police (at alpha) and fire brigade (at beta) on one overlay."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        register_agents(plane)
        self.police = self._domain("police", "officer")
        self.fire = self._domain("fire", "fireman")
        roles.create_role(actor=None, domain=self.police, name="guard")
        self.incident = catalog.create_event_type(
            actor=None,
            domain=self.police,
            name="Incident",
            attributes=[{"name": name, "type": TEXT} for name in ("place", "level", "victim")],
        )
        catalog.create_subject_attribute(
            actor=None, domain=self.police, name="rank", type={"type": "int", "min": 0, "max": 9}
        )
        self.dispatch = self._person(self.police, "dispatch", "publisher", "alpha")
        self.officer = self._person(self.police, "officer", "subscriber", "alpha", "officer")
        self.chief = self._person(self.fire, "chief", "subscriber", "beta", "fireman")
        self.cook = self._person(self.fire, "cook", "subscriber", "beta")
        self._policy("dispatch", "publish", 'subject.station == "HQ"')

    def _domain(self, name: str, role: str) -> Domain:
        domain = identity.create_domain(actor=None, name=name, title=name.title())
        roles.create_role(actor=None, domain=domain, name=role, rules=[{"appointments": [role]}])
        catalog.create_subject_attribute(actor=None, domain=domain, name="station", type=TEXT)
        return domain

    def _person(
        self, domain: Domain, name: str, kind: str, agent: str, role: str = ""
    ) -> Principal:
        row = identity.create_principal(
            actor=None,
            domain=domain,
            name=name,
            kind=kind,
            attributes={"station": "HQ" if name == "dispatch" else "N"},
            agents=_agents(agent),
        )
        self.plane.client(row)
        if role:
            roles.appoint(actor=None, principal=row, name=role)
        return row

    def _policy(self, name: str, action: str, expression: str, **more: Any) -> None:
        policies.create_policy(
            actor=None,
            domain=self.police,
            name=name,
            action=action,
            event_type=self.incident,
            expression=expression,
            **more,
        )

    def permit(self, name: str, expression: str, **more: Any) -> None:
        self._policy(name, "subscribe", expression, **more)

    def agree(self, **changes: Any) -> Agreement:
        row = agreements.propose_agreement(
            actor=None,
            provider=self.police,
            consumer=self.fire,
            name="fires",
            terms={**TERMS, **changes},
        )
        last = row.rounds.get()
        for side in ("provider", "consumer"):
            row = agreements.accept_agreement(
                actor=None, agreement=row, number=1, digest=last.digest, side=side
            )
        return row

    # -- an event ------------------------------------------------------------------------

    def received(self, **values: str) -> dict[str, dict[str, Any]]:
        """Who receives an event that dispatch publishes, and which attributes of it."""
        self.plane.settle()
        at_alpha = handle_client_message(self._bench("alpha"), self._publication(values))
        assert at_alpha.refusal is None, at_alpha.refusal
        found = self._opened("alpha", at_alpha.outgoing)
        for message in at_alpha.outgoing:
            if message.queue.startswith("pc.hop.beta"):
                hop: Effects = handle_hop(self._bench("beta"), message.body)
                assert hop.refusal is None
                assert not hop.hold
                found |= self._opened("beta", hop.outgoing)
        return found

    def _bench(self, agent: str) -> Workbench:
        audience = self.plane.audiences[f"agent:{agent}"]
        snapshot = build_snapshot(audience.bundles["police"], sealing_key=audience.sealing)
        # Everybody asks, whether it may or not: subscribing alone must give nothing.
        people = (self.officer, self.chief, self.cook)
        wanted = [
            Subscription("police", row.handle, f"s{row.pk}", "Incident", "") for row in people
        ]
        return Workbench(
            snapshot=snapshot,
            subscriptions=SubscriptionIndex.build(snapshot, wanted),
            sealing_key=audience.sealing,
            signing_key=audience.signing,
            now=timezone.now().timestamp(),
            oldest=timezone.now().timestamp() - 3600,
            seen=lambda _key: False,
            random=SYSTEM_RANDOM,
        )

    def _publication(self, values: dict[str, str], home: HomeAgent | None = None) -> bytes:
        client = self.plane.audiences[f"client:{self.dispatch.handle}"]
        policy = build_policy(client.bundles["police"])
        epoch, tags = policy.tags("a", values)
        home = home or policy.homes["a"]
        part = PublicationPart(
            domain="police",
            publication=secrets.token_hex(16),
            type="Incident",
            publisher=self.dispatch.handle,
            part=0,
            parts=1,
            overlay="a",
            epoch=epoch,
            policy=policy.digest,
            issued=int(timezone.now().timestamp()),
            tags=tags,
            attributes=values,
        )
        sealed = seal_publication(
            part, signing_key=client.signing, recipient=home.sealing_key, agent=home.agent
        )
        return encode_framed("publication", sealed)

    def _opened(self, agent: str, outgoing: Iterable[Outgoing]) -> dict[str, dict[str, Any]]:
        sender: Audience = self.plane.audiences[f"agent:{agent}"]
        found: dict[str, dict[str, Any]] = {}
        for row in (self.officer, self.chief, self.cook):
            client = self.plane.audiences[f"client:{row.handle}"]
            for message in outgoing:
                if message.queue != delivery_queue(row.handle):
                    continue
                _kind, payload = decode_framed(message.body)
                delivery = open_delivery(
                    payload,
                    key=client.sealing,
                    handle=row.handle,
                    verify=lambda _name: sender.signing.public,
                )
                found[row.name] = dict(delivery.attributes)
        return found


def _agents(*names: str) -> QuerySet[Agent]:
    return Agent.objects.filter(name__in=names)


@pytest.fixture
def town(plane: Plane) -> Town:
    return Town(plane)


EVENT = {"place": "N", "level": "high", "victim": "Smith"}
OPENED = {"place": "N", "level": "high"}


def agents_of(domain: Domain) -> list[str]:
    return [agent.name for agent in serving_agents(domain)]


def test_a_guest_receives_exactly_what_was_opened_and_nothing_afterwards(town: Town) -> None:
    town.permit("officers", 'subject.role == "officer"')
    assert town.received(**EVENT) == {"officer": EVENT}
    before = gather(town.police)
    assert agents_of(town.police) == ["alpha"]
    row = town.agree()
    assert agents_of(town.police) == ["alpha", "beta"]
    assert town.received(**EVENT) == {"officer": EVENT, "chief": OPENED}
    agreements.withdraw_agreement(actor=None, agreement=row, side="consumer")
    assert town.received(**EVENT) == {"officer": EVENT}
    assert agents_of(town.police) == ["alpha"]
    assert "police" not in [each.name for each in domains_of_agent(_agents("beta").get())]
    after = gather(Domain.objects.get(pk=town.police.pk))
    assert (after.policies, after.subjects, after.agents) == (
        before.policies,
        before.subjects,
        before.agents,
    )


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_no_policy_of_the_provider_reaches_past_the_agreement(town: Town, name: str) -> None:
    town.permit(name, ADVERSARIAL[name])
    own = town.received(**EVENT)
    assert own == {"officer": EVENT}
    town.agree(opens=[{"type": "Incident", "action": "publish", "attributes": None}])
    assert town.received(**EVENT) == own  # what is opened for publishing is no subscription
    agreements.withdraw_agreement(actor=None, agreement=Agreement.objects.get(), side="provider")
    town.agree(opens=[{"type": "Incident", "action": "subscribe", "attributes": ["level"]}])
    # The cook has no role that the agreement names, so nothing lets it in.
    assert town.received(**EVENT) == {**own, "chief": {"level": "high"}}


def test_attributes_that_are_not_passed_on_are_unknown(town: Town) -> None:
    town.permit("own station", "subject.station == event.place")
    town.agree(subject_attributes=[])
    assert town.received(**EVENT) == {"officer": EVENT}


def test_a_guest_that_loses_its_role_or_is_revoked_receives_nothing(town: Town) -> None:
    town.permit("officers", 'subject.role == "officer"')
    town.agree()
    assert set(town.received(**EVENT)) == {"officer", "chief"}
    roles.end_appointment(actor=None, appointment=town.chief.appointments.get())
    assert set(town.received(**EVENT)) == {"officer"}
    roles.appoint(actor=None, principal=town.chief, name="fireman")
    assert set(town.received(**EVENT)) == {"officer", "chief"}
    revoke_principal(actor=None, principal=town.chief, reason="left")
    told = Notice.objects.values_list("audience", "domain__name")
    assert set(told) == {("agent:beta", "fire"), ("agent:beta", "police")}
    assert set(town.received(**EVENT)) == {"officer"}


def test_agents_must_hold_a_withdrawal_before_they_get_a_lease(town: Town) -> None:
    town.permit("officers", 'subject.role == "officer"')
    row = town.agree()
    town.plane.settle()
    agreements.withdraw_agreement(actor=None, agreement=row, side="consumer")
    town.police.refresh_from_db()
    floors = Recipient.objects.filter(domain=town.police, audience="agent:alpha")
    assert floors.get().minimum_revision == town.police.revision
    assert not Recipient.objects.filter(
        audience__startswith="client:", minimum_revision__gt=0
    ).exists()


def test_guests_hold_the_types_that_were_opened_and_no_key(town: Town) -> None:
    """Their own domain's bundle stays beside it: a client takes part in several."""
    town.permit("officers", 'subject.role == "officer"')
    catalog.create_event_type(actor=None, domain=town.police, name="Payroll")
    town.agree()
    town.plane.settle()
    chief, cook = (town.plane.audiences[f"client:{who.handle}"] for who in (town.chief, town.cook))
    assert set(chief.bundles) == {"fire", "police"}
    assert set(cook.bundles) == {"fire"}  # no role of the agreement's
    policy = build_policy(chief.bundles["police"])
    assert policy.types.names == ("Incident",)
    assert set(policy.homes) == {"a"}
    assert (policy.tag_keys, policy.predicates, policy.publishes) == ({}, (), ())
    assert not chief.refusals


def test_guests_publish_what_was_opened_for_publishing(town: Town) -> None:
    town._policy("anybody", "publish", "true")
    town.agree(opens=[{"type": "Incident", "action": "publish", "attributes": None}])
    town.plane.settle()
    chief = town.plane.audiences[f"client:{town.chief.handle}"]
    policy = build_policy(chief.bundles["police"])
    assert policy.publishes == ("Incident",)
    assert policy.can_tag


def test_an_agreement_that_lapses_is_compiled_away(town: Town) -> None:
    town.permit("officers", 'subject.role == "officer"')
    row = town.agree()
    assert set(town.received(**EVENT)) == {"officer", "chief"}
    last = row.rounds.get()
    type(last).objects.filter(pk=last.pk).update(ends=timezone.now())
    assert apply_boundaries() == 1
    assert set(town.received(**EVENT)) == {"officer"}


def test_a_guest_is_told_of_places_that_are_kept_where_the_agreement_names_them(
    town: Town,
) -> None:
    town.permit(
        "officers",
        'subject.role == "officer"',
        rules=[
            {"attribute": "level", "when": 'event.place == "N"', "otherwise": "suppress"},
            {"attribute": "victim", "when": 'event.place == "N"', "otherwise": "suppress"},
        ],
    )
    row = town.agree()
    of_guests = [each for each in gather(town.police).policies if each.agreement == row.pk]
    assert {each.suppresses for each in of_guests} == {("level",), ()}
    for each in of_guests:
        assert not set(each.suppresses) & set(each.attributes or ())
        assert "victim" not in (each.attributes or ())


def test_a_guests_event_is_lowered_to_what_the_guest_may_publish(town: Town) -> None:
    fire = catalog.create_event_type(
        actor=None,
        domain=town.police,
        name="Fire",
        parent=town.incident,
        attributes=[{"name": "cause", "type": TEXT}],
    )
    policies.create_policy(
        actor=None,
        domain=town.police,
        name="officers report",
        action="publish",
        event_type=fire,
        expression='subject.role == "officer"',
        rules=[{"attribute": "cause", "when": 'event.level == "low"', "otherwise": "super-type"}],
    )
    row = town.agree(
        opens=[{"type": "Fire", "action": "publish", "attributes": ["cause", "level"]}]
    )
    (lowering,) = [
        each
        for each in gather(town.police).policies
        if each.agreement == row.pk and each.lowers is not None
    ]
    assert (lowering.type, lowering.lowers, lowering.attributes) == ("Fire", ("cause",), ("level",))
    # Nothing of the agreement lets the guest publish an incident: the event stays a fire.
    assert not [
        each
        for each in gather(town.police).policies
        if each.agreement == row.pk and each.type == "Incident" and each.action == "publish"
    ]
