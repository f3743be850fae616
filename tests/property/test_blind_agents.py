"""What agents match without reading, against filters evaluated in plain text."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from brokers.client.assembly import Event, Interests
from policyengine.attributes import evaluate, parse
from policyengine.errors import InputError
from tests.support.blind import blind_part, clinic, message_of, received, subscribe
from tests.support.pure_agents import PureAgent, client_policy, hops

CLINIC = clinic()
DEVICE = client_policy(CLINIC, "p-device")
POLICIES = {handle: client_policy(CLINIC, handle) for handle in ("p-doctor", "p-nurse")}
SCHEMA = DEVICE.types.schema("Reading")

TESTS = st.sampled_from(
    [
        'ward == "north"', 'ward != "north"', 'ward startsWith "no"', "has(ward)",
        'patient == "Alice"', 'patient in ["Bob", "Zoe"]', 'patient startsWith "Al"',
        "has(patient)", "pulse > 120", "pulse <= 60", "pulse in [0, 171, 300]", "pulse != 60",
        "has(pulse)", 'trial == "z"', 'trial != "z"', "has(trial)",
    ]
)  # fmt: skip


def _combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        inner.map(lambda text: f"!({text})"),
        several.map(lambda texts: "(" + " && ".join(texts) + ")"),
        several.map(lambda texts: "(" + " || ".join(texts) + ")"),
        several.map(lambda texts: "atLeast(2, [" + ", ".join(texts) + "])"),
    )


FILTERS = st.recursive(TESTS, _combined, max_leaves=6)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "ward": st.sampled_from(["north", "south"]),
        "patient": st.sampled_from(["Alice", "Bob", ""]),
        "pulse": st.sampled_from([0, 60, 61, 120, 121, 171, 300]),
        "trial": st.sampled_from(["z", "y"]),
    },
)


@given(st.lists(VALUES, min_size=1, max_size=3), FILTERS, FILTERS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_subscribers_get_exactly_the_events_that_meet_what_they_may_know(
    events: list[dict[str, str | int]], doctors: str, nurses: str
) -> None:
    note(f"{doctors!r} and {nurses!r} about {events!r}")
    alpha, beta = PureAgent(CLINIC, "alpha"), PureAgent(CLINIC, "beta")
    wanted = {"p-doctor": doctors, "p-nurse": nurses}
    for handle, text in wanted.items():
        try:
            asked = POLICIES[handle].blind.ask("Reading", text)
        except InputError as error:
            assume(error.kind != "too-large")
            raise
        assert subscribe(beta, handle, text, asked=asked).refusal is None
    for number, values in enumerate(events):
        part = blind_part(CLINIC, "p-device", values, identifier=f"{number:032x}", policy=DEVICE)
        sent = alpha.client_message(message_of(CLINIC, part, "alpha"))
        got = received(CLINIC, beta.hop(hops(sent.outgoing)["beta"]))
        for handle, text in wanted.items():
            readable = CLINIC.readable(handle, "Reading", values)
            assert readable is not None
            known = {name: values[name] for name in readable}
            assert (handle in got) == evaluate(parse(text, SCHEMA), known)
            for one in got.get(handle, ()):
                assert one.attributes == {n: v for n, v in known.items() if n != "trial"}
                interests = Interests.build(DEVICE.types, [("Reading", text)])
                assert interests.meet(Event("Reading", "", one.attributes, one.withheld, "p"))
