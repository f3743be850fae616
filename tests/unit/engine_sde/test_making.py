"""A publisher's memory of trapdoors."""

import pytest

from policyengine import sde
from policyengine.attributes import Element
from policyengine.errors import InputError

MASTER = sde.init()
USER, BROKER = sde.keygen(MASTER, "p")
ONE, TWO, THREE = (Element("x", str(number)) for number in range(3))


def finished(event: sde.UserEvent) -> set[bytes]:
    return set(sde.reencrypt_event(BROKER, event).trapdoors)


def test_remembered_trapdoors_are_those_of_the_scheme() -> None:
    maker = sde.TrapdoorMaker(USER)
    first = maker.event([ONE, TWO])
    assert maker.event([ONE, TWO]) == first
    other, share = sde.keygen(MASTER, "q")
    theirs = sde.TrapdoorMaker(other).event([ONE, TWO])
    assert set(sde.reencrypt_event(share, theirs).trapdoors) == finished(first)
    assert finished(maker.event([THREE])).isdisjoint(finished(first))
    assert sde.UserEvent.decode(first.encode()) == first


def test_the_memory_is_bounded_and_forgets_what_was_not_used() -> None:
    maker = sde.TrapdoorMaker(USER, memory=2)
    first = maker.event([ONE])
    maker.event([TWO])
    assert maker.event([ONE]) == first
    maker.event([THREE])
    assert maker.event([ONE]) == first
    second = maker.event([TWO])
    maker.event([THREE])
    assert maker.event([TWO]) == second
    again = maker.event([ONE])
    assert again != first
    assert finished(again) == finished(first)


def test_padding_is_kept_to_and_bounded() -> None:
    maker = sde.TrapdoorMaker(USER)
    assert [len(maker.event([ONE, TWO], padding=n).trapdoors) for n in (1, 2, 8)] == [2, 2, 8]
    with pytest.raises(InputError, match="trapdoors"):
        maker.event([ONE], padding=70_000)
