"""Hidden attributes from the administration model to subscribers: the compiler's own bundles,
opened by agents and clients that run what they run in service.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import pytest
from django.utils import timezone

from adminapp.catalog import services as catalog
from adminapp.distribution.revocation import revoke_principal
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Principal
from adminapp.policies import services as policies
from adminapp.roles import services as roles
from brokers.client.parts import make_part
from brokers.client.policy import ClientPolicy, build_policy
from brokers.client.wish import Wish, seal_wish
from brokers.data.handle import Effects, Workbench, handle_client_message, handle_hop
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from brokers.ports import Outgoing
from brokers.snapshot import build_snapshot
from policyengine.bundles import (
    decode_framed,
    delivery_queue,
    encode_framed,
    open_delivery,
    seal_publication,
)
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.audiences import Plane
from tests.unit.distribution.conftest import register_agents

TEXT = {"type": "string"}
HIDDEN = {"kind": "searchable", "sealed": True}
READING = {"ward": "north", "patient": "Alice", "pulse": 171}


class Clinic:
    """A device at alpha; readers at beta."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        register_agents(plane)
        self.domain = identity.create_domain(actor=None, name="clinic", title="Clinic")
        for name in ("device", "doctor", "alarm", "kin"):
            roles.create_role(
                actor=None, domain=self.domain, name=name, rules=[{"appointments": [name]}]
            )
        catalog.create_subject_attribute(actor=None, domain=self.domain, name="about", type=TEXT)
        self.reading = catalog.create_event_type(
            actor=None,
            domain=self.domain,
            name="Reading",
            attributes=[
                {"name": "ward", "type": TEXT},
                {"name": "patient", "type": TEXT, "protection": HIDDEN},
                {
                    "name": "pulse",
                    "type": {"type": "int", "min": 0, "max": 300},
                    "protection": HIDDEN,
                },
            ],
        )
        self.people = {
            name: self._person(name, kind, agent)
            for name, kind, agent in (
                ("device", "publisher", "alpha"),
                ("doctor", "subscriber", "beta"),
                ("alarm", "subscriber", "beta"),
                ("kin", "subscriber", "beta"),
            )
        }
        self.kept: list[Subscription] = []

    def _person(self, name: str, kind: str, agent: str) -> Principal:
        row = identity.create_principal(
            actor=None,
            domain=self.domain,
            name=name,
            kind=kind,
            attributes={"about": "Alice"},
            agents=list(Agent.objects.filter(name=agent)),
        )
        self.plane.client(row)
        roles.appoint(actor=None, principal=row, name=name)
        return row

    def permit(self, role: str, more: str = "", *, action: str = "subscribe") -> None:
        """A policy for a role."""
        policies.create_policy(
            actor=None,
            domain=self.domain,
            name=f"{role} {self.domain.policies.count()}",
            action=action,
            event_type=self.reading,
            expression=f'subject.role == "{role}"' + (f" && {more}" if more else ""),
        )

    # -- clients and agents ------------------------------------------------------------------

    def policy(self, name: str) -> ClientPolicy:
        """What is in force at a client."""
        audience = self.plane.audiences[f"client:{self.people[name].handle}"]
        return build_policy(audience.bundles["clinic"])

    def bench(self, agent: str) -> Workbench:
        """An agent between two batches."""
        audience = self.plane.audiences[f"agent:{agent}"]
        snapshot = build_snapshot(audience.bundles["clinic"], sealing_key=audience.sealing)
        return Workbench(
            snapshot=snapshot,
            subscriptions=SubscriptionIndex.build(snapshot, self.kept),
            sealing_key=audience.sealing,
            signing_key=audience.signing,
            now=timezone.now().timestamp(),
            oldest=timezone.now().timestamp() - 3600,
            seen=lambda _key: False,
            random=SYSTEM_RANDOM,
        )

    def subscribe(self, name: str, text: str = "") -> Effects:
        """Ask beta for readings."""
        row, policy = self.people[name], self.policy(name)
        sealed = seal_wish(
            Wish.of("Reading", text),
            "subscribe",
            policy.homes["a"],
            domain="clinic",
            client=row.handle,
            request=secrets.token_hex(16),
            issued=timezone.now().timestamp(),
            signing_key=self.plane.audiences[f"client:{row.handle}"].signing,
            asked=policy.blind.ask("Reading", text),
        )
        effects = handle_client_message(self.bench("beta"), encode_framed("subscribe", sealed))
        self.kept += effects.subscribed
        return effects

    def publish(self, **changes: Any) -> dict[str, dict[str, Any]]:
        """Publish a reading: who receives it, and what of it they have."""
        row, policy = self.people["device"], self.policy("device")
        values = {**READING, **changes}
        part = make_part(
            policy,
            policy.plan("Reading", values)[0],
            domain="clinic",
            publisher=row.handle,
            publication=secrets.token_hex(16),
            event_type="Reading",
            values=values,
            issued=timezone.now().timestamp(),
        )
        home = policy.homes["a"]
        sealed = seal_publication(
            part,
            signing_key=self.plane.audiences[f"client:{row.handle}"].signing,
            recipient=home.sealing_key,
            agent=home.agent,
        )
        sent = handle_client_message(self.bench("alpha"), encode_framed("publication", sealed))
        assert sent.refusal is None, sent.refusal
        (hop,) = [one for one in sent.outgoing if one.queue.startswith("pc.hop.beta")]
        effects = handle_hop(self.bench("beta"), hop.body)
        assert (effects.refusal, effects.hold) == (None, "")
        return self._opened(effects.outgoing)

    def _opened(self, outgoing: Iterable[Outgoing]) -> dict[str, dict[str, Any]]:
        sender = self.plane.audiences["agent:beta"]
        found: dict[str, dict[str, Any]] = {}
        for name, row in self.people.items():
            key = self.plane.audiences[f"client:{row.handle}"].sealing
            for message in outgoing:
                if message.queue == delivery_queue(row.handle):
                    delivery = open_delivery(
                        decode_framed(message.body)[1],
                        key=key,
                        handle=row.handle,
                        verify=lambda _name: sender.signing.public,
                    )
                    found[name] = dict(self.policy(name).blind.open(delivery).attributes)
        return found


@pytest.fixture
def clinic(plane: Plane) -> Clinic:
    """Policies by role, by a hidden value, and by a hidden value that is the reader's own."""
    made = Clinic(plane)
    made.permit("device", action="publish")
    made.permit("doctor")
    made.permit("alarm", "event.pulse > 120")
    made.permit("alarm", 'event.patient == "Zoe"')
    made.permit("kin", "subject.about == event.patient")
    plane.settle()
    plane.lease_all()
    return made


def test_readers_get_what_policies_about_hidden_values_let_them(clinic: Clinic) -> None:
    for name in ("doctor", "alarm", "kin"):
        assert clinic.subscribe(name).refusal is None
    assert clinic.publish() == dict.fromkeys(("doctor", "alarm", "kin"), READING)
    assert clinic.publish(pulse=120, patient="Bob").keys() == {"doctor"}
    assert clinic.publish(pulse=120, patient="Zoe").keys() == {"doctor", "alarm"}
    assert clinic.publish(pulse=121, patient="Bob").keys() == {"doctor", "alarm"}


def test_filters_over_hidden_values_are_matched_and_end_with_their_subscriber(
    clinic: Clinic,
) -> None:
    clinic.subscribe("doctor", 'ward == "north" && pulse > 170')
    clinic.subscribe("alarm", 'patient == "Bob"')
    assert clinic.publish() == {"doctor": READING}
    assert clinic.publish(pulse=170) == {}
    assert clinic.publish(patient="Bob").keys() == {"doctor", "alarm"}
    revoke_principal(actor=None, principal=clinic.people["doctor"], reason="left")
    clinic.plane.settle()
    assert clinic.publish(patient="Bob").keys() <= {"alarm"}


def test_a_publisher_may_be_bound_to_hidden_values(plane: Plane) -> None:
    clinic = Clinic(plane)
    clinic.permit("device", 'event.patient == "Alice"', action="publish")
    clinic.permit("doctor")
    plane.settle()
    plane.lease_all()
    clinic.subscribe("doctor")
    assert clinic.publish() == {"doctor": READING}
    with pytest.raises(AssertionError, match="not-authorised"):
        clinic.publish(patient="Bob")
