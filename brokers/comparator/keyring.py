"""The keys in force at a comparator, swapped as a whole by the control side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from policyengine.bundles import ComparatorContent, Floors, OpenedBundle, TrustedState
from policyengine.errors import DecodeError, InputError, RejectedError
from policyengine.ope import ComparatorKey, KeyringComparator, Question, Slot
from policyengine.trustgroups import may_open


@dataclass(frozen=True)
class DomainKeys:
    """What a bundle brings: the keys of one domain in which ciphertexts may still come."""

    domain: str
    keys: tuple[ComparatorKey, ...]


class Keyring:
    """Holds the keys of all domains; readers see one consistent set.

    Args:
        name: the comparator's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._domains: Mapping[str, tuple[ComparatorKey, ...]] = {}
        self._comparator = KeyringComparator(())

    @property
    def slots(self) -> Mapping[str, Slot]:
        """Everything that there is a key of."""
        return self._comparator.slots

    def compare(self, questions: Sequence[Question]) -> list[int]:
        """Place each needle among its pivots (`KeyringComparator.compare`)."""
        return self._comparator.compare(questions)

    # called by the control side

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> DomainKeys:
        """Read a bundle's keys.

        Raises:
            RejectedError: `malformed` or `audience`.
        """
        content = opened.content
        if not isinstance(content, ComparatorContent):
            raise RejectedError("malformed", "the bundle holds no content for a comparator")
        if content.comparator != self._name:
            raise RejectedError("audience", "the bundle is for another comparator")
        try:
            keys = tuple(
                _checked(
                    ComparatorKey.from_bytes(one.key),
                    Slot(content.domain, one.type, one.attribute, one.epoch),
                )
                for one in content.ordered
                if may_open(one.state)
            )
        except (DecodeError, InputError) as error:
            raise RejectedError("malformed", f"a key is none: {error}") from error
        return DomainKeys(content.domain, keys)

    def commit(self, domain: str, prepared: object) -> None:
        """Swap a domain's keys in; what is no longer among them opens no more."""
        if not isinstance(prepared, DomainKeys):
            raise TypeError("not prepared by this object")
        self._domains = {**self._domains, domain: prepared.keys}
        every = (key for keys in self._domains.values() for key in keys)
        self._comparator = KeyringComparator(every)

    def deny(self, domain: str, handles: frozenset[str]) -> None:
        """Notices are for agents; a comparator knows no clients."""

    def hold(self, domain: str, floors: Floors) -> None:
        """Notices are for agents; a comparator knows no clients."""

    def settled(self) -> Callable[[], bool]:
        """A question under way ends within moments and tells nothing that it did not before."""
        return lambda: True


def _checked(key: ComparatorKey, slot: Slot) -> ComparatorKey:
    if key.slot != slot:
        raise DecodeError("the key is for something else")
    return key
