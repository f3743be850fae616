"""Clients that read by filters, on a whole site: real brokers, agents, authority and worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.client import Event, NotAuthorised, Publisher, Subscriber
from tasks.local.activemq import ActiveMQ, write_brokers_file
from tests.support.distribution_site import Site
from tests.support.markets import QUOTE, priced
from tests.support.ports import wait_until

pytestmark = [pytest.mark.activemq, pytest.mark.slow]

FUND, INVESTOR = "pension-fund", "small-investor"


@pytest.fixture
def site(tmp_path: Path, activemq_pair: dict[str, ActiveMQ]) -> Iterator[Site]:
    def brokers_file(account: str) -> Path:
        entries = {name: broker.entry(account) for name, broker in activemq_pair.items()}
        return write_brokers_file(tmp_path / f"brokers-{account}.json", entries)

    made = Site(tmp_path, brokers_file)
    try:
        made.start(str(priced(tmp_path)))
        made.wait_current("stocks")
        yield made
    finally:
        made.stop()


def settled(site: Site, above: int) -> int:
    """Wait for a blind epoch above a number to be the only one."""
    wait_until(
        lambda: site.call("blind-epoch", "stocks") > above,
        seconds=120, what=f"an epoch after {above} to be current alone",
    )  # fmt: skip
    return int(site.call("blind-epoch", "stocks"))


def received(subscriber: Subscriber, publication: str) -> Event:
    event = subscriber.next_event(60)
    assert event is not None
    assert event.publication == publication
    subscriber.finish()
    return event


def in_epoch(client: Publisher | Subscriber, epoch: int) -> None:
    """Wait until a client holds a blind epoch and no other: what was sent before has arrived."""

    def there() -> bool:
        policy = client._session.policy.current
        return policy is not None and set(policy.blind.epochs) == {epoch}

    wait_until(there, seconds=180, what=f"a client to be in epoch {epoch}")


def held(subscriber: Subscriber) -> list[Any]:
    return [(each.attributes, each.epochs) for each in subscriber.filter_keys]


def test_a_client_reads_by_the_keys_that_it_asks_for(site: Site) -> None:
    before = settled(site, 0)
    for name in (FUND, INVESTOR):
        assert site.call("read-by-filters", name) is True
    epoch = settled(site, before)
    with (
        Subscriber(site.profiles[FUND]) as fund,
        Subscriber(site.profiles[INVESTOR]) as investor,
        Publisher(site.profiles["nasdaq"]) as publisher,
    ):
        for client in (fund, investor, publisher):
            client.wait_ready(60)
            in_epoch(client, epoch)
        fund.subscribe("Quote", timeout=60)
        # Without a key it has the event, and reads nothing of it.
        first = publisher.publish("Quote", QUOTE, timeout=60)
        event = received(fund, first.id)
        assert dict(event.attributes) == {}
        assert event.withheld["price"] == "no-key"
        key = fund.filter_key("Quote", ["price"], timeout=60)
        assert key.epochs == (epoch,)
        with pytest.raises(NotAuthorised, match="small-investor may not"):
            investor.filter_key("Quote", ["price"], timeout=60)
        second = publisher.publish("Quote", QUOTE, timeout=60)
        assert dict(received(fund, second.id).attributes) == {"price": 12}
        # Another epoch, without anybody asking for anything.
        site.call("rotate-blind-keys", "stocks")
        newer = settled(site, epoch)
        wait_until(
            lambda: held(fund) == [(("price",), (newer,))], seconds=180, what="the key to follow"
        )
        in_epoch(publisher, newer)
        third = publisher.publish("Quote", QUOTE, timeout=60)
        assert dict(received(fund, third.id).attributes) == {"price": 12}
        # The right ends, and its key with it.
        site.call("end-appointment", FUND, "premium_contract")
        in_epoch(publisher, settled(site, newer))
        wait_until(
            lambda: "premium" in fund.filter_keys[0].reason,
            seconds=180,
            what="the key to be refused",
        )
        fourth = publisher.publish("Quote", QUOTE, timeout=60)
        assert dict(received(fund, fourth.id).attributes) == {}
    told = site.call("filter-answers")
    assert told[0] == [
        "filter-key.given",
        FUND,
        {"type": "Quote", "attributes": ["price"], "asked_by": "client", "epoch": epoch},
    ]
    assert ("filter-key.refused", INVESTOR) in [(action, name) for action, name, _ in told]
    assert told[-1][:2] == ["filter-key.refused", FUND]
