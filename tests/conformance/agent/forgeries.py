"""The hostile control planes: what each does to an honest message, and the word it must hear.

Whoever reads the queues may cut, join, reseal and replay: an agent's sealing key is public. Who
stole an online key signs with it. Who took the control plane has the authority sign nonsense.
"""

from __future__ import annotations

from policyengine.primitives import pack
from tests.conformance.agent.forged_bundles import (
    AUDIENCE,
    ENDLESS,
    MIXED,
    bundle_signatures,
    kept,
    opened,
)
from tests.conformance.agent.forged_policies import ENCODINGS, STRICT, TIMES
from tests.conformance.agent.forged_roots import ROOTS
from tests.conformance.agent.forged_small import CHUNKS, LEASES, NOTICES, Small
from tests.conformance.agent.hostile import Forgery, framed
from tests.conformance.agent.world import FLIGHTS

__all__ = [
    "BUNDLES",
    "CHUNKS",
    "LEASES",
    "NOTICES",
    "RAW",
    "ROOTS",
    "Small",
    "framed",
    "kept",
    "opened",
]

BUNDLES: dict[str, Forgery] = {
    **bundle_signatures(),
    **MIXED,
    **AUDIENCE,
    **ENDLESS,
    **ENCODINGS,
    **STRICT,
    **TIMES,
}

RAW: dict[str, Forgery] = {
    "nothing": Forgery("endless data", "malformed", lambda _: b""),
    "rubbish": Forgery("endless data", "malformed", lambda _: b"rubbish"),
    "20 MiB of zeros": Forgery("endless data", "malformed", lambda _: bytes(20 * 2**20)),
    "a frame of an unknown kind": Forgery(
        "endless data", "malformed", lambda _: pack(b"order", b"flights", b"x")
    ),
    "a frame with a field more": Forgery(
        "endless data", "malformed", lambda _: pack(b"bundle", b"flights", b"x", b"y")
    ),
    "a frame with a field less": Forgery(
        "endless data", "malformed", lambda _: pack(b"bundle", b"flights")
    ),
    "a frame that promises more than it holds": Forgery(
        "endless data", "malformed", lambda _: pack(b"bundle", b"flights") + b"\xff\xff\xff\xffx"
    ),
    "a bundle of a domain with a slash": Forgery(
        "audience", "malformed", lambda _: pack(b"bundle", b"../flights", b"x")
    ),
    "a bundle of a domain with a wildcard": Forgery(
        "audience", "malformed", lambda _: pack(b"bundle", b"flights.>", b"x")
    ),
    "a bundle of no domain": Forgery(
        "audience", "malformed", lambda _: pack(b"bundle", b"", b"x")
    ),
    "a bundle of a domain that is no ASCII": Forgery(
        "audience", "malformed", lambda _: pack(b"bundle", "flüge".encode(), b"x")
    ),
    "a notice of no domain": Forgery(
        "audience", "malformed", lambda _: pack(b"notice", b"", b"x")
    ),
    "an empty bundle": Forgery(
        "endless data", "malformed", lambda _: framed("bundle", FLIGHTS, b"")
    ),
    "an empty notice": Forgery(
        "endless data", "malformed", lambda _: framed("notice", FLIGHTS, b"")
    ),
    "an empty lease": Forgery(
        "endless data", "malformed", lambda _: framed("lease", "", b"")
    ),
    "an empty piece": Forgery(
        "endless data", "previous", lambda _: framed("chunk", FLIGHTS, b"")
    ),
    "empty roots": Forgery(
        "endless data", "malformed", lambda _: framed("root", "", b"")
    ),
}  # fmt: skip
