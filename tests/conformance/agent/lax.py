"""Agents that leave a check out: our own agent, with one line of it changed."""

from __future__ import annotations

import contextlib
import inspect
import textwrap
from dataclasses import dataclass, replace
from typing import Any

from brokers.adapters import control_link, following
from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, StateFile
from brokers.adapters.rootfile import RootFile
from brokers.agent.policy import PolicyInForce
from brokers.control import intake, sync
from brokers.control import roots as control_roots
from brokers.control.holdings import Holdings
from brokers.control.intake import Intake
from brokers.control.lease import LeaseBook
from policyengine.anonset import batch, wire
from policyengine.bundles import (
    TrustedState,
    chunks,
    envelope,
    header,
    leases,
    roots,
    sealing,
)
from policyengine.errors import SignatureError
from policyengine.primitives import verify
from policyengine.primitives.records import Record
from tests.conformance.agent.contract import Clock
from tests.conformance.agent.hostile import CONTEXTS
from tests.conformance.agent.world import START


def _unsigned(purpose: bytes, data: bytes, **how: Any) -> bytes:
    del how["public"]
    return sealing.open_body(purpose, data, **how).body


def _any_context(key: bytes, signature: bytes, head: bytes) -> None:
    for context in CONTEXTS.values():
        with contextlib.suppress(SignatureError):
            verify(key, signature, context, head)
            return
    raise SignatureError


def _from_now(book: LeaseBook, lease: Any) -> LeaseBook:
    """As if it had been asked for at its signed time, by a clock that nobody turned."""
    asked = dict.fromkeys(book.asked, lease.time - START + Clock(0.0).boot_time)
    return replace(book, asked=asked).answer(lease)


_CARELESS = {"_unsigned": _unsigned, "_any_context": _any_context, "_from_now": _from_now}


@dataclass(frozen=True)
class Change:
    """One line of our agent, and what a careless author would have written there.

    Args:
        owner: the module or class whose name it is called by.
        name: of the function.
        line: a text that stands in its source once.
        instead: what stands there in the lax agent.
    """

    owner: Any
    name: str
    line: str
    instead: str

    def function(self) -> Any:
        """The lax function.

        Raises:
            AssertionError: the text does not stand in the source once.
        """
        held = inspect.getattr_static(self.owner, self.name)
        decorated = isinstance(held, classmethod)
        plain = held.__func__ if decorated else held
        source = textwrap.dedent(inspect.getsource(plain))
        assert source.count(self.line) == 1, f"`{self.line}` is not in {self.name} once"
        made: dict[str, Any] = {}
        changed = "from __future__ import annotations\n" + source.replace(self.line, self.instead)
        known = {**plain.__globals__, **_CARELESS}
        exec(compile(changed, f"lax {self.name}", "exec"), known, made)
        return made[self.name]


@dataclass(frozen=True)
class Lax:
    """An agent that leaves a check out: every line that would notice, and the case that does.

    Args:
        changes: what is written otherwise.
        case: what must find it.
    """

    changes: tuple[Change, ...]
    case: str


def _lax(owner: Any, name: str, line: str, instead: str, case: str, *also: Change) -> Lax:
    return Lax((Change(owner, name, line, instead), *also), case)


LAX: dict[str, Lax] = {
    # revisions
    "revisions may go back": _lax(
        TrustedState, "check", "header.revision < held.revision", "False",
        "rollback: the bundle before"),
    "a revision may be replaced": _lax(
        TrustedState, "check", "(header.revision == held.revision or digest == held.digest)",
        "False", "rollback: another of the revision in force"),
    "bundles do not expire": _lax(
        TrustedState, "check", "header.expires <= now", "False",
        "expired: a bundle: expired since ever"),
    "bundles expire by the wall clock": _lax(
        ControlLink, "now", "self.view.book.now(boot=self._clock.boot(), wall=self._clock.wall())",
        "self._clock.wall()", "clock: a wall clock in the past does not revive a bundle"),
    "a bundle may follow any other": _lax(
        TrustedState, "check", "if header.previous and", "if False and",
        "deltas: a whole that names another before"),
    "a lost file lets any revision in": _lax(
        control_link, "check_follows", "held.revision == header.revision", "True",
        "restart: damaged files"),
    "after a restart the disk is believed": _lax(
        control_link, "judge_kept",
        'state.check(opened.header, opened.digest, now=float("-inf"))', "pass",
        "restart: the state one step ahead of the bundle"),
    # bundles
    "bundles need no signature": _lax(
        envelope, "check_head", "verify(policy_key, signature, BUNDLE, head)", "pass",
        "signatures: a bundle: a signature of zeros"),
    "bundles may be signed as anything": _lax(
        envelope, "check_head", "verify(policy_key, signature, BUNDLE, head)",
        "_any_context(policy_key, signature, head)", "contexts: a bundle: signed as a notice"),
    "a bundle may be for anybody": _lax(
        envelope, "check_head", "if (header.audience, header.domain) != (audience, domain):",
        "if False:", "audience: a bundle: for beta, sealed to alpha",
        Change(envelope, "_owned",
               "if _owner(content) != (header.audience, header.domain):", "if False:"),
        Change(TrustedState, "check", "if header.audience != self.audience:", "if False:")),
    "a bundle may be addressed to anybody": _lax(
        envelope, "_open_envelope", "if written != address:", "if False:",
        "audience: a bundle: addressed to beta"),
    "parts need no manifest": _lax(
        envelope, "check_parts",
        "if len(parts) != len(header.parts) or not all(map(_is, header.parts, parts)):",
        "if False:", "mix-and-match: a bundle: its policies of the bundle before"),
    "parts may have any name": _lax(
        intake, "read_whole", "whole = names in ([*layout], [*layout, _LATER])", "whole = True",
        "mix-and-match: a bundle: parts under unknown names"),
    "a content may be anybody's": _lax(
        envelope, "_owned", "if _owner(content) != (header.audience, header.domain):", "if False:",
        "audience: a bundle: with the content of the other domain"),
    "a content may be of another overlay": _lax(
        PolicyInForce, "prepare",
        "if (snapshot.agent, snapshot.overlay) != (self._agent, self._overlay):", "if False:",
        "audience: a bundle: with the content of another overlay"),
    "trust anchors may differ": _lax(
        intake, "_of_our_anchors",
        "if manifest.header.root_version != identity.anchors.root_version:", "if False:",
        "roots: a bundle: signed for trust anchors to come"),
    "pieces may be of any size": _lax(
        header.BundleHeader, "_agree", "if any(not 0 < chunk.size <= MAX_CHUNK for",
        "if any(False for", "endless data: a bundle: a piece over 4 MiB"),
    "texts may be spelled in any way": _lax(
        sealing, "loads", "if canonical != data:", "if False:",
        "non-canonical: a bundle: a manifest with a space after a colon"),
    "records may have more members": _lax(
        Record, "from_json", "if len(obj) != len(read):", "if False:",
        "non-canonical: a bundle: a manifest with an unknown member"),
    # pieces and deltas
    "pieces need no manifest": _lax(
        chunks.Gathering, "add", "if not _is(header.chunks[number], piece):", "if False:",
        "chunks: a piece: of the piece's size and other content"),
    "pieces may be of another bundle": _lax(
        chunks.Gathering, "add", "if bundle != digest.encode():", "if False:",
        "chunks: a piece: of a bundle that nobody announced"),
    "pieces may be for anybody": _lax(
        chunks.Gathering, "add", "if written != address:", "if False:",
        "chunks: a piece: addressed to beta"),
    "an older bundle takes the place of one on its way": _lax(
        Intake, "begin", "held.manifest.header.revision > manifest.header.revision", "False",
        "chunks: an older manifest while a newer one is waited for"),
    "pieces in hand are trusted when they are complete": _lax(
        ControlLink, "_apply", "self._check(manifest)", "pass",
        "freeze: pieces kept back until the bundle has expired"),
    "a delta may start from anything": _lax(
        intake, "_base", "if before.digest != manifest.header.previous:", "if False:",
        "restart: the state ahead of a delta",
        Change(envelope, "apply", "if held.digest != delta.before:", "if False:")),
    # encodings
    "filters may be full": _lax(
        wire, "_filter", "if bits.bit_count() > most_bits(parameters, elements):", "if False:",
        "encodings: a bundle: policies fuller than elements can make them"),
    "encodings may be of other parameters": _lax(
        wire, "_body", "if data[:HEADER_BYTES] != header(kind, parameters):", "if False:",
        "encodings: a bundle: policies of another version"),
    "masks need not be part of a policy": _lax(
        batch, "decode_bloom_policy", "if mask & ~attributes:", "if False:",
        "encodings: a bundle: masks that are no part of their policies"),
    # notices
    "notices need no signature": _lax(
        sync, "open_notice", "body = open_authority_body(", "body = _unsigned(",
        "signatures: a notice: a signature of zeros"),
    "notices may be about anybody": _lax(
        sync, "open_notice", "if notice.audience != audience:", "if False:",
        "audience: a notice: about beta",
        Change(TrustedState, "noticed", "if notice.audience != self.audience:", "if False:")),
    "notices may be of another domain": _lax(
        control_link, "judge_notice", "if notice.domain != domain:", "if False:",
        "two domains: a notice: of the other domain by its body"),
    "a notice closes the gap before it": _lax(
        TrustedState, "_counted", "while through + 1 in early:",
        "while through < max(early, default=0):",
        "notices: with a gap"),
    "what a bundle knows of notices is no matter": _lax(
        TrustedState, "applied", "max(self.notices.get(domain, 0), notices_through)",
        "self.notices.get(domain, 0)", "freeze: a bundle that knows the notice does as well"),
    "a bundle frees whom a notice denied": _lax(
        PolicyInForce, "prepare", "denied=denied", "denied=()",
        "ban: a reader in every later bundle"),
    "a notice counts from the next bundle on": _lax(
        PolicyInForce, "deny", "held.snapshot.denied | handles", "held.snapshot.denied",
        "notices: out of order"),
    "a root frees whom a notice denied": _lax(
        TrustedState, "reset", "revisions={", "denied={}, revisions={",
        "ban: a reader, and a root has the domain forgotten"),
    "who is to wait waits from the next bundle on": _lax(
        PolicyInForce, "hold", "held.snapshot.under(floors)", "held.snapshot",
        "floors: a reader waits for a revision"),
    "who is to wait is forgotten with a restart": _lax(
        PolicyInForce, "prepare", "built.under(state.floors_of(built.domain))", "built",
        "floors: a reader waits, across a restart"),
    "a whole domain need not wait": _lax(
        Holdings, "standing",
        "max(self._below.get(domain, 0), view.state.floors_of(domain).revision)", "0",
        "floors: everybody waits for a revision"),
    "a whole domain waits until a restart": _lax(
        Holdings, "standing",
        "max(self._below.get(domain, 0), view.state.floors_of(domain).revision)",
        "self._below.get(domain, 0)", "floors: everybody waits, across a restart"),
    "the last word on who waits counts": _lax(
        TrustedState, "noticed", "self.floors_of(domain).joined(notice.floors.above(known))",
        "notice.floors.above(known)", "floors: a lower one frees nobody"),
    "notices are not kept": _lax(
        StateFile, "save", "write_atomically(self._path, dumps(state.to_json()))", "pass",
        "ban: a reader, before a restart"),
    # leases
    "leases need no signature": _lax(
        control_link, "open_lease", "body = open_authority_body(", "body = _unsigned(",
        "signatures: a lease: a signature of zeros"),
    "leases may be for anybody": _lax(
        control_link, "open_lease", "if lease.audience != audience:", "if False:",
        "audience: a lease: about beta"),
    "a signer may be named": _lax(
        leases, "open_authority_body", "if signed.signer:", "if False:",
        "signatures: a lease: with a signer named"),
    "an answer counts twice": _lax(
        LeaseBook, "answer", "asked=_without(self.asked, lease.nonce),\n        leases=granted",
        "asked=self.asked,\n        leases=granted", "lease replay: the same answer twice"),
    "an older answer takes the place of a newer one": _lax(
        LeaseBook, "answer", "if asked < self.granted_for:", "if False:",
        "lease replay: an older answer after a newer one"),
    "a lease counts from its answer": _lax(
        Holdings, "answer", "self.view.book.answer(lease)", "_from_now(self.view.book, lease)",
        "freeze: an answer kept back for too long"),
    "questions are open for ever": _lax(
        LeaseBook, "ask", "while len(asked) > _OPEN_QUESTIONS:", "while False:",
        "lease replay: an answer to a question long ago"),
    "a domain that is left out keeps its lease": _lax(
        LeaseBook, "answer", "leases=granted", "leases={**self.leases, **granted}",
        "lease replay: one that leaves out a domain"),
    "leases do not end": _lax(
        LeaseBook, "standing", "if boot >= lease.until:", "if False:",
        "freeze: no answers any more"),
    "leases end by the wall clock": _lax(
        ControlLink, "standing", "self._clock.boot()", "self._clock.wall()",
        "clock: asleep, and the wall clock stood"),
    "a lease demands no revision": _lax(
        LeaseBook, "standing", "if revision < lease.minimum_revision:", "if False:",
        "freeze: the revision that leases ask for is kept back"),
    "a lease demands no notice": _lax(
        LeaseBook, "standing", "if notice < lease.minimum_notice:", "if False:",
        "freeze: the notice that leases ask for is kept back"),
    # roots
    "roots need no threshold": _lax(
        roots, "_check_threshold", "if count < root.threshold:", "if False:",
        "roots: a root: one signature short"),
    "a root's own holders are enough": _lax(
        roots, "verify_next", "_check_threshold(signed, current)", "pass",
        "roots: a root: of strangers who name themselves holders"),
    "the holders before are enough": _lax(
        roots, "verify_next", "_check_threshold(signed, root)", "pass",
        "roots: a root: of its old holders and none of its new"),
    "a holder's signature counts as often as it stands there": _lax(
        roots.SignedRoot, "signers", "return frozenset(", "return list(",
        "roots: a root: one holder's twice"),
    "roots may be skipped": _lax(
        roots, "verify_next", "if root.version != current.version + 1:", "if False:",
        "roots: one is skipped"),
    "a root may have expired": _lax(
        control_roots, "verify_chain", "if now is not None and newest.expires <= now:", "if False:",
        "roots: expired when it comes"),
    "a root that has expired goes on": _lax(
        control_link, "check_lease",
        "if root is not None and root.expires <= max(wall, lease.time):", "if False:",
        "clock: the wall clock beyond the root"),
    "a root that is kept back is no matter": _lax(
        control_link, "check_lease", "if lease.root > (1 if root is None else root.version):",
        "if False:", "lease replay: for a root that is kept back"),
    "a root is followed in name alone": _lax(
        ControlLink, "_take_roots", "self._identity = self._follower.trusting(self._identity)",
        "pass", "roots: the next one"),
    "leases of the keys before count on": _lax(
        Holdings, "follow", "self.view.book.without_leases()", "self.view.book",
        "roots: the next one"),
    "bundles of the keys before are completed": _lax(
        ControlLink, "_take_roots", "self._intake = Intake(self._identity.sealing_key)", "pass",
        "chunks: half of them when the root changes"),
    "roots are not kept": _lax(
        RootFile, "save", "self._write(chain, self._settled)", "pass",
        "roots: back, after a restart"),
    "a reset is done by no root": _lax(
        following.RootFollower, "settled", "after = state.reset(pending)", "after = state",
        "fast-forward: a stolen policy key runs ahead, and a root leads back"),
    "a reset is for every domain": _lax(
        following.RootFollower, "settled", "after = state.reset(pending)",
        "after = state.reset(state.revisions)", "roots: a reset is for the domains that it names"),
    "a reset is done again after each start": _lax(
        RootFile, "settle", "self._write(self._chain, newest)", "pass",
        "restart: a reset is over once it was done"),
    # the disk
    "bundles are not kept": _lax(
        BundleFolder, "save", "write_atomically(self._path(domain), message)", "pass",
        "deltas: across a restart"),
    "what was kept need not be what was signed": _lax(
        intake, "open_kept",
        "if take_apart(content).digest != manifest.header.content:", "if False:",
        "restart: another content on disk under a signed header"),
}  # fmt: skip
"""What was left out -> the line and the case that finds it."""
