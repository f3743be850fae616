"""Agents and clients cut off from ActiveMQ at moments drawn from a seed, while events flow.

Before every agent and before the clients stands a proxy: they are cut off one way, the other, both
ways, or half-open. Some cuts of agents outlast the lease, and in these somebody at home there is
revoked. What happened is written down by those who saw it, and judged by `histories.py`; what
agents sent, and under which lease, is read from the bytes that left them.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from brokers.simulation.chance import Chance
from policyengine.bundles import audience
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support import stomp_tap
from tests.support.agent_processes import World
from tests.support.cut_plan import (
    AGENTS,
    CLIENTS,
    DOMAIN,
    LEASE_SECONDS,
    METERS,
    TYPE,
    Cut,
    lanes,
    may_read,
    organisation,
    plan,
    reader_names,
)
from tests.support.data_plane import wait_until
from tests.support.histories import CONVERGE, History, judge
from tests.support.noted import publish_noted, read_noted
from tests.support.sidebyside import together
from tests.support.tcp_proxy import TcpProxy

_PATIENCE = 180.0
_PAUSE = 0.3
_LATE = 3.0
"""Seconds from an agent's decision to its bytes at the proxy, on a busy machine."""
_READING = 30.0
"""Seconds from a delivery's sending until its subscriber, cut off itself perhaps, noted it."""


@dataclass
class Outcome:
    """What came of it; `problems` is empty where everything held."""

    seed: str
    cuts: Counter[str] = field(default_factory=Counter)
    revoked: int = 0
    published: int = 0
    accepted: int = 0
    delivered: int = 0
    converged: float = 0.0
    """Seconds from the last repair until all agents held the newest revision and served."""
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


class Cuts:
    """One play on agents of its own.

    Args:
        folder: for all files.
        broker: of overlay `a`; it is shared, and goes on.
        seed: decides who is cut off, how, when, and what is published.
        count: how many partitions.
    """

    def __init__(self, folder: Path, broker: ActiveMQ, seed: str, *, count: int = 10) -> None:
        self._folder, self._broker, self._seed = folder, broker, seed
        self._plan = plan(seed, count)
        self.outcome, self.history = Outcome(seed), History()
        ended = Counter(cut.victim for cut in self._plan if cut.revokes)
        self._readers = reader_names(1 + max(ended.values(), default=0))
        self._left = {
            agent: [name for name, home in self._readers.items() if home == agent][1:]
            for agent in AGENTS
        }
        self._proxies = {
            name: TcpProxy((broker.host, broker.port), seed=f"{seed}/{name}", record=name in AGENTS)
            for name in (*AGENTS, CLIENTS)
        }
        self._world = World.make(
            folder, self._brokers_file, partial(organisation, len(self._readers) // len(AGENTS))
        )
        for short, agent in self._world.agents.items():
            settings = agent.folder / "agent.toml"
            shared, own = self._brokers_file("agents"), self._brokers_file("agents", short)
            settings.write_text(settings.read_text().replace(str(shared), str(own)))
        self._end, self._stop_meters = threading.Event(), threading.Event()
        self._revoking = threading.Lock()
        self._noted = 0

    def _brokers_file(self, account: str, who: str = "") -> Path:
        through = self._proxies.get(CLIENTS if account == "clients" else who)
        port = self._broker.port if through is None else through.port
        path = self._folder / f"brokers-{account}{who and '-'}{who}.json"
        return write_brokers_file(path, {"a": self._broker.entry(account, port=port)})

    # what happens

    def run(self) -> Outcome:
        """Play, and judge.

        Raises:
            AssertionError: something did not start, or did not go on.
        """
        started = time.monotonic()
        threads = [threading.Thread(target=self._watch, name="acknowledgements")]
        try:
            self._world.start(_PATIENCE)
            threads += [
                threading.Thread(target=self._read, args=(name,), name=name)
                for name in self._readers
            ]
            for thread in threads:
                thread.start()
            wait_until(self._all_subscribed, "subscriptions", _PATIENCE)
            meters = [threading.Thread(target=self._publish, args=(name,)) for name in METERS]
            for thread in meters:
                thread.start()
            wait_until(lambda: self.history.count("delivered") > 5, "events to flow", _PATIENCE)
            together([partial(self._lane, lane) for lane in lanes(self._plan)], end=self._end)
            self._repaired()
            self._settle(meters)
        finally:
            self._end.set()
            self._stop_meters.set()
            for proxy in self._proxies.values():
                proxy.heal()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
            self._world.close()
            for proxy in self._proxies.values():
                proxy.close()
        self._judge()
        self.outcome.seconds = round(time.monotonic() - started, 1)
        return self.outcome

    def _lane(self, cuts: list[Cut]) -> None:
        for cut in cuts:
            if self._end.wait(cut.pause):
                return
            self._cut(cut)

    def _cut(self, cut: Cut) -> None:
        proxy = self._proxies[cut.victim]
        proxy.cut(cut.kind)
        ends = time.monotonic() + cut.seconds
        self.outcome.cuts[f"{cut.victim}: {cut.kind}"] += 1
        if cut.revokes:
            self._revoke(self._left[cut.victim].pop(0))
        self._end.wait(max(0.0, ends - time.monotonic()))
        if cut.revokes:
            page = self._world.agents[cut.victim].domain(DOMAIN)
            if page.get("delivering") is not False:
                self._problem(f"{cut.victim} was cut off for {cut.seconds:.1f} s and says {page}")
        proxy.heal(reset=cut.reset)

    def _revoke(self, name: str) -> None:
        """From the end of this call on no lease is given that does not demand the notice."""
        control, organised = self._world.control, self._world.organisation
        with self._revoking:
            for agent in AGENTS:
                control.notice(organised, self._world.address(agent), (self._world.name(name),))
            self.history.note("revoked", who=name)
        self.outcome.revoked += 1

    # who writes down

    def _publish(self, name: str) -> None:
        publisher = self._world.publisher(name)
        publisher.wait_ready(_PATIENCE)
        publish_noted(
            publisher, name, TYPE, self._readings(name), self.history,
            stop=self._stop_meters, pause=_PAUSE, patience=_PATIENCE,
        )  # fmt: skip

    def _readings(self, name: str) -> Iterator[dict[str, Any]]:
        chance = Chance(f"{self._seed}/{name}")
        for number in itertools.count(1):
            zone = chance.pick(tuple(self._readers))
            yield {"id": f"{name}/{number}", "zone": zone, "value": number}

    def _read(self, name: str) -> None:
        subscriber = self._world.subscriber(name)
        subscriber.subscribe(TYPE, timeout=_PATIENCE)
        self.history.note("subscribed", who=name, type=TYPE)
        read_noted(subscriber, name, self.history, end=self._end)

    def _all_subscribed(self) -> bool:
        return self.history.count("subscribed") == len(self._readers)

    def _watch(self) -> None:
        """Note what agents sign that they have in force."""
        while not self._end.wait(0.1):
            self._note_acknowledged()

    def _note_acknowledged(self) -> None:
        heard = self._world.control.acknowledgements
        known = {self._world.address(agent): agent for agent in AGENTS}
        for ack in heard[self._noted : len(heard)]:
            self._noted += 1
            if ack.status == "applied" and ack.audience in known:
                self.history.note(
                    "applied", who=known[ack.audience], domain=DOMAIN, kind=ack.what,
                    number=ack.number,
                )  # fmt: skip

    def _problem(self, text: str) -> None:
        self.outcome.problems.append(text)

    # the end

    def _repaired(self) -> None:
        """Everything passes: within a minute all hold the newest revision, and serve."""
        started, world = time.monotonic(), self._world
        self.history.note("repaired", domain=DOMAIN, revision=2, agents=list(AGENTS))
        for agent in AGENTS:
            world.control.push(world.organisation, world.address(agent))
        wait_until(
            lambda: all(self._serves(agent, 2) for agent in AGENTS), "all agents to be back",
            _PATIENCE,
        )  # fmt: skip
        self.outcome.converged = round(time.monotonic() - started, 1)
        if self.outcome.converged > CONVERGE:
            self._problem(f"all served again only {self.outcome.converged} s after the repair")

    def _serves(self, agent: str, revision: int) -> bool:
        page = self._world.agents[agent].domain(DOMAIN)
        return page.get("delivering") is True and page["revision"] >= revision

    def _settle(self, meters: list[threading.Thread]) -> None:
        """Events go on until the last revocation is long over; then all that flows arrives."""
        last = max(
            (line["at"] for line in self.history.lines if line["what"] == "revoked"), default=0.0
        )
        time.sleep(max(0.0, last + LEASE_SECONDS + _LATE + 1 - time.time()))
        self._stop_meters.set()
        for meter in meters:
            meter.join(_PATIENCE)
        end = time.monotonic() + _PATIENCE
        while self._lacking() and time.monotonic() < end:
            time.sleep(0.5)
        time.sleep(1.0)  # doubles, and what must not come, would come now
        self.history.note("settled")

    def _lacking(self) -> bool:
        return any(" lacks " in problem for problem in self._judged())

    # what came of it

    def _judged(self) -> list[str]:
        lines = list(self.history.lines)
        return judge(lines, may_read, lease=LEASE_SECONDS, slack=_READING)

    def _judge(self) -> None:
        self.outcome.problems += self._judged()
        for what in ("published", "accepted", "delivered"):
            setattr(self.outcome, what, self.history.count(what))
        revoked = {
            self._world.name(line["who"]): line["at"]
            for line in self.history.lines
            if line["what"] == "revoked"
        }
        handles = [self._world.name(name) for name in self._readers]
        for agent in AGENTS:
            for problem in self._judge_agent(agent, handles, revoked):
                self._problem(f"{agent}: {problem}")

    def _judge_agent(
        self, agent: str, handles: list[str], revoked: Mapping[str, float]
    ) -> list[str]:
        organised, name = self._world.organisation, self._world.name(agent)
        there, back = (
            sorted(
                (one for pieces in self._proxies[agent].pieces(way)
                 for one in stomp_tap.frames(pieces)),
                key=lambda one: one.at,
            )
            for way in ("there", "back")
        )  # fmt: skip
        keys = organised.public_keys(audience("agent", name))
        sent = stomp_tap.deliveries(there, handles)
        given = stomp_tap.leases(name, keys, organised.authority.lease.public, there, back)
        if not sent or not given:
            return ["nothing was heard of it"]
        late = [
            f"sent to `{handle}` {at - revoked[handle]:.1f} s after its revocation"
            for at, handle in sent
            if at > revoked.get(handle, float("inf")) + LEASE_SECONDS + _LATE
        ]
        return [*late, *stomp_tap.without_lease(sent, given, DOMAIN, _LATE)]
