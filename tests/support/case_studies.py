"""A site for the papers' case studies: every frame is captured, every agent's link can be cut.

Between ActiveMQ and whoever talks to it stands a proxy. Each agent has one of its own, so that one
of them can be cut off while the others go on; publishers, subscribers and the control plane share
one for each broker.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from brokers.adapters.files import BundleFolder, Keys
from brokers.adapters.rootfile import load_anchors
from brokers.client import Event, Handle, Publisher, Subscriber
from policyengine.bundles import AgentContent, ClientContent, audience, open_bundle
from policyengine.trustgroups import open_wrap
from tasks.local import http
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tasks.local.capture import CaptureProxy
from tasks.local.demo.expressions import names_and_values
from tasks.local.search import search
from tests.support.attackers import Attacker, Knowledge, together
from tests.support.distribution_site import Site
from tests.support.ports import wait_until
from tests.support.processes import REPOSITORY

SAMPLES = REPOSITORY / "adminapp" / "samples"
QUIET_SECONDS = 1.0
"""What must not come, or comes twice, has come by then."""
_ARRIVAL_SECONDS = 120.0


class Link(CaptureProxy):
    """A capturing proxy that can be cut and healed."""

    def __init__(self, folder: Path, *, name: str, target: tuple[str, int]) -> None:
        super().__init__(folder, name=name, target=target)
        self._open: set[asyncio.Task[Any]] = set()
        self._is_cut = False

    def cut(self) -> None:
        """End all connections; from now on each new one ends at once."""
        self._is_cut = True
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._open])

    def heal(self) -> None:
        """Let connections through again."""
        self._is_cut = False

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await super()._connection(reader, writer)
        finally:
            self._open.discard(task)


@dataclass(frozen=True)
class Got:
    """What a subscriber must get of one event, or got: its type, values, what was withheld."""

    type: str
    attributes: Mapping[str, Any]
    withheld: frozenset[str] = frozenset()

    @classmethod
    def of(cls, event: Event) -> Got:
        """As it came."""
        return cls(event.type, dict(event.attributes), frozenset(event.withheld))


class Stage:
    """Control plane, agents and clients for several domains; everything that is sent is kept.

    Args:
        folder: for all state.
        brokers: ActiveMQ of each overlay.
        agents: overlay of each agent.
    """

    def __init__(
        self, folder: Path, brokers: Mapping[str, ActiveMQ], agents: Mapping[str, str]
    ) -> None:
        self.capture = folder / "capture"
        self.links: dict[str, Link] = {}
        self._folder, self._brokers = folder, brokers
        self._publishers: dict[str, Publisher] = {}
        self._subscribers: dict[str, Subscriber] = {}
        self._got: dict[str, list[Event]] = {}
        self.site = Site(
            folder,
            lambda account: self._brokers_file("everybody", account),
            agents=agents,
            agent_brokers=lambda name: self._brokers_file(name, "agents"),
            lease_interval=5.0,
        )

    def variant(self, sample: str, edit: Callable[[dict[str, Any]], None]) -> str:
        """A sample with each of its documents edited; the path of the new file."""
        documents = list(yaml.safe_load_all((SAMPLES / f"{sample}.yaml").read_text()))
        for document in documents:
            edit(document)
        path = self._folder / f"{sample}.yaml"
        path.write_text(yaml.safe_dump_all(documents, sort_keys=False))
        return str(path)

    def start(self, samples: Iterable[str], domains: Iterable[str]) -> None:
        """Start all processes; wait until the agents hold these domains' policies."""
        self.site.start(*samples)
        for domain in domains:
            self.site.call("agree", domain)
        for domain in domains:
            self.site.wait_current(domain, seconds=300)

    def _brokers_file(self, who: str, account: str) -> Path:
        entries = {}
        for overlay, broker in self._brokers.items():
            name = f"{who}-{overlay}"
            if name not in self.links:
                target = (broker.host, broker.port)
                self.links[name] = Link(self.capture, name=name, target=target)
                self.links[name].start()
            host, port = self.links[name].address
            entries[overlay] = broker.entry(account, host=host, port=port)
        return write_brokers_file(self._folder / f"brokers-{who}-{account}.json", entries)

    def close(self) -> None:
        """Stop everything."""
        self.leave()
        self.site.stop()
        for link in self.links.values():
            link.stop()

    # clients

    def publisher(self, name: str) -> Publisher:
        """The publisher of a principal, ready."""
        if name not in self._publishers:
            self._publishers[name] = Publisher(self.site.profiles[name])
            self._publishers[name].wait_ready(60)
        return self._publishers[name]

    def subscriber(self, name: str) -> Subscriber:
        """The subscriber of a principal, ready."""
        if name not in self._subscribers:
            self._subscribers[name] = Subscriber(self.site.profiles[name])
            self._got[name] = []
            self._subscribers[name].wait_ready(60)
        return self._subscribers[name]

    def status(self, agent: str, domain: str) -> dict[str, Any]:
        """What an agent says of itself and a domain."""
        config = tomllib.loads((self._folder / agent / "agent.toml").read_text())
        found = http.get_json(f"http://127.0.0.1:{config['http_port']}/status")
        assert found is not None
        return dict(found["domains"][domain])

    def leave(self) -> None:
        """Close all clients: the next case study has others."""
        for client in (*self._publishers.values(), *self._subscribers.values()):
            client.close()
        self._publishers.clear()
        self._subscribers.clear()
        self._got.clear()

    def handle(self, name: str) -> str:
        """A principal's pseudonym."""
        profile = Path(self.site.profiles[name]) / "profile.json"
        return str(json.loads(profile.read_text())["handle"])

    # who got what

    def check(self, expected: Mapping[str, Mapping[str, Got]]) -> None:
        """Wait for what must come and a moment for what must not; compare all of it.

        Args:
            expected: subscriber -> publication -> what it must get. Every open subscriber counts:
                one that is not named must get nothing. What came before the last check is done
                with.
        """
        deadline = time.monotonic() + _ARRIVAL_SECONDS
        got = {name: list(self._take(name)) for name in self._subscribers}
        while time.monotonic() < deadline and any(
            {event.publication for event in got[name]} < set(wanted)
            for name, wanted in expected.items()
        ):
            for name in expected:
                got[name].extend(self._take(name, 0.05))
        time.sleep(QUIET_SECONDS)
        for name, events in got.items():
            events.extend(self._take(name))
            wanted = expected.get(name, {})
            assert sorted(event.publication for event in events) == sorted(wanted), name
            for event in events:
                assert Got.of(event) == wanted[event.publication], name

    def _take(self, name: str, timeout: float = 0.0) -> Iterator[Event]:
        return self._subscribers[name].events(timeout)

    # what ActiveMQ saw

    def check_capture(self, texts: Iterable[str]) -> None:
        """None of these texts, and no key of anybody, stands in anything that was sent."""
        # Queues are called after pseudonyms: they are found, so the search works.
        handle = self.handle(next(iter(self._subscribers)))
        found = search(self.capture, {*texts, handle})
        assert {one.text for one in found.findings} == {handle}, found.findings
        streams = [path.read_bytes() for path in self.capture.glob("*.bin")]
        for key in self._keys():
            forms = (key, key.hex().encode(), base64.b64encode(key)[:-2])
            assert not any(form in stream for stream in streams for form in forms)

    def _keys(self) -> Iterator[bytes]:
        for name in self.site.agents:
            keys = self._agent_keys(name)
            yield from (keys.sealing.private, keys.signing.private)
            for content in self._contents(self._state(name), audience("agent", name), keys):
                assert isinstance(content, AgentContent)
                for wrap in content.wraps:
                    yield open_wrap(wrap, key=keys.sealing, audience=audience("agent", name))
                yield from (epoch.proof_key for epoch in content.epochs if epoch.proof_key)
                for blind in content.blind:
                    for share in blind.shares.values():
                        yield from pieces_of(share)
        for name, profile in self.site.profiles.items():
            keys = Keys.load(Path(profile) / "keys.json")
            yield from (keys.sealing.private, keys.signing.private)
            address = audience("client", self.handle(name))
            for content in self._contents(Path(profile) / "state", address, keys):
                assert isinstance(content, ClientContent)
                yield from (tag.key for tag in content.tag_keys)
                for secret in (*(one.keys for one in content.blind),
                               *(one.key for one in content.ordered)):  # fmt: skip
                    yield from pieces_of(secret)

    def knowledge(self, domain: str, agents: Iterable[str]) -> Knowledge:
        """What these agents know of a domain's events once each has told the others."""
        found = []
        for name in agents:
            keys = self._agent_keys(name)
            for content in self._contents(self._state(name), audience("agent", name), keys):
                assert isinstance(content, AgentContent)
                if content.domain == domain:
                    streams = tuple(sorted(self.capture.glob(f"{name}-*-from.bin")))
                    found.append(Attacker(name, keys, content, streams))
        return together(found)

    def _state(self, agent: str) -> Path:
        return self._folder / agent / "state"

    def _agent_keys(self, agent: str) -> Keys:
        return Keys.load(self._state(agent) / "keys.json")

    def _contents(
        self, state: Path, address: str, keys: Keys
    ) -> Iterator[AgentContent | ClientContent]:
        anchors = load_anchors(self.site.anchors)
        folder = BundleFolder(state / "bundles")
        for domain in folder.domains():
            message = folder.load(domain)
            assert message is not None
            content = open_bundle(
                message,
                key=keys.sealing,
                audience=address,
                domain=domain,
                policy_key=anchors.policy,
            ).content
            assert isinstance(content, AgentContent | ClientContent)
            yield content


def pieces_of(secret: bytes) -> list[bytes]:
    """Eight pieces of a long secret, spread over it: each betrays it, also within base64."""
    step = max(3, (len(secret) - 24) // 8 // 3 * 3)
    return [secret[at : at + 24] for at in range(0, len(secret) - 23, step)][:8]


def accepted(handles: Iterable[Handle]) -> list[str]:
    """Wait until every publication is accepted with all its attributes; their identifiers."""
    done = [handle.wait(_ARRIVAL_SECONDS) for handle in handles]
    assert all(one.dropped == () for one in done)
    return [one.id for one in done]


def texts_of(sample: str, events: Iterable[Mapping[str, Any]] = ()) -> set[str]:
    """What must stand in no frame: a sample's names, titles and policies, and events' values.

    Names of domains and agents are left out, for queues are called after them.
    """
    found: set[str] = set()
    domains = set()
    for document in yaml.safe_load_all((SAMPLES / f"{sample}.yaml").read_text()):
        if document["object"] == "domain":
            domains.add(document["name"])
        found |= set(_texts(document))
        if expression := document.get("expression"):
            words = names_and_values(expression)
            found |= {expression, *words, *(word.rpartition(".")[2] for word in words)}
    for values in events:
        found |= {each for each in values.values() if isinstance(each, str)}
        found |= {str(each) for each in values.values() if isinstance(each, float) and each > 10}
    return {text for text in found - domains if len(text) > 1}


_NAMING = frozenset({"name", "title", "description", "attributes", "event_type", "values"})
_QUEUES = frozenset({"agents", "members"})


def _texts(value: Any, *, inside: bool = False) -> Iterator[str]:
    """Texts that stand under the naming fields, however deep."""
    if isinstance(value, str) and inside:
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, inside=inside)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name not in _QUEUES:
                yield from _texts(each, inside=inside or name in _NAMING)


__all__ = ["Got", "Link", "Stage", "accepted", "texts_of", "wait_until"]
