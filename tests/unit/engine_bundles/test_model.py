"""The model of a bundle: complete, strict, and consistent in itself."""

from dataclasses import replace

import pytest

from policyengine.attributes import AttributeType
from policyengine.bundles import (
    AgentContent,
    AgentRef,
    BundleHeader,
    ClientContent,
    ClientRef,
    ComparatorContent,
    EncodedRule,
    EncodedSubject,
    EpochContent,
    HomeAgent,
    OrderedColumn,
    OrderKey,
    PartRef,
    RateLimit,
    Reply,
    TagKey,
    TrustAnchors,
)
from policyengine.bundles.ordered import columns_by_name
from policyengine.errors import DecodeError, InputError
from policyengine.events import AttributeSpec, EventTypes, TypeSpec
from policyengine.ope import RangeCipher, RangeKey, Slot
from policyengine.primitives import dumps, loads
from tests.support import bundle_samples as samples

K = b"k" * 32
HEADER = BundleHeader(
    domain="heating",
    audience="agent:alpha",
    revision=7,
    previous=samples.DIGEST,
    issued=1,
    expires=2,
    root_version=1,
    parts=(PartRef("scope", samples.DIGEST, 10),),
)
RECORDS = [
    AgentRef("alpha", "a", K, K),
    ClientRef(samples.HANDLE, K, K),
    HomeAgent("alpha", "a", K, K),
    TagKey("a", 1, "staged", K),
    EncodedRule("r1", "AP", "publish", "T", (b"t" * 16,), b"e", ("x",)),
    EncodedSubject(samples.HANDLE, (b"e",)),
    samples.epoch_content(),
    samples.agent_content(),
    samples.agent_content(epochs=(), wraps=(), clients=(), agents=(), types=()),
    samples.client_content(),
    OrderedColumn("T", "x", 1, "current", "sbm2"),
    OrderKey("T", "x", 1, "current", K),
    ComparatorContent("heating", "c", (OrderKey("T", "x", 1, "current", K),)),
    HEADER,
    TrustAnchors(1, K, K, K, K),
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_structure_survives_canonical_json(record):
    assert type(record).from_json(loads(dumps(record.to_json()))) == record


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_a_structure_with_a_missing_or_unknown_member_is_not_read(record):
    whole = record.to_json()
    with pytest.raises(DecodeError):
        type(record).from_json({**whole, "unknown": None})
    for name in whole:
        with pytest.raises(DecodeError):
            type(record).from_json({key: item for key, item in whole.items() if key != name})


def test_rules_that_restrict_by_value_say_what_they_may():
    rule = EncodedRule(
        "r1", "AP", "publish", "T", (b"t" * 16,), b"e", ("x",), ("y",), ("z",), (b"p" * 16,)
    )
    assert EncodedRule.from_json(loads(dumps(rule.to_json()))) == rule
    epoch = replace(samples.epoch_content(), rules=(rule,), proof_key=K)
    assert type(epoch).from_json(loads(dumps(epoch.to_json()))) == epoch
    for changes in ({"proof_key": b""}, {"proof_key": b"short"}):
        with pytest.raises(InputError):
            replace(epoch, **changes)
    for changes in ({"lowers": None}, {"proof": ()}):
        with pytest.raises(InputError):
            replace(rule, action="subscribe", **changes)
    assert replace(rule, action="subscribe", lowers=None, proof=()).suppresses == ("y",)


def test_rules_say_how_often_only_of_publishing():
    rule = replace(samples.epoch_content().rules[0], limit=RateLimit("AP", 1000, 31 * 86_400))
    assert EncodedRule.from_json(loads(dumps(rule.to_json()))) == rule
    assert "limit" not in replace(rule, limit=None).to_json()
    with pytest.raises(InputError):
        replace(rule, action="subscribe")
    for count, seconds in ((0, 1), (1001, 1), (1, 0), (1, 31 * 86_400 + 1)):
        with pytest.raises(InputError):
            RateLimit("AP", count, seconds)


def test_only_a_refusal_says_when_to_ask_again():
    refused = samples.reply(ok=False, reason="too-often", message="later", again=7)
    assert Reply.from_json(loads(dumps(refused.to_json()))) == refused
    assert "again" not in samples.reply().to_json()
    with pytest.raises(InputError):
        samples.reply(again=7)


def test_a_tag_key_is_never_shown():
    assert repr(K) not in repr(TagKey("a", 1, "staged", K))
    assert repr(K) not in repr(samples.client_content(tag_keys=(TagKey("a", 1, "staged", K),)))


RULE = samples.epoch_content().rules[0]
AGENT = samples.agent_content()
CURRENT = samples.epoch_content()


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": "Heating"},
        {"lease_seconds": 0},
        {"lease_seconds": 86_401},
        {"types": ("WaterTemperature",)},
        {"agents": (AGENT.agents[0], AGENT.agents[0])},
        {"agents": (AGENT.clients[0],)},
        {"clients": (AGENT.clients[0], AGENT.clients[0])},
        {"epochs": (CURRENT, replace(CURRENT, state="draining"))},
        {"epochs": (CURRENT, replace(CURRENT, epoch=2))},
        {"wraps": (AGENT.wraps[0], replace(AGENT.wraps[0], state="draining"))},
        {"notices_through": -1},
    ],
)
def test_an_agents_content_that_contradicts_itself_cannot_be_made(changes):
    with pytest.raises(InputError):
        samples.agent_content(**changes)


def test_an_agent_may_hold_two_epochs_of_different_state():
    two = (CURRENT, replace(CURRENT, epoch=2, state="staged"))
    assert samples.agent_content(epochs=two).epochs == two


def test_an_agent_is_told_what_is_split_or_that_nothing_is():
    for splits in (None, {}, {"T": ["degrees"]}, {"T": []}):
        content = samples.agent_content(splits=splits)
        assert AgentContent.from_json(content.to_json()) == content
    for splits in ({"": ["a"]}, {"T": ["a", "a"]}, {"T": "a"}):
        with pytest.raises(InputError):
            samples.agent_content(splits=splits)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "paused"},
        {"rules": (RULE, RULE)},
        {"subjects": CURRENT.subjects * 2},
        {"parameters": [1]},
        {"epoch": -1},
    ],
)
def test_an_epoch_that_contradicts_itself_cannot_be_made(changes):
    with pytest.raises(InputError):
        samples.epoch_content(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "define"},
        {"event_tags": (b"t" * 15,)},
        {"encoded": b""},
        {"attributes": ("a", "a")},
        {"type": ""},
        {"until": -1},
    ],
)
def test_a_rule_out_of_range_cannot_be_made(changes):
    with pytest.raises(InputError):
        replace(RULE, **changes)


HOME = samples.client_content().homes[0]
PART = {"overlay": "a", "attributes": ["degrees"]}


@pytest.mark.parametrize(
    "changes",
    [
        {"homes": (HOME, replace(HOME, agent="beta"))},
        {"fallbacks": (HOME,)},
        {"fallbacks": (replace(HOME, agent="beta"), replace(HOME, agent="delta"))},
        {"fallbacks": (replace(HOME, agent="beta", overlay="z"),)},
        {"tag_keys": samples.client_content().tag_keys * 2},
        {"publishes": ("T", "T")},
        {"window_seconds": 0},
        {"splits": {"T": ()}},
        {"splits": {"T": (PART, PART)}},
        {"splits": {"T": ({"overlay": "a"},)}},
        {"splits": {"T": ({**PART, "more": 1},)}},
        {"splits": {"T": ({**PART, "overlay": "A"},)}},
        {"splits": {"T": ({**PART, "attributes": "degrees"},)}},
        {"splits": {"T": ({**PART, "attributes": ["a", "a"]},)}},
    ],
)
def test_a_clients_content_that_contradicts_itself_cannot_be_made(changes):
    with pytest.raises(InputError):
        samples.client_content(**changes)


def test_a_client_may_have_a_second_agent_beside_a_home():
    second = samples.client_content(fallbacks=(replace(HOME, agent="beta"),))
    assert ClientContent.from_json(second.to_json()) == second
    assert "fallbacks" not in samples.client_content().to_json()


def test_a_header_does_not_repeat_a_part():
    with pytest.raises(InputError):
        replace(HEADER, parts=HEADER.parts * 2)


def test_every_class_is_exported_by_the_model():
    for record in (AgentContent, ClientContent, EpochContent):
        assert record.__name__ in __import__("policyengine.bundles.model", fromlist=["x"]).__all__


def test_a_column_has_one_key_an_epoch_and_one_current_epoch():
    for states, epochs in ((("current", "draining"), (1, 1)), (("current", "current"), (1, 2))):
        entries = tuple(
            OrderKey("T", "x", epoch, state, K) for state, epoch in zip(states, epochs, strict=True)
        )
        with pytest.raises(InputError):
            ComparatorContent("heating", "c", entries)
        with pytest.raises(InputError):
            samples.client_content(ordered=entries)


@pytest.mark.parametrize(
    "content",
    [
        samples.agent_content(ordered=(OrderedColumn("T", "x", 1, "current", "sbm2"),)),
        samples.client_content(ordered=(OrderKey("T", "x", 1, "current", K),)),
    ],
    ids=lambda content: type(content).__name__,
)
def test_what_bundles_say_of_order_is_optional(content):
    whole = content.to_json()
    assert type(content).from_json(loads(dumps(whole))) == content
    assert whole.pop("ordered")
    assert type(content).from_json(whole) == replace(content, ordered=())
    with pytest.raises(DecodeError):
        type(content).from_json({**whole, "ordered": []})


def test_columns_are_named_as_ciphertexts_name_them():
    types = EventTypes([TypeSpec("T", None, (
        AttributeSpec("number", AttributeType("int", minimum=0, maximum=9)),
        AttributeSpec("text", AttributeType("string")),
    ))])  # fmt: skip
    number = OrderedColumn("T", "number", 1, "current", "sbm1")
    text = OrderedColumn("T", "text", 2, "draining", "sbm2")
    found = columns_by_name("d", (number, text), types)
    secret = b"k" * 32
    values = [
        RangeKey(Slot("d", "T", one.attribute, one.epoch), one.scheme, secret)
        for one in (number, text)
    ]
    cipher = RangeCipher(
        EventTypes([TypeSpec("T", None, tuple(
            AttributeSpec(one.name, one.type, (), "confidential", "order-preserving")
            for one in types.attributes("T")
        ))]),
        [(key, True) for key in values],
    )  # fmt: skip
    made = cipher.encrypt_values("T", {"number": 3, "text": "x"})
    assert set(found) == set(made.columns)
    assert {name: found[name].attribute for name in made.columns} == found_attributes(made)
    with pytest.raises(InputError):
        columns_by_name("d", (OrderedColumn("T", "other", 1, "current", "sbm1"),), types)


def found_attributes(made):
    by_scheme = {"sbm1": "number", "sbm2": "text"}
    return {name: by_scheme[event.scheme] for event in made.events for name, _ in event.values}
