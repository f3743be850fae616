"""Trees: incremental, by place and by the definition are one; proofs hold and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.errors import SignatureError
from policyengine.primitives import merkle
from tests.vectors.verify_merkle import mth, path, subproof

quick = settings(deadline=None, max_examples=100)
DATA = st.lists(st.binary(max_size=8), min_size=1, max_size=80)


class Nodes:
    """Complete sub-trees as a frontier reports them."""

    def __init__(self, data: list[bytes]) -> None:
        self.frontier = merkle.Frontier()
        self.made: dict[tuple[int, int], bytes] = {}
        for leaf in data:
            for node in self.frontier.append(merkle.leaf_hash(leaf)):
                self.made[node.height, node.place] = node.hash

    def __call__(self, height: int, place: int) -> bytes:
        return self.made[height, place]


@given(DATA)
@quick
def test_the_root_is_that_of_the_definition(data: list[bytes]) -> None:
    nodes = Nodes(data)
    assert nodes.frontier.root() == mth(data) == merkle.tree_root(len(data), nodes)
    kept = merkle.Frontier(nodes.frontier.size, nodes.frontier.peaks)
    assert kept.root() == mth(data)


@given(DATA, st.data())
@quick
def test_inclusion(data: list[bytes], draw: st.DataObject) -> None:
    nodes, size = Nodes(data), len(data)
    index = draw.draw(st.integers(0, size - 1))
    proof = merkle.inclusion_proof(index, size, nodes)
    assert proof == path(index, data)
    leaf, whole = merkle.leaf_hash(data[index]), mth(data)
    merkle.verify_inclusion(index=index, size=size, leaf=leaf, proof=proof, root=whole)
    if proof:
        at = draw.draw(st.integers(0, len(proof) - 1))
        wrong = [*proof[:at], bytes(32), *proof[at + 1 :]]
        with pytest.raises(SignatureError):
            merkle.verify_inclusion(index=index, size=size, leaf=leaf, proof=wrong, root=whole)


@given(DATA, st.data())
@quick
def test_consistency(data: list[bytes], draw: st.DataObject) -> None:
    nodes, new = Nodes(data), len(data)
    old = draw.draw(st.integers(1, new))
    proof = merkle.consistency_proof(old, new, nodes)
    assert proof == subproof(old, data, True)
    roots = {"old_root": mth(data[:old]), "new_root": mth(data)}
    merkle.verify_consistency(old=old, new=new, proof=proof, **roots)
    if proof:
        at = draw.draw(st.integers(0, len(proof) - 1))
        wrong = [*proof[:at], bytes(32), *proof[at + 1 :]]
        with pytest.raises(SignatureError):
            merkle.verify_consistency(old=old, new=new, proof=wrong, **roots)
