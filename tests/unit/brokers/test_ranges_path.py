"""Order-preserving attributes from publisher to subscriber, agents as pure functions."""

from dataclasses import replace
from functools import cache

import pytest

from brokers.client.assembly import Assembly, Interests
from brokers.client.errors import NotReady
from brokers.client.ranges import range_cipher
from brokers.data.handle import Effects
from brokers.data.ranges import admit_ranges
from policyengine.attributes import evaluate, parse
from policyengine.blind import Context
from policyengine.bundles import SubscribeRequest, encode_framed, open_publication, seal_subscribe
from policyengine.bundles.framing import decode_framed
from policyengine.errors import DecodeError, InputError
from policyengine.events import EventTypes
from policyengine.ope import RangeFilter, RangeValues
from tests.support.comparators import MemoryComparator
from tests.support.pure_agents import (
    NOW,
    PureAgent,
    client_policy,
    deliveries,
    hops,
    publication,
    replies,
    subscription,
)
from tests.support.ranged import ranged

SUBSCRIBERS = ("p-near", "p-far", "p-public", "p-nobody")
FILTERS = (
    "",
    "delay > 60",
    "delay <= 60 && carrier == 'UA'",
    "delay in [5, 90] || delay < 0",
    "tail startsWith 'N9'",
    "tail endsWith 'Z' && delay >= 5 && delay < 91",
    "has(tail) && carrier != 'UA'",
)
EVENTS = (
    ("Flight", {"carrier": "UA", "delay": 90, "tail": "N90210XZ"}),
    ("Flight", {"carrier": "DL", "delay": -5, "tail": "D77"}),
    ("Departure", {"carrier": "UA", "delay": 60, "wait": 7, "gate": "A1"}),
    ("Departure", {"carrier": "DL", "delay": 5, "tail": "N9Z"}),
    ("Flight", {"carrier": "UA", "tail": "N9"}),
    ("Flight", {"carrier": "UA"}),
)


@cache
def site(*epochs):
    return ranged({number: (state, scheme) for number, state, scheme in epochs})


def comparator(organisation):
    keys = (key for key, _ in organisation.order_keys() if key.scheme == "sbm2")
    return MemoryComparator([key.comparator_key() for key in keys])


def agents(organisation, by=None):
    return [PureAgent(organisation, name, comparator=by) for name in ("alpha", "beta")]


def ask_for(agent, handle, text, event_type="Flight", number=1):
    body = subscription(agent.organisation, handle, event_type, text, request=f"{number:032x}")
    return keep(agent, agent.client_message(body))


def keep(agent, effects):
    agent.subscriptions += effects.subscribed
    return effects


def hide(policy, event_type, values):
    return policy.blind.hide(event_type, values, values, Context("0" * 32, 0), whole=True)


def delivered(pair, event_type, values, publisher="p-airport", number=1, **changes):
    """Handle -> delivery, of an event published at alpha and what comes of it at beta."""
    alpha, beta = pair
    body = publication(
        alpha.organisation, publisher, event_type, values, identifier=f"{number:032x}", **changes
    )
    effects = alpha.client_message(body)
    assert effects.refusal is None, effects.refusal
    outgoing = [*effects.outgoing, *beta.hop(hops(effects.outgoing)["beta"]).outgoing]
    found = deliveries(alpha.organisation, outgoing)
    return {handle: one for handle, (one,) in found.items()}


@pytest.mark.parametrize(
    ("scheme", "publisher"),
    [("sbm1", "p-airport"), ("sbm2", "p-airport"), ("sbm2", "p-kiosk")],
)
def test_everybody_gets_what_the_plain_policies_and_filters_say(scheme, publisher):
    organisation = site((1, "current", scheme))
    types = EventTypes(organisation.types)
    for text in FILTERS:
        pair = agents(organisation, comparator(organisation))
        for number, handle in enumerate(SUBSCRIBERS):
            home = pair[organisation.clients[handle].homes["a"] == "beta"]
            assert ask_for(home, handle, text, number=number).refusal is None
        for number, (event_type, values) in enumerate(EVENTS):
            written = organisation.writable(publisher, event_type, values)
            kept = {name: values[name] for name in written}
            wanted = {}
            for handle in SUBSCRIBERS:
                read = organisation.readable(handle, event_type, kept)
                seen = {name: kept[name] for name in read or ()}
                asked = parse(text, types.schema("Flight")) if text else None
                if read is not None and (asked is None or evaluate(asked, seen)):
                    wanted[handle] = seen
            found = delivered(pair, event_type, values, publisher, number)
            assert set(found) == set(wanted), (text, values)
            hidden = {"delay", "tail", "wait"}
            for handle, one in found.items():
                clear = {n: v for n, v in wanted[handle].items() if n not in hidden}
                assert one.attributes == clear
                words = {
                    name: "match-only" if name in wanted[handle] else "not-permitted"
                    for name in hidden & set(kept)
                }
                assert {n: one.withheld[n] for n in hidden & set(one.withheld)} == words


@pytest.mark.parametrize("scheme", ["sbm1", "sbm2"])
def test_nothing_that_agents_handle_holds_a_value_or_a_name(scheme):
    organisation = site((1, "current", scheme))
    seen = {delay: agents_see(organisation, delay) for delay in (7351, 6247, 8132, 5923)}
    for place in range(3):
        shown = [(delay, data[place]) for delay, data in seen.items()]
        assert not any(b"N90210" in data for _, data in shown)
        # A few bytes stand in a ciphertext by chance, and not in each of four.
        assert not all(b"delay" in data for _, data in shown)
        assert not all(b"tail" in data for _, data in shown)
        assert not all(str(delay).encode() in data for delay, data in shown)
        assert not all(delay.to_bytes(2, "big") in data for delay, data in shown)


def agents_see(organisation, delay):
    """What agents have of an event and of a filter with this delay."""
    alpha = agents(organisation, comparator(organisation))[0]
    values = {"carrier": "UA", "delay": delay, "tail": "N90210XZ"}
    body = publication(organisation, "p-airport", "Flight", values)
    keys = organisation.agents["alpha"].keys
    part = open_publication(decode_framed(body)[1], key=keys.sealing, agent="alpha").part
    ask_for(alpha, "p-near", f"delay == {delay} && tail startsWith 'N90210' && carrier == 'UA'")
    (kept,) = alpha.subscriptions
    assert "UA" in kept.filter
    return part.ordered, repr(part).encode(), repr(kept).encode()


def test_what_a_publisher_may_not_write_is_left_out_and_reported():
    organisation = site((1, "current", "sbm1"))
    alpha, beta = agents(organisation)
    values = {"carrier": "UA", "delay": 1, "tail": "N1"}
    body = publication(organisation, "p-kiosk", "Flight", values)
    effects = alpha.client_message(body)
    (reply,) = replies(organisation, effects.outgoing)["p-kiosk"]
    assert reply.ok
    assert reply.dropped == ("tail",)
    ask_for(beta, "p-far", "has(tail)", number=1)
    assert deliveries(organisation, beta.hop(hops(effects.outgoing)["beta"]).outgoing) == {}


def test_a_value_that_is_hidden_is_never_taken_in_clear():
    organisation = site((1, "current", "sbm1"))
    pair = agents(organisation)
    ask_for(pair[0], "p-near", "", number=1)
    values = {"carrier": "UA", "delay": 1}
    found = delivered(pair, "Flight", values, attributes=values, ordered=b"")
    assert found["p-near"].attributes == {"carrier": "UA"}


@pytest.mark.parametrize("scheme", ["sbm1", "sbm2"])
def test_epochs_do_not_meet_and_filters_span_them(scheme):
    before = site((1, "current", scheme))
    during = replace(before, order_epochs={1: ("draining", scheme), 2: ("current", scheme)})
    after = replace(before, order_epochs={1: ("retired", scheme), 2: ("current", scheme)})
    by = comparator(during)
    values = {"carrier": "UA", "delay": 90}
    old = publication(before, "p-airport", "Flight", values, identifier="a" * 32)
    new = publication(during, "p-airport", "Flight", values, identifier="b" * 32)
    agent = PureAgent(during, "alpha", comparator=by)
    ask_for(agent, "p-near", "delay > 60")
    for body in (old, new):
        assert set(deliveries(during, agent.client_message(body).outgoing)) == {"p-near"}
    only_old = PureAgent(during, "alpha", comparator=by)
    body = subscription(before, "p-near", "Flight", "delay > 60")
    keep(only_old, only_old.client_message(body))
    assert len(only_old.subscriptions) == 1
    assert deliveries(during, only_old.client_message(new).outgoing) == {}
    late = PureAgent(after, "alpha", comparator=by)
    refusal = late.client_message(old).refusal
    assert refusal is not None
    assert refusal.reason == "epoch-retired"
    early = PureAgent(before, "alpha", comparator=by)
    refusal = early.client_message(new).refusal
    assert refusal is not None
    assert refusal.reason == "epoch-unknown"
    assert ask_for(PureAgent(after, "alpha"), "p-near", "delay > 60").refusal is None


def test_a_filter_of_keys_that_an_agent_lacks_is_asked_again():
    organisation = site((1, "current", "sbm1"))
    ahead = replace(organisation, order_epochs={3: ("current", "sbm1")})
    refused = PureAgent(organisation, "alpha").client_message(
        subscription(ahead, "p-near", "Flight", "delay > 60")
    )
    assert refused.refusal is not None
    assert refused.refusal.reason == "epoch-unknown"
    assert refused.subscribed == ()


def test_while_the_comparator_is_away_events_that_need_it_wait():
    organisation = site((1, "current", "sbm2"))
    by = comparator(organisation)
    agent = PureAgent(organisation, "alpha", comparator=by)
    ask_for(agent, "p-near", "delay > 60 && carrier == 'UA'")
    late = publication(organisation, "p-airport", "Flight", {"carrier": "UA", "delay": 61})
    by.away = True
    assert agent.client_message(late) == Effects(hold="comparator-away")
    other = publication(
        organisation, "p-airport", "Flight", {"carrier": "DL", "delay": 61}, identifier="c" * 32
    )
    # in clear it is decided already
    assert agent.client_message(other).hold == ""
    by.away = False
    effects = agent.client_message(late)
    assert set(deliveries(organisation, effects.outgoing)) == {"p-near"}


def test_a_hop_waits_for_the_comparator_too():
    organisation = site((1, "current", "sbm2"))
    by = comparator(organisation)
    alpha, beta = agents(organisation, by)
    ask_for(beta, "p-far", "delay > 60")
    body = publication(organisation, "p-airport", "Flight", {"carrier": "UA", "delay": 61})
    hop = hops(alpha.client_message(body).outgoing)["beta"]
    by.away = True
    assert beta.hop(hop).hold == "comparator-away"
    by.away = False
    assert set(deliveries(organisation, beta.hop(hop).outgoing)) == {"p-far"}


def test_without_a_comparator_nothing_of_sbm2_is_met():
    organisation = site((1, "current", "sbm2"))
    agent = PureAgent(organisation, "alpha")
    ask_for(agent, "p-near", "delay > 60")
    body = publication(organisation, "p-airport", "Flight", {"carrier": "UA", "delay": 61})
    assert deliveries(organisation, agent.client_message(body).outgoing) == {}


def changed(organisation, **changes):
    values = {"carrier": "UA", "delay": 61}
    return publication(organisation, "p-airport", "Flight", values, **changes)


def made(organisation, event_type, values):
    return hide(client_policy(organisation, "p-airport"), event_type, values).ordered


def test_values_that_are_wrong_are_refused_with_a_reason():
    organisation = site((1, "current", "sbm1"))
    other = replace(organisation, order_epochs={1: ("current", "sbm2")})
    both = replace(organisation, order_epochs={1: ("draining", "sbm1"), 2: ("current", "sbm1")})
    one = RangeValues.from_bytes(made(organisation, "Flight", {"delay": 1})).events[0]
    two = RangeValues.from_bytes(made(both, "Flight", {"delay": 1})).events[0]
    twice = replace(one, values=tuple(sorted((*one.values, *two.values))))
    cases = (
        (organisation, b"damaged", "malformed"),
        (organisation, made(other, "Flight", {"delay": 1}), "malformed"),
        (organisation, made(organisation, "Departure", {"wait": 1}), "malformed"),
        (both, RangeValues((twice,)).to_bytes(), "malformed"),
    )
    for world, data, reason in cases:
        agent = PureAgent(world, "alpha")
        effects = agent.client_message(changed(world, ordered=data))
        assert effects.refusal is not None
        assert effects.refusal.reason == reason
        assert deliveries(world, effects.outgoing) == {}
        (reply,) = replies(world, effects.outgoing)["p-airport"]
        assert not reply.ok


def test_a_value_that_does_not_open_is_refused():
    organisation = site((1, "current", "sbm2"))
    agent = PureAgent(organisation, "alpha", comparator=comparator(organisation))
    ask_for(agent, "p-near", "delay > 60")
    (event,) = RangeValues.from_bytes(made(organisation, "Flight", {"delay": 1})).events
    ((name, cipher),) = event.values
    broken = replace(event, values=((name, cipher[:-1] + bytes([cipher[-1] ^ 1])),))
    effects = agent.client_message(changed(organisation, ordered=RangeValues((broken,)).to_bytes()))
    assert effects.refusal is not None
    assert effects.refusal.reason == "malformed"


def raw_request(organisation, **changes):
    request = SubscribeRequest(
        domain="flights", client="p-near", request="2" * 32, subscription="mine",
        action="subscribe", type="Flight", filter="", issued=int(NOW),
    )  # fmt: skip
    sealed = seal_subscribe(
        replace(request, **changes),
        signing_key=organisation.clients["p-near"].keys.signing,
        recipient=organisation.agents["alpha"].keys.sealing.public,
        agent="alpha",
    )
    return encode_framed("subscribe", sealed)


def test_filters_that_are_wrong_are_refused_with_a_reason():
    organisation = site((1, "current", "sbm1"))
    other = replace(organisation, order_epochs={1: ("current", "sbm2")})
    policy, foreign = client_policy(organisation, "p-near"), client_policy(other, "p-near")
    for changes in (
        {"filter": "delay > 60"},
        {"ordered": b"damaged"},
        {"ordered": foreign.blind.ask("Flight", "delay > 60").ordered},
        {"ordered": policy.blind.ask("Departure", "wait > 60").ordered},
    ):
        effects = PureAgent(organisation, "alpha").client_message(
            raw_request(organisation, **changes)
        )
        assert effects.refusal is not None
        assert effects.refusal.reason == "invalid-filter"
        assert effects.subscribed == ()


def test_a_filter_about_what_its_subscriber_may_not_read_is_never_met():
    organisation = site((1, "current", "sbm1"))
    pair = agents(organisation)
    ask_for(pair[1], "p-public", "tail startsWith 'N' || delay > 0", number=1)
    ask_for(pair[1], "p-far", "tail startsWith 'N' || delay > 0", number=2)
    found = delivered(pair, "Flight", {"carrier": "UA", "delay": 1, "tail": "N1"})
    assert set(found) == {"p-far"}


def test_clients_say_what_they_cannot_hide():
    organisation = site((1, "current", "sbm1"))
    policy = client_policy(organisation, "p-airport")
    with pytest.raises(InputError):
        hide(policy, "Flight", {"delay": 99_999})
    with pytest.raises(InputError, match="`carrier`"):
        policy.blind.ask("Flight", "delay > 60 || carrier == 'UA'")
    without = client_policy(replace(organisation, order_epochs={}), "p-airport")
    with pytest.raises(NotReady, match="no key"):
        hide(without, "Flight", {"delay": 9})
    with pytest.raises(NotReady, match="no key"):
        without.blind.ask("Flight", "delay > 9")
    staged = replace(organisation, order_epochs={1: ("staged", "sbm1")})
    with pytest.raises(NotReady, match="no key"):
        hide(client_policy(staged, "p-airport"), "Flight", {"delay": 9})
    assert client_policy(staged, "p-airport").blind.ask("Flight", "delay > 9").ordered
    assert hide(policy, "Nothing", {"delay": 9}).attributes == {"delay": 9}
    assert hide(policy, "Flight", {"carrier": "UA"}).ordered == b""


def test_filters_are_told_anew_when_keys_change():
    organisation = site((1, "current", "sbm1"))
    policy = client_policy(organisation, "p-near").blind
    later = client_policy(
        replace(organisation, order_epochs={1: ("draining", "sbm1"), 2: ("current", "sbm1")}),
        "p-near",
    ).blind
    assert policy.asked_under("Flight") != later.asked_under("Flight")
    assert policy.asked_under("Flight") == client_policy(organisation, "p-far").blind.asked_under(
        "Flight"
    )
    alone = policy.ask("Flight", "delay > 60")
    assert (alone.clear, alone.blind) == ("", ())
    assert RangeFilter.from_bytes(alone.ordered).columns
    both = policy.ask("Flight", "delay > 60 && carrier == 'UA'")
    assert "delay" not in both.clear
    assert "UA" in both.clear
    assert len(RangeFilter.from_bytes(later.ask("Flight", "delay > 60").ordered).columns) == 2


def test_keys_that_stand_in_the_place_of_others_are_refused():
    organisation = site((1, "current", "sbm1"))
    content = organisation.client_content("p-near")
    first, second, *rest = content.ordered
    swapped = (replace(first, key=second.key), replace(second, key=first.key), *rest)
    with pytest.raises(DecodeError):
        range_cipher("flights", EventTypes(organisation.types), swapped)


def test_a_client_takes_the_agents_word_for_what_it_cannot_see():
    organisation = site((1, "current", "sbm1"))
    pair = agents(organisation)
    ask_for(pair[0], "p-near", "delay > 60 && carrier == 'UA'")
    one = delivered(pair, "Flight", {"carrier": "UA", "delay": 61})["p-near"]
    types = EventTypes(organisation.types)

    def handed_out(delivery, text):
        assembly = Assembly(lambda key: False, "flights")
        whole = assembly.add(delivery, None, now=0.0).whole
        return Interests.build(types, [("Flight", text)]).meet(whole.event)

    assert handed_out(one, "delay > 60 && carrier == 'UA'")
    assert handed_out(one, "delay > 60")
    assert not handed_out(one, "delay > 60 && carrier == 'DL'")
    # the agent has not said so of an attribute that does not come along for another reason
    hidden = replace(one, withheld={"delay": "not-permitted"})
    assert not handed_out(hidden, "delay > 60")


def test_an_admitted_part_without_hidden_values_stays_as_it_is():
    organisation = site((1, "current", "sbm1"))
    agent = PureAgent(organisation, "alpha")
    body = publication(organisation, "p-airport", "Flight", {"carrier": "UA"})
    keys = organisation.agents["alpha"].keys
    part = open_publication(decode_framed(body)[1], key=keys.sealing, agent="alpha").part
    assert admit_ranges(agent.snapshot, part, "Flight", lambda name: True).data == b""
