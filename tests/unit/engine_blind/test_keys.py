"""Keys of blind profiles: strict bytes, stable shares, nothing of two epochs alike."""

from functools import lru_cache

import pytest

from policyengine.blind import AgentShare, BlindMaster, BlindPublic, ClientKeys, ReadPolicy
from policyengine.blind.keys import MAX_VARIANTS
from policyengine.blind.policy import MAX_ALTERNATIVES, MAX_TOKENS, token_element
from policyengine.blind.wire import CLIENT, MASTER, PUBLIC, SHARE, Place, write
from policyengine.errors import DecodeError, InputError
from policyengine.primitives.canonical import pack
from policyengine.primitives.rand import SeededRandom


@lru_cache
def master() -> BlindMaster:
    return BlindMaster.init(SeededRandom(b"keys"), domain="city", epoch=7)


def every_kind() -> list[tuple[type, bytes]]:
    keys, share = master().enrol("c-1", [{"a", "b"}, {"c"}], SeededRandom(b"c"))
    things = [master(), master().public(), keys, share]
    return [(type(thing), thing.to_bytes()) for thing in things]


@pytest.mark.parametrize("place", range(4))
def test_keys_are_read_as_written(place: int) -> None:
    kind, data = every_kind()[place]
    read = kind.from_bytes(data)
    assert read.to_bytes() == data
    assert read.place == Place("city", 7)


@pytest.mark.parametrize("place", range(4))
def test_changed_bytes_are_no_keys(place: int) -> None:
    kind, data = every_kind()[place]
    others = [data[:-1], data + b"\0", b"", data[:20]]
    for at in (0, 1, 2, 9, len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        others.append(bytes(changed))
    for other in others:
        with pytest.raises(DecodeError):
            kind.from_bytes(other)


@pytest.mark.parametrize(("kind", "number"), [
    (BlindMaster, MASTER), (BlindPublic, PUBLIC), (ClientKeys, CLIENT), (AgentShare, SHARE),
])  # fmt: skip
def test_fields_that_do_not_fit_are_refused(kind: type, number: int) -> None:
    place = Place("city", 7)
    for fields in ([], [b"x"], [b"x"] * 2, [b"x"] * 3, [b"x"] * 4, [b"x"] * 100):
        with pytest.raises(DecodeError):
            kind.from_bytes(write(number, place, fields))


def rewritten(kind: int, data: bytes, at: int, field: bytes) -> bytes:
    from policyengine.blind.wire import read

    place, fields = read(data, kind)
    listed = list(fields)
    listed[at] = field
    return write(kind, place, listed)


def test_scalars_seeds_and_handles_are_checked() -> None:
    keys, share = master().enrol("c-1", [{"a"}])
    zero, much = bytes(32), b"\xff" * 32
    cases = [
        (ClientKeys, rewritten(CLIENT, keys.to_bytes(), 1, zero)),
        (ClientKeys, rewritten(CLIENT, keys.to_bytes(), 1, much)),
        (ClientKeys, rewritten(CLIENT, keys.to_bytes(), 1, b"\1")),
        (AgentShare, rewritten(SHARE, share.to_bytes(), 1, zero)),
        (BlindMaster, rewritten(MASTER, master().to_bytes(), 1, zero)),
        (BlindMaster, rewritten(MASTER, master().to_bytes(), 2, b"short")),
        (BlindPublic, rewritten(PUBLIC, master().public().to_bytes(), 0, b"\1")),
        (BlindPublic, rewritten(PUBLIC, master().public().to_bytes(), 0, b"\x09" + bytes(16))),
        (BlindPublic, rewritten(PUBLIC, master().public().to_bytes(), 1, b"\2" + bytes(32))),
    ]
    for kind, data in cases:
        with pytest.raises(DecodeError):
            kind.from_bytes(data)
    from policyengine import sde

    odd, odd_share = sde.keygen(master().search, "No Handle")
    with pytest.raises(DecodeError, match="handle"):
        ClientKeys.from_bytes(rewritten(CLIENT, keys.to_bytes(), 0, odd.encode()))
    with pytest.raises(DecodeError, match="handle"):
        AgentShare.from_bytes(rewritten(SHARE, share.to_bytes(), 0, odd_share.encode()))


def test_places_are_named_in_one_form() -> None:
    for domain, epoch in [("", 0), ("City", 0), ("city", -1), ("city", 2**63), ("city", True)]:
        with pytest.raises(InputError):
            Place(domain, epoch)
    from policyengine.blind.wire import _check

    names = [(b"city",), (b"city", b"1"), (b"CITY", bytes(8)), (b"\xff", bytes(8))]
    for head in [*names, (b"city", b"\xff" * 8)]:
        body = bytes((1, SHARE)) + pack(*head)
        with pytest.raises(DecodeError):
            AgentShare.from_bytes(body + _check(body))


def test_a_handle_has_the_same_share_whatever_its_tokens() -> None:
    first, share = master().enrol("c-1", [{"a"}])
    second, again = master().enrol("c-1", [{"b"}, {"c"}])
    assert master().share("c-1") == share
    other, foreign = master().enrol("c-2", [])
    assert share == again
    assert (first.share, first.search) == (second.share, second.search)
    assert foreign.share != share.share
    assert other.readers == ()
    assert first.handle == share.handle == "c-1"
    order = master().public().group.order
    for keys, given in ((first, share), (other, foreign)):
        assert (keys.share + given.share) % order == master().lock
        assert (keys.search.share + given.search.share) % order == master().search.exponent


def test_epochs_have_nothing_in_common() -> None:
    other = BlindMaster.init(domain="city", epoch=8)
    assert other.search.system != master().search.system
    assert other.lock != master().lock
    assert other.enrol("c-1", [])[1].share != master().enrol("c-1", [])[1].share


def test_the_paper_group_works_too() -> None:
    old = BlindMaster.init(SeededRandom(b"zp"), domain="city", epoch=1, group="zp1024")
    keys, share = old.enrol("c-1", [])
    assert ClientKeys.from_bytes(keys.to_bytes()) == keys
    assert AgentShare.from_bytes(share.to_bytes()) == share
    assert BlindPublic.from_bytes(old.public().to_bytes()) == old.public()


def test_wrong_names_and_too_many_variants_are_refused() -> None:
    with pytest.raises(InputError):
        master().enrol("Not A Handle", [])
    with pytest.raises(InputError, match="variants"):
        master().enrol("c-1", [{"a"}] * (MAX_VARIANTS + 1))


def test_no_secret_is_shown() -> None:
    keys, share = master().enrol("c-1", [{"a"}])
    shown = repr((master(), keys, share))
    secrets = [master().lock, keys.share, share.share, keys.search.share, share.search.share]
    assert not any(str(secret) in shown for secret in secrets)
    assert repr(master().seed) not in shown
    assert repr(keys.policies.naming) not in shown


def test_read_policies_have_one_form() -> None:
    policy = ReadPolicy.of([["b", "a"], ["a", "b", "c"], ["c"], ["a", "b"]])
    assert policy.to_json() == [["a", "b"], ["c"]]
    assert ReadPolicy.from_json(policy.to_json()) == policy
    assert policy.permits({"a", "b", "x"})
    assert policy.permits(["c"])
    assert not policy.permits({"a"})
    assert ReadPolicy.of([]).tree is None
    assert not ReadPolicy.of([]).permits({"a"})
    assert ReadPolicy.of([[], ["a"]]).to_json() == [[]]
    for wrong in (None, "ab", [["b", "a"]], [["a", "a"]], [["a"], ["a", "b"]], ["a"], [[1]],
                  [[str(n)] for n in range(MAX_ALTERNATIVES + 1)],
                  [[str(n) for n in range(MAX_TOKENS + 1)]]):  # fmt: skip
        with pytest.raises(DecodeError):
            ReadPolicy.from_json(wrong)
    assert token_element("a") != token_element("b")
