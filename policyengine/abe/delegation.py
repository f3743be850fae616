"""Narrowing a key: from the key of a filter to the key of a more restrictive one.

Everything here is linear. A leaf of the new key is the sum of a fresh leaf, from sharing zero
over the new tree, and of leaves of the old key times known coefficients, so a new key says
nothing about the old one beyond what it opens. Three rules find the coefficients; "feeds"
means that the secret of an old node becomes, times a factor, a sharing over a new node:

- *take apart*: enough terms of an old gate feed the new node (any term of an OR, all terms of
  an AND);
- *spread*: the old node feeds so many terms of a new gate that those left over are too few to
  satisfy it (all alternatives of an OR, one term of an AND). The factors come from a
  polynomial that is zero at the terms left over;
- *raise*: an old threshold gate feeds a new one term by term, where terms were struck out,
  added, or more of them are asked for; the old polynomial is multiplied by one that is zero
  at the added terms.

So terms may be added to an AND, alternatives of an OR dropped, thresholds raised and leaves
replaced by something narrower, at any depth. The rules are sound, and find every narrowing
of this kind; they do not know that `level > 5` implies `level > 3` unless the leaves say so.

Source: Goyal, Pandey, Sahai and Waters (2006), section 7 (delegation of private keys), with
the gates of `shares`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from policyengine.abe.group import ORDER, invert, random_scalar
from policyengine.abe.kp_leaves import add, make_leaf
from policyengine.abe.kp_model import FilterKey, PublicKey
from policyengine.abe.shares import Sharing, is_threshold, lagrange, plan, share
from policyengine.attributes.universe import Gate, Node, leaves
from policyengine.errors import InputError
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource

MAX_STEPS: Final = 500_000
"""Most pairs of nodes that are compared."""

_Fed: TypeAlias = list[tuple[int, int, int]]
"""Old leaf, new leaf, and what the old one is multiplied by."""


def delegate(
    public: PublicKey, key: FilterKey, tree: Node, random: RandomSource = SYSTEM_RANDOM
) -> FilterKey:
    """Make the key of a narrower filter without the master key.

    Args:
        public: the authority's public key.
        key: the key of the wider filter.
        tree: the narrower filter's tree, over elements of the same kind.
        random: source of the new sharing.

    Returns:
        A key that opens exactly what the narrower filter holds for.

    Raises:
        InputError: `invalid` when the tree is not narrower by the rules above, or the key is
            of another mode, `unsupported` for a negated leaf in mode `polynomial`,
            `too-large` when trees are too large to compare.
    """
    if key.mode != public.mode:
        raise InputError("invalid", "the key and the public key are of different modes")
    sharing, fed = _Search(key.sharing, plan(tree)).run()
    made = [
        make_leaf(public, leaf, part, random_scalar(random))
        for leaf, part in zip(leaves(tree), share(sharing, 0, random), strict=True)
    ]
    for old, new, factor in fed:
        made[new] = add(made[new], key.leaves[old], factor)
    return FilterKey(key.mode, sharing, tuple(made))


@dataclass(slots=True, eq=False)
class _Spot:
    """A node in its place.

    Args:
        node: the node.
        leaf: its number among the leaves; -1 for a gate.
        terms: the places below it.
        indices: of a threshold gate; None while they can still be chosen.
    """

    node: Node
    leaf: int
    terms: list[_Spot]
    indices: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        """How many of the terms the node asks for; a leaf counts as its own only term."""
        return self.node.count if isinstance(self.node, Gate) else 1

    @property
    def threshold(self) -> bool:
        return isinstance(self.node, Gate) and is_threshold(self.node)


class _Search:
    """Looks for the coefficients that lead from one sharing to another."""

    def __init__(self, old: Sharing, new: Sharing) -> None:
        self._old = _spots(old.tree)
        self._new = _spots(new.tree)
        for spot, indices in zip(_thresholds(self._old), old.indices, strict=True):
            spot.indices = indices
        self._tree = new.tree
        self._known: dict[tuple[int, int], _Fed | None] = {}

    def run(self) -> tuple[Sharing, _Fed]:
        try:
            fed = self._feeds(self._old[0], self._new[0])
        except RecursionError:
            raise InputError("too-large", "the filters nest too deep to be compared") from None
        if fed is None:
            raise InputError("invalid", "the filter is not narrower than the key's by its form")
        return Sharing(self._tree, tuple(_indices(spot) for spot in _thresholds(self._new))), fed

    def _feeds(self, old: _Spot, new: _Spot) -> _Fed | None:
        pair = id(old), id(new)
        if pair not in self._known:
            if len(self._known) == MAX_STEPS:
                raise InputError("too-large", "the filters are too large to be compared")
            self._known[pair] = None  # counts from here on; trees have no cycles
            self._known[pair] = self._search(old, new)
        return self._known[pair]

    def _search(self, old: _Spot, new: _Spot) -> _Fed | None:
        if not old.terms and not new.terms:
            return [(old.leaf, new.leaf, 1)] if old.node == new.node else None
        fed = None
        if old.threshold and new.threshold:
            fed = self._raise(old, new)
        if fed is None and old.terms:
            fed = self._take_apart(old, new)
        if fed is None and new.terms:
            fed = self._spread(old, new)
        return fed

    def _take_apart(self, old: _Spot, new: _Spot) -> _Fed | None:
        met: dict[int, _Fed] = {}
        for place, term in enumerate(old.terms):
            if len(met) + len(old.terms) - place < old.count:
                return None
            fed = self._feeds(term, new)
            if fed is not None:
                met[place] = fed
            if len(met) == old.count:
                break
        else:
            return None
        if old.indices is None:
            return _summed((fed, 1) for fed in met.values())
        weights = lagrange([old.indices[place] for place in met])
        return _summed(zip(met.values(), weights, strict=True))

    def _spread(self, old: _Spot, new: _Spot) -> _Fed | None:
        need = len(new.terms) - new.count + 1
        met: dict[int, _Fed] = {}
        for place, term in enumerate(new.terms):
            fed = self._feeds(old, term)
            if fed is not None:
                met[place] = fed
            if len(met) == need:
                break
        else:
            return None
        if not new.threshold:
            return _summed((fed, 1) for fed in met.values())
        new.indices = given = _indices(new)
        left = [index for place, index in enumerate(given) if place not in met]
        return _summed((fed, _vanishing(left, given[place])) for place, fed in met.items())

    def _raise(self, old: _Spot, new: _Spot) -> _Fed | None:
        matched = self._matched(old, new)
        added = [place for place in range(len(new.terms)) if place not in matched]
        steps = new.count - old.count - len(added)
        if steps < 0:
            return None
        assert old.indices is not None  # of threshold gates they are given
        if new.indices is None:
            kept = {place: old.indices[term] for place, term in matched.items()}
            unused = _unused(kept.values())
            new.indices = tuple(
                kept[place] if place in kept else next(unused) for place in range(len(new.terms))
            )
        zeros = [new.indices[place] for place in added]
        parts = []
        for place, term in matched.items():
            index = new.indices[place]
            factor = _vanishing(zeros, index) * pow(1 + index, steps, ORDER) % ORDER
            fed = self._feeds(old.terms[term], new.terms[place])
            assert fed is not None  # that is what matched them
            parts.append((fed, factor))
        return _summed(parts)

    def _matched(self, old: _Spot, new: _Spot) -> dict[int, int]:
        """Match as many new terms as possible with old ones that feed them, one to one."""
        taken: dict[int, int] = {}  # old term -> new term

        def place_for(one: int, tried: set[int]) -> bool:
            for term, spot in enumerate(old.terms):
                if term in tried or not self._may_match(old, term, new, one):
                    continue
                if self._feeds(spot, new.terms[one]) is None:
                    continue
                tried.add(term)
                if term not in taken or place_for(taken[term], tried):
                    taken[term] = one
                    return True
            return False

        for one in range(len(new.terms)):
            place_for(one, set())
        return {one: term for term, one in taken.items()}

    def _may_match(self, old: _Spot, term: int, new: _Spot, place: int) -> bool:
        """Indices that were chosen already must agree."""
        if new.indices is None or old.indices is None:
            return True
        return new.indices[place] == old.indices[term]


def _summed(parts: Iterable[tuple[_Fed, int]]) -> _Fed:
    return [
        (old, new, factor * weight % ORDER) for fed, weight in parts for old, new, factor in fed
    ]


def _vanishing(zeros: Sequence[int], at: int) -> int:
    """Return the value of the polynomial that is zero at `zeros` and one at 0."""
    value = 1
    for zero in zeros:
        value = value * (zero - at) * invert(zero) % ORDER
    return value


def _unused(taken: Iterable[int]) -> Iterator[int]:
    used = set(taken)
    return (index for index in range(1, ORDER) if index not in used)


def _indices(spot: _Spot) -> tuple[int, ...]:
    return spot.indices or tuple(range(1, len(spot.terms) + 1))


def _thresholds(spots: list[_Spot]) -> list[_Spot]:
    return [spot for spot in spots if spot.threshold]


def _spots(tree: Node) -> list[_Spot]:
    """List the places of a tree from the root and the left."""
    found: list[_Spot] = []
    leaf_count = 0

    def visit(node: Node) -> _Spot:
        nonlocal leaf_count
        spot = _Spot(node, -1, [])
        found.append(spot)
        if isinstance(node, Gate):
            for term in node.terms:
                spot.terms.append(visit(term))
        else:
            spot.leaf, leaf_count = leaf_count, leaf_count + 1
        return spot

    visit(tree)
    return found
