"""What a broker sees, exactly, and the attack by guessing."""

from __future__ import annotations

from collections.abc import Callable

from policyengine.abe import KpCiphertext, encapsulate, encode_ciphertext
from policyengine.abe.group import (
    BASE_2,
    G1,
    base_2,
    decode_g1,
    decode_g2,
    encode_g1,
    encode_g2,
    hash_to_g1,
    pair,
    power,
    random_scalar,
)
from policyengine.abe.kp_labels import oracle, sigma
from policyengine.attributes import Element, elements_of
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.unit.engine_abe_kp.samples import SCHEMA, event, public

CANDIDATES = [Element("level==", str(number)) for number in range(100)]
HIDDEN = CANDIDATES[73]


def papers_ciphertext(element: Element, label: Callable[[Element], G1]) -> tuple[bytes, bytes]:
    """h^s and E_a of paper 001, section 5.2, step 2, with H in the place of T."""
    s = random_scalar(SYSTEM_RANDOM)
    return encode_g2(base_2(s)), encode_g1(power(label(element), s))


def guessed(head: bytes, hidden: bytes, label: Callable[[Element], G1]) -> list[Element]:
    """Test every candidate with e(H(a), h^s) = e(E_a, h), as a broker can."""
    with_head, target = decode_g2(head), pair(decode_g1(hidden), BASE_2)
    return [one for one in CANDIDATES if pair(label(one), with_head) == target]


def plain(element: Element) -> G1:
    return hash_to_g1("portcullis/kpabe/element/v1", element.token.encode())


def labelled(key: bytes) -> Callable[[Element], G1]:
    return lambda element: oracle(sigma(key, element))


def test_the_papers_construction_falls_to_guessing() -> None:
    assert guessed(*papers_ciphertext(HIDDEN, plain), plain) == [HIDDEN]


def test_secret_labels_withstand_it() -> None:
    key = public().labelling
    sent = encapsulate(public(), [HIDDEN])[1]
    head, hidden = sent.head, sent.components[0].point
    assert guessed(head, hidden, plain) == []
    assert guessed(head, hidden, labelled(bytes(32))) == []
    # The attack itself is sound: whoever holds s1 can test, which is why no broker does.
    assert guessed(head, hidden, labelled(key)) == [HIDDEN]


def test_a_negatable_label_withstands_it() -> None:
    values = [elements_of({"zone": text}, SCHEMA) for text in ("a", "b")]
    sent = encapsulate(public(), values[0])[1]
    with_head = decode_g2(sent.head)
    for component in sent.others:
        target = pair(decode_g1(component.point), BASE_2)
        for elements in values:
            assert all(pair(plain(one), with_head) != target for one in elements)


def seen(ciphertext: KpCiphertext) -> tuple[int, int, int]:
    """All that two ciphertexts can have in common."""
    return len(ciphertext.components), len(ciphertext.others), len(encode_ciphertext(ciphertext))


def parts(ciphertext: KpCiphertext) -> set[bytes]:
    found = {ciphertext.head, ciphertext.check}
    for one in ciphertext.components:
        found |= {one.tag, one.point}
    for other in ciphertext.others:
        found |= {other.tag, other.value, other.point}
    return found


def test_a_broker_sees_numbers_of_components_and_nothing_else() -> None:
    first, again = event()[1], event()[1]
    assert not parts(first) & parts(again)
    other = event({"zone": "East", "level": 0, "unit": "a"})[1]
    assert seen(first) == seen(again) == seen(other)
    elements = elements_of({"zone": "West", "level": 9, "unit": "b"}, SCHEMA)
    strings = [one for one in elements if one.label.startswith(("zone==", "zone^", "zone$"))]
    size = 3 + 96 + 8 + 64 * len(elements) + 96 * len(strings) + 32
    assert seen(first) == (len(elements), len(strings), size)


def test_the_order_of_components_is_that_of_their_tags() -> None:
    sent = event()[1]
    for tags in ([one.tag for one in sent.components], [one.tag for one in sent.others]):
        assert tags == sorted(tags)
    elements = elements_of({"zone": "West"}, SCHEMA)
    orders = set()
    for _ in range(4):
        ciphertext = encapsulate(public(), elements)[1]
        places = [
            next(
                place
                for place, component in enumerate(ciphertext.components)
                if pair(decode_g1(component.point), BASE_2)
                == pair(labelled(public().labelling)(element), decode_g2(ciphertext.head))
            )
            for element in elements[:3]
        ]
        orders.add(tuple(places))
    assert len(orders) > 1


def test_secrets_do_not_show_in_messages() -> None:
    assert repr(public().labelling) not in repr(public())
