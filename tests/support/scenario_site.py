"""A site of real processes on two brokers, with clients that write down what they see.

Alpha and beta stand on overlay `b`, where alarms travel; gamma on `a`, where readings travel and
whose broker carries the control queues. Between beta and each broker stands a proxy, so that beta
loses the control plane and keeps its overlay, or the other way round.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from brokers.adapters.rootfile import load_anchors
from brokers.client import Publisher, Subscriber
from policyengine.bundles.receipts import verify_receipt
from tests.support.fault_domain import ALARM, DOMAIN, LEASE_SECONDS, TYPE, Cast
from tests.support.fault_site import Address, FaultSite
from tests.support.fault_verdict import agent_lines, verdict
from tests.support.histories import History, Line
from tests.support.noted import publish_noted, read_noted
from tests.support.ports import wait_until
from tests.support.tcp_proxy import HELD, TcpProxy

AGENTS = {"alpha": "b", "beta": "b", "gamma": "a"}
CAST = Cast(
    meters=2, tenants=4, guards=2, late=0,
    homes=({"a": "gamma", "b": "alpha"}, {"a": "gamma", "b": "beta"}), alarms="b",
)  # fmt: skip
"""Whoever has an odd number is at home at beta."""
CONTROL, OVERLAY = "activemq", "activemq-b"
LATE = 3.0
"""Seconds from an agent's decision to the line in the history, on a busy machine."""
_PATIENCE = 120.0
_PAUSE = 0.5
_OWED = 20.0


class ScenarioSite(FaultSite):
    """The whole of it, with everybody subscribed and meters at work.

    Args:
        folder: for all files.
    """

    def __init__(self, folder: Path) -> None:
        self.proxies: dict[str, TcpProxy] = {}
        self.history = History()
        self._numbers = itertools.count(1)
        self._end, self._stop_meters = threading.Event(), threading.Event()
        self._meters: dict[str, Publisher] = {}
        self._readers: dict[str, Subscriber] = {}
        self._publishing: list[Future[None]] = []
        self._reading: list[Future[None]] = []
        super().__init__(folder, through=self._between, agents=AGENTS)

    def _between(self, who: str, part: str, address: Address) -> Address:
        if who != "beta":
            return address
        return self.proxies.setdefault(part, TcpProxy(address)).address

    def bring_up(self) -> None:
        """Start everything, and have events flow."""
        self.start(str(CAST.write(self.folder / "plant.yaml")))
        self.wait_current(DOMAIN, _PATIENCE)
        self.open_clients()
        for name in CAST.subscribers:
            self.history.note("subscribed", who=name, type=TYPE, below=[ALARM])
        self.wait_flow()

    def stop(self) -> None:
        """End everything."""
        try:
            for proxy in self.proxies.values():
                proxy.heal()
            self.close_clients()
        finally:
            super().stop()
            for proxy in self.proxies.values():
                proxy.close()

    # clients

    def open_clients(self) -> None:
        """Publishers and subscribers start on their profiles."""
        self._end.clear()
        self._stop_meters.clear()
        self._meters = {name: Publisher(self.profiles[name]) for name in CAST.names("meter")}
        self._readers = {name: Subscriber(self.profiles[name]) for name in CAST.subscribers}
        with ThreadPoolExecutor() as pool:
            for done in [
                *(pool.submit(each.wait_ready, _PATIENCE) for each in self._meters.values()),
                *(pool.submit(self._subscribe, each) for each in self._readers.values()),
            ]:
                done.result()
        threads = ThreadPoolExecutor(len(self._readers) + 2 * len(self._meters))
        self._publishing = [
            threads.submit(
                publish_noted, publisher, name, kind, self._readings(name), self.history,
                stop=self._stop_meters, pause=_PAUSE, patience=_OWED,
            )
            for name, publisher in self._meters.items()
            for kind in (TYPE, ALARM)
        ]  # fmt: skip
        self._reading = [
            threads.submit(read_noted, each, name, self.history, end=self._end)
            for name, each in self._readers.items()
        ]
        threads.shutdown(wait=False)

    @staticmethod
    def _subscribe(subscriber: Subscriber) -> None:
        if not subscriber.subscriptions:
            subscriber.subscribe(TYPE, timeout=_PATIENCE)

    def _readings(self, meter: str) -> Iterator[dict[str, Any]]:
        for number in self._numbers:
            zone = f"zone-{number % CAST.tenants}"
            yield {"id": f"{meter}/{number}", "zone": zone, "value": number % 1000}

    def close_clients(self) -> None:
        """They end; who is owed an answer does not wait for it."""
        self._stop_meters.set()
        self._end.set()
        clients = [*self._meters.values(), *self._readers.values()]
        self._meters, self._readers = {}, {}
        for done in self._reading:
            done.result(_PATIENCE)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each: each.close(), clients))
        for done in self._publishing:
            done.result(_PATIENCE)

    # what happens

    def cut_beta(self, part: str) -> None:
        """Nothing passes between beta and a broker any more; it comes late."""
        self.proxies[part].ways(there=HELD, back=HELD)

    def revoke(self, name: str) -> float:
        """Revoke somebody; returns T0."""
        t0 = float(self.call("end-principal", name, "no")["t0"])
        self.history.note("revoked", who=name, at=t0)
        return t0

    def restart_everything(self) -> None:
        """kill -9 of every process at once, and the clients end; then all begin again."""
        parts = [*self.parts, *self.servers]
        with ThreadPoolExecutor(len(parts) + 1) as pool:
            list(pool.map(self.kill, parts))
            pool.submit(self.close_clients).result()
            list(pool.map(self.again, self.servers))
        for agent in self.agents:
            self.history.note("started", who=agent)
        for part in [name for name in parts if name not in self.servers]:
            self.again(part)
        self.wait(self._answers, "the database to be reached again")

    def _answers(self) -> bool:
        try:
            self.call("state", DOMAIN)
        except AssertionError:
            return False
        return True

    # what is said

    def standing(self, agent: str) -> str:
        """What an agent's page says of the domain; "" while it does not answer."""
        return str(self._page(agent).get("standing", ""))

    def held(self, agent: str) -> int:
        """The revision that an agent's page shows."""
        return int(self._page(agent).get("revision", 0))

    def _page(self, agent: str) -> dict[str, Any]:
        found: dict[str, Any] = self.status(agent).get("domains", {}).get(DOMAIN, {})
        return found

    def receipt(self, name: str) -> dict[str, Any]:
        """The receipt of somebody's revocation once there is one, verified."""
        self.wait(lambda: self._receipt(name) is not None, f"the receipt of {name}")
        return verify_receipt(self._receipt(name), load_anchors(self.anchors).receipt)

    def _receipt(self, name: str) -> Any:
        rows = self.call("revocations")
        return next((row["receipt"] for row in rows if row["principal"] == name), None)

    # waiting

    def wait(self, true: Callable[[], bool], what: str) -> None:
        """Wait until something is true."""
        wait_until(true, seconds=_PATIENCE, what=what)

    def wait_serving(self) -> None:
        """Wait until every agent holds the newest revision and serves."""
        self.wait_current(DOMAIN, _PATIENCE)
        self.wait(
            lambda: all(self.standing(agent) == "serving" for agent in self.agents),
            "agents to serve",
        )

    def wait_flow(self) -> None:
        """Wait until every guard got some more events of both kinds."""
        for name in CAST.names("guard"):
            before = len(self.got(name))
            self.wait(lambda name=name, before=before: len(self.got(name)) > before + 4, "events")

    # what came of it

    def got(self, name: str) -> list[Line]:
        """What a subscriber got."""
        lines = list(self.history.lines)
        return [each for each in lines if (each["what"], each.get("who")) == ("delivered", name)]

    def after(self, t0: float, name: str) -> list[float]:
        """How long after T0 a subscriber still got something."""
        return [each["at"] - t0 for each in self.got(name) if each["at"] > t0]

    def events(self, kind: str, since: float, what: str = "accepted") -> set[str]:
        """Events of a kind published since a moment of which this was told."""
        lines = list(self.history.lines)
        asked = {
            each["event"]
            for each in lines
            if each["what"] == "published" and each["type"] == kind and each["at"] >= since
        }
        return asked & {each["event"] for each in lines if each["what"] == what}

    def problems(self) -> list[str]:
        """What must not be, by all histories; waits for what is under way."""
        self.wait(lambda: not any(" lacks " in one for one in self._judged()), "what was accepted")
        time.sleep(1.0)  # doubles, and what must not come, would come now
        return self._judged()

    def _judged(self) -> list[str]:
        lines = list(self.history.lines)
        # What is under way just now lacks nothing yet.
        horizon = time.time() - LATE
        fresh = {
            each["event"] for each in lines if each["what"] == "accepted" and each["at"] > horizon
        }
        kept = [each for each in lines if each["what"] != "accepted" or each["event"] not in fresh]
        logs = [self.folder / f"{agent}.log" for agent in self.agents]
        told = [each for log in logs for each in agent_lines(log.stem, log)]
        return verdict([*kept, *told], CAST, limit=LEASE_SECONDS + LATE)
