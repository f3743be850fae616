"""Roles that are active and appointments that are held, indexed for the search."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, TypeAlias, TypeVar, cast

from policyengine.roles.terms import Atom, Bindings, Constant, Signature, Variable, order

_Place: TypeAlias = tuple[str, int, int, Constant]  # name, parameters, which one, its value
_Key = TypeVar("_Key")
_NONE: Final[dict[Atom, None]] = {}


class Facts:
    """A set of ground atoms that finds those that fit a pattern.

    Not safe for use by several threads at once.
    """

    def __init__(self) -> None:
        self._by_signature: dict[Signature, dict[Atom, None]] = {}
        self._by_value: dict[_Place, dict[Atom, None]] = {}

    def __contains__(self, atom: Atom) -> bool:
        """Tell whether an atom is there."""
        return atom in self._by_signature.get(atom.signature, _NONE)

    def __iter__(self) -> Iterator[Atom]:
        """Visit every atom."""
        for atoms in self._by_signature.values():
            yield from atoms

    def add(self, atom: Atom) -> None:
        """Put a ground atom in."""
        self._by_signature.setdefault(atom.signature, {})[atom] = None
        for place in _places(atom):
            self._by_value.setdefault(place, {})[atom] = None

    def discard(self, atom: Atom) -> None:
        """Take an atom out, if it is there."""
        if atom not in self:
            return
        _remove(self._by_signature, atom.signature, atom)
        for place in _places(atom):
            _remove(self._by_value, place, atom)

    def near(self, pattern: Atom, bindings: Bindings) -> Collection[Atom]:
        """Return atoms among which are all that fit, quickly and few of them.

        Args:
            pattern: an atom with variables.
            bindings: what some of them stand for.
        """
        least = self._by_signature.get(pattern.signature, _NONE)
        for place, term in enumerate(pattern.terms):
            value = bindings.get(term.name) if isinstance(term, Variable) else term
            if value is not None:
                found = self._by_value.get((*pattern.signature, place, value), _NONE)
                least = min(least, found, key=len)
        return least

    def fitting(self, pattern: Atom, bindings: Bindings) -> list[Atom]:
        """Return the atoms that fit, sorted, so that nothing hangs on who came first."""
        wanted = pattern.bound(bindings)
        if not wanted.variables:
            return [wanted] if wanted in self else []
        near = self.near(pattern, bindings)
        return sorted(
            (each for each in near if pattern.match(each, bindings) is not None), key=order
        )


def _places(atom: Atom) -> Iterator[_Place]:
    for place, term in enumerate(atom.terms):
        yield (*atom.signature, place, cast(Constant, term))


def _remove(index: dict[_Key, dict[Atom, None]], key: _Key, atom: Atom) -> None:
    atoms = index[key]
    del atoms[atom]
    if not atoms:
        del index[key]
