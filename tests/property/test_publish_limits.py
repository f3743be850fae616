"""Random publications at random times, against an oracle that counts every moment anew."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.data_plane import Organisation, Policy, airport
from tests.support.memory_broker import MemoryBroker
from tests.support.pure_agents import NOW, agent_snapshot, publication
from tests.support.rate_limits import Rig, answers

# name -> (types that it is about, what it permits, count, seconds)
LIMITS = {
    "all": (("Flight", "Departure"), None, 3, 10),
    "gates": (("Departure",), frozenset({"carrier", "gate"}), 2, 4),
    "times": (("Flight", "Departure"), frozenset({"carrier", "delay"}), 2, 7),
}
EVENTS = {
    "Flight": {"carrier": "UA", "delay": 5},
    "Departure": {"carrier": "UA", "delay": 5, "gate": "A1"},
}


def _organisation() -> Organisation:
    organisation = airport()
    organisation.policies = tuple(
        Policy(
            name,
            "publish",
            types[0],
            'subject.role == "airport" || subject.role == "guest"',
            attributes=None if attributes is None else tuple(sorted(attributes)),
            limit=(count, seconds),
        )
        for name, (types, attributes, count, seconds) in LIMITS.items()
    )
    organisation.clients["p-nobody"] = replace(
        organisation.clients["p-nobody"], subject={"role": "guest"}
    )
    return organisation


ORGANISATION = _organisation()
SNAPSHOT = agent_snapshot(ORGANISATION, "alpha")


@dataclass
class Oracle:
    """Every event that each policy let through: (publisher, policy) -> moments."""

    through: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def room(self, publisher: str, policy: str, at: float) -> bool:
        """Whether fewer than `count` events lie in the last `seconds`."""
        *_, count, seconds = LIMITS[policy]
        held = self.through.get((publisher, policy), [])
        return sum(at - seconds < moment <= at for moment in held) < count

    def decide(
        self, publisher: str, event_type: str, at: float
    ) -> tuple[str, frozenset[str], float]:
        """What comes of an event: `ok` and what is dropped, or when one of them has room."""
        about = [name for name, (types, *_) in LIMITS.items() if event_type in types]
        usable = [name for name in about if self.room(publisher, name, at)]
        if not usable:
            # The first moment at which something leaves a window and makes room.
            later = [
                moment + LIMITS[name][3]
                for name in about
                for moment in self.through[publisher, name]
                if self.room(publisher, name, moment + LIMITS[name][3])
                and moment + LIMITS[name][3] > at
            ]
            return "too-often", frozenset(), min(later)
        for name in usable:
            self.through.setdefault((publisher, name), []).append(at)
        values = frozenset(EVENTS[event_type])
        permitted = [LIMITS[name][1] for name in usable]
        if None in permitted:
            return "ok", frozenset(), 0
        return "ok", values - frozenset().union(*(each or () for each in permitted)), 0


STEPS = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 1, 1, 2, 3, 5, 11]),  # seconds since the last one
        st.sampled_from(["p-airport", "p-nobody"]),
        st.sampled_from(["Flight", "Departure"]),
        st.sampled_from(["", "", "", "again", "restart"]),
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_agents_decide_as_somebody_who_counts(steps: list[tuple[int, str, str, str]]) -> None:
    oracle, broker, at = Oracle(), MemoryBroker(), NOW
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder), broker, ORGANISATION, snapshot=SNAPSHOT)
        for number, (gap, publisher, event_type, twist) in enumerate(steps):
            at += gap
            if twist == "restart":
                rig.close()
                rig = Rig(Path(folder), broker, ORGANISATION, snapshot=SNAPSHOT)
            name = f"{number:032x}"
            body = publication(
                ORGANISATION, publisher, event_type, EVENTS[event_type], identifier=name
            )
            expected = oracle.decide(publisher, event_type, at)
            rig.take(body, at=at)
            (reply,) = answers(rig)
            found = "ok" if reply.ok else reply.reason
            assert (found, frozenset(reply.dropped), reply.again) == expected
            if twist == "again" and reply.ok:  # the same once more: told again, not counted
                rig.take(body, at=at)
                assert [one.ok for one in answers(rig)] == [True]
        rig.close()
