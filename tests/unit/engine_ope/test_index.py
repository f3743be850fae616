"""The index: changes, buckets, failures, threads; and the comparator's protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from policyengine.attributes import And, AttributeType, Test
from policyengine.errors import DecodeError, DecryptionError, InputError
from policyengine.ope import (
    COMPACT_ROWS,
    Broker,
    Client,
    EncryptedSubscription,
    KeyedComparator,
    Layout,
    Question,
    Range,
    SubscriptionIndex,
    TreeLocator,
    answers_from_bytes,
    answers_to_bytes,
    plain_broker,
    plain_client,
    questions_from_bytes,
    questions_to_bytes,
    sbm1_broker,
    sbm1_client,
    sbm2_broker,
    sbm2_client,
)
from policyengine.ope.clients import sbm2_key, seal_point
from policyengine.ope.orders import SortedLocator, TreeOrder, _Walk
from policyengine.ope.tree import Node
from policyengine.primitives.aead import seal
from policyengine.primitives.rand import SYSTEM_RANDOM, SeededRandom

KEY = bytes(range(32))
SCHEMA = {"a": AttributeType("int", 0, 1000), "b": AttributeType("float")}


class Recorder:
    """A comparator that remembers what it was asked and may answer wrongly."""

    def __init__(self, answers: list[int] | None = None) -> None:
        self.rounds: list[tuple[Question, ...]] = []
        self.inner = KeyedComparator(KEY)
        self.answers = answers

    def compare(self, questions: Sequence[Question]) -> Sequence[int]:
        self.rounds.append(tuple(questions))
        return self.inner.compare(questions) if self.answers is None else self.answers


def interval(name: str, low: float, high: float) -> And:
    """Build what would be slow to parse so often."""
    return And((Test(name, ">=", low), Test(name, "<=", high)))


def loaded(broker: Broker, client: Client, count: int, seed: int = 1) -> np.ndarray:
    ends = np.sort(np.random.default_rng(seed).integers(0, 1001, (count, 2)), axis=1)
    broker.add_many(
        {
            f"s{number}": client.encrypt_subscription(interval("a", low, high))
            for number, (low, high) in enumerate(ends.tolist())
        }
    )
    return ends


@pytest.mark.parametrize("rows", [4096, COMPACT_ROWS, 300, 1])
def test_many_subscriptions_agree_with_brute_force_under_churn(rows: int) -> None:
    client, broker = sbm1_client(KEY, SCHEMA), sbm1_broker(rows=rows)
    ends = loaded(broker, client, 700)
    alive = np.ones(700, dtype=bool)
    assert len(broker.index) == 700
    broker.index.warm()
    for step in range(0, 400, 4):
        broker.remove(f"s{step}")
        alive[step] = False
        if step % 8 == 0:
            broker.add(f"s{step}", client.encrypt_subscription(f"a == {step}"))
            ends[step], alive[step] = step, True
        at = step * 7 % 1001
        hit = np.flatnonzero(alive & (ends[:, 0] <= at) & (ends[:, 1] >= at))
        locations = broker.index.locate(client.encrypt_event({"a": at}))
        bits = np.unpackbits(broker.index.match_bits(locations), bitorder="little")
        assert np.array_equal(np.flatnonzero(bits), broker.index.match_slots(locations))
        expected = sorted(f"s{number}" for number in hit)
        assert broker.match(client.encrypt_event({"a": at})) == expected
    assert broker.index.nbytes > 0


def test_a_compact_index_is_smaller() -> None:
    sizes = []
    for rows in (4096, COMPACT_ROWS):
        client, broker = sbm1_client(KEY, SCHEMA), sbm1_broker(rows=rows)
        loaded(broker, client, 1000)
        broker.index.warm()
        sizes.append(broker.index.nbytes)
    assert sizes[1] * 4 < sizes[0]


def test_more_bounds_than_small_edges_can_name() -> None:
    client, broker = plain_client(SCHEMA), plain_broker(rows=8)
    count = 9000  # two bounds each: over 16,384 handles
    broker.add_many(
        {
            f"s{number}": client.encrypt_subscription(interval("b", float(number), number + 1.25))
            for number in range(count)
        }
    )
    assert broker.match(client.encrypt_event({"b": 8000.25})) == ["s7999", "s8000"]
    assert broker.match(client.encrypt_event({"b": 0.25})) == ["s0"]


def test_a_wide_search_takes_few_rounds_and_a_descent_one_a_level() -> None:
    declared = {"a": AttributeType("int", 0, 2**20)}
    client = sbm2_client(KEY, declared)
    literals = ", ".join(str(10 * number) for number in range(300))
    for search, least, most in (("wide", 1, 3), ("binary", 1, 12)):
        comparator = Recorder()
        broker = sbm2_broker(comparator, search=search)  # type: ignore[arg-type]
        broker.add("s", client.encrypt_subscription(f"a in [{literals}]"))
        locator = broker.index._locator
        assert isinstance(locator, TreeLocator)
        for number in (0, 5, 1495, 2990, 2**20):
            before, locator.rounds = len(comparator.rounds), 0
            broker.match(client.encrypt_event({"a": number}))
            assert least <= len(comparator.rounds) - before == locator.rounds <= most
    with pytest.raises(InputError):
        TreeLocator(comparator, search="random")  # type: ignore[arg-type]


def test_three_rounds_are_enough_for_1300_bounds() -> None:
    declared = {"a": AttributeType("int", 0, 2**12)}
    client = sbm2_client(KEY, declared)
    comparator = Recorder()
    broker = sbm2_broker(comparator)
    broker.add_many(
        {f"s{n}": client.encrypt_subscription(Test("a", ">=", 2 * n + 1)) for n in range(1300)}
    )
    comparator.rounds.clear()
    for number in (0, 1, 2, 1301, 1902, 2599, 2600):
        before = len(comparator.rounds)
        broker.match(client.encrypt_event({"a": number}))
        assert len(comparator.rounds) - before <= 3
    assert all(len(one.pivots) <= 15 for asked in comparator.rounds for one in asked)


def test_a_wide_search_leaves_no_more_than_a_sixteenth() -> None:
    # so that 4095 bounds take three rounds, whatever is looked for
    for count in range(4096):
        order = TreeOrder()
        order.nodes = [Node(b"", 0)] * count
        walk = _Walk("a", b"", order)
        edges = [-1, *walk._pivots(), count]
        widest = max(high - low - 1 for low, high in pairwise(edges))
        assert widest <= -(-(count + 1) // 16) - 1 if count > 15 else widest == 0


@pytest.mark.parametrize("answers", [[], [1, 1], [-1], [3], [99]])
def test_a_comparator_is_not_believed_blindly(answers: list[int]) -> None:
    client, comparator = sbm2_client(KEY, SCHEMA), Recorder()
    broker = sbm2_broker(comparator)
    broker.add("s", client.encrypt_subscription("a >= 5"))
    comparator.answers = answers
    with pytest.raises(DecodeError):
        broker.match(client.encrypt_event({"a": 7}))


def test_a_foreign_ciphertext_changes_nothing() -> None:
    client, foreign = sbm2_client(KEY, SCHEMA), sbm2_client(bytes(32), SCHEMA)
    broker = sbm2_broker(KeyedComparator(KEY))
    broker.add("old", client.encrypt_subscription("a >= 5"))
    batch = {
        "one": client.encrypt_subscription("a >= 3 && a <= 900"),
        "two": client.encrypt_subscription("b < 3"),
        "bad": foreign.encrypt_subscription("b >= 7 && a >= 9"),
    }
    with pytest.raises(DecryptionError):
        broker.add_many(batch)
    with pytest.raises(DecryptionError):
        broker.update("old", batch["bad"])
    with pytest.raises(DecryptionError):
        broker.match(foreign.encrypt_event({"a": 1}))
    assert broker.index.names() == ["old"]
    assert list(broker.index.columns) == ["a"]
    assert len(broker.index.columns["a"].order) == 1
    assert broker.match(client.encrypt_event({"a": 6})) == ["old"]


def test_an_interrupted_batch_changes_nothing() -> None:
    class Interrupted(Recorder):
        def compare(self, questions: Sequence[Question]) -> Sequence[int]:
            if len(self.rounds) == 6:
                raise KeyboardInterrupt
            return super().compare(questions)

    client, comparator = sbm2_client(KEY, SCHEMA), Interrupted()
    broker = sbm2_broker(comparator)
    with pytest.raises(KeyboardInterrupt):
        loaded(broker, client, 50)
    assert broker.index.names() == []
    assert list(broker.index.columns) == []


def test_names_are_unique_and_known() -> None:
    client, broker = plain_client(SCHEMA), plain_broker()
    broker.add("s", client.encrypt_subscription("a == 1"))
    broker.add("s'", client.encrypt_subscription("false"))
    with pytest.raises(InputError) as caught:
        broker.add("s", client.encrypt_subscription("a == 2"))
    assert caught.value.kind == "invalid"
    never = client.encrypt_subscription("false")
    for change in (broker.remove, partial(broker.update, subscription=never)):
        with pytest.raises(InputError) as caught:
            change("t")
        assert caught.value.kind == "unknown"
    broker.update("s", client.encrypt_subscription("a == 2"))
    assert broker.match(client.encrypt_event({"a": 2})) == ["s"]
    broker.update("s", client.encrypt_subscription("false"))
    broker.update("s'", client.encrypt_subscription("true"))
    assert broker.match(client.encrypt_event({})) == ["s'"]
    assert len(broker.index) == 2
    broker.remove("s")
    assert broker.index.names() == ["s'"]
    with pytest.raises(InputError):
        SubscriptionIndex(SortedLocator(), rows=0)


@pytest.mark.parametrize(
    "texts", [("a >= 5", "a <= 3"), ("a >= 5", "a < 5"), ("a <= 9 && a >= 7", "a <= 5 && a >= 2")]
)
def test_intervals_out_of_order_are_refused_where_only_the_comparator_can_tell(
    texts: tuple[str, str],
) -> None:
    client, broker = sbm2_client(KEY, SCHEMA), sbm2_broker(KeyedComparator(KEY))
    parts = [client.encrypt_subscription(text).ranges[0][1][0] for text in texts]
    wrong = tuple(parts)
    if parts[0].high is None:
        high = parts[1]
        wrong = (Range(parts[0].low, high.high, high_open=texts[1] == "a < 5"),)
        if texts[1] == "a < 5":
            again = client.encrypt_subscription("a <= 5").ranges[0][1][0]
            wrong = (Range(parts[0].low, again.high, high_open=True),)
    with pytest.raises(InputError) as caught:
        broker.add("s", EncryptedSubscription("sbm2", (("a", wrong),)))
    assert caught.value.kind == "invalid"
    assert not broker.index.columns


def test_several_threads_may_match_at_once() -> None:
    for rows in (4096, 16):
        client, broker = sbm1_client(KEY, SCHEMA), sbm1_broker(rows=rows)
        ends = loaded(broker, client, 300)
        events = [client.encrypt_event({"a": at}) for at in range(0, 1001, 5)]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(broker.match, events))
        for at, names in zip(range(0, 1001, 5), found, strict=True):
            assert len(names) == int(((ends[:, 0] <= at) & (ends[:, 1] >= at)).sum())


def test_questions_and_answers_survive_their_bytes() -> None:
    asked = (Question("a", b"n", (b"p", b"q")), Question("zone^", b"", ()))
    data = questions_to_bytes(asked)
    assert questions_from_bytes(data) == asked
    assert answers_from_bytes(answers_to_bytes([4, 0]), asked) == [4, 0]
    for wrong in (b"", b"\x02" + data[1:], data[:-1], data + b"\x00", b"\x01\x00\x00\x00\x01x"):
        with pytest.raises(DecodeError):
            questions_from_bytes(wrong)
    with pytest.raises(DecodeError):
        questions_from_bytes(questions_to_bytes(asked).replace(b"zone^", b"\xff\xfene^"))
    with pytest.raises(DecodeError):
        questions_from_bytes(b"\x01" + bytes((0, 0, 0, 5)) + bytes((0, 0, 0, 1)) + b"a")
    for answers in (b"", b"\x02\x04\x00", b"\x01\x04", b"\x01\x05\x00", b"\x01\x04\x00\x00"):
        with pytest.raises(DecodeError):
            answers_from_bytes(answers, asked)


def test_points_are_sealed_anew_each_time_and_open_under_their_key() -> None:
    key = sbm2_key(KEY, "a")
    comparator = KeyedComparator(KEY)
    one, two = (seal_point(key, b"\x05", random=SYSTEM_RANDOM) for _ in range(2))
    assert one != two
    assert comparator.compare([Question("a", one, (two,)), Question("a", one, ())]) == [1, 0]
    lies = seal(key, (99).to_bytes(4, "big") + bytes(28), aad=b"", random=SeededRandom(b"x"))
    for wrong in (one[:-1], lies, b""):
        with pytest.raises(DecryptionError):
            comparator.compare([Question("a", wrong, (two,))])
    with pytest.raises(DecryptionError):
        comparator.compare([Question("b", one, ())])


@pytest.mark.parametrize(
    "make",
    [
        KeyedComparator,
        partial(sbm1_client, schema=SCHEMA),
        partial(sbm2_client, schema=SCHEMA),
        partial(Layout, SCHEMA),
    ],
)
def test_short_keys_are_refused(make: Callable[[bytes], object]) -> None:
    with pytest.raises(InputError):
        make(b"short")


@pytest.mark.parametrize("rows", [4096, 2])
def test_holes_come_and_go(rows: int) -> None:
    client, broker = plain_client(SCHEMA), plain_broker(rows=rows)
    stored: dict[str, set[int]] = {}
    for step in range(120):
        name = f"s{step * 7 % 23}"
        if name in stored and step % 3:
            broker.remove(name)
            del stored[name]
        else:
            without = {step % 11, step % 5 + 20, step % 7 + 40}
            asked = client.encrypt_subscription(
                And(tuple(Test("b", "!=", float(x)) for x in without))
            )
            (broker.update if name in stored else broker.add)(name, asked)
            stored[name] = without
        at = (step * 13 + 1) % 47
        expected = sorted(one for one, without in stored.items() if at not in without)
        assert broker.match(client.encrypt_event({"b": float(at)})) == expected
