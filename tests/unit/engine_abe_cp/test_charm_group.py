"""Charm's interface on BLS12-381, and Charm's own schemes on it."""

from __future__ import annotations

import base64
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import charm.core.math
import pymcl
import pytest

from policyengine.abe import charm_group as pg
from policyengine.abe.charm_element import Element
from policyengine.abe.charm_group import CURVE, G1, G2, GT, ZR
from policyengine.abe.group import ORDER
from policyengine.errors import DecodeError, InputError
from policyengine.primitives import SeededRandom
from tests.support.forks import forked

GROUP = pg.charm_group()
PAIRING = GROUP.Pairing


def test_installing_is_idempotent_and_safe_in_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        modules = set(pool.map(lambda _: id(pg.install()), range(32)))
    assert modules == {id(sys.modules["charm.core.math.pairing"])}
    assert charm.core.math.pairing is sys.modules["charm.core.math.pairing"]


def test_a_real_module_of_charm_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Any = ModuleType("charm.core.math.pairing")
    real.pairing = object
    monkeypatch.setitem(sys.modules, "charm.core.math.pairing", real)
    with pytest.raises(InputError) as caught:
        pg.install()
    assert caught.value.kind == "unsupported"
    assert sys.modules["charm.core.math.pairing"] is real


def test_an_empty_package_in_its_place_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charm.core.math, "pairing", charm.core.math.pairing)
    monkeypatch.setitem(
        sys.modules, "charm.core.math.pairing", ModuleType("charm.core.math.pairing")
    )
    assert pg.install().pairing is pg.pairing


def test_only_the_curve_is_known() -> None:
    with pytest.raises(InputError):
        pg.pairing("a pairing of another library")
    assert GROUP.order() == ORDER
    assert CURVE == "BLS12-381"


def test_neutral_elements() -> None:
    assert int(GROUP.init(ZR, 5)) == 5
    assert int(GROUP.init(ZR)) == 0
    assert int(GROUP.init(ZR, -1)) == ORDER - 1
    for kind in (G1, G2, GT):
        element = GROUP.random(kind)
        assert GROUP.init(kind, 1) * element == element
        assert GROUP.init(kind) == element / element
        with pytest.raises(ValueError, match="scalar"):
            GROUP.init(kind, 2)


def test_pairing_takes_either_order_and_lists() -> None:
    p, q = GROUP.random(G1), GROUP.random(G2)
    assert pg.pair(p, q) == pg.pair(q, p)
    assert GROUP.pair_prod([p, p], [q, q]) == pg.pair(p, q) ** 2
    with pytest.raises(TypeError):
        pg.pair(p, p)
    with pytest.raises(ValueError, match="shorter"):
        GROUP.pair_prod([p, p], [q])


def test_hashing() -> None:
    p = GROUP.random(G1)
    for kind in (ZR, G1, G2):
        different = ["a", b"a", "b", ("a", "b"), ("ab",), "ab", p, p * p]
        assert len({GROUP.hash(thing, kind) for thing in different}) == len(different) - 1
        assert GROUP.hash(("ab",), kind) == GROUP.hash("ab", kind)
        with pytest.raises(TypeError):
            GROUP.hash(3, kind)
    with pytest.raises(TypeError):
        GROUP.hash("a", GT)


def test_a_digest_of_an_element() -> None:
    from charm.toolbox.pairinggroup import extract_key

    element = GROUP.random(GT)
    assert len(extract_key(element)) == 32
    assert extract_key(element) == extract_key(element**1)
    assert pg.hashPair(element) != pg.hashPair(element * element)


def test_random_elements() -> None:
    drawn = [GROUP.random(kind) for kind in (ZR, G1, G2, GT) for _ in range(3)]
    assert len(set(drawn)) == 12
    with pytest.raises(TypeError):
        pg.random(PAIRING, GT)
    with pytest.raises(TypeError):
        GROUP.random(ZR, seed=1)
    first, second = (pg.charm_group(SeededRandom(b"s")).random(ZR) for _ in range(2))
    assert first == second


def test_forked_children_draw_different_scalars() -> None:
    assert len({forked(lambda: int(GROUP.random(ZR))) for _ in range(8)}) == 8


@pytest.mark.parametrize("kind", [ZR, G1, G2, GT])
def test_bytes_are_read_strictly(kind: int) -> None:
    element = GROUP.random(kind)
    data = GROUP.serialize(element)
    assert GROUP.deserialize(data) == element
    raw = base64.b64decode(data[2:])
    bad = [b"", data[:-4], data + b"AAAA", data + b"\n", b"9" + data[1:], data.replace(b":", b";")]
    bad += [b"x" + data[1:], data[:2] + b"*" + data[3:]]
    bad += [b"%d:%s" % (kind, base64.b64encode(text)) for text in (raw + b"\0", raw[:-1])]
    bad.append(b"%d:%s" % (kind, base64.b64encode(b"\xff" * len(raw))))
    for text in bad:
        with pytest.raises(DecodeError):
            GROUP.deserialize(text)
    with pytest.raises(InputError):
        GROUP.serialize(element, compression=False)
    with pytest.raises(InputError):
        GROUP.deserialize(data, compression=False)


def test_only_elements_of_the_order_are_read_from_gt() -> None:
    two = (2).to_bytes(48, "little") + bytes(528)
    pymcl.GT.deserialize(two)  # pymcl takes it
    for raw in (two, bytes(576), pymcl.GT().serialize()):
        with pytest.raises(DecodeError):
            pg.decode_gt(raw)


def test_the_identity_is_not_sent() -> None:
    for kind in (G1, G2):
        with pytest.raises(InputError):
            GROUP.serialize(GROUP.init(kind))


def test_membership() -> None:
    assert GROUP.ismember(GROUP.random(G1))
    assert not GROUP.ismember(3)


def test_operands_that_do_not_fit_raise() -> None:
    s, p, q, t = (GROUP.random(kind) for kind in (ZR, G1, G2, GT))
    wrong = [
        lambda: p * q, lambda: p / q, lambda: p + q, lambda: p - q, lambda: p / s, lambda: t + t,
        lambda: t - t, lambda: -t, lambda: t * s, lambda: t * 2, lambda: p**q, lambda: p + 1,
        lambda: p * "a", lambda: p / "a", lambda: p + "a", lambda: p - "a", lambda: p ** "a",
        lambda: "a" * p, lambda: "a" / p, lambda: "a" + p, lambda: "a" - p, lambda: "a" ** s,
        lambda: int(p), lambda: p + True, lambda: s / p, lambda: 2**p,
    ]  # fmt: skip
    for attempt in wrong:
        with pytest.raises(TypeError):
            attempt()


def test_zero_has_no_inverse() -> None:
    zero, one = GROUP.init(ZR, 0), GROUP.init(ZR, 1)
    for attempt in (lambda: one / zero, lambda: 1 / zero, lambda: ~zero, lambda: zero**-1):
        with pytest.raises(ZeroDivisionError):
            attempt()


def test_small_things() -> None:
    s, p = GROUP.random(ZR), GROUP.random(G1)
    assert p.initPP() is False
    assert str(int(s)) not in repr(s)
    assert p != 3
    assert p != s
    assert 2 ** GROUP.init(ZR, 5) == GROUP.init(ZR, 32)
    assert 1 * p == p
    assert s * p == p * s == p**s
    assert isinstance(p, Element)


@pytest.mark.parametrize("attributes", [["1", "2"], ["3", "4"], ["1", "2", "3"]])
def test_waters11_of_charm(attributes: list[str]) -> None:
    from charm.schemes.abenc.waters11 import Waters11

    scheme = Waters11(GROUP, 5)
    pk, msk = scheme.setup()
    message = GROUP.random(GT)
    key = scheme.keygen(pk, msk, attributes)
    ciphertext = scheme.encrypt(pk, message, "((1 and 2) or (3 and 4))")
    assert scheme.decrypt(pk, ciphertext, key) == message


def test_bsw07_of_charm() -> None:
    from charm.schemes.abenc.abenc_bsw07 import CPabe_BSW07

    scheme = CPabe_BSW07(GROUP)
    pk, msk = scheme.setup()
    message = GROUP.random(GT)
    ciphertext = scheme.encrypt(pk, message, "((ONE and TWO) or THREE)")
    for attributes, opens in ((["ONE", "TWO"], True), (["THREE"], True), (["ONE"], False)):
        key = scheme.keygen(pk, msk, attributes)
        assert (scheme.decrypt(pk, key, ciphertext) == message) is opens
