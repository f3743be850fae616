"""The control plane's real code, and agents' and clients' own, on one virtual clock.

Control plane, agents and clients are nodes of `brokers.simulation`: lines and brokers in memory,
which can be cut and fall, disks that outlive them. The control plane does what its processes do:
it answers requests, works off the outbox and carries out the schedule, on a real database, with a
real authority. What happens is written down by those who see it, for `tests.support.histories`.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from adminapp.changes.loading import load as load_files
from adminapp.distribution import services
from adminapp.distribution.models import Revocation
from adminapp.identity.models import Domain, Principal
from brokers.ports import Message, Outgoing, TransportError
from brokers.simulation.agent import SimulatedAgent
from brokers.simulation.chance import Chance
from brokers.simulation.client import Publication, SimulatedClient
from brokers.simulation.history import History as Notes
from brokers.simulation.network import Line, MemoryBroker, Weather
from brokers.simulation.node import Node, Surroundings
from brokers.simulation.plan import AgentSite, ClientSite
from brokers.simulation.timeline import START, Timeline
from policyengine.bundles import REQUESTS_QUEUE, decode_request, messages
from policyengine.bundles.receipts import verify_receipt
from tasks import jobs
from tasks.management.commands.serve_agents import answer
from tests.support.audiences import Plane, resume_journal, state_of
from tests.support.fault_domain import ALARM, DOMAIN, LEASE_SECONDS, TYPE, Cast
from tests.support.histories import History, judge
from tests.unit.distribution.conftest import AGENTS, register_agents, register_clients

CONTROL = "control"
LATE = 1.0
"""Seconds from an agent's decision to the line in the history."""
CAST = Cast(
    meters=2, tenants=4, guards=2, late=0,
    homes=({"a": "alpha", "b": "gamma"}, {"a": "beta", "b": "gamma"}), alarms="b",
)  # fmt: skip
"""Whoever has an even number is at home at alpha, the others at beta; all of them at gamma too."""
_SCHEDULE: Mapping[Callable[[], Any], int] = {
    jobs.due.run: 1, jobs.sweep.run: 10, jobs.boundaries.run: 15, jobs.reconcile.run: 30,
}  # fmt: skip
_BATCH = 50


class LinedPlane(Plane):
    """A control plane whose messages go over a line."""

    line: Line

    def send(self, queue: str, body: bytes, **_: Any) -> None:
        """Hand one message over."""
        self.line.send_many([Outgoing(queue, body)])

    def send_many(self, messages: Iterable[Outgoing], **_: Any) -> None:
        """The same for many."""
        self.line.send_many(messages)


class ControlPlane(Node):
    """All of the control plane's processes as one node.

    Args:
        plane: does the work of the outbox.
        around: see `Surroundings`.
        heard: is given each request, as it was signed.
    """

    def __init__(
        self, plane: LinedPlane, around: Surroundings, heard: Callable[[bytes], None]
    ) -> None:
        super().__init__("control-plane", around, tick=1.0)
        self._plane, self._heard = plane, heard

    def boot(self) -> None:
        """Begin with the database as it is."""
        self._line = self._plane.line = self.connect(CONTROL)
        self._line.subscribe(REQUESTS_QUEUE, prefetch=_BATCH)
        self._line.start()
        self._due = dict.fromkeys(_SCHEDULE, self.around.timeline.now)
        self._recalled = False

    def work(self) -> None:
        """Answer, as `serve_agents` does; then the schedule; then the outbox."""
        if not self._recalled:
            services.recall()
            self._recalled = True
        taken = self._line.receive_many(_BATCH, 0.0)
        with suppress(TransportError):
            self._answer(taken)
        for job, seconds in _SCHEDULE.items():
            if self._due[job] <= self.around.timeline.now:
                self._due[job] = self.around.timeline.now + seconds
                job()
        self._plane.work()

    def _answer(self, taken: Sequence[Message]) -> None:
        for message in taken:
            self._heard(message.body)
        answer(self._line, list(taken), wall=self.clock.wall)


class _Witness(Notes):
    """Tells the history what clients saw, by the names of the principals."""

    def __init__(self, timeline: Timeline, site: Played) -> None:
        super().__init__(timeline)
        self._site = site

    def note(self, who: str, what: str, **details: Any) -> None:
        super().note(who, what, **details)
        told, event = self._site.history, details.get("publication", "")
        if what == "accepted":
            told.note("accepted", event=event)
        elif what == "refused":
            told.note("refused", event=event, reason=details["reason"])
        elif what == "receives":
            name, kind = self._site.names[who], details["type"]
            told.note(
                "delivered", who=name, event=event, values=details["attributes"],
                by=self._site.home(name, kind),
            )  # fmt: skip


class Played:
    """A plant at work: meters publish, tenants and guards have subscribed.

    Args:
        folder: for files.
        authority: the socket of the authority.
    """

    def __init__(self, folder: Path, authority: Path) -> None:
        self.timeline = Timeline()
        # Every play begins at the same part of a second: what is told to the second is told alike.
        self.timeline.now = int(time.time()) + 0.25 - START
        self.history = History(clock=lambda: self.timeline.now)
        self.brokers = {
            name: MemoryBroker(name, self.timeline) for name in (CONTROL, *set(AGENTS.values()))
        }
        self._folder, self._authority = folder, authority
        self._published = 0
        self._ended: set[str] = set()

    def bring_up(self) -> None:
        """Load the domain, start everybody and have everybody subscribe."""
        self.plane = plane = LinedPlane()
        register_agents(plane)
        load_files([CAST.write(self._folder / "plant.yaml")])
        register_clients(plane, DOMAIN)
        self.names = dict(Principal.objects.values_list("handle", "name"))
        organisation: Any = SimpleNamespace(
            domain=DOMAIN,
            keys=plane.audiences,
            authority=SimpleNamespace(anchors=lambda: plane.anchors),
        )
        chance = Chance("named scenarios")
        around = Surroundings(
            self.timeline, _Witness(self.timeline, self), self.brokers, Weather(), chance
        )
        self.control = ControlPlane(plane, around, self._heard)
        self.agents = {
            name: SimulatedAgent(AgentSite(name, overlay), organisation, around)
            for name, overlay in AGENTS.items()
        }
        self.clients = {
            name: SimulatedClient(
                ClientSite(handle, {}, {}), organisation, around, lease_interval=10.0
            )
            for handle, name in self.names.items()
        }
        self.restart()
        self.wait(self.serving, "agents to serve")
        for name in CAST.subscribers:
            self.clients[name].subscribe(TYPE)
        self.wait(self.settled, "subscriptions")
        for name in CAST.subscribers:
            self.history.note("subscribed", who=name, type=TYPE, below=[ALARM])

    # who is there

    @property
    def nodes(self) -> dict[str, Node]:
        """Everybody by name."""
        return {"control-plane": self.control, **self.agents, **self.clients}

    @property
    def domain(self) -> Domain:
        """The domain as it is in the database."""
        return Domain.objects.get(name=DOMAIN)

    def home(self, name: str, kind: str) -> str:
        """The agent that gives a principal events of a type."""
        homes = CAST.homes[int(name.rpartition("-")[2]) % len(CAST.homes)]
        return homes[CAST.alarms if kind == ALARM else "a"]

    # what happens

    def publish(self, meter: str, zone: int = 0, kind: str = TYPE) -> str:
        """A meter publishes a reading of a tenant's zone; returns the event."""
        self._published += 1
        values = {
            "id": f"{meter}/{self._published}", "zone": f"zone-{zone}", "value": self._published
        }  # fmt: skip
        made: Publication = self.clients[meter].publish(kind, values)
        self.history.note("published", who=meter, event=made.identifier, type=kind, values=values)
        return made.identifier

    def flow(self, seconds: float, meters: Iterable[str] = ("meter-0", "meter-1")) -> list[str]:
        """Let time pass while meters publish, an event each half second; returns the events."""
        found, publishing = [], tuple(meters)
        for turn in range(int(2 * seconds)):
            meter = publishing[turn % len(publishing)]
            found.append(self.publish(meter, turn % CAST.tenants, ALARM if turn % 4 == 3 else TYPE))
            self.run(0.5)
        return found

    def revoke(self, name: str) -> Revocation:
        """A person revokes a principal: this moment is T0."""
        principal = Principal.objects.get(name=name)
        row = services.revoke_principal(actor=None, principal=principal, reason="moved away")
        self.history.note("revoked", who=name)
        self._ended.add(name)
        self.control.wake()
        return row

    def stop(self, *names: str) -> None:
        """These processes die, or all where none is named."""
        for name in names or self.nodes:
            self.nodes[name].crash()

    def restart(self, *names: str) -> None:
        """These processes start, or all where none is named."""
        for name in names or self.nodes:
            if name in self.agents:
                self.history.note("started", who=name)
            self.nodes[name].start()

    def break_broker(self, name: str) -> None:
        """A broker dies."""
        broker = self.brokers[name]
        lines = [line for node in self.nodes.values() for line in node.lines]
        broker.crash([line for line in lines if line.broker is broker])

    def restart_authority(self) -> None:
        """The authority dies and begins again with what its disk holds."""
        copy = self._folder / f"authority-{self.timeline.now}"
        shutil.copytree(state_of(self._authority), copy)
        resume_journal(self._authority, copy, self._folder / f"{copy.name}-again")

    # letting time pass

    def run(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self.timeline.run(self.timeline.now + seconds)

    def wait(self, true: Callable[[], bool], what: str, seconds: float = 120.0) -> float:
        """Let time pass until something is true, looked at twice a second; how long it took."""
        begun = self.timeline.now
        while not true():
            assert self.timeline.now < begun + seconds, f"waited {seconds} s in vain for {what}"
            self.run(0.5)
        return self.timeline.now - begun

    def until(self, true: Callable[[], bool], what: str, seconds: float = 10.0) -> None:
        """The same to the moment; looked at after everything that happens."""
        assert self.timeline.run(self.timeline.now + seconds, true), f"in vain for {what}"

    def finish(self, *rows: Revocation, seconds: float = 120.0) -> list[dict[str, Any]]:
        """Wait until revocations are complete; their receipts, verified."""

        def complete() -> bool:
            for row in rows:
                row.refresh_from_db()
            return all(row.state == Revocation.State.COMPLETE for row in rows)

        self.wait(complete, "revocations to be complete", seconds)
        return [verify_receipt(row.receipt, self.plane.anchors.receipt) for row in rows]

    def serving(self) -> bool:
        """Whether every agent serves the newest revision."""
        newest = self.domain.revision
        return all(
            agent.link.standing(DOMAIN) == "serving" and self.held(name) == newest
            for name, agent in self.agents.items()
        )

    def held(self, agent: str) -> int:
        """The revision that an agent has in force."""
        found = self.agents[agent].policy.domains.get(DOMAIN)
        return 0 if found is None else found.snapshot.revision

    def settled(self) -> bool:
        """Whether every client has its answers, and nothing waits; the revoked get none."""
        there = [client for name, client in self.clients.items() if name not in self._ended]
        return all(client.settled for client in there) and all(
            broker.up and broker.idle for name, broker in self.brokers.items() if name != CONTROL
        )

    # what came of it

    def received(self, name: str) -> set[str]:
        """The events that a principal ever got."""
        return set(self.clients[name].handled.events)

    def when(self, name: str) -> list[float]:
        """When a principal got its events."""
        lines = self.history.lines
        return [
            each["at"] for each in lines if (each["what"], each.get("who")) == ("delivered", name)
        ]

    def state_of(self, event: str) -> str:
        """What its publisher was told of an event: `accepted`, `refused` or nothing yet."""
        told = [each["what"] for each in self.history.lines if each.get("event") == event]
        return next((what for what in ("accepted", "refused") if what in told), "")

    def verdict(self, *, limit: float = LEASE_SECONDS) -> list[str]:
        """What anybody saw that must not be; [] is right.

        Args:
            limit: seconds after T0 from which a revoked party gets nothing.
        """
        lines = judge(self.history.lines, CAST.may_read, lease=limit, slack=LATE)
        doubles = [f"{name}: {one.handled.doubles}" for name, one in self.clients.items()]
        return [*lines, *(each for each in doubles if not each.endswith(": []"))]

    def _heard(self, body: bytes) -> None:
        """What an agent signs that it holds, and when it asked for its lease."""
        request = decode_request(body)
        keys = self.plane.audiences[request.audience]
        kind, _, name = request.audience.partition(":")
        if kind != "agent":
            return
        if request.kind == "lease":
            held = messages.verify_lease_request(request, keys.signing.public).held
            self.history.note("leased", who=name, seconds=LEASE_SECONDS)
        else:
            held = messages.verify_ack(request, keys.signing.public).held
        for what, number in (("bundle", "revision"), ("notice", "notice")):
            if DOMAIN in held:
                self.history.note(
                    "applied", who=name, domain=DOMAIN, kind=what, number=held[DOMAIN][number]
                )


@pytest.fixture
def site(
    plane: Plane, live_authority: Path, tmp_path: Path, settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Played:  # fmt: skip
    """The plant at work; the control plane's clock is the virtual one."""
    settings.DRAIN_SECONDS, settings.DRAIN_LIMIT_SECONDS = 5, 20
    made = Played(tmp_path, live_authority)

    class Virtual(datetime):
        """Django's `now` is many a column's default, so it cannot be replaced itself."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.fromtimestamp(START + made.timeline.now, tz)

    monkeypatch.setattr(timezone, "datetime", Virtual)
    made.bring_up()
    return made
