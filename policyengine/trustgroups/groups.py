"""A trust group: who holds which epoch key, and what changes that.

Every transition returns a new group and leaves the old one as it was. A key is fresh
random bytes, never derived from an earlier one, so that who left learns nothing of what
comes (forward secrecy) and who joins nothing of what was (backward secrecy; paper 002,
section 4.3, "Encryption Keys"). Keys are wrapped flat, once for every member: groups are
the brokers of a domain, few and long-lived (paper 002, section 4.3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Final

from policyengine.attributes import shown
from policyengine.errors import InputError
from policyengine.primitives.hpke import suite_of
from policyengine.primitives.rand import SYSTEM_RANDOM, RandomSource
from policyengine.primitives.records import LABEL, Binary, Record
from policyengine.trustgroups.epochs import EpochState, check_transition
from policyengine.trustgroups.wraps import GROUP, KEY_SIZE, Wrap, wrap_key

FIRST_EPOCH: Final = 1
"""Number of a group's first epoch; every later one is one more."""


@dataclass(frozen=True)
class Member(Record):
    """Somebody who is trusted with the keys of a group.

    Args:
        id: its address, for example `agent:alpha`; wraps are bound to it.
        public: its public sealing key, 32 bytes of X25519 or 1216 of a hybrid key.
    """

    id: Annotated[str, LABEL]
    public: Annotated[bytes, Binary()]

    def _agree(self) -> None:
        suite_of(self.public)


@dataclass(frozen=True, slots=True)
class Epoch:
    """One generation of a group's key.

    Args:
        number: from `FIRST_EPOCH` on, without gaps.
        state: what it may be used for.
        key: 32 bytes; empty once the epoch is retired. Never shown by `repr`.
        holders: everybody who was ever given the key. It is not shortened when somebody
            leaves, as a key cannot be taken back.
    """

    number: int
    state: EpochState
    key: bytes = field(repr=False)
    holders: frozenset[str]


@dataclass(frozen=True, slots=True)
class TrustGroup:
    """Members, epochs and their keys at one moment. Make one with `found`.

    Args:
        name: `key:<attribute key>` or `overlay:<overlay>`.
        members: who belongs to it, sorted by id.
        epochs: every epoch there was, by number. Exactly one is current, at most one
            staged.
    """

    name: str
    members: tuple[Member, ...]
    epochs: tuple[Epoch, ...]

    @classmethod
    def found(
        cls, name: str, members: Iterable[Member] = (), *, random: RandomSource = SYSTEM_RANDOM
    ) -> TrustGroup:
        """Make a group with a first, current epoch.

        Args:
            name: `key:<name>` or `overlay:<name>`.
            members: who belongs to it from the beginning.
            random: source of the first key.

        Raises:
            InputError: `invalid` for a name of another form or a member named twice.
        """
        group = cls(GROUP.clean(name, "group"), _ordered(members), ())
        first = Epoch(FIRST_EPOCH, "current", random.token(KEY_SIZE), group._ids())
        return replace(group, epochs=(first,))

    @property
    def current(self) -> Epoch:
        """The one epoch in which new ciphertexts are made."""
        return next(epoch for epoch in self.epochs if epoch.state == "current")

    @property
    def staged(self) -> Epoch | None:
        """The epoch that comes next, when there is one."""
        return next((epoch for epoch in self.epochs if epoch.state == "staged"), None)

    def member(self, member: str) -> Member:
        """Return a member by its id.

        Raises:
            InputError: `unknown` when it does not belong to the group.
        """
        for candidate in self.members:
            if candidate.id == member:
                return candidate
        raise InputError(
            "unknown", f"{shown(member)} is no member of {shown(self.name)}", where="member"
        )

    def opens(self, member: str) -> frozenset[int]:
        """Tell which epochs somebody can open: those whose key it was ever given.

        Ask the group before a change and the group after it to see what the change does.
        Whoever never belonged to the group opens nothing.

        Args:
            member: an id, also of one who left.
        """
        return frozenset(epoch.number for epoch in self.epochs if member in epoch.holders)

    def accepted(self) -> frozenset[int]:
        """Return the epochs of which ciphertexts still count: all but the retired."""
        return frozenset(epoch.number for epoch in self.epochs if epoch.state != "retired")

    def stage(self, *, random: RandomSource = SYSTEM_RANDOM) -> TrustGroup:
        """Make the next epoch, for the present members, without using it yet.

        Members switch to it one after the other; `promote` ends that. An epoch that was
        staged before is given up.

        Args:
            random: source of the key.
        """
        # INVARIANT: at most one epoch is staged, and it has the highest number
        kept = tuple(
            _moved(epoch, "retired") if epoch.state == "staged" else epoch for epoch in self.epochs
        )
        fresh = Epoch(kept[-1].number + 1, "staged", random.token(KEY_SIZE), self._ids())
        return replace(self, epochs=(*kept, fresh))

    def promote(self) -> TrustGroup:
        """Make the staged epoch current; the current one drains.

        Raises:
            InputError: `invalid` when no epoch is staged.
        """
        if self.staged is None:
            raise InputError("invalid", f"no epoch of {shown(self.name)} is staged", where="state")
        moves: dict[EpochState, EpochState] = {"staged": "current", "current": "draining"}
        epochs = tuple(
            _moved(epoch, moves[epoch.state]) if epoch.state in moves else epoch
            for epoch in self.epochs
        )
        return replace(self, epochs=epochs)

    def rotate(self, *, random: RandomSource = SYSTEM_RANDOM) -> TrustGroup:
        """Change to a fresh key at once.

        Args:
            random: source of the key.
        """
        return self.stage(random=random).promote()

    def retire(self, number: int) -> TrustGroup:
        """End an epoch that drains, and forget its key.

        A staged one is given up by staging another: it may be all that a newcomer opens,
        or the first that somebody who left does not.

        Args:
            number: number of the epoch.

        Raises:
            InputError: `unknown` for a number that no epoch has, `invalid` for an epoch
                that does not drain.
        """
        state = self._epoch(number).state
        if state == "staged":
            raise InputError("invalid", f"epoch {number} is staged; stage another", where="epoch")
        epochs = tuple(
            _moved(epoch, "retired") if epoch.number == number else epoch for epoch in self.epochs
        )
        return replace(self, epochs=epochs)

    def add_member(
        self,
        member: Member,
        *,
        hand_on: Collection[int] = (),
        switch: bool = True,
        random: RandomSource = SYSTEM_RANDOM,
    ) -> TrustGroup:
        """Let somebody in, in a new epoch, so that nothing earlier opens for it.

        Args:
            member: who joins.
            hand_on: numbers of earlier epochs whose keys it is given on purpose. When the
                current one is among them no new epoch is needed and none is made.
            switch: whether the new epoch becomes current at once; otherwise it is staged,
                and the newcomer opens nothing more until `promote`.
            random: source of the new key.

        Raises:
            InputError: `invalid` when it belongs to the group already or an epoch that is
                to be handed on is neither current nor draining; `unknown` for an epoch
                that does not exist.
        """
        if any(present.id == member.id for present in self.members):
            raise InputError(
                "invalid", f"{shown(member.id)} belongs to {shown(self.name)}", where="member"
            )
        for number in hand_on:
            state = self._epoch(number).state
            if state not in ("current", "draining"):
                raise InputError("invalid", f"epoch {number} is {state}", where="hand_on")
        joined = replace(
            self,
            members=_ordered((*self.members, member)),
            epochs=tuple(
                replace(epoch, holders=epoch.holders | {member.id})
                if epoch.number in hand_on
                else epoch
                for epoch in self.epochs
            ),
        )
        if self.current.number not in hand_on:
            return joined._renewed(switch=switch, random=random)
        # who opens the current epoch must open what follows it
        return joined.stage(random=random) if self.staged is not None else joined

    def remove_member(
        self, member: str, *, switch: bool = True, random: RandomSource = SYSTEM_RANDOM
    ) -> TrustGroup:
        """Let somebody go, in a new epoch whose key it is not given.

        Args:
            member: id of who leaves.
            switch: whether the new epoch becomes current at once; otherwise it is staged,
                and who left can read on until `promote`.
            random: source of the new key.

        Raises:
            InputError: `unknown` when it does not belong to the group.
        """
        self.member(member)
        left = replace(self, members=tuple(one for one in self.members if one.id != member))
        return left._renewed(switch=switch, random=random)

    def wraps(self, member: str) -> tuple[Wrap, ...]:
        """Seal to a member every key that it may use now.

        Args:
            member: its id.

        Returns:
            One wrap an epoch that is not retired and that the member holds, by number.
            Sealing is randomised: the same call gives other bytes each time.

        Raises:
            InputError: `unknown` when it does not belong to the group; `invalid` when its
                public key cannot be used.
        """
        found = self.member(member)
        return tuple(
            wrap_key(
                self.name,
                epoch.number,
                epoch.key,
                recipient=found.public,
                audience=member,
                state=epoch.state,
            )
            for epoch in self.epochs
            if epoch.state != "retired" and member in epoch.holders
        )

    def _renewed(self, *, switch: bool, random: RandomSource) -> TrustGroup:
        staged = self.stage(random=random)
        return staged.promote() if switch else staged

    def _epoch(self, number: int) -> Epoch:
        for epoch in self.epochs:
            if epoch.number == number:
                return epoch
        raise InputError(
            "unknown", f"{shown(self.name)} has no epoch {shown(number)}", where="epoch"
        )

    def _ids(self) -> frozenset[str]:
        return frozenset(member.id for member in self.members)


def _ordered(members: Iterable[Member]) -> tuple[Member, ...]:
    ordered = sorted(members, key=lambda member: member.id)
    for first, second in pairwise(ordered):
        if first.id == second.id:
            raise InputError("invalid", f"{shown(first.id)} is named twice", where="members")
    return tuple(ordered)


def _moved(epoch: Epoch, state: EpochState) -> Epoch:
    check_transition(epoch.state, state)
    return replace(epoch, state=state, key=b"" if state == "retired" else epoch.key)
