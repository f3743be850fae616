"""The keys of an agent's deliveries: one a client for a while, then a new one.

In memory only: a restart begins every session anew, and nothing of them is ever on disk.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from brokers.snapshot import DomainSnapshot
from policyengine.bundles import SealedSession, begin_session
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.signatures import SigningKey

MOST_DELIVERIES = 4_096
"""Deliveries under one key; AES-GCM with random nonces would bear 2**32."""
LONGEST_SECONDS = 600.0
"""Seconds that one key is used."""
MOST_SESSIONS = 20_000
"""Sessions at one time, about a kilobyte each; the one used longest ago makes room."""

_Place = tuple[str, str, int]
"""Domain, handle, encoding epoch."""


@dataclass
class _Held:
    """A session, what it was made under, and how much it was used."""

    sealed: SealedSession = field(repr=False)
    under: tuple[bytes, bytes]
    begun: float
    deliveries: int = 0


class SessionKeys:
    """Session keys of an agent with its clients; it changes in place and is for one thread.

    A session ends after so many deliveries or so many seconds, when the client's key or the
    agent's changes, with its encoding epoch, and when anybody in the domain is revoked.

    Args:
        deliveries: most under one key.
        seconds: longest use of one key, on the clock of `now`.
        most: sessions at one time.
    """

    def __init__(
        self,
        *,
        deliveries: int = MOST_DELIVERIES,
        seconds: float = LONGEST_SECONDS,
        most: int = MOST_SESSIONS,
    ) -> None:
        self._deliveries = deliveries
        self._seconds = seconds
        self._most = most
        self._held: OrderedDict[_Place, _Held] = OrderedDict()
        self._policies: dict[str, DomainSnapshot] = {}

    def __len__(self) -> int:
        return len(self._held)

    def of(
        self,
        snapshot: DomainSnapshot,
        handle: str,
        epoch: int,
        *,
        signing_key: SigningKey,
        now: float,
        random: RandomSource,
    ) -> SealedSession:
        """The session for one more delivery.

        Args:
            snapshot: the domain's policy in force, which names the client.
            handle: an own client.
            epoch: the delivery's encoding epoch.
            signing_key: the agent's own.
            now: Unix time in seconds, by the lease's signed time.
            random: source of new keys.
        """
        if self._policies.get(snapshot.domain) is not snapshot:
            self._follow(snapshot)
        place = (snapshot.domain, handle, epoch)
        recipient = snapshot.clients[handle].sealing_key
        under = (recipient, signing_key.public)
        held = self._held.get(place)
        if held is None or held.under != under or not self._lasts(held, now):
            sealed = begin_session(
                snapshot.domain, epoch, agent=snapshot.agent, signing_key=signing_key,
                recipient=recipient, handle=handle, random=random,
            )  # fmt: skip
            held = self._held[place] = _Held(sealed, under, now)
            if len(self._held) > self._most:
                self._held.popitem(last=False)
        self._held.move_to_end(place)
        held.deliveries += 1
        return held.sealed

    def _lasts(self, held: _Held, now: float) -> bool:
        # A clock that went back says nothing about a key's age.
        return held.deliveries < self._deliveries and 0 <= now - held.begun < self._seconds

    def _follow(self, snapshot: DomainSnapshot) -> None:
        """Another policy, or a notice: forget what it ends."""
        before = self._policies.get(snapshot.domain)
        self._policies[snapshot.domain] = snapshot
        revoked = before is not None and before.denied != snapshot.denied
        for place in [one for one in self._held if one[0] == snapshot.domain]:
            _, handle, epoch = place
            if revoked or handle not in snapshot.clients or epoch not in snapshot.epochs:
                del self._held[place]
