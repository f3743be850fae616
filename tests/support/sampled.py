"""Drawn organisations on real ActiveMQ: real agent processes, shared by all, and real clients.

Each organisation is a domain of its own, compiled as for the simulation. The agents are
started once; organisations come and go.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from brokers.adapters.stomp import BrokersFile, StompTransport
from brokers.client import Event, Publisher, Subscriber, create_profile
from brokers.simulation.chance import Chance
from brokers.simulation.organisation import Keys
from brokers.simulation.organisation import Organisation as Compiled
from brokers.simulation.plan import AgentSite
from policyengine.bundles import SealedBundle, audience, delivery_queue, hop_queue, publish_queue
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.agent_processes import AgentProcess, write_private
from tests.support.data_plane import Authority, ControlPlane, fresh_keys, keys_document, wait_until
from tests.support.ports import free_port
from tests.support.simulated import OVERLAYS, Scene
from tests.support.stomp_client import StompClient

_ANSWERS = "/temp-queue/answers"
STANDS = {"north": 3, "south": 2}
"""Agents an overlay."""
PATIENCE = 120.0
_numbers = itertools.count(1)


class Domain:
    """A drawn organisation, as `tests.support.data_plane.ControlPlane` wants one.

    Args:
        scene: what was drawn.
        ground: whose agents it has.
    """

    comparators: Mapping[str, object] = {}

    def __init__(self, scene: Scene, ground: Ground) -> None:
        self._made = Compiled(scene.plan, scene.chance.child("keys"))
        # One authority and one set of keys an agent, whatever number of domains it is in.
        self.authority = self._made.authority = ground.authority
        self._made.keys |= {audience("agent", name): ground.keys[name] for name in self.agents}
        self.scene = scene

    @property
    def domain(self) -> str:
        """Its name."""
        return self._made.domain

    @property
    def lease_seconds(self) -> int:
        """How long a lease lasts."""
        return self._made.plan.lease_seconds

    @property
    def agents(self) -> Mapping[str, object]:
        """Its agents by name."""
        return self._made.agents

    @property
    def clients(self) -> Mapping[str, object]:
        """Its clients by handle."""
        return self._made.clients

    def public_keys(self, address: str) -> Keys:
        """The keys of an agent or client by its address."""
        return self._made.keys[address]

    def bundle(self, address: str, revision: int) -> SealedBundle:
        """A signed and sealed bundle for an audience."""
        return self._made.bundle(address, revision, time.time())


@dataclass
class Reader:
    """A subscriber and all that its application was handed.

    Args:
        subscriber: the real client.
        got: publication -> event.
        doubles: publications that were handed out again.
    """

    subscriber: Subscriber
    got: dict[str, Event] = field(default_factory=dict)
    doubles: list[str] = field(default_factory=list)

    def drain(self) -> int:
        """Take what is there; returns how many events that was."""
        before = len(self.got) + len(self.doubles)
        while (event := self.subscriber.next_event(0.0)) is not None:
            if event.publication in self.got:
                self.doubles.append(event.publication)
            self.got[event.publication] = event
        return len(self.got) + len(self.doubles) - before


@dataclass
class Cast:
    """The real clients of one organisation.

    Args:
        domain: the organisation.
        writers: handle -> publisher.
        readers: handle -> subscriber.
    """

    domain: Domain
    writers: dict[str, Publisher]
    readers: dict[str, Reader]


class Ground:
    """Two brokers and the agent processes on them, for many organisations.

    Args:
        folder: for all files.
        brokers: overlay -> its broker; the first one carries the control queues.
    """

    def __init__(self, folder: Path, brokers: Mapping[str, ActiveMQ]) -> None:
        self._folder = folder
        self._brokers = brokers
        self._suffix = f"-{os.getpid()}-{next(_numbers)}"
        self.authority = Authority()
        self.stands = tuple(
            AgentSite(f"{overlay}-{number}{self._suffix}", overlay)
            for overlay in OVERLAYS
            for number in range(STANDS[overlay])
        )
        made = {site.name: fresh_keys() for site in self.stands}
        self.keys = {name: Keys(one.sealing, one.signing) for name, one in made.items()}
        self._anchors = folder / "anchors.json"
        self._anchors.write_text(json.dumps(self.authority.anchors().to_json()))
        self._files = {
            account: write_brokers_file(
                folder / f"brokers-{account}.json",
                {name: broker.entry(account) for name, broker in brokers.items()},
                control=OVERLAYS[0],
            )
            for account in ("control", "agents", "clients")
        }
        self.agents = {site.name: self._agent(site) for site in self.stands}
        self._domains: list[Domain] = []
        line = BrokersFile.load(self._files["control"]).control_broker()
        self.control = ControlPlane(self._domains, StompTransport(line, name="control"))

    def _agent(self, site: AgentSite) -> AgentProcess:
        folder, port = self._folder / site.name, free_port()
        (folder / "state").mkdir(parents=True)
        write_private(folder / "state" / "keys.json", keys_document(self.keys[site.name]))
        (folder / "agent.toml").write_text(
            f'name = "{site.name}"\noverlay = "{site.overlay}"\nstate = "state"\n'
            f'brokers_file = "{self._files["agents"]}"\nanchors_file = "{self._anchors}"\n'
            f"http_port = {port}\nlease_interval = 0.5\n"
        )
        return AgentProcess(site.name, folder, port)

    def start(self) -> None:
        """Start the agents; returns at once."""
        for agent in self.agents.values():
            agent.start()

    def close(self) -> None:
        """Stop everything."""
        for agent in self.agents.values():
            agent.end()
        self.control.stop()

    # one organisation

    def scene(self, chance: Chance, **options: object) -> Scene:
        """Draw an organisation that stands on these agents.

        Args:
            chance: decides everything.
            options: of `Scene`.
        """
        name = f"drawn{self._suffix}-{next(_numbers)}"
        return Scene(chance, domain=name, stands=self.stands, prefix=f"{name}-", **options)

    @contextmanager
    def playing(self, scene: Scene, writers: list[str], readers: list[str]) -> Iterator[Cast]:
        """Let an organisation in, with its clients, for as long as the block lasts.

        Args:
            scene: drawn by `scene`.
            writers: handles that publish.
            readers: handles that subscribe.
        """
        domain = Domain(scene, self)
        self._domains.append(domain)
        profiles = {handle: self._profile(domain, handle) for handle in (*writers, *readers)}
        self.control.push_all(domain)
        everybody: list[Publisher | Subscriber] = []
        with ThreadPoolExecutor(len(profiles)) as many:
            try:
                everybody += [Publisher(profiles[handle]) for handle in writers]
                everybody += [Subscriber(profiles[handle]) for handle in readers]
                list(many.map(lambda client: client.wait_ready(PATIENCE), everybody))
                for name in domain.agents:
                    self._wait_serving(domain.domain, self.agents[name])
                subscribers = map(Reader, everybody[len(writers) :])
                yield Cast(
                    domain,
                    dict(zip(writers, everybody, strict=False)),
                    dict(zip(readers, subscribers, strict=True)),
                )
            finally:
                list(many.map(lambda client: client.close(), everybody))
        self._domains.remove(domain)

    def _wait_serving(self, domain: str, agent: AgentProcess) -> None:
        wait_until(
            lambda: agent.domain(domain).get("standing") == "serving",
            f"{agent.name} to serve {domain}",
            PATIENCE,
        )

    def _profile(self, domain: Domain, handle: str) -> Path:
        folder = self._folder / handle
        folder.mkdir()
        keys = keys_document(domain.public_keys(audience("client", handle)))
        write_private(folder / "keys.json", keys)
        create_profile(
            folder,
            handle=handle,
            domain=domain.domain,
            brokers_file=self._files["clients"],
            anchors_file=self._anchors,
        )
        return folder

    def revoke(self, domain: Domain, handle: str) -> None:
        """Revoke a client; returns when every home agent has acknowledged it."""
        for agent in domain.scene.sites[handle].homes.values():
            address = audience("agent", agent)
            number = self.control.notice(domain, address, (handle,))
            place = (address, domain.domain, "notice", number, "applied")
            wait_until(
                lambda place=place: place in self._acknowledged(), f"{place} in vain", PATIENCE
            )

    def _acknowledged(self) -> set[tuple[str, str, str, int, str]]:
        return {
            (one.audience, one.domain, one.what, one.number, one.status)
            for one in self.control.acknowledgements
        }

    # rest

    def settle(self, cast: Cast) -> None:
        """Wait until no message of an organisation is anywhere any more.

        A message counts with its broker until whoever has it acknowledged it, which agents do
        after what it causes stands in other queues and clients after it was handled. So when
        no queue holds anything, twice, and nothing was put into any in between, all is over.
        """
        deadline, before = time.monotonic() + PATIENCE, None
        while True:
            for reader in cast.readers.values():
                reader.drain()
            now = self._queues(cast)
            if now is not None and now == before and not any(size for size, _ in now.values()):
                break
            assert time.monotonic() < deadline, f"messages wait: {now}"
            before = now
            time.sleep(0.05)
        for reader in cast.readers.values():
            reader.drain()

    def _queues(self, cast: Cast) -> dict[str, tuple[int, int]] | None:
        """What stands in an organisation's queues; None where a broker does not say."""
        plan, name = cast.domain.scene.plan, cast.domain.domain
        found: dict[str, tuple[int, int]] = {}
        for overlay in dict.fromkeys(site.overlay for site in plan.agents):
            agents = [site.name for site in plan.agents if site.overlay == overlay]
            queues = [make(agent, name) for agent in agents for make in (publish_queue, hop_queue)]
            queues += [delivery_queue(handle) for handle in cast.readers]
            counted = _counted(self._brokers[overlay], queues)
            if counted is None:
                return None
            found |= {f"{overlay} {queue}": counts for queue, counts in counted.items()}
        return found


def _counted(broker: ActiveMQ, queues: list[str]) -> dict[str, tuple[int, int]] | None:
    """(messages in it, messages ever put into it) of each queue; None where one is not known."""
    found = {}
    with StompClient(broker, "control", timeout=PATIENCE) as client:
        client.connect()
        client.subscribe("answers", destination=_ANSWERS, transformation="jms-map-json")
        for queue in queues:
            client.send(f"ActiveMQ.Statistics.Destination.{queue}", b"", **{"reply-to": _ANSWERS})
            answer = client.receive(timeout=5.0)
            if answer is None:
                return None
            entries = json.loads(answer.body)["map"]["entry"]
            values = {one["string"]: one["long"] for one in entries if "long" in one}
            found[queue] = (values["size"], values["enqueueCount"])
    return found
