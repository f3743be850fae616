"""Publications under way, as a state machine: what to send now, to whom, and what became of it.

Pure: it is told the time, what is in force and which replies came; it says what is due.

A part goes to the home agent of its overlay, or to the stand-in while the home is silent. It
keeps its publication's identifier wherever it goes, so that agents and subscribers tell doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from brokers.client.errors import TimedOut, refusal
from brokers.client.homes import HomeWatch
from brokers.client.policy import ClientPolicy, PlannedPart
from brokers.data.reasons import NO_SHARE, RETRYABLE, TOO_OFTEN
from policyengine.attributes import Value
from policyengine.bundles import HomeAgent, Reply

PAUSE_BEFORE_RETRY = 0.3
AGAIN_SECONDS = 60.0
_LONGEST_AGAIN = 900.0


@dataclass(frozen=True)
class Published:
    """An event that every home agent concerned has accepted.

    Args:
        id: identifier of the publication, 32 hexadecimal digits.
        dropped: attributes that were left out, because the publisher may not write them
            or no agent could protect them.
    """

    id: str
    dropped: tuple[str, ...]


@dataclass(frozen=True)
class Parcel:
    """An event on its way.

    Args:
        id: identifier of the publication, 32 hexadecimal digits.
        domain: the domain it is published in.
        type: its event type.
        values: the whole event, in canonical form.
        parts: how it is split; stays so however often a part is sent.
    """

    id: str
    domain: str
    type: str
    values: Mapping[str, Value] = field(repr=False)
    parts: tuple[PlannedPart, ...] = field(repr=False)


@dataclass(frozen=True)
class Shipment:
    """One part that is to be sealed under a policy and sent to an agent now."""

    parcel: Parcel
    part: PlannedPart
    policy: ClientPolicy
    agent: HomeAgent


@dataclass(frozen=True)
class Outcome:
    """What became of a parcel: accepted, or an exception that says why not."""

    id: str
    published: Published | None = None
    error: Exception | None = None


@dataclass
class _Leg:
    """One part's way: who holds it, and what was answered."""

    planned: PlannedPart
    digest: str = ""
    held_by: dict[str, float] = field(default_factory=dict)
    again: float = AGAIN_SECONDS
    reply: Reply | None = None
    not_before: float = float("-inf")
    retry_at: float | None = None

    @property
    def accepted(self) -> bool:
        return self.reply is not None and self.reply.ok


@dataclass
class _Way:
    parcel: Parcel
    legs: list[_Leg]
    deadline: float | None
    patient: bool


class Dispatch:
    """Keeps the publications of one client that are not decided yet.

    Args:
        policy: domain -> what is in force there.
        watch: which agents are silent.
        connected: overlay -> whether its broker can be reached now.
    """

    def __init__(
        self,
        policy: Callable[[str], ClientPolicy | None],
        watch: HomeWatch,
        connected: Callable[[str], bool],
    ) -> None:
        self._policy = policy
        self._watch = watch
        self._connected = connected
        self._ways: dict[str, _Way] = {}

    def __len__(self) -> int:
        return len(self._ways)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self._ways

    def add(self, parcel: Parcel, *, deadline: float | None = None, patient: bool = False) -> None:
        """Take a parcel.

        Args:
            parcel: the event.
            deadline: when it is given up, None for never.
            patient: whether it waits where it is published too often, and is not refused.
        """
        legs = [_Leg(part) for part in parcel.parts]
        self._ways[parcel.id] = _Way(parcel, legs, deadline, patient)

    def forget(self, identifier: str) -> None:
        """Nobody waits for it any more."""
        self._ways.pop(identifier, None)

    def unsent(self, identifier: str) -> bool:
        """Whether a part of it has not been handed to any broker yet."""
        way = self._ways.get(identifier)
        return way is not None and any(not leg.held_by and not leg.reply for leg in way.legs)

    # what happens

    def answered(self, reply: Reply, *, again: float | None = None) -> bool:
        """Take an agent's reply; False where nothing of ours is meant.

        Args:
            reply: what it answers.
            again: seconds on the boot-time clock from which asking again may help, where the
                agent has said so.
        """
        way = self._ways.get(reply.request)
        if way is None or reply.part >= len(way.legs):
            return False
        leg = way.legs[reply.part]
        if reply.reason == NO_SHARE and not self._at_home(way, leg, reply.agent):
            return True  # a stand-in holds no shares: the home is waited for
        # Who accepted it once cannot be contradicted by a stand-in that came later.
        if not leg.accepted:
            leg.reply, leg.retry_at = reply, again
        return True

    def _at_home(self, way: _Way, leg: _Leg, agent: str) -> bool:
        policy = self._policy(way.parcel.domain)
        home = None if policy is None else policy.homes.get(leg.planned.overlay)
        return home is None or home.agent == agent

    def sent(self, shipment: Shipment, now: float) -> None:
        """The broker has it in its keeping."""
        leg = self._leg(shipment)
        if leg is not None:
            again = shipment.agent.agent in leg.held_by
            leg.again = min(_LONGEST_AGAIN, leg.again * 2) if again else leg.again
            leg.held_by[shipment.agent.agent] = now
            leg.digest = shipment.policy.digest
            self._watch.asked(shipment.agent.agent, now)

    def unsendable(self, shipment: Shipment, now: float) -> None:
        """The broker did not take it: try a little later."""
        leg = self._leg(shipment)
        if leg is not None:
            leg.not_before = now + PAUSE_BEFORE_RETRY

    def _leg(self, shipment: Shipment) -> _Leg | None:
        way = self._ways.get(shipment.parcel.id)
        return None if way is None else way.legs[shipment.part.part]

    # what is due

    def step(
        self, now: float, only: Iterable[str] | None = None
    ) -> tuple[list[Shipment], list[Outcome]]:
        """What to send now, and which parcels are decided (they are let go of).

        Args:
            now: seconds on the boot-time clock.
            only: parcels to look at; all where None.
        """
        shipments: list[Shipment] = []
        outcomes: list[Outcome] = []
        for identifier in list(self._ways if only is None else only):
            way = self._ways.get(identifier)
            if way is None:
                continue
            due, outcome = self._look(way, now)
            if outcome is None:
                shipments += due
            else:
                del self._ways[identifier]
                outcomes.append(outcome)
        return shipments, outcomes

    def _look(self, way: _Way, now: float) -> tuple[list[Shipment], Outcome | None]:
        name = way.parcel.id
        if all(leg.accepted for leg in way.legs):
            dropped = [each for leg in way.legs if leg.reply for each in leg.reply.dropped]
            return [], Outcome(name, Published(name, tuple(dict.fromkeys(dropped))))
        for leg in way.legs:
            if leg.reply and not leg.reply.ok and not _waits(way, leg.reply):
                said = leg.reply
                return [], Outcome(name, error=refusal(said.reason, said.message, said.again))
        if way.deadline is not None and now >= way.deadline:
            return [], Outcome(name, error=self._late())
        policy = self._policy(way.parcel.domain)
        if policy is None:
            return [], None
        found = (self._due(way.parcel, leg, policy, now) for leg in way.legs if not leg.accepted)
        return [shipment for shipment in found if shipment is not None], None

    @staticmethod
    def _late() -> Exception:
        return TimedOut("timeout", "no answer in time; it may still be accepted")

    def _due(self, parcel: Parcel, leg: _Leg, policy: ClientPolicy, now: float) -> Shipment | None:
        overlay = leg.planned.overlay
        agent = self._agent(policy, overlay, now)
        if agent is None or now < leg.not_before or not self._connected(overlay):
            return None
        if leg.reply is not None and not self._may_retry(leg, policy, now):
            return None
        if not self._wanted(leg, agent, now):
            return None
        return Shipment(parcel, leg.planned, policy, agent)

    def _agent(self, policy: ClientPolicy, overlay: str, now: float) -> HomeAgent | None:
        home = policy.homes.get(overlay)
        if home is None or overlay not in policy.tag_keys:
            return None  # a newer policy brings it
        return self._watch.choose(home, policy.fallbacks.get(overlay), now)

    @staticmethod
    def _may_retry(leg: _Leg, policy: ClientPolicy, now: float) -> bool:
        """A retryable refusal is answered under a newer policy, or after a pause."""
        if leg.retry_at is None:
            leg.retry_at = now + PAUSE_BEFORE_RETRY
        if policy.digest == leg.digest and now < leg.retry_at:
            return False
        leg.reply, leg.retry_at = None, None
        leg.held_by.clear()
        return True

    @staticmethod
    def _wanted(leg: _Leg, agent: HomeAgent, now: float) -> bool:
        """Whether this agent does not have it yet, or has been silent about it for very long."""
        held = leg.held_by.get(agent.agent)
        return held is None or now - held >= leg.again

    # waiting

    def wait_for(self, now: float) -> None:
        """Say whose answers are awaited; silence counts only while the broker is there."""
        for way in list(self._ways.values()):
            policy = self._policy(way.parcel.domain)
            for leg in way.legs:
                if leg.accepted or leg.reply is not None or policy is None:
                    continue
                there = self._connected(leg.planned.overlay)
                for agent in leg.held_by:
                    if there:
                        self._watch.asked(agent, now)
                    else:
                        self._watch.interrupted(agent)


def _waits(way: _Way, reply: Reply) -> bool:
    """Whether a refused part is sent again: anew sealed, or when there is room for it."""
    return reply.reason in RETRYABLE or (way.patient and reply.reason == TOO_OFTEN)


def plan_parcel(
    policy: ClientPolicy, identifier: str, event_type: str, values: Mapping[str, Value]
) -> Parcel:
    """An event as a parcel, split as the policy says.

    Raises:
        NotReady: `no-home`, where a part could not be sent anywhere.
    """
    canonical = policy.canonical(event_type, values)
    parts = policy.plan(event_type, canonical)
    return Parcel(identifier, policy.domain, event_type, canonical, parts)
