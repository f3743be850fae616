"""Bundles in chunks, deltas in bundles, and what is kept of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policyengine.bundles import (
    Content,
    Delta,
    Gathering,
    Manifest,
    PartRef,
    SealedBundle,
    contexts,
    difference,
    keep,
    open_bundle,
    open_kept,
    open_manifest,
    read_delta,
    read_whole,
)
from policyengine.bundles.deltas import Step, apply, difference_from
from policyengine.bundles.entries import put_together, take_apart
from policyengine.bundles.header import BundleHeader
from policyengine.bundles.limits import MAX_CHUNK, MAX_MESSAGE
from policyengine.errors import DecodeError, InputError, RejectedError
from policyengine.primitives import dumps, pack, seal_to, sign, unpack
from tests.support import bundle_samples as samples

ALPHA = samples.sealing_key("alpha")
PLACE: dict[str, Any] = {
    "key": ALPHA,
    "audience": samples.ALPHA,
    "domain": "heating",
    "policy_key": samples.AUTHORITY.public,
}
BEFORE = samples.agent_content()
AFTER = samples.agent_content(lease_seconds=31, clients=())
SMALL = 16 * 1024 + 100


def why(work: Any) -> str:
    with pytest.raises(RejectedError) as caught:
        work()
    return caught.value.reason


def chunked(content: Content = BEFORE, **changes: Any) -> SealedBundle:
    return samples.bundle(content, **{"limit": SMALL, "chunk": 500, **changes})


def manifest_of(sealed: SealedBundle) -> Manifest:
    return open_manifest(sealed.message, **PLACE)


def gathered(sealed: SealedBundle, chunks: tuple[bytes, ...] | None = None) -> Gathering:
    gathering = Gathering(manifest_of(sealed))
    for chunk in sealed.chunks if chunks is None else chunks:
        gathering = gathering.add(chunk, key=ALPHA)
    return gathering


def test_a_bundle_in_chunks_comes_together_in_any_order_and_twice_over() -> None:
    sealed = chunked()
    assert len(sealed.chunks) > 2
    assert sealed.size == len(sealed.message) + sum(map(len, sealed.chunks))
    gathering = gathered(sealed, (*sealed.chunks[::-1], sealed.chunks[0]))
    assert gathering.complete
    manifest = gathering.finish()
    assert read_whole(manifest) == BEFORE
    assert manifest.header.content == take_apart(BEFORE).digest
    assert not gathered(sealed, sealed.chunks[1:]).complete
    assert why(gathered(sealed, sealed.chunks[1:]).finish) == "malformed"
    assert why(lambda: open_bundle(sealed.message, **PLACE)) == "malformed"


def test_chunks_of_two_bundles_never_mix() -> None:
    one, other = chunked(), chunked(revision=8)
    assert [p.sha256 for p in manifest_of(one).header.chunks] == [
        p.sha256 for p in manifest_of(other).header.chunks
    ]
    gathering = Gathering(manifest_of(one))
    assert why(lambda: gathering.add(other.chunks[0], key=ALPHA)) == "previous"
    purpose, address, digest, index, sealed = unpack(one.chunks[0], 5)
    second = unpack(one.chunks[1], 5)[4]
    foreign = unpack(other.chunks[0], 5)[4]
    for index_, data in ((index, second), (index, foreign), (b"\0\1", sealed)):
        moved = pack(purpose, address, digest, index_, data)
        assert why(lambda moved=moved: gathering.add(moved, key=ALPHA)) == "malformed"


def test_what_no_manifest_asked_for_is_not_kept() -> None:
    sealed = chunked()
    gathering = Gathering(manifest_of(sealed))
    purpose, address, digest, index, piece = unpack(sealed.chunks[0], 5)
    past = len(sealed.chunks).to_bytes(2, "big")
    cases = {
        b"": "malformed",
        bytes(MAX_MESSAGE + 1): "malformed",
        pack(b"portcullis/else", address, digest, index, piece): "malformed",
        pack(purpose, address, digest, past, piece): "malformed",
        pack(purpose, address, digest, b"\0\0\0", piece): "malformed",
        pack(purpose, b"agent:beta|heating", digest, index, piece): "audience",
    }
    for message, reason in cases.items():
        assert why(lambda message=message: gathering.add(message, key=ALPHA)) == reason
    info = pack(contexts.CHUNK, address, digest, index)
    # Whoever knows the public key may seal anything: the manifest's hash stops it.
    other = pack(purpose, address, digest, index, seal_to(ALPHA.public, bytes(500), info=info))
    assert why(lambda: gathering.add(other, key=ALPHA)) == "malformed"
    assert gathering.held == {}


def test_too_many_chunks_are_not_made_and_not_read() -> None:
    with pytest.raises(InputError) as caught:
        chunked(chunk=10)
    assert caught.value.kind == "too-large"
    with pytest.raises(InputError):
        chunked(chunk=0)
    header = manifest_of(chunked()).header
    ref = header.chunks[0]
    for chunks in (
        (ref,) * 65,
        (replace(ref, size=MAX_CHUNK + 1),),
        (replace(ref, size=0),),
        header.chunks[1:],
    ):
        with pytest.raises(InputError):
            replace(header, chunks=chunks)


def test_a_large_content_goes_in_chunks() -> None:
    subject = BEFORE.epochs[0].subjects[0]
    large = samples.agent_content(
        epochs=(
            samples.epoch_content(
                subjects=tuple(
                    replace(subject, handle=f"p-{number}", encoded=(bytes([number]) * 2**20,))
                    for number in range(9)
                )
            ),
        )
    )
    sealed = samples.bundle(large, chunk=MAX_CHUNK)
    assert sealed.size > MAX_MESSAGE
    assert max(map(len, (sealed.message, *sealed.chunks))) < MAX_MESSAGE
    manifest = gathered(sealed).finish()
    assert read_whole(manifest) == large
    again, content = open_kept(keep(manifest, large, key=ALPHA), **PLACE)
    assert (again.header, content) == (manifest.header, large)


def signed(header: BundleHeader, *parts: bytes) -> bytes:
    """Whatever the authority might sign, sealed to alpha."""
    head = dumps(header.to_json())
    inner = pack(head, sign(samples.AUTHORITY, contexts.BUNDLE, head), *parts)
    address = b"agent:alpha|heating"
    info = contexts.BUNDLE + b"|" + address
    return pack(contexts.BUNDLE, address, seal_to(ALPHA.public, inner, info=info))


def delta_bundle(**changes: Any) -> SealedBundle:
    members = {"delta": difference(BEFORE, AFTER), "previous": samples.DIGEST, "revision": 8}
    return samples.bundle(AFTER, **{**members, **changes})


def test_a_delta_leads_from_its_content_to_the_other() -> None:
    sealed = delta_bundle()
    assert len(sealed.message) < len(samples.bundle(AFTER).message)
    manifest = manifest_of(sealed)
    assert read_delta(manifest, BEFORE) == AFTER
    assert why(lambda: read_delta(manifest, AFTER)) == "previous"
    assert why(lambda: read_whole(manifest)) == "malformed"
    assert why(lambda: read_delta(manifest_of(samples.bundle()), BEFORE)) == "malformed"
    assert why(lambda: open_bundle(sealed.message, **PLACE)) == "malformed"
    in_chunks = delta_bundle(limit=SMALL - 90, chunk=200)
    assert in_chunks.chunks
    assert read_delta(gathered(in_chunks).finish(), BEFORE) == AFTER


def test_a_delta_must_be_that_of_its_manifest() -> None:
    header = manifest_of(delta_bundle()).header
    (part,) = manifest_of(delta_bundle()).parts
    for content in (samples.DIGEST, header.base):
        other = signed(replace(header, content=content), part)
        assert why(lambda other=other: read_delta(open_manifest(other, **PLACE), BEFORE)) == (
            "malformed"
        )
    for data in (b"{}", b"[]", b""):
        ref = replace(header.parts[0], sha256=_sha(data), size=len(data))
        bundle = signed(replace(header, parts=(ref,)), data)
        manifest = open_manifest(bundle, **PLACE)
        assert why(lambda manifest=manifest: read_delta(manifest, BEFORE)) == "malformed"
    stranger = samples.agent_content(agent="beta")
    moved = difference(BEFORE, stranger)
    data = dumps(moved.to_json())
    ref = PartRef("delta", _sha(data), len(data))
    foreign = replace(header, base=moved.before, content=moved.after, parts=(ref,))
    manifest = open_manifest(signed(foreign, data), **PLACE)
    assert why(lambda: read_delta(manifest, BEFORE)) == "audience"


def _sha(data: bytes) -> str:
    from policyengine.primitives.hashing import digest

    return digest(data)


def test_a_manifest_of_chunks_has_no_parts_and_names_its_content() -> None:
    header = manifest_of(chunked()).header
    assert why(lambda: open_manifest(signed(header, b"part"), **PLACE)) == "malformed"
    other = replace(header, content=samples.DIGEST)
    sealed = chunked()
    manifest = replace(gathered(sealed).finish(), header=other)
    assert why(lambda: read_whole(manifest)) == "malformed"
    for changes in (
        {"content": ""},
        {"base": samples.DIGEST},
        {"form": "delta"},
        {"form": "delta", "base": samples.DIGEST},
        {"chunks": ()},
    ):
        with pytest.raises(InputError):
            replace(header, **changes)


def test_what_is_kept_is_what_was_signed() -> None:
    manifest = manifest_of(delta_bundle())
    kept = keep(manifest, AFTER, key=ALPHA)
    again, content = open_kept(kept, **PLACE)
    assert (again.header, again.digest, content) == (manifest.header, manifest.digest, AFTER)
    assert open_kept(samples.bundle().message, **PLACE)[1] == BEFORE
    assert why(lambda: open_kept(keep(manifest, BEFORE, key=ALPHA), **PLACE)) == "malformed"
    assert why(lambda: open_kept(kept[:-1], **PLACE)) == "malformed"
    assert why(lambda: open_kept(kept, **{**PLACE, "domain": "flights"})) == "malformed"
    mallory = samples.signing_key("mallory").public
    assert why(lambda: open_kept(kept, **{**PLACE, "policy_key": mallory})) == "signature"
    purpose, address, sealed = unpack(kept, 3)
    assert why(lambda: open_kept(pack(purpose, address + b"x", sealed), **PLACE)) == "malformed"
    bad = pack(manifest.head, manifest.signature, b"{}")
    forged = pack(purpose, address, seal_to(ALPHA.public, bad, info=purpose + b"|" + address))
    assert why(lambda: open_kept(forged, **PLACE)) == "malformed"


def test_a_delta_copies_only_what_is_there() -> None:
    delta = difference(BEFORE, AFTER)
    past = replace(delta, steps=(Step(0, 10_000), *delta.steps))
    assert why(lambda: apply(BEFORE, past)) == "malformed"
    longer = tuple(replace(one, put=(*one.put, {"wraps": {}})) for one in delta.steps)
    assert why(lambda: apply(BEFORE, replace(delta, steps=longer))) == "malformed"
    other = replace(delta, after=samples.DIGEST)
    assert why(lambda: apply(BEFORE, other)) == "malformed"


def test_a_delta_has_one_form() -> None:
    delta = difference(BEFORE, AFTER)
    first = delta.steps[0]
    split = (Step(first.start, 1), Step(first.start + 1, first.count - 1, first.put))
    assert why(lambda: apply(BEFORE, replace(delta, steps=(*split, *delta.steps[1:])))) == (
        "malformed"
    )
    for entry in ({}, {"a": 1, "b": 2}, [1]):
        with pytest.raises(InputError):
            Step(0, 0, (entry,))  # type: ignore[arg-type]
    with pytest.raises(InputError):
        Delta(samples.DIGEST, samples.DIGEST, (Step(0, 2**21), Step(0, 1)))
    moved = samples.agent_content(agents=BEFORE.agents[::-1])
    assert apply(BEFORE, difference(BEFORE, moved)) == moved
    entries = take_apart(AFTER)
    assert apply(BEFORE, difference_from(take_apart(BEFORE).outline, entries)) == AFTER


@pytest.mark.parametrize(
    "entries",
    [
        [("epochs.rules", {})],
        [("epochs", [])],
        [("epochs", {"rules": []})],
        [("blind", {"epoch": 1}), ("blind.shares", ["only a name"])],
        [("blind", {"epoch": 1}), ("blind.shares", [1, "share"])],
        [("blind", {"epoch": 1}), ("blind.shares", "share")],
        [("unknown", 1)],
        [],
    ],
)
def test_entries_that_make_no_content_are_refused(entries: list[tuple[str, Any]]) -> None:
    with pytest.raises(DecodeError):
        put_together(type(BEFORE), entries)


def test_the_first_entry_may_come_from_anywhere() -> None:
    entries = take_apart(AFTER)
    delta = difference_from(bytes(32) + entries.outline, entries)
    assert delta.steps == (Step(1, len(entries.listed)),)
