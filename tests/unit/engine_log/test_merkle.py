"""Trees of RFC 6962 and signed checkpoints: edges, and every refusal."""

from __future__ import annotations

import pytest

from policyengine.errors import DecodeError, InputError, SignatureError
from policyengine.primitives import merkle
from policyengine.primitives.checkpoints import (
    MAX_NOTE,
    Checkpoint,
    open_checkpoint,
    parse_note,
    parse_verifier_key,
    sign_checkpoint,
    verifier_key,
)
from policyengine.primitives.signatures import SigningKey, sign_text, verify_text

KEY = SigningKey(bytes([7]) * 32)
ROOT = bytes(range(32))
TIME = "2026-11-21T08:00:00Z"
CHECKPOINT = Checkpoint("example.org/audit", 5, ROOT, TIME)


def no_node(height: int, place: int) -> bytes:
    raise AssertionError(f"nothing of ({height}, {place}) is needed")


def test_the_empty_tree() -> None:
    assert merkle.root([]) == merkle.EMPTY_ROOT == merkle.Frontier().root()
    assert merkle.tree_root(0, no_node) == merkle.EMPTY_ROOT
    assert merkle.consistency_proof(0, 9, no_node) == []
    given = {"old": 0, "new": 9, "proof": [], "new_root": ROOT}
    merkle.verify_consistency(**given, old_root=merkle.EMPTY_ROOT)
    with pytest.raises(SignatureError):
        merkle.verify_consistency(**given, old_root=ROOT)
    with pytest.raises(SignatureError):
        merkle.verify_consistency(old=0, new=0, proof=[], old_root=ROOT, new_root=ROOT)


def test_a_frontier_names_what_it_completes() -> None:
    frontier = merkle.Frontier()
    made = [
        [(node.height, node.place) for node in frontier.append(bytes([number]) * 32)]
        for number in range(4)
    ]
    assert made == [[(0, 0)], [(0, 1), (1, 0)], [(0, 2)], [(0, 3), (1, 1), (2, 0)]]


@pytest.mark.parametrize(("size", "peaks"), [(-1, ()), (1, ()), (2, (ROOT, ROOT)), (1, (b"x",))])
def test_a_frontier_that_cannot_be(size: int, peaks: tuple[bytes, ...]) -> None:
    with pytest.raises(InputError):
        merkle.Frontier(size, peaks)


@pytest.mark.parametrize(("index", "size"), [(-1, 3), (3, 3), (0, 0)])
def test_no_proof_of_what_is_not_there(index: int, size: int) -> None:
    with pytest.raises(InputError):
        merkle.inclusion_proof(index, size, no_node)


@pytest.mark.parametrize(("old", "new"), [(-1, 3), (4, 3)])
def test_no_consistency_backwards(old: int, new: int) -> None:
    with pytest.raises(InputError):
        merkle.consistency_proof(old, new, no_node)


def test_a_proof_without_parts_proves_nothing() -> None:
    with pytest.raises(SignatureError):
        merkle.verify_consistency(old=3, new=5, proof=[], old_root=ROOT, new_root=ROOT)


@pytest.mark.parametrize(
    "change",
    [
        {"origin": ""},
        {"origin": "two words"},
        {"origin": "a+b"},
        {"size": -1},
        {"size": 2**63},
        {"root": b"short"},
        {"time": "yesterday"},
        {"time": "2026-11-21T08:00:00+00:00"},
    ],
)
def test_a_checkpoint_that_cannot_be(change: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Checkpoint(**{**vars(CHECKPOINT), **change})  # type: ignore[arg-type]


def test_a_witness_may_sign_beside_the_log() -> None:
    note = sign_checkpoint(KEY, CHECKPOINT)
    witnessed = note + "\u2014 witness.example AAAAAAAA\n"
    assert open_checkpoint(witnessed, CHECKPOINT.origin, KEY.public) == CHECKPOINT
    assert [name for name, _raw in parse_note(witnessed)[1]] == [
        "example.org/audit",
        "witness.example",
    ]


NOTE = sign_checkpoint(KEY, CHECKPOINT)


@pytest.mark.parametrize(
    "note",
    [
        "",
        "x" * (MAX_NOTE + 1),
        NOTE.replace("\n\n", "\n"),
        NOTE[:-1],
        NOTE.replace("\n5\n", "\n05\n"),
        NOTE.replace("\n5\n", "\n-5\n"),
        NOTE.replace("\n5\n", f"\n{10**18 * 9 + 10**18 // 2}\n"),
        NOTE.replace("\ntime ", "\nclock "),
        NOTE.replace("\ntime ", "\nmore\ntime "),
        NOTE.replace("time 2026", "time x026"),
        NOTE.replace("AAEC", "AA!C"),
        NOTE.replace("Hh8=", "Hh9="),
        NOTE.replace("\u2014", "-"),
        NOTE + "no signature\n",
    ],
)
def test_what_is_no_checkpoint(note: str) -> None:
    assert note != NOTE
    with pytest.raises(DecodeError):
        parse_note(note)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+00000000+" + "A" * 44,
        verifier_key("name", KEY.public).replace("name", "eman"),
        verifier_key("name", KEY.public)[:-1],
        verifier_key("two words", KEY.public),
        verifier_key("name", KEY.public[:-1]),
    ],
)
def test_what_is_no_verifier_key(text: str) -> None:
    with pytest.raises(DecodeError):
        parse_verifier_key(text)


def test_a_text_is_signed_as_it_is() -> None:
    signature = sign_text(KEY, b"text")
    verify_text(KEY.public, signature, b"text")
    for public, signed in ((KEY.public[:-1], signature), (KEY.public, signature[:-1])):
        with pytest.raises(SignatureError):
            verify_text(public, signed, b"text")
    for text in (b"", b"\x00text"):
        with pytest.raises(InputError):
            sign_text(KEY, text)
