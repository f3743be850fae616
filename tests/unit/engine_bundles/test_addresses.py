"""Addresses: identifiers only, so that nothing can be smuggled into a destination."""

import pytest

from policyengine.bundles import addresses
from policyengine.errors import InputError


def test_names_of_audiences_and_queues():
    assert addresses.audience("agent", "alpha") == "agent:alpha"
    assert addresses.audience("client", "p-01") == "client:p-01"
    assert addresses.split_audience("client:p-01") == ("client", "p-01")
    assert addresses.split_audience("agent:alpha") == ("agent", "alpha")
    assert addresses.control_queue("agent:alpha") == "pc.control.agent.alpha"
    assert addresses.control_queue("client:p-01") == "pc.control.client.p-01"
    assert addresses.publish_queue("alpha", "heating") == "pc.in.alpha.heating"
    assert addresses.hop_queue("alpha", "heating") == "pc.hop.alpha.heating"
    assert addresses.delivery_queue("p-01") == "pc.deliver.p-01"
    assert addresses.dead_queue("alpha") == "pc.dead.alpha"
    assert addresses.retry_queue("alpha", "heating") == "pc.again.alpha.heating"
    assert addresses.REQUESTS_QUEUE == "pc.requests"


HOSTILE = ["", "A", "a.b", "*", ">", "a,b", "a\nb", "a\r\nselector:x", "a b", "ä", "a" * 65, "a:b"]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_identifier_names_no_queue(name):
    for build in (
        lambda: addresses.audience("agent", name),
        lambda: addresses.publish_queue(name, "heating"),
        lambda: addresses.publish_queue("alpha", name),
        lambda: addresses.hop_queue(name, "heating"),
        lambda: addresses.hop_queue("alpha", name),
        lambda: addresses.delivery_queue(name),
        lambda: addresses.retry_queue(name, "heating"),
        lambda: addresses.retry_queue("alpha", name),
        lambda: addresses.dead_queue(name),
        lambda: addresses.identifier(name),
    ):
        with pytest.raises(InputError):
            build()


@pytest.mark.parametrize("address", ["", "alpha", "agent", "agent:", "broker:alpha", "agent:a:b"])
def test_what_is_no_audience_has_no_control_queue(address):
    with pytest.raises(InputError):
        addresses.control_queue(address)


def test_there_are_two_kinds_of_audience():
    with pytest.raises(InputError):
        addresses.audience("broker", "alpha")  # type: ignore[arg-type]
