"""How bundles come in: whole in one message, in chunks, or as what changed. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from brokers.control.identity import Identity
from policyengine.bundles import (
    Content,
    Gathering,
    Manifest,
    OpenedBundle,
    keep,
    open_kept,
    open_manifest,
    opened_bundle,
    read_delta,
    read_whole,
)
from policyengine.errors import RejectedError
from policyengine.primitives.hpke import SealingKey


@dataclass(frozen=True)
class Taken:
    """A bundle that is complete.

    Args:
        opened: what may come into force.
        keep: what to write to disk, enough to put it into force after a restart.
    """

    opened: OpenedBundle
    keep: bytes = field(repr=False)


def open_first(message: bytes, *, domain: str, identity: Identity) -> Manifest:
    """Open a bundle's first message: check signature, audience, parts and trust anchors.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    manifest = open_manifest(
        message,
        key=identity.sealing_key,
        audience=identity.audience,
        domain=domain,
        policy_key=identity.anchors.policy,
    )
    return _of_our_anchors(manifest, identity)


def open_from_disk(data: bytes, *, domain: str, identity: Identity) -> tuple[Manifest, Content]:
    """Open what `Taken.keep` held: the manifest, and the content with sealed keys.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    manifest, content = open_kept(
        data,
        key=identity.sealing_key,
        audience=identity.audience,
        domain=domain,
        policy_key=identity.anchors.policy,
    )
    return _of_our_anchors(manifest, identity), content


def take_in(
    manifest: Manifest,
    message: bytes | None,
    *,
    identity: Identity,
    load: Callable[[str], bytes | None],
) -> Taken:
    """Read a bundle's content, or carry out on the content held what changed.

    Args:
        manifest: verified, with all its parts.
        message: the bundle as it came, where it came in one message.
        identity: who opens it.
        load: domain -> what is kept on disk of it, or None.

    Raises:
        RejectedError: `previous` when it changes a content that is not held; `malformed` or
            `audience`.
    """
    key = identity.sealing_key
    if manifest.header.form == "whole":
        content = read_whole(manifest)
        if message is not None:
            return Taken(opened_bundle(manifest, content, key=key), message)
    else:
        content = read_delta(manifest, _base(manifest, load, identity))
    return Taken(opened_bundle(manifest, content, key=key), keep(manifest, content, key=key))


class Intake:
    """Bundles that come in chunks: at most one a domain, the newest.

    What was gathered is lost with the process; the control plane sends it again until the
    bundle is acknowledged.

    Args:
        key: the audience's own key.
    """

    def __init__(self, key: SealingKey) -> None:
        self._key = key
        self._gathering: dict[str, Gathering] = {}

    def begin(self, manifest: Manifest) -> None:
        """Wait for the chunks of a verified manifest; those that are there already count.

        Raises:
            RejectedError: `rollback`, where a newer one is waited for.
        """
        domain = manifest.header.domain
        held = self._gathering.get(domain)
        if held is not None and held.manifest.digest == manifest.digest:
            return
        if held is not None and held.manifest.header.revision > manifest.header.revision:
            raise RejectedError("rollback", "a newer bundle is on its way")
        self._gathering[domain] = Gathering(manifest)

    def add(self, domain: str, message: bytes) -> Manifest | None:
        """Take a chunk; returns the manifest with its parts once all are there.

        Raises:
            RejectedError: `previous`, where no manifest asked for it; `audience`, `malformed`.
        """
        held = self._gathering.get(domain)
        if held is None:
            raise RejectedError("previous", "the chunk is of no bundle that is waited for")
        self._gathering[domain] = held = held.add(message, key=self._key)
        return held.finish() if held.complete else None

    def forget(self, domain: str) -> None:
        """Wait for no chunk of a domain any more."""
        self._gathering.pop(domain, None)


def _base(manifest: Manifest, load: Callable[[str], bytes | None], identity: Identity) -> Content:
    domain = manifest.header.domain
    kept = load(domain)
    if kept is None:
        raise RejectedError("previous", "what the delta starts from is not held")
    try:
        before, content = open_from_disk(kept, domain=domain, identity=identity)
    except RejectedError as error:
        raise RejectedError("previous", "what the delta starts from is not held") from error
    if before.digest != manifest.header.previous:
        raise RejectedError("previous", "the delta follows another bundle than the one held")
    return content


def _of_our_anchors(manifest: Manifest, identity: Identity) -> Manifest:
    if manifest.header.root_version != identity.anchors.root_version:
        raise RejectedError("signature", "the bundle goes with other trust anchors than ours")
    return manifest
