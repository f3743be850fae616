"""One filter against one event, without memory (paper 001, section 5.4)."""

from __future__ import annotations

from collections.abc import Sequence

from policyengine.errors import RejectedError
from policyengine.sde.events import EncryptedEvent
from policyengine.sde.filters import EncryptedFilter, leaf_hash
from policyengine.sde.group import Group, GroupElement
from policyengine.sde.shape import Plan
from policyengine.sde.wire import System


def inverse_of(group: Group, trapdoor: bytes) -> GroupElement:
    """Return TD^-1 of an encoded TD: done once, not for every leaf."""
    return group.inverse(group.load(trapdoor))


class Target:
    """A filter's leaves, ready to be compared.

    Args:
        encrypted: after the broker's part.
    """

    def __init__(self, encrypted: EncryptedFilter) -> None:
        self._group: Group = encrypted.system.arithmetic
        self._leaves = [(self._group.load(first), second) for first, second in encrypted.leaves]
        self.plan = Plan.of(encrypted.shape)

    def leaf_holds(self, leaf: int, inverse: GroupElement) -> bool:
        """Tell whether H(c1/TD) = c2: the leaf asks for the trapdoor's element."""
        first, second = self._leaves[leaf]
        return leaf_hash(self._group.product_bytes(first, inverse)) == second

    def leaves_of(self, inverse: GroupElement) -> int:
        """Compare all leaves with one trapdoor; bit i of the result stands for leaf i."""
        hits = 0
        for leaf in range(len(self._leaves)):
            if self.leaf_holds(leaf, inverse):
                hits |= 1 << leaf
        return hits

    def holds(self, inverses: Sequence[GroupElement]) -> bool:
        """Walk the tree and compare leaf by leaf until the result is certain.

        Args:
            inverses: `inverse_of` each trapdoor of the event.
        """
        leaf_holds = self.leaf_holds
        return self.plan.holds(lambda leaf: any(leaf_holds(leaf, inverse) for inverse in inverses))


def matches(encrypted: EncryptedFilter, event: EncryptedEvent) -> bool:
    """Tell whether a filter holds for an event.

    Filters and events made with shares of another user than the broker thought simply do
    not match: the scheme hides, it does not authenticate.

    Args:
        encrypted: the filter after the broker's part.
        event: the event after the broker's part.

    Raises:
        RejectedError: `system` when they are of two set-ups.
    """
    check_same(encrypted.system, event.system)
    group = event.system.arithmetic
    return Target(encrypted).holds([inverse_of(group, data) for data in event.trapdoors])


def check_same(first: System, second: System) -> None:
    """Refuse what was made under two set-ups.

    Raises:
        RejectedError: `system`.
    """
    if first != second:
        raise RejectedError("system", "the ciphertext belongs to another system")
