"""Where the bounds of subscriptions stand in order, and where an event's value falls.

An order holds the distinct bounds of one column. With D of them there are 2D + 1
*locations*: 2i is the gap below bound i, 2i + 1 the bound itself, 2D the gap above all.
Each bound has a *handle*, a number that it keeps while its place changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

from policyengine.errors import InputError
from policyengine.ope.comparator import Comparator, Question, check_answers
from policyengine.ope.tree import CodeTree, Node, size_of

Search: TypeAlias = Literal["wide", "binary"]

ARITY: Final = 16
"""Gaps that one question of a wide search tells apart: three rounds for 4095 bounds."""


class Order(Protocol):
    """The bounds of one column; reading it is safe for several threads, changing it is not."""

    def __len__(self) -> int:
        """Return how many bounds there are."""

    def insert(self, cipher: bytes, place: int, handle: int) -> None:
        """Put a bound into the gap in front of a place."""

    def handles(self) -> Sequence[int]:
        """Return the handles in order."""

    def handle(self, place: int) -> int:
        """Return the handle of a bound."""

    def remove(self, place: int) -> None:
        """Take a bound out."""


class Locator(Protocol):
    """Finds locations in the orders of a broker."""

    def new_order(self) -> Order:
        """Make an empty order (paper 003, Alg. 1)."""

    def locate(self, asked: Sequence[tuple[str, bytes]], orders: Mapping[str, Order]) -> list[int]:
        """Return the location of each ciphertext in the order of its column.

        Nothing is inserted: an event leaves no trace in the order.
        """


class SortedOrder:
    """Bounds whose bytes show their order (SBM-I, plain)."""

    def __init__(self) -> None:
        self.ciphers: list[bytes] = []
        self._handles: list[int] = []

    def __len__(self) -> int:
        """Return how many bounds there are."""
        return len(self.ciphers)

    def insert(self, cipher: bytes, place: int, handle: int) -> None:
        """Put a bound into the gap in front of a place."""
        self.ciphers.insert(place, cipher)
        self._handles.insert(place, handle)

    def handles(self) -> Sequence[int]:
        """Return the handles in order."""
        return self._handles

    def handle(self, place: int) -> int:
        """Return the handle of a bound."""
        return self._handles[place]

    def remove(self, place: int) -> None:
        """Take a bound out."""
        del self.ciphers[place], self._handles[place]


class SortedLocator:
    """Compares ciphertexts directly (paper 003, SBM-I)."""

    def new_order(self) -> SortedOrder:
        """Make an empty order."""
        return SortedOrder()

    def locate(self, asked: Sequence[tuple[str, bytes]], orders: Mapping[str, Order]) -> list[int]:
        """Return the location of each ciphertext in the order of its column."""
        found = []
        for column, cipher in asked:
            order = orders[column]
            assert isinstance(order, SortedOrder)
            place = bisect_left(order.ciphers, cipher)
            equal = place < len(order.ciphers) and order.ciphers[place] == cipher
            found.append(2 * place + equal)
        return found


class TreeOrder:
    """Bounds whose order a comparator decided (SBM-II), with the tree of their codes.

    The paper keeps a tree for lower and one for upper ends. One tree holds both here: an
    event is then placed once, and what the order of the two kinds shows, events show anyhow.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.tree = CodeTree()

    def __len__(self) -> int:
        """Return how many bounds there are."""
        return len(self.nodes)

    def insert(self, cipher: bytes, place: int, handle: int) -> None:
        """Put a bound into the gap in front of a place, and rebalance."""
        node = Node(cipher, handle)
        before = self.nodes[place - 1] if place else None
        after = self.nodes[place] if place < len(self.nodes) else None
        self.tree.insert(node, before, after)
        self.nodes.insert(place, node)

    def handles(self) -> Sequence[int]:
        """Return the handles in order."""
        return [node.handle for node in self.nodes]

    def handle(self, place: int) -> int:
        """Return the handle of a bound."""
        return self.nodes[place].handle

    def remove(self, place: int) -> None:
        """Take a bound out, and rebalance."""
        self.tree.remove(self.nodes.pop(place))


class TreeLocator:
    """Asks a comparator (paper 003, SBM-II).

    Args:
        comparator: who compares; in another process or another place, each call is a round
            trip.
        search: `wide` asks about 15 bounds at a time; `binary` walks down the tree one
            comparison a step, as Alg. 3 does.
    """

    def __init__(self, comparator: Comparator, *, search: Search = "wide") -> None:
        if search not in ("wide", "binary"):
            raise InputError("invalid", "a search is `wide` or `binary`", where="search")
        self._comparator = comparator
        self._search = search
        self.rounds = 0
        """Round trips so far; not exact where several threads match at once."""

    def new_order(self) -> TreeOrder:
        """Make an empty order with its tree."""
        return TreeOrder()

    def locate(self, asked: Sequence[tuple[str, bytes]], orders: Mapping[str, Order]) -> list[int]:
        """Return the location of each ciphertext in the order of its column.

        All of them are asked about in the same rounds.

        Raises:
            DecodeError: the comparator's answers fit no question.
            DecryptionError: a ciphertext does not open.
        """
        walks = [self._walk(column, cipher, orders[column]) for column, cipher in asked]
        while open_ := [walk for walk in walks if not walk.done]:
            questions = [walk.question() for walk in open_]
            answers = self._comparator.compare(questions)
            check_answers(answers, questions)
            self.rounds += 1
            for walk, answer in zip(open_, answers, strict=True):
                walk.take(answer)
        return [walk.location for walk in walks]

    def _walk(self, column: str, cipher: bytes, order: Order) -> _Walk:
        assert isinstance(order, TreeOrder)
        kind = _Walk if self._search == "wide" else _Descent
        return kind(column, cipher, order)


class _Walk:
    """One wide search: the value lies among the bounds `low` to `high` - 1 or beside them."""

    def __init__(self, column: str, cipher: bytes, order: TreeOrder) -> None:
        self._column, self._cipher, self._nodes = column, cipher, order.nodes
        self._low, self._high = 0, len(order.nodes)
        self._places: list[int] = []
        self._found: int | None = None

    @property
    def done(self) -> bool:
        return self._found is not None or self._low == self._high

    @property
    def location(self) -> int:
        return 2 * self._low if self._found is None else 2 * self._found + 1

    def question(self) -> Question:
        self._places = self._pivots()
        return Question(
            self._column,
            self._cipher,
            tuple(self._nodes[place].cipher for place in self._places),
        )

    def take(self, answer: int) -> None:
        below, equal = divmod(answer, 2)
        if equal:
            self._found = self._places[below]
            return
        if below < len(self._places):
            self._high = self._places[below]
        if below:
            self._low = self._places[below - 1] + 1

    def _pivots(self) -> list[int]:
        count = self._high - self._low
        if count < ARITY:
            return list(range(self._low, self._high))
        # INVARIANT: what is left between two pivots is at most (count - 15) / 16, rounded up
        return [self._low + (count + 1) * at // ARITY - 1 for at in range(1, ARITY)]


class _Descent(_Walk):
    """Steps from a node to its child (paper 003, Alg. 3)."""

    def __init__(self, column: str, cipher: bytes, order: TreeOrder) -> None:
        super().__init__(column, cipher, order)
        self._node = order.tree.root

    def _pivots(self) -> list[int]:
        assert self._node is not None
        return [self._low + size_of(self._node.left)]

    def take(self, answer: int) -> None:
        super().take(answer)
        assert self._node is not None
        self._node = self._node.right if answer == 2 else self._node.left
