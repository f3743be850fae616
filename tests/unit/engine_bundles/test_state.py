"""What an audience keeps: a revision never goes back, a dropped notice never hides."""

from dataclasses import replace

import pytest

from policyengine.bundles import BundleHeader, Floor, Floors, Held, TrustedState
from policyengine.errors import DecodeError, InputError, RejectedError
from policyengine.primitives import dumps, loads
from tests.support import bundle_samples as samples

NOW = samples.NOW
A, B, C = ("aa" * 32, "bb" * 32, "cc" * 32)


def header(revision: int, previous: str = "", **changes) -> BundleHeader:
    made = BundleHeader(
        domain="heating",
        audience="agent:alpha",
        revision=revision,
        previous=previous,
        issued=NOW,
        expires=NOW + 100,
        root_version=1,
        parts=(),
    )
    return replace(made, **changes)


EMPTY = TrustedState("agent:alpha")
FIVE = EMPTY.applied(header(5), A)


def reason(state: TrustedState, *args, now: float = NOW) -> str:
    with pytest.raises(RejectedError) as caught:
        state.check(*args, now)
    return caught.value.reason


def test_the_first_bundle_stands_alone():
    EMPTY.check(header(5), A, NOW)
    assert FIVE.revisions == {"heating": Held(5, A)}
    assert EMPTY.revisions == {}
    assert reason(EMPTY, header(5, B), A) == "previous"


def test_a_newer_bundle_follows_the_one_in_force_or_stands_alone():
    FIVE.check(header(6, A), B, NOW)
    FIVE.check(header(9, A), B, NOW)
    FIVE.check(header(6), B, NOW)
    FIVE.check(header(9), B, NOW)
    assert reason(FIVE, header(6, C), B) == "previous"
    assert reason(FIVE, header(9, C), B) == "previous"


def test_a_revision_never_comes_again_and_never_goes_back():
    assert reason(FIVE, header(5), A) == "replay"
    assert reason(FIVE, header(5, A), B) == "replay"
    assert reason(FIVE, header(6), A) == "replay"
    assert reason(FIVE, header(4), B) == "rollback"
    assert reason(FIVE, header(4, A), B) == "rollback"
    assert reason(FIVE, header(1), B, now=NOW + 1000) == "rollback"


def test_a_bundle_is_over_when_its_expiry_is_reached():
    EMPTY.check(header(5), A, NOW + 99.9)
    assert reason(EMPTY, header(5), A, now=NOW + 100) == "expired"
    assert reason(EMPTY, header(5), A, now=NOW + 101) == "expired"


def test_a_bundle_for_someone_else_is_refused():
    assert reason(EMPTY, header(5, audience="agent:beta"), A) == "audience"


def test_domains_are_apart():
    other = header(1, domain="flights")
    both = FIVE.applied(other, B)
    assert both.revisions == {"heating": Held(5, A), "flights": Held(1, B)}
    FIVE.check(other, B, NOW)


def test_a_notice_denies_at_once_and_for_good():
    state = FIVE.noticed(samples.notice(deny=("p-1",)))
    state = state.noticed(samples.notice(number=2, deny=("p-2",)))
    assert state.denied == {"heating": frozenset({"p-1", "p-2"})}
    assert state.notices == {"heating": 2}
    later = state.applied(header(6), B, notices_through=2)
    assert later.denied == state.denied
    assert FIVE.denied == {}


def test_a_notice_again_changes_nothing():
    once = EMPTY.noticed(samples.notice())
    assert once.noticed(samples.notice()) == once


def test_a_missing_notice_holds_the_number_back_until_it_comes():
    state = EMPTY.noticed(samples.notice(number=3, deny=("p-3",)))
    state = state.noticed(samples.notice(number=2, deny=("p-2",)))
    assert state.notices == {"heating": 0}
    assert state.denied == {"heating": frozenset({"p-2", "p-3"})}
    state = state.noticed(samples.notice(number=1, deny=("p-1",)))
    assert state.notices == {"heating": 3}
    assert state.early == {}


def test_a_bundle_that_knows_the_missing_notice_counts_on():
    state = EMPTY.noticed(samples.notice(number=3))
    assert state.applied(header(6), B).notices == {"heating": 0}
    caught_up = state.applied(header(6), B, notices_through=2)
    assert caught_up.notices == {"heating": 3}
    assert caught_up.early == {}
    ahead = state.applied(header(6), B, notices_through=7)
    assert ahead.notices == {"heating": 7}
    assert ahead.applied(header(7), C, notices_through=4).notices == {"heating": 7}


def test_a_missing_notice_of_one_domain_does_not_touch_another():
    state = EMPTY.noticed(samples.notice(number=2, domain="flights"))
    state = state.noticed(samples.notice(number=1))
    assert state.notices == {"flights": 0, "heating": 1}
    assert state.early == {"flights": frozenset({2})}


def test_a_notice_for_someone_else_is_refused():
    with pytest.raises(RejectedError) as caught:
        EMPTY.noticed(samples.notice(audience="agent:beta"))
    assert caught.value.reason == "audience"


def test_the_state_survives_the_disk():
    state = FIVE.noticed(samples.notice(number=1)).noticed(samples.notice(number=4))
    assert TrustedState.from_json(loads(dumps(state.to_json()))) == state
    assert TrustedState.from_json(EMPTY.to_json()) == EMPTY


@pytest.mark.parametrize(
    "change",
    [
        {"audience": "alpha"},
        {"revisions": {"heating": {"revision": 0, "digest": A}}},
        {"revisions": {"heating": {"revision": 5, "digest": "x"}}},
        {"revisions": {"Heating": {"revision": 5, "digest": A}}},
        {"notices": {"heating": -1}},
        {"denied": {"heating": ["P"]}},
        {"early": {"heating": ["1"]}},
        {"more": 1},
    ],
)
def test_a_damaged_state_is_not_read(change):
    with pytest.raises(DecodeError):
        TrustedState.from_json({**FIVE.to_json(), **change})


def test_a_state_belongs_to_an_audience():
    with pytest.raises(InputError):
        TrustedState("alpha")


def floors(revision: int, *handles: str, agents: tuple[str, ...] = (), whole: int = 0) -> Floors:
    return Floors(
        tuple(Floor(name, revision) for name in handles),
        tuple(Floor(name, revision) for name in agents),
        whole,
    )


def test_a_floor_holds_until_the_revision_that_knows_is_in_force():
    notice = samples.notice(deny=(), floors=floors(7, "p-1", agents=("beta",), whole=6))
    state = FIVE.noticed(notice)
    held = state.floors_of("heating")
    assert (held.handle_names, held.agent_names, held.revision) == ({"p-1"}, {"beta"}, 6)
    assert state.denied["heating"] == frozenset()
    six = state.applied(header(6), B)
    assert six.floors_of("heating") == floors(7, "p-1", agents=("beta",))
    assert six.applied(header(7), C).floors == {}


def test_a_floor_below_what_is_in_force_says_nothing_new():
    assert FIVE.noticed(samples.notice(floors=floors(5, "p-1", whole=5))).floors == {}
    assert EMPTY.noticed(samples.notice(floors=floors(5, "p-1"))).floors_of("heating").handles


def test_the_higher_floor_counts():
    state = EMPTY
    for number, revision in enumerate((8, 9, 7), 1):
        told = floors(revision, "p-1", whole=revision)
        state = state.noticed(samples.notice(number=number, floors=told))
    assert state.floors_of("heating") == floors(9, "p-1", whole=9)
    assert state.floors_of("flights") == Floors()


def test_floors_survive_the_disk_and_older_files_are_read():
    state = FIVE.noticed(samples.notice(floors=floors(9, "p-1", agents=("beta",), whole=8)))
    assert TrustedState.from_json(loads(dumps(state.to_json()))) == state
    assert "floors" not in FIVE.to_json()
    assert "floors" not in samples.notice().to_json()


def test_a_party_has_one_floor():
    with pytest.raises(InputError):
        Floors((Floor("p-1", 1), Floor("p-1", 2)))
    with pytest.raises(InputError):
        Floors(agents=(Floor("beta", 1), Floor("beta", 2)))
