"""From real agents' decisions to a page: logged, shipped, counted, held against a receipt."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pyspark.sql import SparkSession

from adminapp.distribution import activity, evidence, services, usage
from adminapp.distribution.models import ActivityDay, DecisionSegment, Revocation
from adminapp.distribution.serving import serving_agents
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, Principal, User
from adminapp.policies.models import Policy
from brokers.adapters.decisions import DecisionFolder
from brokers.adapters.files import SubscriptionFile
from brokers.adapters.seen import SeenLog
from brokers.agent.dataplane import DataPlane
from brokers.agent.decisions import DecisionShipper
from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.agent.statistics import Statistics
from brokers.data.subscriptions import Subscription, SubscriptionIndex
from policyengine.bundles import REQUESTS_QUEUE, publish_queue
from policyengine.primitives.canonical import b64
from spark.jobs import activity as job
from tasks import activity as task
from tests.support.audiences import Plane, live_authority, plane
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.pure_agents import agent_snapshot, publication
from tests.support.site_agents import Site
from tests.unit.distribution.conftest import flights, planes

__all__ = ["flights", "live_authority", "plane", "planes"]

FLIGHT = {
    "flight": 1545, "carrier": "UA", "origin": "EWR", "dest": "IAH", "hour": 5, "delay": 2,
    "distance": 1400, "tailnum": "N14228",
}  # fmt: skip


class Clock:
    """A clock that stands in the past and is moved by the test."""

    def __init__(self, time_: float) -> None:
        self.time = time_

    def wall(self) -> float:
        return self.time

    def boot(self) -> float:
        return self.time


class RealAgent:
    """The agent's own data plane, decision log and shipper, on a broker in memory."""

    def __init__(
        self, site: Site, name: str, folder: Path, broker: MemoryBroker, clock: Clock
    ) -> None:
        self.site, self.name, self.clock = site, name, clock
        keys = site.agents[name].keys
        self.transport = MemoryTransport(broker)
        self.transport.start()
        self.seen = SeenLog(folder / "seen.sqlite", seconds=3600)
        snapshot = agent_snapshot(site, name)
        self.policy = PolicyInForce(
            agent=name,
            overlay=snapshot.overlay,
            sealing_key=keys.sealing,
            subscription_file=SubscriptionFile(folder / "subscriptions.json"),
            progress=Progress(),
        )
        self.refresh()
        self.log = DecisionFolder(folder / "decisions", full_after=5, empty_after=5)
        self.shipper = DecisionShipper(
            agent=name, folder=self.log, policy=self.policy, transport=self.transport,
            signing_key=keys.signing, clock=clock,
        )  # fmt: skip
        self.plane = DataPlane(
            agent=name,
            keys=keys,
            transport=self.transport,
            policy=self.policy,
            standing=lambda _: "serving",
            now=clock.wall,
            seen=self.seen,
            statistics=Statistics(),
            progress=Progress(),
            clock=clock,
            decisions=self.log,
        )

    def refresh(self) -> None:
        """Take the newest bundle."""
        snapshot = agent_snapshot(self.site, self.name)
        own = self.policy.own_subscriptions(snapshot.domain)
        self.policy.commit(
            snapshot.domain, InForce(snapshot, SubscriptionIndex.build(snapshot, own))
        )

    def close(self) -> None:
        self.log.close(self.clock.time)
        self.seen.close()


class Field:
    """All agents of a domain."""

    def __init__(self, plane: Plane, domain: str, folder: Path) -> None:
        self.plane, self.broker = plane, MemoryBroker()
        self.clock = Clock(time.time() - 600)
        self.site = Site(plane, domain)
        self.agents = {}
        for name in serving_agents(Domain.objects.get(name=domain)).values_list("name", flat=True):
            place = folder / name
            place.mkdir()
            self.agents[name] = RealAgent(self.site, name, place, self.broker, self.clock)
        self.published = 0
        self.event: dict[str, Any] = FLIGHT

    def subscribe(self, name: str, event_type: str) -> None:
        handle = Principal.objects.get(name=name).handle
        one = Subscription(self.site.domain, handle, f"all-{name.lower()}", event_type, "")
        for agent in self.agents.values():
            held = agent.policy.domains[self.site.domain].snapshot
            if handle in held.clients:
                agent.policy.change_subscriptions([one], [])

    def publish(self, name: str, event_type: str, **values: Any) -> None:
        handle = Principal.objects.get(name=name).handle
        self.published += 1
        event = self.event | values
        for part in (0, 1):
            try:
                body = publication(
                    self.site, handle, event_type, event, part=part,
                    identifier=f"{self.published:032x}", issued=self.clock.time,
                )  # fmt: skip
            except IndexError:
                break
            for agent in self.agents:
                self.broker.put(publish_queue(agent, self.site.domain), body)
        self.run()

    def run(self, seconds: float = 1.0) -> None:
        for _ in range(4):
            for agent in self.agents.values():
                agent.plane.step(0.0)
        self.clock.time += seconds

    def ship(self) -> list[bytes]:
        """Send what is finished, and hand it to the control plane twice."""
        self.run(6.0)
        self.run(6.0)
        for agent in self.agents.values():
            agent.shipper.step()
        bodies = self.broker.bodies(REQUESTS_QUEUE)
        for body in [*bodies, *bodies]:
            self.plane.receive(body)
        self.broker.queues[REQUESTS_QUEUE].clear()
        return bodies

    def refresh(self) -> None:
        """Have every agent take what was made for it."""
        self.plane.settle()
        for agent in self.agents.values():
            agent.refresh()

    def close(self) -> None:
        for agent in self.agents.values():
            agent.close()


def backdate(revocation: Revocation, seconds: float) -> None:
    """Put T0 at a moment of the agents' clock."""
    moment = datetime.fromtimestamp(seconds, UTC)
    Revocation.objects.filter(pk=revocation.pk).update(created=moment)
    for right in revocation.rights.select_related("domain"):
        right.until = moment + timedelta(seconds=right.domain.lease_seconds)
        right.save()
    Agent.objects.filter(registered_at__gt=moment).update(registered_at=moment)
    revocation.refresh_from_db()


def in_this_session(spark: SparkSession) -> Callable[..., int]:
    """Runs the job's own code on the tests' session, from the command that tasks would start."""

    def follow(command: list[str], alive: Callable[[], None]) -> int:
        alive()
        options = job._parser().parse_args(command[3:])
        job.run(
            job.Activity(
                options.logs, options.context, options.output, tuple(options.day),
                options.progress,
            ),
            lambda: spark,
        )  # fmt: skip
        return 0

    return follow


@pytest.fixture
def field(plane: Plane, flights: Domain, settings: Any, tmp_path: Path) -> Iterator[Field]:
    """The flights with decision logs, and agents that were told so."""
    settings.VAR_DIR = tmp_path / "var"
    identity.update_domain(actor=None, domain=flights, data={"decision_days": 30})
    flights.refresh_from_db()
    plane.settle()
    (tmp_path / "agents").mkdir()
    made = Field(plane, "flights", tmp_path / "agents")
    yield made
    made.close()


def test_what_agents_decide_reaches_the_pages(
    field: Field, flights: Domain, spark: SparkSession, tmp_path: Path
) -> None:
    field.subscribe("UA", "Departure")
    field.subscribe("AA", "Departure")
    field.run()
    for _ in range(3):
        field.publish("ewr", "Departure")
    gone = Principal.objects.get(name="UA")
    revocation = services.revoke_principal(actor=None, principal=gone, reason="left")
    backdate(revocation, field.clock.time - 60)
    # This agent lies: it was told, and delivers on. Its own log gives it away.
    field.publish("ewr", "Departure")
    bodies = field.ship()
    assert bodies
    for secret in (b"N14228", b"Departure", b"carrier", gone.handle.encode()):
        assert all(secret not in body for body in bodies)
    # Three letters stand in a ciphertext by chance, and not in each of them.
    assert not all(b"IAH" in body for body in bodies)
    logs = [path.read_bytes() for path in (tmp_path / "agents").rglob("decisions/*/*")]
    assert not any(value in text for text in logs for value in (b"N14228", b"IAH"))
    # As a number of its own: times and names may have these digits in them.
    assert not any(re.search(rb"\b1400\b", text) for text in logs)
    for agent in field.site.agents.values():
        private = (agent.keys.sealing.private, agent.keys.signing.private)
        assert not any(key in text or b64(key).encode() in text for text in logs for key in private)

    run = activity.request_run(actor=None, domain=flights)
    task.run(run.pk, beat=lambda: None, follow=in_this_session(spark))
    run.refresh_from_db()
    assert (run.state, run.error) == ("done", "")
    assert set(DecisionSegment.objects.values_list("state", flat=True)) == {"counted"}

    used = {
        policy.name: use
        for policy in Policy.objects.filter(domain=flights)
        for use in (usage.of_policy(policy),)
    }
    assert any(use.passed == 4 for use in used.values())
    assert any(use.last is None and use.since is not None for use in used.values())
    (name,) = usage.of_subscriptions(flights, gone.handle)
    assert name == "all-ua"
    found = evidence.check(revocation.__class__.objects.get(pk=revocation.pk))
    assert (found.verdict, found.within, found.after) == ("broken", 0, 4)
    assert found.decisions >= 4

    operator = User.objects.create_superuser("operator", password="a long password it is")
    browser = Client()
    browser.force_login(operator)
    policy = next(name for name, use in used.items() if use.passed == 4)
    page = browser.get(f"/d/flights/policies/p/{policy}/").content.decode()
    assert "Last used" in page
    assert 'class="days"' in page
    page = browser.get(f"/d/flights/revocations/{revocation.uid}/").content.decode()
    assert "Held against agents" in page
    # Counting again what was counted changes nothing.
    before = list(ActivityDay.objects.order_by("pk").values_list("subject", "granted", "refused"))
    DecisionSegment.objects.update(state="stored")
    again = activity.request_run(actor=None, domain=flights)
    task.run(again.pk, beat=lambda: None, follow=in_this_session(spark))
    after = list(ActivityDay.objects.order_by("pk").values_list("subject", "granted", "refused"))
    assert sorted(after) == sorted(before)
