"""Keys and sample structures of the protocol, the same in every test run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from policyengine.bundles import (
    Acknowledgement,
    AgentContent,
    AgentRef,
    Announcement,
    Carriage,
    ClientContent,
    ClientRef,
    Content,
    Delivery,
    EncodedRule,
    EncodedSubject,
    EpochContent,
    Floor,
    Floors,
    HomeAgent,
    Interest,
    InterestFilter,
    Lease,
    LeaseRequest,
    Notice,
    PublicationPart,
    RateLimit,
    Reply,
    RoutedPart,
    SealedBundle,
    SubscribeRequest,
    TagKey,
    Taken,
    build_bundle,
)
from policyengine.primitives import SealingKey, SeededRandom, SigningKey, sign
from policyengine.trustgroups import wrap_key

RANDOM = SeededRandom(b"bundle samples")


def sealing_key(name: str) -> SealingKey:
    """Return the sealing key of a name."""
    return SealingKey(SeededRandom(b"seal " + name.encode()).token(32))


def signing_key(name: str) -> SigningKey:
    """Return the signing key of a name."""
    return SigningKey(SeededRandom(b"sign " + name.encode()).token(32))


def signer(name: str) -> Callable[[bytes, bytes], bytes]:
    """Return a function that signs as a name."""
    return partial(sign, signing_key(name))


AUTHORITY = signing_key("authority")
ALPHA = "agent:alpha"
HANDLE = "p-0123456789abcdef"
OTHER = "p-fedcba9876543210"
CLIENT = f"client:{HANDLE}"
PUBLICATION = "0123456789abcdef" * 2
NONCE = "fedcba9876543210" * 2
NOW = 1_700_000_000
DIGEST = "ab" * 32
HOP_KEY = SeededRandom(b"hop key").token(32)
VERIFY_KEYS = {"alpha": signing_key("alpha").public, "beta": signing_key("beta").public}
WRAP = wrap_key("key:tail", 3, b"k" * 32, recipient=sealing_key("alpha").public, audience=ALPHA)

TYPE = {
    "name": "WaterTemperature",
    "parent": "Telemetry",
    "attributes": [{"name": "degrees", "type": {"type": "int", "min": 0, "max": 100}}],
}


def agent_content(**changes: Any) -> AgentContent:
    """Build what agent alpha holds of `heating`."""
    members: dict[str, Any] = {
        "domain": "heating",
        "agent": "alpha",
        "overlay": "a",
        "lease_seconds": 30,
        "types": (TYPE,),
        "agents": tuple(
            AgentRef(name, "a", sealing_key(name).public, signing_key(name).public)
            for name in ("alpha", "beta")
        ),
        "clients": (ClientRef(HANDLE, sealing_key(HANDLE).public, signing_key(HANDLE).public),),
        "epochs": (epoch_content(),),
        "wraps": (WRAP,),
        "notices_through": 2,
    }
    return AgentContent(**{**members, **changes})


def epoch_content(**changes: Any) -> EpochContent:
    """Build one encoding epoch."""
    members: dict[str, Any] = {
        "epoch": 1,
        "state": "current",
        "parameters": {"encoding": "bloom", "n": 5, "m": 740, "k": 61, "blind_probability": 0.5},
        "rules": (
            EncodedRule(
                "r1",
                "AP_A",
                "publish",
                "Telemetry",
                (),
                b"encoded 1",
                None,
                limit=RateLimit("AP_A", 3, 60),
            ),
            EncodedRule(
                "r2", "AP_B", "subscribe", "Telemetry", (b"t" * 16,), b"encoded 2", ("degrees",)
            ),
        ),
        "subjects": (EncodedSubject(HANDLE, (b"subject 1", b"subject 2")),),
    }
    return EpochContent(**{**members, **changes})


def client_content(**changes: Any) -> ClientContent:
    """Build what a client holds of `heating`."""
    members: dict[str, Any] = {
        "domain": "heating",
        "handle": HANDLE,
        "homes": (
            HomeAgent("alpha", "a", sealing_key("alpha").public, signing_key("alpha").public),
            HomeAgent("gamma", "b", sealing_key("gamma").public, signing_key("gamma").public),
        ),
        "types": (TYPE,),
        "splits": {
            "Telemetry": (
                {"overlay": "a", "attributes": ["degrees"]},
                {"overlay": "b", "attributes": ["house"]},
            )
        },
        "tag_keys": (TagKey("a", 1, "current", b"g" * 32),),
        "predicates": ({"attribute": "degrees", "op": ">=", "value": 60},),
        "publishes": ("Telemetry",),
        "window_seconds": 60,
    }
    return ClientContent(**{**members, **changes})


def bundle(content: Content | None = None, **changes: Any) -> SealedBundle:
    """Build a bundle for agent alpha, or for the client whose content it is."""
    content = content or agent_content()
    names = ("agent", "handle", "comparator")
    kind, name = next(
        (name if name != "handle" else "client", getattr(content, name))
        for name in names
        if hasattr(content, name)
    )
    members: dict[str, Any] = {
        "domain": content.domain,
        "audience": f"{kind}:{name}",
        "revision": 7,
        "previous": "",
        "issued": NOW,
        "expires": NOW + 86_400,
        "root_version": 1,
        "content": content,
        "sign": signer("authority"),
        "recipient": sealing_key(name).public,
    }
    return build_bundle(**{**members, **changes})


def notice(**changes: Any) -> Notice:
    """Build a notice for agent alpha."""
    members: dict[str, Any] = {
        "number": 1,
        "audience": ALPHA,
        "domain": "heating",
        "revocation": "r-1",
        "deny": (OTHER,),
        "reason": "left the company",
        "issued": NOW,
    }
    return Notice(**{**members, **changes})


def notice_with_floors() -> Notice:
    """Build a notice of what some lost, to be held back until revision 8."""
    lost = Floors((Floor(OTHER, 8),), (Floor("beta", 8),), 7)
    return notice(number=2, deny=(), floors=lost)


def receipt() -> dict[str, Any]:
    """Build the body of a revocation's receipt."""
    return {
        "revocation": "0" * 32,
        "kind": "appointment",
        "what": "the appointment badge(7) of Anna",
        "subject": {"appointment": "badge(7)"},
        "domain": "heating",
        "principal": {"name": "Anna", "handle": OTHER},
        "actor": "mona",
        "reason": "left the company",
        "t0": "2030-01-01T00:00:00+00:00",
        "lease_seconds": 30,
        "enforced_by": "2030-01-01T00:00:00.250000+00:00",
        "revision": 8,
        "notices": [
            {
                "agent": "alpha",
                "domain": "heating",
                "number": 2,
                "acknowledged": "2030-01-01T00:00:00.250000+00:00",
                "seconds_after_t0": 0.25,
                "lease_ended": "2030-01-01T00:00:30+00:00",
            }
        ],
        "epochs": {"from": None, "to": None},
        "blind_epochs": {"from": None, "to": None},
        "keys_replaced": [],
        "switches": [],
        "encodings_replaced": 2,
        "unreachable": [],
        "completed": "2030-01-01T00:00:01+00:00",
    }


def held() -> dict[str, Any]:
    """Build what agent alpha reports."""
    return {
        "heating": {"revision": 7, "digest": DIGEST, "notice": 2, "epochs": {"1": "current"}},
        "flights": {"revision": 0, "digest": "", "notice": 0, "epochs": {}},
    }


def lease_request(**changes: Any) -> LeaseRequest:
    """Build agent alpha's request for a lease."""
    members: dict[str, Any] = {"audience": ALPHA, "nonce": NONCE, "held": held(), "at": NOW}
    return LeaseRequest(**{**members, **changes})


def acknowledgement(**changes: Any) -> Acknowledgement:
    """Build agent alpha's acknowledgement of revision 7."""
    members: dict[str, Any] = {
        "audience": ALPHA,
        "domain": "heating",
        "what": "bundle",
        "number": 7,
        "digest": DIGEST,
        "status": "applied",
        "reason": "",
        "at": NOW,
        "held": held(),
    }
    return Acknowledgement(**{**members, **changes})


def lease(**changes: Any) -> Lease:
    """Build a lease for agent alpha."""
    members: dict[str, Any] = {
        "audience": ALPHA,
        "nonce": NONCE,
        "time": NOW + 0.25,
        "seconds": {"heating": 30},
        "domains": {"heating": {"minimum_revision": 7, "minimum_notice": 2}},
    }
    return Lease(**{**members, **changes})


def publication(**changes: Any) -> PublicationPart:
    """Build one part of a publication."""
    members: dict[str, Any] = {
        "domain": "heating",
        "publication": PUBLICATION,
        "type": "WaterTemperature",
        "publisher": HANDLE,
        "part": 0,
        "parts": 2,
        "overlay": "a",
        "epoch": 1,
        "policy": DIGEST,
        "issued": NOW,
        "tags": (b"t" * 16, b"u" * 16),
        "attributes": {"degrees": 61, "house": "Grüne Gasse 4", "open": True, "flow": 0.5},
    }
    return PublicationPart(**{**members, **changes})


def routed(**changes: Any) -> RoutedPart:
    """Build the same part after agent alpha admitted it."""
    part = publication()
    members: dict[str, Any] = {name: getattr(part, name) for name in part.to_json()}
    del members["attributes"]
    members["origin"] = "alpha"
    members["clear"] = {"degrees": 61}
    members["sealed"] = {"house": {"police": "3:AAAA", "fire": "1:BBBB"}}
    return RoutedPart(**{**members, **changes})


def delivery(**changes: Any) -> Delivery:
    """Build what agent alpha delivers of the part."""
    members: dict[str, Any] = {
        "domain": "heating",
        "publication": PUBLICATION,
        "type": "WaterTemperature",
        "publisher": OTHER,
        "part": 0,
        "parts": 2,
        "agent": "alpha",
        "revision": 7,
        "epoch": 1,
        "attributes": {"degrees": 61, "flow": 0.5},
        "withheld": {"house": "no right to read it"},
    }
    return Delivery(**{**members, **changes})


def subscribe_request(**changes: Any) -> SubscribeRequest:
    """Build a client's request for a subscription."""
    members: dict[str, Any] = {
        "domain": "heating",
        "client": HANDLE,
        "request": NONCE,
        "subscription": "warm-houses",
        "action": "subscribe",
        "type": "Telemetry",
        "filter": "degrees >= 60",
        "issued": NOW,
    }
    return SubscribeRequest(**{**members, **changes})


def reply(**changes: Any) -> Reply:
    """Build agent alpha's answer to the request."""
    members: dict[str, Any] = {
        "request": NONCE,
        "part": 0,
        "ok": True,
        "reason": "",
        "message": "",
        "dropped": ("house",),
        "agent": "alpha",
    }
    return Reply(**{**members, **changes})


def announcement(**changes: Any) -> Announcement:
    """Build what agent alpha tells agent beta that it wants."""
    members: dict[str, Any] = {
        "domain": "heating",
        "overlay": "a",
        "agent": "alpha",
        "to": "beta",
        "number": 1_700_000_000_123,
        "issued": NOW,
        "expires": NOW + 600,
        "scope": ("Telemetry", "WaterTemperature"),
        "interests": (
            Interest("Alarm", ()),
            Interest(
                "WaterTemperature",
                (
                    InterestFilter("degrees >= 60"),
                    InterestFilter("", {"police": "3:AAAA", "fire": "1:BBBB"}),
                ),
            ),
        ),
        "asks": True,
    }
    return Announcement(**{**members, **changes})


def carriage(**changes: Any) -> Carriage:
    """Build the orders of a hop that agent beta is to distribute."""
    members: dict[str, Any] = {
        "domain": "heating",
        "overlay": "a",
        "path": ("alpha",),
        "to": ("beta",),
        "distribute": True,
    }
    return Carriage(**{**members, **changes})


def taken(**changes: Any) -> Taken:
    """Build agent beta's receipt for an event of agent alpha."""
    members: dict[str, Any] = {
        "domain": "heating",
        "agent": "beta",
        "to": "alpha",
        "keys": (b"k" * 16, b"l" * 16),
    }
    return Taken(**{**members, **changes})
