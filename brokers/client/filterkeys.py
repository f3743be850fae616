"""Keys of filters: asked for over the bus, kept, and renewed with policies and epochs.

A client that the control plane lets read by filters finds no reading keys in its bundle. It asks
for those of each filter, once; from then on this asks again by itself whenever a bundle comes,
since policies may have changed, and whenever an epoch was opened of which a key lacks. A key that
policies no longer give is forgotten. What is kept is encrypted under a key of the client's own.

Source: paper 004, RequestDecryptionKey (section 4.3, step 3).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from brokers.adapters.files import write_atomically
from brokers.client.errors import NotAuthorised, NotReady, ProfileError, Refused, TimedOut
from brokers.client.policy import ClientPolicy, PolicyHolder
from brokers.client.session import fresh_identifier
from brokers.client.vault import Vault
from brokers.ports import Clock, KeyStore
from policyengine.bundles import (
    MOST_ATTRIBUTES,
    FilterAnswer,
    FilterRequest,
    Request,
    audience,
    sign_filter_request,
)
from policyengine.errors import DecodeError, InputError, RejectedError
from policyengine.primitives.canonical import b64, unb64

ANSWER_SECONDS = 10.0
"""After so long without an answer a request is sent again."""
AGAIN_SECONDS = 1.0
_LONGEST_PAUSE = 300.0
_PLACE = "filter-keys"

_Name = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class FilterKey:
    """What a client holds for one filter.

    Args:
        type: event type.
        attributes: names of the attributes that it reads, sorted.
        epochs: numbers of the blind epochs that it opens; none where it was refused.
        reason: why it was refused when it was last asked for; empty where it was not.
    """

    type: str
    attributes: tuple[str, ...]
    epochs: tuple[int, ...]
    reason: str


class FilterProfile(Protocol):
    """Whose filters these are."""

    @property
    def handle(self) -> str:
        """The client's pseudonym."""

    @property
    def domain(self) -> str:
        """The domain it belongs to."""

    @property
    def keys(self) -> KeyStore:
        """Its private keys."""


class FilterSession(Protocol):
    """What keys of filters need of their client's session."""

    @property
    def profile(self) -> FilterProfile:
        """Whose session it is."""

    @property
    def policy(self) -> PolicyHolder:
        """What is in force."""

    @property
    def clock(self) -> Clock:
        """Both clocks."""

    def say(self, request: Request) -> None:
        """Tell the control plane something, on the control thread."""


@dataclass
class _Filter:
    """One filter; it is kept once it was granted.

    `under` is the revision that it was last answered under, `asking` the one that it is asked
    under now.
    """

    name: _Name
    keys: dict[int, bytes] = field(default_factory=dict, repr=False)
    reason: str = ""
    kept: bool = False
    request: str = ""
    asking: int = 0
    under: int = -1
    not_before: float = float("-inf")
    pause: float = AGAIN_SECONDS
    refusal: Refused | None = None

    def shown(self) -> FilterKey:
        """For the program."""
        return FilterKey(*self.name, tuple(sorted(self.keys)), self.reason)

    def due(self, policy: ClientPolicy) -> bool:
        """Whether to ask: policies may have changed, or an epoch's key lacks."""
        return self.under != policy.revision or (not self.reason and bool(self.lacking(policy)))

    def lacking(self, policy: ClientPolicy) -> set[int]:
        """The open epochs of which the key is not here."""
        return set(policy.blind.epochs) - set(self.keys)

    def wait(self, now: float) -> None:
        """Ask again later; the pause grew when it was asked for."""
        self.not_before = now + self.pause


class FilterKeys:
    """The keys of one client's filters.

    `step` and `answered` are for the control thread, the rest for any.

    Args:
        session: the client's session.
        path: what is kept, encrypted.

    Raises:
        ProfileError: the file is damaged, or of other keys.
    """

    def __init__(self, session: FilterSession, path: Path) -> None:
        self._session = session
        self._path = path
        self._vault = Vault(session.profile.keys.sealing)
        self._address = audience("client", session.profile.handle)
        self._told = threading.Condition()
        self._stale = False
        self._filters: dict[_Name, _Filter] = {each.name: each for each in self._load()}
        session.policy.read_with(self._reading)

    @property
    def all(self) -> tuple[FilterKey, ...]:
        """Every filter that was granted once, by type and attributes."""
        with self._told:
            return tuple(each.shown() for _, each in sorted(self._filters.items()) if each.kept)

    def ask(self, event_type: str, attributes: Iterable[str], timeout: float) -> FilterKey:
        """Ask for the key of a filter, or return the one that is held.

        Raises:
            NotAuthorised: policies do not give it; the message says why.
            NotReady: `not-ready`, where it cannot be given yet.
            TimedOut: no answer in time.
            InputError: `invalid` for no attribute, or too many.
        """
        listed = tuple(sorted(set(attributes)))
        if not 0 < len(listed) <= MOST_ATTRIBUTES:
            limit = f"a filter reads between one attribute and {MOST_ATTRIBUTES}"
            raise InputError("invalid", limit, where="attributes")
        name = (event_type, listed)
        end = time.monotonic() + timeout
        with self._told:
            wanted = self._filters.setdefault(name, _Filter(name))
            if wanted.kept and wanted.keys:
                return wanted.shown()
            # Refused before, or nothing heard: ask now.
            wanted.under, wanted.refusal = -1, None
            wanted.pause, wanted.not_before = AGAIN_SECONDS, float("-inf")
            self._told.wait_for(
                lambda: wanted.keys or isinstance(wanted.refusal, NotAuthorised),
                max(0.0, end - time.monotonic()),
            )
            if wanted.keys:
                return wanted.shown()
            if not wanted.kept:
                self._filters.pop(name, None)
        raise wanted.refusal or TimedOut("timeout", "no answer about the filter's key in time")

    def forget(self, event_type: str, attributes: Iterable[str]) -> None:
        """Do without a filter's key from now on; what it was for is no longer read."""
        name = (event_type, tuple(sorted(set(attributes))))
        with self._told:
            rest = {key: each for key, each in self._filters.items() if key != name}
            self._keep(rest.values())
            self._filters = rest
            self._stale = True

    # the control thread

    def step(self) -> None:
        """Ask for what is due."""
        if self._stale:
            self._stale = False
            self._session.policy.read_with(self._reading)
        policy, now = self._session.policy.current, self._session.clock.boot()
        if policy is None:
            return
        with self._told:
            due = [each for each in self._filters.values() if each.due(policy)]
            for each in due:
                if now >= each.not_before:
                    self._ask(each, policy, now)

    def _ask(self, wanted: _Filter, policy: ClientPolicy, now: float) -> None:
        wanted.request, wanted.asking = fresh_identifier(), policy.revision
        # Nobody may be there to answer: ask ever more rarely.
        wanted.not_before = now + max(ANSWER_SECONDS, wanted.pause)
        wanted.pause = min(wanted.pause * 2, _LONGEST_PAUSE)
        event_type, attributes = wanted.name
        request = FilterRequest(
            audience=self._address,
            domain=policy.domain,
            request=wanted.request,
            type=event_type,
            attributes=attributes,
            at=int(self._session.clock.wall()),
        )
        self._session.say(sign_filter_request(request, self._session.profile.keys.signing))

    def answered(self, answer: FilterAnswer) -> None:
        """Take an answer; one that nobody waits for changes nothing.

        Raises:
            RejectedError: a key in it does not open, or is of another client or epoch.
            OSError: it could not be kept.
        """
        with self._told:
            wanted = self._filters.get((answer.type, answer.attributes))
            if wanted is None or not wanted.request or wanted.request != answer.request:
                return
            after = self._after(wanted, answer)
            if after.kept:
                # INVARIANT: kept before it is used.
                others = (each for each in self._filters.values() if each.name != after.name)
                self._keep([*others, after])
            vars(wanted).update(vars(after))
        self._session.policy.read_with(self._reading)
        with self._told:
            self._told.notify_all()

    def _after(self, wanted: _Filter, answer: FilterAnswer) -> _Filter:
        """The filter once an answer counts."""
        after = replace(wanted, request="", refusal=None)
        if answer.again:
            after.refusal = NotReady("not-ready", answer.reason)
            after.wait(self._session.clock.boot())
            return after
        after.under = wanted.asking
        if not answer.granted:
            after.keys, after.reason = {}, answer.reason
            after.refusal = NotAuthorised("not-authorised", answer.reason)
            after.pause, after.not_before = AGAIN_SECONDS, float("-inf")
            return after
        after.keys, after.reason, after.kept = answer.opened(self._key), "", True
        policy = self._session.policy.current
        if policy is not None:
            self._check(policy, after)
        if policy is None or after.lacking(policy):
            after.wait(self._session.clock.boot())
        else:
            after.pause, after.not_before = AGAIN_SECONDS, float("-inf")
        return after

    @property
    def _key(self) -> Any:
        return self._session.profile.keys.sealing

    def _check(self, policy: ClientPolicy, after: _Filter) -> None:
        try:
            policy.blind.with_filters({number: (key,) for number, key in after.keys.items()}, ())
        except DecodeError as error:
            raise RejectedError("malformed", str(error)) from error

    # reading

    def _reading(self, policy: ClientPolicy) -> ClientPolicy:
        """The policy of our own domain, read with every key that is held."""
        if policy.domain != self._session.profile.domain:
            return policy
        with self._told:
            held = [each for _, each in sorted(self._filters.items()) if each.kept]
            found = {
                number: tuple(each.keys[number] for each in held if number in each.keys)
                for number in policy.blind.epochs
            }
            lacking = {
                number for each in held if not each.reason for number in each.lacking(policy)
            }
        return replace(policy, blind=policy.blind.with_filters(found, lacking))

    # the disk

    def _keep(self, filters: Iterable[_Filter]) -> None:
        rows = [
            {
                "type": each.name[0],
                "attributes": list(each.name[1]),
                "reason": each.reason,
                "keys": {str(number): b64(key) for number, key in each.keys.items()},
            }
            for each in sorted(filters, key=lambda each: each.name)
            if each.kept
        ]
        sealed = self._vault.seal(_PLACE, self._session.profile.domain, {"filters": rows})
        write_atomically(self._path, sealed)

    def _load(self) -> list[_Filter]:
        if not self._path.exists():
            return []
        domain = self._session.profile.domain
        document = self._vault.open(_PLACE, domain, self._path.read_bytes())
        try:
            return [
                _Filter(
                    (row["type"], tuple(row["attributes"])),
                    {int(number): unb64(key) for number, key in row["keys"].items()},
                    row["reason"],
                    kept=True,
                )
                for row in document["filters"]
            ]
        except (KeyError, TypeError, AttributeError, ValueError, DecodeError):
            raise ProfileError(f"{self._path} is damaged; remove it") from None
