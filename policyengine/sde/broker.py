"""A broker's shares, one for each user that it serves."""

from __future__ import annotations

from policyengine.attributes import shown
from policyengine.errors import RejectedError
from policyengine.sde.events import EncryptedEvent, UserEvent, reencrypt_event
from policyengine.sde.filters import EncryptedFilter, UserFilter, reencrypt_filter
from policyengine.sde.keys import BrokerKey


class Shares:
    """The shares x2 of a broker's users, found by name (paper 001, sections 5.2 and 5.3).

    Deleting a share ends what its user can do here: no event and no filter of theirs can
    be finished any more, and nobody else's keys change. Filters that were finished before
    stand in a `Matcher` until they are removed from it.

    A user's name in an event or a filter is a claim; the connection or the envelope proves it.
    """

    def __init__(self) -> None:
        self._keys: dict[str, BrokerKey] = {}

    def __len__(self) -> int:
        """Return how many users the broker serves."""
        return len(self._keys)

    def add(self, key: BrokerKey) -> None:
        """Serve a user, with this share in place of an earlier one."""
        self._keys[key.user] = key

    def delete(self, user: str) -> None:
        """Stop serving a user; nothing happens where there is no such user."""
        self._keys.pop(user, None)

    def event(self, event: UserEvent) -> EncryptedEvent:
        """Finish a publisher's event.

        Raises:
            RejectedError: `user` for a user without a share, else as `reencrypt_event`.
        """
        return reencrypt_event(self._of(event.user), event)

    def filter(self, encrypted: UserFilter) -> EncryptedFilter:
        """Finish a subscriber's filter.

        Raises:
            RejectedError: `user` for a user without a share, else as `reencrypt_filter`.
        """
        return reencrypt_filter(self._of(encrypted.user), encrypted)

    def _of(self, user: str) -> BrokerKey:
        key = self._keys.get(user)
        if key is None:
            raise RejectedError("user", f"the broker holds no share of {shown(user)}")
        return key
