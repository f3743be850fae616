"""Order-preserving matching: order, inverse, and every scheme against the plain evaluator."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.attributes import (
    And,
    AttributeType,
    Expression,
    Or,
    Value,
    check_values,
    evaluate,
    to_text,
)
from policyengine.attributes.codes import NumberCode
from policyengine.ope import (
    Broker,
    Client,
    DigitCipher,
    EncryptedEvent,
    EncryptedSubscription,
    KeyedComparator,
    Layout,
    OrderTable,
    TextCipher,
    ope_match,
    plain_broker,
    plain_client,
    sbm1_broker,
    sbm1_client,
    sbm2_broker,
    sbm2_client,
)
from policyengine.ope.layout import AFTER
from tests.support.policy_strategies import SCHEMA, TEXTS, values
from tests.support.policy_strategies import tests as one_test

KEY = bytes(range(32))
QUICK = settings(max_examples=60, deadline=None)
CLIENTS: list[Client] = [
    plain_client(SCHEMA),
    sbm1_client(KEY, SCHEMA),
    sbm2_client(KEY, SCHEMA),
]
NUMBERS = {
    "int": AttributeType("int"),
    "from": AttributeType("int", -5),
    "large": AttributeType("int", -(2**40), 2**40, 3),
    "float": AttributeType("float", -1e99, 1e99),
    "grid": AttributeType("float", 0, 100_000, 0.01),
}


def conjunctions() -> st.SearchStrategy[Expression]:
    """Conjunctions, nested ones and constants among them; many tests of one attribute."""
    one = st.one_of(one_test(), one_test(), one_test(), st.sampled_from([And(()), Or(())]))
    flat = st.lists(one, max_size=4).map(lambda terms: And(tuple(terms)))
    return st.one_of(one_test(), flat, st.lists(flat, max_size=3).map(lambda t: And(tuple(t))))


def brokers() -> list[list[Broker]]:
    """Brokers of every kind, by client."""
    return [
        [plain_broker(), plain_broker(rows=3)],
        [sbm1_broker(), sbm1_broker(rows=1), sbm1_broker(rows=5)],
        [
            sbm2_broker(KeyedComparator(KEY)),
            sbm2_broker(KeyedComparator(KEY, remember=0), search="binary", rows=2),
        ],
    ]


@given(st.binary(min_size=32, max_size=32), st.integers(1, 3000), st.integers(13, 64))
@QUICK
def test_tables_keep_order_and_invert(key: bytes, size: int, bits: int) -> None:
    table = OrderTable(key, size, bits=bits)
    plaintexts = np.arange(size)
    ciphertexts = table.encrypt(plaintexts)
    assert np.all(ciphertexts[1:] > ciphertexts[:-1])
    assert int(ciphertexts[-1]) < 2**bits
    assert np.array_equal(table.decrypt(ciphertexts), plaintexts)


@given(st.sampled_from(sorted(NUMBERS)), st.data())
@QUICK
def test_digits_keep_order_and_invert(name: str, data: st.DataObject) -> None:
    declared = NUMBERS[name]
    code = NumberCode(declared)
    cipher = DigitCipher(KEY, code)
    low = -(10**99) if code.low is None else code.low
    high = 10**99 if code.high is None else code.high
    near = min(high, low + 300)
    number = st.integers(low, high) | st.integers(low, near)
    first, second = data.draw(number), data.draw(number)
    assert (cipher.encrypt(first) < cipher.encrypt(second)) == (first < second)
    assert cipher.decrypt(cipher.encrypt(first)) == first


@given(st.text(max_size=20), st.text(max_size=20), st.booleans())
@QUICK
def test_texts_keep_prefixes(first: str, second: str, extend: bool) -> None:
    cipher = TextCipher(KEY)
    text = first + second if extend else second
    low = cipher.encrypt(first)
    assert (low <= cipher.encrypt(text) <= low + AFTER) == text.startswith(first)
    assert (cipher.encrypt(first) == cipher.encrypt(text)) == (first == text)


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | conjunctions()), max_size=14),
    st.lists(values(), min_size=1, max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_every_index_is_the_plain_evaluator_under_change(
    steps: list[tuple[str, Expression | None]], events: list[dict[str, Value]]
) -> None:
    everyone = brokers()
    stored: dict[str, Expression] = {}
    encrypted = [
        [
            EncryptedEvent.from_bytes(client.encrypt_event(check_values(event, SCHEMA)).to_bytes())
            for event in events
        ]
        for client in CLIENTS
    ]
    for number, (name, asked) in enumerate([*steps, ("", None)]):
        for client, group in zip(CLIENTS, everyone, strict=True):
            for broker in group:
                change(broker, client, name, asked, stored)
        if asked is not None:
            stored[name] = asked
        else:
            stored.pop(name, None)
        at = number % len(events)
        expected = sorted(key for key, one in stored.items() if evaluate(one, events[at]))
        for group, sent in zip(everyone, encrypted, strict=True):
            for broker in group:
                assert broker.match(sent[at]) == expected
    for group in everyone:
        for broker in group:
            for name in stored:
                broker.remove(name)
            assert not broker.index.columns


def change(
    broker: Broker,
    client: Client,
    name: str,
    asked: Expression | None,
    stored: dict[str, Expression],
) -> None:
    """Insert, replace or remove a subscription."""
    if asked is None:
        if name in stored:
            broker.remove(name)
        return
    data = client.encrypt_subscription(asked).to_bytes()
    subscription = EncryptedSubscription.from_bytes(data)
    assert subscription.to_bytes() == data
    (broker.update if name in stored else broker.add)(name, subscription)


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), conjunctions()),
    st.lists(values(), max_size=4),
)
@settings(max_examples=40, deadline=None)
def test_ope_match_is_the_plain_evaluator(
    subscriptions: dict[str, Expression], events: list[dict[str, Value]]
) -> None:
    expected = [
        sorted(name for name, one in subscriptions.items() if evaluate(one, event))
        for event in events
    ]
    for scheme in ("plain", "sbm1", "sbm2"):
        assert ope_match(scheme, SCHEMA, subscriptions, events) == expected
    texts = {name: to_text(one) for name, one in subscriptions.items()}
    assert ope_match("sbm1", SCHEMA, texts, events) == expected


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=6), st.data())
@QUICK
def test_points_in_clear_keep_the_order_of_values(texts: list[str], data: st.DataObject) -> None:
    layout = Layout({"s": AttributeType("string"), "w": AttributeType("float")})
    column = layout.columns["s^"]
    assert sorted(texts) == sorted(texts, key=lambda text: column.plain(column.point(text)))
    numbers = data.draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=6))
    wide = layout.columns["w"]
    clean = [number + 0.0 for number in numbers]
    assert sorted(clean) == sorted(clean, key=lambda number: wide.plain(wide.point(number)))
