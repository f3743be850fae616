"""What an audience does with bundles and notices: judge, accept, report. No I/O.

The caller writes the returned state to disk before it acts on it, swaps the content in,
and sends the acknowledgement last (trust.md, "Agent's disk").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

from brokers.control.identity import Identity
from brokers.control.intake import open_first, open_from_disk
from policyengine.bundles import (
    Acknowledgement,
    AgentContent,
    ClientContent,
    Content,
    Control,
    FilterAnswer,
    LeaseRequest,
    Manifest,
    Notice,
    OpenedBundle,
    TrustedState,
    open_filter_answer,
    open_notice,
    opened_bundle,
    read_whole,
)
from policyengine.errors import RejectedError

Status = Literal["received", "applied", "rejected"]

__all__ = [
    "AcceptedBundle",
    "AcceptedNotice",
    "Identity",
    "Status",
    "acknowledgement",
    "after_bundle",
    "check_follows",
    "epochs_of",
    "held_report",
    "judge_answer",
    "judge_bundle",
    "judge_kept",
    "judge_notice",
    "lease_request",
    "open_verified",
    "unasked",
]


@dataclass(frozen=True)
class AcceptedBundle:
    """A bundle that may come into force, and the trusted state after it did."""

    opened: OpenedBundle
    state: TrustedState


def open_verified(message: bytes, *, domain: str, identity: Identity) -> OpenedBundle:
    """Open a bundle that is whole in one message; check signature, audience, parts and the set
    of trust anchors.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    manifest = open_first(message, domain=domain, identity=identity)
    return opened_bundle(manifest, read_whole(manifest), key=identity.sealing_key)


def check_follows(state: TrustedState, manifest: Manifest, *, in_force: bool, now: float) -> None:
    """Decide whether a verified bundle may follow what is in force.

    What the state names may be in force no more, because its file was lost or damaged. Then it
    may come once more, and so may any other whole bundle of its revision; nothing older.

    Args:
        state: the trusted state.
        manifest: of the bundle.
        in_force: whether what the state names is in force.
        now: Unix time in seconds, by the newest lease where there is one.

    Raises:
        RejectedError: as `TrustedState.check`.
    """
    header = manifest.header
    held = state.revisions.get(header.domain)
    if held is not None and not in_force:
        if held.digest == manifest.digest:
            return
        if held.revision == header.revision:
            others = {name: one for name, one in state.revisions.items() if name != header.domain}
            state = replace(state, revisions=others)
    state.check(header, manifest.digest, now)


def judge_bundle(
    message: bytes, *, domain: str, identity: Identity, state: TrustedState, now: float
) -> AcceptedBundle:
    """Decide whether a received bundle may come into force.

    Args:
        message: the sealed bundle.
        domain: the domain that its frame names.
        identity: who opens it.
        state: what is in force.
        now: Unix time in seconds, by the newest lease where there is one.

    Raises:
        RejectedError: `malformed`, `signature`, `audience`, `replay`, `rollback`,
            `expired` or `previous`.
    """
    opened = open_verified(message, domain=domain, identity=identity)
    state.check(opened.header, opened.digest, now)
    return AcceptedBundle(opened, after_bundle(state, opened))


def after_bundle(state: TrustedState, opened: OpenedBundle) -> TrustedState:
    """The trusted state once a checked bundle is in force."""
    through = opened.content.notices_through if isinstance(opened.content, AgentContent) else 0
    return state.applied(opened.header, opened.digest, notices_through=through)


def judge_kept(
    message: bytes, *, domain: str, identity: Identity, state: TrustedState
) -> AcceptedBundle:
    """Decide about what was found on the own disk after a start.

    It was accepted before, so its expiry (a limit on acceptance) counts no more: the lease
    keeps it fresh. The bundle is written before the state, so it may be one step ahead.

    Raises:
        RejectedError: it does not verify, or is older than the state says.
    """
    manifest, content = open_from_disk(message, domain=domain, identity=identity)
    opened = opened_bundle(manifest, content, key=identity.sealing_key)
    held = state.revisions.get(domain)
    if held is not None and held.digest == opened.digest:
        return AcceptedBundle(opened, state)
    state.check(opened.header, opened.digest, now=float("-inf"))
    return AcceptedBundle(opened, after_bundle(state, opened))


@dataclass(frozen=True)
class AcceptedNotice:
    """A verified notice, and the trusted state after it."""

    notice: Notice
    state: TrustedState


def judge_notice(
    message: bytes, *, domain: str, identity: Identity, state: TrustedState
) -> AcceptedNotice:
    """Verify a notice. One that was seen before changes nothing and is acknowledged again.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    notice = open_notice(
        message,
        key=identity.sealing_key,
        audience=identity.audience,
        notice_key=identity.anchors.notice,
    )
    if notice.domain != domain:
        raise RejectedError("audience", "the notice is for another domain")
    return AcceptedNotice(notice, state.noticed(notice))


def judge_answer(control: Control, identity: Identity) -> FilterAnswer:
    """Verify an answer about the key of a filter.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    answer = open_filter_answer(
        control.payload,
        key=identity.sealing_key,
        audience=identity.audience,
        policy_key=identity.anchors.policy,
    )
    if answer.domain != control.domain:
        raise RejectedError("audience", "the answer is for another domain")
    return answer


def unasked(_answer: FilterAnswer) -> NoReturn:
    """Take no answer about filters: nobody here asks.

    Raises:
        RejectedError: `audience`.
    """
    raise RejectedError("audience", "nobody here asked for the key of a filter")


def held_report(
    state: TrustedState, epochs: Mapping[str, Mapping[int, str]]
) -> dict[str, dict[str, Any]]:
    """What is held, as lease requests and acknowledgements tell it.

    Args:
        state: the trusted state.
        epochs: domain -> encoding epoch -> its state, as in force in memory.
    """
    domains = sorted(set(state.revisions) | set(state.notices))
    return {domain: _held(state, domain, epochs.get(domain, {})) for domain in domains}


def _held(state: TrustedState, domain: str, epochs: Mapping[int, str]) -> dict[str, Any]:
    held = state.revisions.get(domain)
    return {
        "revision": 0 if held is None else held.revision,
        "digest": "" if held is None else held.digest,
        "notice": state.notices.get(domain, 0),
        "epochs": {str(number): word for number, word in epochs.items()},
    }


def epochs_of(content: Content) -> dict[int, str]:
    """Encoding epoch -> its state, from a bundle's content."""
    if isinstance(content, AgentContent):
        return {epoch.epoch: epoch.state for epoch in content.epochs}
    if isinstance(content, ClientContent):
        return {key.epoch: key.state for key in content.tag_keys}
    return {}  # a comparator matches in no encoding epoch


def lease_request(
    audience: str,
    *,
    nonce: str,
    held: Mapping[str, Mapping[str, Any]],
    wall: float,
    reads: tuple[str, ...] = (),
    root: int = 1,
) -> LeaseRequest:
    """The question for a lease; `root` is the version of the root that is trusted."""
    return LeaseRequest(
        audience=audience, nonce=nonce, held=held, at=int(wall), reads=reads, root=root
    )


def acknowledgement(
    audience: str,
    domain: str,
    *,
    what: Literal["bundle", "notice"],
    number: int,
    status: Status,
    held: Mapping[str, Mapping[str, Any]],
    wall: float,
    digest: str = "",
    reason: str = "",
) -> Acknowledgement:
    """What to tell the control plane about a bundle or a notice."""
    return Acknowledgement(
        audience=audience,
        domain=domain,
        what=what,
        number=number,
        digest=digest,
        status=status,
        reason=reason,
        at=int(wall),
        held=held,
    )
