"""Whatever somebody without the holders' keys does to a chain, nobody follows it elsewhere."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.bundles.roots import (
    Root,
    SignedRoot,
    decode_roots,
    encode_roots,
    open_root,
    verify_chain,
)
from policyengine.errors import RejectedError
from tests.support.roots import HOLDERS, chain, holder, root, signed

CHAIN = chain(5)
WIRE = encode_roots(CHAIN[1:])
PINNED = open_root(CHAIN[0])
GENUINE = [open_root(each) for each in CHAIN]
NAMES = (*HOLDERS, "dot", "eli")
HOLDING = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)


def followed(roots: list[SignedRoot]) -> Root | None:
    try:
        return verify_chain(PINNED, roots)
    except RejectedError:
        return None


@settings(max_examples=300, deadline=None)
@given(at=st.integers(0, len(WIRE) - 1), bit=st.integers(0, 7), cut=st.booleans())
def test_a_changed_byte_leads_nowhere_else(at: int, bit: int, cut: bool) -> None:
    data = WIRE[:at] if cut else WIRE[:at] + bytes([WIRE[at] ^ 1 << bit]) + WIRE[at + 1 :]
    try:
        found = followed(list(decode_roots(data)))
    except RejectedError:
        return
    assert found is None or found in GENUINE


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(CHAIN), max_size=6))
def test_only_the_next_one_follows(roots: list[SignedRoot]) -> None:
    versions = [each.claimed().version for each in roots]
    good = versions == list(range(2, 2 + len(versions)))
    assert (followed(roots) is not None) == good


@settings(max_examples=300, deadline=None)
@given(
    before=HOLDING,
    after=HOLDING,
    signers=st.lists(st.sampled_from((*NAMES, "eve")), max_size=7),
    data=st.data(),
)
def test_a_root_follows_exactly_when_both_thresholds_are_met(
    before: list[str], after: list[str], signers: list[str], data: st.DataObject
) -> None:
    need = data.draw(st.integers(1, len(before)))
    need_after = data.draw(st.integers(1, len(after)))
    first = root(holders=tuple(holder(n).public for n in before), threshold=need)
    second = root(2, holders=tuple(holder(n).public for n in after), threshold=need_after)
    made = signed(second, [])
    made = replace(
        made,
        signatures=tuple(each for name in signers for each in signed(second, [name]).signatures),
    )
    met = len(set(signers) & set(before)) >= need and len(set(signers) & set(after)) >= need_after
    try:
        assert verify_chain(first, [made]) == second
    except RejectedError:
        assert not met
    else:
        assert met
