"""Whatever arrives in whatever order: a revision never goes back, a denial never ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from policyengine.bundles import BundleHeader, TrustedState
from policyengine.errors import RejectedError
from policyengine.primitives import digest, dumps, loads
from tests.support import bundle_samples as samples

quick = settings(deadline=None, max_examples=200)
REVISIONS = st.integers(1, 12)


def digest_of(revision: int) -> str:
    return digest(str(revision).encode())


def header(revision: int, previous: str, expires: int) -> BundleHeader:
    return BundleHeader(
        domain="heating",
        audience="agent:alpha",
        revision=revision,
        previous=previous,
        issued=0,
        expires=expires,
        root_version=1,
        parts=(),
    )


def accepts(state: TrustedState, arrived: BundleHeader) -> bool:
    try:
        state.check(arrived, digest_of(arrived.revision), 10)
    except RejectedError:
        return False
    return True


@given(
    st.lists(st.tuples(REVISIONS, st.one_of(st.none(), REVISIONS), st.integers(0, 20)), max_size=30)
)
@quick
def test_only_newer_unexpired_successors_come_into_force(steps):
    state = TrustedState("agent:alpha")
    held: int | None = None
    for revision, previous, expires in steps:
        before = "" if previous is None else digest_of(previous)
        arrived = header(revision, before, expires)
        follows = previous is None or previous == held
        acceptable = (held is None or revision > held) and expires > 10 and follows
        assert accepts(state, arrived) == acceptable
        if not acceptable:
            continue
        state = state.applied(arrived, digest_of(revision))
        held = revision
        assert state.revisions["heating"].revision == revision


@given(st.permutations(range(1, 8)), st.integers(0, 7), st.integers(0, 7))
@quick
def test_the_notices_counted_are_those_of_which_none_is_missing(order, arrived, through):
    state = TrustedState("agent:alpha")
    seen: set[int] = set()
    for number in order[:arrived]:
        state = state.noticed(samples.notice(number=number, deny=(f"p-{number}",)))
        seen.add(number)
        counted = state.notices["heating"]
        assert set(range(1, counted + 1)) <= seen
        assert counted + 1 not in seen
        assert state.denied["heating"] == {f"p-{number}" for number in seen}
    state = state.applied(header(1, "", 20), digest_of(1), notices_through=through)
    known = seen | set(range(1, through + 1))
    expected = next(number for number in range(9) if number + 1 not in known)
    assert state.notices["heating"] == expected
    assert state.denied.get("heating", frozenset()) == {f"p-{number}" for number in seen}
    assert TrustedState.from_json(loads(dumps(state.to_json()))) == state
