"""Blind profiles with real agent processes and real clients on real ActiveMQ brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from brokers.client import Event, Refused, Subscriber
from policyengine.bundles import decode_framed, open_hop, open_publication
from policyengine.errors import PortcullisError
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.agent_processes import World, kept_by
from tests.support.blind import READING, SECRETS, BlindOrganisation, clinic, forms_of
from tests.support.data_plane import PATIENCE, wait_until
from tests.support.stomp_tap import bodies
from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.activemq

Taps = dict[str, TcpProxy]


@pytest.fixture
def taps(activemq_pair: dict[str, ActiveMQ]) -> Iterator[Taps]:
    made = {
        name: TcpProxy((one.host, one.port), record=True) for name, one in activemq_pair.items()
    }
    yield made
    for one in made.values():
        one.close()


@pytest.fixture
def brokers(
    activemq_pair: dict[str, ActiveMQ], taps: Taps, tmp_path: Path
) -> Callable[[str], Path]:
    """A function: account name -> a brokers file that leads through the taps."""

    def write(account: str) -> Path:
        entries = {
            name: broker.entry(account, port=taps[name].port)
            for name, broker in activemq_pair.items()
        }
        return write_brokers_file(tmp_path / f"brokers-{account}.json", entries)

    return write


def _subscribers(world: World, wishes: dict[str, str]) -> dict[str, Subscriber]:
    made = {short: world.subscriber(short) for short in wishes}
    for short, text in wishes.items():
        made[short].subscribe("Reading", text, timeout=PATIENCE)
    return made


def _got(subscriber: Subscriber, publication: str, seconds: float = PATIENCE) -> Event | None:
    """The event of a publication, which must be the next one."""
    event = subscriber.next_event(seconds)
    if event is not None:
        subscriber.finish()
        assert event.publication == publication
    return event


def _free(data: bytes) -> bool:
    return not any(form in data for secret in SECRETS for form in forms_of(secret))


def _opened_by_agents(world: World, taps: Taps, *agents: str) -> list[str]:
    """All messages that passed, opened with everything that these agents hold together."""
    organisation = world.organisation
    found = []
    for tap in taps.values():
        for body in bodies(tap):
            for short in agents:
                agent = organisation.agents[world.name(short)]
                with suppress(PortcullisError):
                    kind, payload = decode_framed(body)
                    if kind == "publication":
                        key = agent.keys.sealing
                        signed = open_publication(payload, key=key, agent=agent.name)
                        found.append(repr(signed.part.to_json()))
                with suppress(PortcullisError):
                    routed = open_hop(
                        body,
                        hop_keys={1: organisation.overlay_key(agent.overlay, 1)},
                        verify=lambda name: organisation.agents[name].keys.signing.public,
                    )
                    found.append(repr(routed.to_json()))
    return found


def test_what_nobody_on_the_way_can_read_reaches_who_may(
    tmp_path: Path, brokers: Callable[[str], Path], taps: Taps
) -> None:
    world = World.make(tmp_path, brokers, clinic)
    try:
        world.start()
        readers = _subscribers(
            world,
            {
                "p-doctor": 'patient == "Alice Asphodel"',
                "p-nurse": 'ward == "north" && trial == "trial-zeta"',
                "p-alarm": "",
                "p-archive": "",
                "p-visitor": "",
            },
        )
        publisher = world.publisher("p-device")
        others = publisher.publish(
            "Reading", {**READING, "pulse": 60, "patient": "Bob", "trial": "none"}, timeout=20
        )
        done = publisher.publish("Reading", READING, timeout=PATIENCE)
        assert others.dropped == done.dropped == ()
        _check_readers(readers, others.id, done.id)
        assert _got(readers["p-visitor"], "", 0.5) is None
        # Neither the broker nor the agents' disks hold what is hidden.
        heard = b"\n".join(data for tap in taps.values() for data in tap.heard)
        assert world.name("alpha").encode() in heard
        assert _free(heard)
        assert _free(kept_by(world.agents.values()))
        opened = _opened_by_agents(world, taps, "alpha", "beta", "gamma")
        assert any("north" in one for one in opened)
        assert all(_free(one.encode()) for one in opened)
        # A filter over what is hidden, from one whose share no agent holds any more, and
        # reading: both end with the share.
        _delete_share(world, "p-doctor")
        with pytest.raises(Refused) as refused:
            readers["p-doctor"].subscribe("Reading", "pulse > 1", timeout=PATIENCE)
        assert refused.value.reason == "no-share"
        readers["p-doctor"].subscribe("Reading", 'ward == "north"', timeout=PATIENCE)
        after = publisher.publish("Reading", READING, timeout=PATIENCE)
        event = _got(readers["p-doctor"], after.id)
        assert event is not None
        assert event.attributes == {"ward": "north"}
        assert event.withheld["patient"] == event.withheld["pulse"] == "no-key"
    finally:
        world.close()


def _check_readers(readers: dict[str, Subscriber], others: str, done: str) -> None:
    doctor = _got(readers["p-doctor"], done)
    assert doctor is not None
    assert doctor.attributes == {"ward": "north", "patient": "Alice Asphodel", "pulse": 171}
    assert doctor.withheld == {"trial": "match-only"}
    nurse = _got(readers["p-nurse"], done)
    assert nurse is not None
    assert nurse.attributes == {"ward": "north", "pulse": 171}
    alarm = _got(readers["p-alarm"], done)
    assert alarm is not None
    assert alarm.attributes == {"ward": "north", "pulse": 171}
    for publication in (others, done):
        archive = _got(readers["p-archive"], publication)
        assert archive is not None
        assert archive.attributes == {"ward": "north"}


def _delete_share(world: World, short: str) -> None:
    organisation = world.organisation
    assert isinstance(organisation, BlindOrganisation)
    organisation.unshared.add(world.name(short))
    for agent in ("beta", "gamma"):
        world.control.push(organisation, world.address(agent))
        world.control.wait_applied(world.address(agent), 2)


def test_two_overlays_that_collude_and_a_new_epoch(
    tmp_path: Path, brokers: Callable[[str], Path], taps: Taps
) -> None:
    """Paper 004: parts travel over two overlays; agents of both put together what they have."""
    splits = {
        "Reading": [
            {"overlay": "a", "attributes": ["ward", "patient"]},
            {"overlay": "b", "attributes": ["pulse", "trial"]},
        ]
    }
    world = World.make(tmp_path, brokers, clinic, splits=splits)
    try:
        world.start()
        readers = _subscribers(
            world, {"p-doctor": "pulse > 100", "p-nurse": 'patient == "Alice Asphodel"'}
        )
        publisher = world.publisher("p-device")
        done = publisher.publish("Reading", READING, timeout=PATIENCE)
        event = _got(readers["p-doctor"], done.id)
        assert event is not None
        assert event.attributes == {"ward": "north", "patient": "Alice Asphodel", "pulse": 171}
        assert _got(readers["p-nurse"], "", 0.5) is None  # who may not read cannot ask either
        for states in ({1: "current", 2: "staged"}, {1: "draining", 2: "current"}, {2: "current"}):
            _turn(world, states, "p-device", "p-doctor", "p-nurse")
        later = publisher.publish("Reading", READING, timeout=PATIENCE)
        event = _got(readers["p-doctor"], later.id)
        assert event is not None
        assert event.attributes["patient"] == "Alice Asphodel"
        opened = _opened_by_agents(world, taps, "alpha", "beta", "gamma")
        assert any("'north'" in one for one in opened)
        assert all(_free(one.encode()) for one in opened)
        assert _free(b"\n".join(data for tap in taps.values() for data in tap.heard))
        assert _free(kept_by(world.agents.values()))
    finally:
        world.close()


def _turn(world: World, states: dict[int, str], *clients: str) -> None:
    """Agents first, then clients, as the control plane does."""
    organisation = world.organisation
    assert isinstance(organisation, BlindOrganisation)
    organisation.blind_epochs = states
    for listed in (("alpha", "beta", "gamma"), clients):
        for short in listed:
            world.control.push(organisation, world.address(short))
        for short in listed:
            place = (organisation.domain, world.address(short))
            world.control.wait_applied(world.address(short), world.control.revisions[place])


def test_a_filter_follows_its_subscriber_into_a_new_epoch(
    tmp_path: Path, brokers: Callable[[str], Path]
) -> None:
    world = World.make(tmp_path, brokers, clinic)
    try:
        world.start()
        readers = _subscribers(world, {"p-doctor": 'patient == "Alice Asphodel"'})
        publisher = world.publisher("p-device")
        file = world.agents["beta"].folder / "state" / "subscriptions.json"
        before = file.read_bytes()
        _turn(world, {1: "current", 2: "staged"}, "p-device", "p-doctor")
        wait_until(lambda: file.read_bytes() != before, "the filter to be told anew")
        _turn(world, {1: "draining", 2: "current"}, "p-device", "p-doctor")
        done = publisher.publish("Reading", READING, timeout=PATIENCE)
        event = _got(readers["p-doctor"], done.id)
        assert event is not None
        assert event.attributes["patient"] == "Alice Asphodel"
    finally:
        world.close()


def test_events_in_the_outbox_wait_for_keys_that_are_on_their_way(
    tmp_path: Path, brokers: Callable[[str], Path]
) -> None:
    world = World.make(tmp_path, brokers, clinic, blind_epochs={1: "staged"})
    try:
        world.start()
        readers = _subscribers(world, {"p-doctor": "pulse > 100"})
        publisher = world.publisher("p-device")
        publisher.wait_ready()
        kept = publisher.enqueue("Reading", READING)
        assert not publisher.flush(timeout=2)
        assert (publisher.waiting, publisher.refused()) == (1, [])
        _turn(world, {1: "current"}, "p-device", "p-doctor")
        assert publisher.flush(timeout=PATIENCE)
        assert publisher.refused() == []
        event = _got(readers["p-doctor"], kept)
        assert event is not None
        assert event.attributes["pulse"] == 171
    finally:
        world.close()
