"""Paper 003's worked example: Table 1, Table 2, Fig. 4 and 5, and its algorithms as written."""

from __future__ import annotations

import pytest

from policyengine.attributes import AttributeType
from policyengine.errors import InputError
from policyengine.ope import (
    Broker,
    KeyedComparator,
    ope_match,
    plain_broker,
    plain_client,
    sbm1_broker,
    sbm1_client,
    sbm2_broker,
    sbm2_client,
)
from policyengine.ope.orders import TreeOrder
from policyengine.ope.tree import CodeTree, Node

KEY = bytes(range(32))
SCHEMA = {"a1": AttributeType("int"), "a2": AttributeType("int")}
TABLE_1 = {
    "s1": "a1 >= 10 && a2 >= 19",
    "s2": "a1 >= 13 && a2 >= 55",
    "s3": "a1 >= 10 && a2 >= 85",
    "s4": "a1 >= 23 && a2 >= 19",
    "s5": "a1 >= 17 && a2 >= 32",
    "s6": "a1 >= 75 && a2 >= 22",
}
TABLE_2 = [{"a1": 20, "a2": 19}, {"a1": 33, "a2": 44}]
FIGURE_4 = {"a1": [1, 3, 1, 5, 4, 6], "a2": [0, 3, 5, 0, 2, 1]}


def filled(search: str = "wide") -> Broker:
    client = sbm2_client(KEY, SCHEMA)
    broker = sbm2_broker(KeyedComparator(KEY), search=search)  # type: ignore[arg-type]
    for name, text in TABLE_1.items():
        broker.add(name, client.encrypt_subscription(text))
    return broker


def code(broker: Broker, name: str, column: str) -> int:
    ((low, high),) = broker.codes(name)[column]
    assert low is not None
    assert high is None
    return low


@pytest.mark.parametrize("scheme", ["plain", "sbm1", "sbm2"])
def test_the_events_of_table_2(scheme: str) -> None:
    found = ope_match(scheme, SCHEMA, TABLE_1, TABLE_2)  # type: ignore[arg-type]
    assert found == [["s1"], ["s1", "s4", "s5"]]


@pytest.mark.parametrize("search", ["wide", "binary"])
def test_the_codes_of_figure_4(search: str) -> None:
    broker = filled(search)
    for column, expected in FIGURE_4.items():
        assert [code(broker, name, column) for name in TABLE_1] == expected


def test_codes_alone_decide_as_algorithm_5_does() -> None:
    # subscriptions with codes up to the event's, intersected, beginning with all of them
    broker, client = filled(), sbm2_client(KEY, SCHEMA)
    satisfied = []
    for event in TABLE_2:
        ids = set(TABLE_1)
        for column, location in broker.index.locate(client.encrypt_event(event)).items():
            order = broker.index.columns[column].order
            assert isinstance(order, TreeOrder)
            codes = order.tree.codes()
            below = order.nodes[(location + 1) // 2 - 1]
            reached = {n for n in ids if code(broker, n, column) <= codes[below.handle]}
            satisfied.append(reached)
            ids = reached
        assert sorted(ids) == broker.match(client.encrypt_event(event))
    assert satisfied == [{"s1", "s2", "s3", "s5"}, {"s1"}, {"s1", "s2", "s3", "s4", "s5"},
                         {"s1", "s4", "s5"}]  # fmt: skip


def test_events_leave_the_tree_as_it_is() -> None:
    broker, client = filled(), sbm2_client(KEY, SCHEMA)
    broker.code_changes()
    for event in TABLE_2:
        broker.match(client.encrypt_event(event))
    assert broker.code_changes() == {}


def test_changes_of_codes_add_up_to_the_codes() -> None:
    client, broker = sbm2_client(KEY, SCHEMA), sbm2_broker(KeyedComparator(KEY))
    replica: dict[str, object] = {}
    moved = 0
    steps = [*TABLE_1.items(), ("s2", None), ("s7", "a1 < 3"), ("s8", "false"), ("s1", None)]
    for name, text in steps:
        if text is None:
            broker.remove(name)
        else:
            broker.add(name, client.encrypt_subscription(text))
        changes = broker.code_changes()
        moved += sum(other in replica for other in changes if other != name)
        replica.update(changes)
        replica = {key: codes for key, codes in replica.items() if codes}
        assert replica == {
            key: broker.codes(key) for key in broker.index.names() if broker.codes(key)
        }
    assert moved  # rebalancing changed codes of subscriptions that were there before


def test_codes_are_those_of_stored_subscriptions_and_of_sbm2_only() -> None:
    with pytest.raises(InputError) as caught:
        filled().codes("s9")
    assert caught.value.kind == "unknown"
    for broker in (sbm1_broker(), plain_broker()):
        with pytest.raises(InputError):
            broker.codes("s1")


def test_a_broker_takes_its_own_scheme_only() -> None:
    one, plain = sbm1_client(KEY, SCHEMA), plain_client(SCHEMA)
    broker = sbm1_broker()
    with pytest.raises(InputError, match="does not go with"):
        broker.add("s", plain.encrypt_subscription("a1 >= 1"))
    with pytest.raises(InputError):
        broker.match(plain.encrypt_event({"a1": 1}))
    broker.add("s", one.encrypt_subscription("a1 >= 1"))
    with pytest.raises(InputError):
        broker.update("s", plain.encrypt_subscription("a1 >= 1"))
    assert broker.match(one.encrypt_event({"a1": 1})) == ["s"]


@pytest.mark.parametrize("seed", range(6))
def test_the_tree_stays_balanced_and_its_codes_in_order(seed: int) -> None:
    import numpy as np

    rng = np.random.default_rng(seed)
    tree, nodes = CodeTree(), []
    assert tree.codes() == {}
    for handle in range(150):
        place = int(rng.integers(0, len(nodes) + 1)) if seed else len(nodes)
        node = Node(b"", handle)
        tree.insert(
            node,
            nodes[place - 1] if place else None,
            nodes[place] if place < len(nodes) else None,
        )
        nodes.insert(place, node)
        check(tree, nodes)
    while nodes:
        tree.remove(nodes.pop(int(rng.integers(0, len(nodes)))))
        check(tree, nodes)
    assert tree.root is None


def check(tree: CodeTree, nodes: list[Node]) -> None:
    codes = tree.codes()
    listed = [codes[node.handle] for node in nodes]
    assert listed == sorted(set(listed))
    assert len(codes) == len(nodes) == (tree.root.size if tree.root else 0)
    for node in nodes:
        heights = [0 if child is None else child.height for child in (node.left, node.right)]
        assert node.height == 1 + max(heights)
        assert abs(heights[0] - heights[1]) <= 1
    if nodes:
        # Alg. 4: the root is 2^0 + ... + 2^h with h = d - 2
        assert tree.root is not None
        assert codes[tree.root.handle] == sum(2**i for i in range(tree.depth - 1))
