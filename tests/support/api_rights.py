"""Who may call which operation of the API: one line for every operation there is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from tests.support.control_plane import key

IN_A_MONTH = (timezone.now() + timedelta(days=30)).isoformat()
STANDINGS = (
    "operator",
    "manager",
    "delegate",  # the role `airline` and the type `Flight` are delegated to them
    "other",  # another role is
    "auditor",
    "stranger",  # manages another domain
    "colleague",  # has no part in any domain
    "anonymous",
)
DONE = (200, 201, 202, 204)


@dataclass(frozen=True)
class Right:
    """Who may; the others are told that they may not, or, if hidden, that there is nothing.

    Args:
        unknown: how the hidden are told: 404 for an address, 400 for a name in the body.
    """

    allowed: tuple[str, ...]
    hidden: tuple[str, ...] = ("stranger", "colleague")
    unknown: int = 404

    def code(self, standing: str) -> int | None:
        """The status that a standing gets; None is what the operation gives."""
        if standing == "anonymous" and standing not in self.allowed:
            return 401
        if standing in self.allowed:
            return None
        return self.unknown if standing in self.hidden else 403


@dataclass(frozen=True)
class Entry:
    """One operation.

    Args:
        right: who may.
        body: what is sent.
        codes: what those who may can get.
        query: parameters.
        media: type of the body.
    """

    right: Right
    body: Any = None
    codes: tuple[int, ...] = DONE
    query: str = ""
    media: str = "application/json"


SIGNED_IN = Right(STANDINGS[:-1], ())
MEMBERS = Right(("operator", "manager", "delegate", "other", "auditor"))
MANAGERS = Right(("operator", "manager"))
DELEGABLE = Right(("operator", "manager", "delegate"))
OPERATORS = Right(("operator",), ())
MINE = Right(("manager",), ("operator", "delegate", "other", "auditor", "stranger", "colleague"))
SHARED = Right(("operator", "manager", "delegate", "other", "auditor", "stranger"))
PLATFORM = Right(("operator",), ("colleague",))


def crud(
    path: str,
    new: Any = None,
    *,
    change: Right = MANAGERS,
    read: Right = MEMBERS,
    methods: str = "PUT PATCH DELETE",
    deleted: tuple[int, ...] = (204, 409),
) -> dict[str, Entry]:
    """The operations of a collection with the usual rights."""
    found = {f"GET {path}": Entry(SIGNED_IN), f"GET {path}/{{id}}": Entry(read)}
    if new is not None:
        found[f"POST {path}"] = Entry(change, new)
    for method in methods.split():
        codes = deleted if method == "DELETE" else DONE
        found[f"{method} {path}/{{id}}"] = Entry(change, codes=codes)
    return found


# Machines ask here before anybody knows them: what they send speaks for itself.
UNSEEN = Right(("operator",), STANDINGS[1:7])
EVERYBODY = Right(STANDINGS, ())
SIDES = Right(("operator", "manager", "stranger"), ("colleague",))
EITHER = Right(STANDINGS[:6], ("colleague",))
LEADERS = Right(("operator", "manager", "stranger"), ())
FLIGHTS = {"domain": "flights"}
ROLE = {"op": "put", "kind": "role", "key": "new", "document": {"name": "new", "rules": []}}
KEYS = {"sealing_key": key(7), "verify_key": key(8)}
QUESTION = "?domain=flights&action=subscribe&type=Flight"
HOOK = "https://hooks.example.com/in"
IN_2100 = "2100-01-01T00:00:00Z"
TERMS = {
    "roles": [{"role": "engineer", "as": "airline"}],
    "opens": [{"type": "Flight", "action": "subscribe", "attributes": ["carrier"]}],
    "subject_attributes": [],
    "ends": IN_2100,
    "purpose": "to heat the gates in time",
}
YAML = b"object: role\ndomain: flights\nname: airline\ntitle: new\n"
# New keys are made by the trusted authority, which does not run here.
NO_AUTHORITY = (503,)
DRAFTERS = Right(("operator", "manager", "delegate", "other"))

TABLE: dict[str, Entry] = {
    # identity
    **crud("/domains", {"name": "trains", "title": "Trains"}),
    "POST /domains": Entry(OPERATORS, {"name": "trains", "title": "Trains"}),
    "DELETE /domains/{id}": Entry(Right(("operator",)), codes=(409,)),
    "GET /domains/{id}/progress": Entry(MEMBERS),
    "GET /domains/{id}/model": Entry(MEMBERS),
    "GET /domains/{id}/usage": Entry(MEMBERS),
    **crud("/memberships", FLIGHTS | {"user": "cora", "role": "auditor"}, methods="DELETE"),
    **crud(
        "/delegations",
        FLIGHTS | {"user": "cora", "roles": ["press"], "ends": IN_A_MONTH},
        methods="DELETE",
    ),
    "GET /users": Entry(OPERATORS),
    "POST /users": Entry(OPERATORS, {"username": "nils"}),
    "GET /users/{id}": Entry(OPERATORS),
    "DELETE /users/{id}": Entry(OPERATORS),
    **crud("/tokens", read=MINE, methods="DELETE", change=MINE),
    "POST /tokens": Entry(SIGNED_IN, {"name": "n", "scopes": ["read"]}),
    **crud("/overlays", {"name": "c", "title": "C"}, change=PLATFORM, read=SHARED),
    "POST /overlays": Entry(OPERATORS, {"name": "c", "title": "C"}),
    **crud("/agents", change=PLATFORM, read=SHARED, methods="PUT PATCH"),
    "POST /agents": Entry(
        Right(("operator",), ("colleague",), 400), {"name": "delta", "overlay": "a", **KEYS}
    ),
    **crud("/principals", FLIGHTS | {"name": "Delta", "kind": "subscriber", "attributes": {}}),
    "POST /principals/{id}/credentials": Entry(MANAGERS, KEYS),
    # The flights hide nothing: the answer is a refusal, with its reason.
    "POST /principals/{id}/filter-key": Entry(
        MANAGERS, {"type": "Flight", "attributes": ["carrier"]}, (200,)
    ),
    "GET /principals/{id}/reading": Entry(MEMBERS),
    "POST /principals/{id}/reading": Entry(MANAGERS, {"by_filters": True}, (200,)),
    # Only a revoked one can be erased.
    "POST /principals/{id}/erase": Entry(
        MANAGERS, {"confirm": "United", "reason": "asked for"}, (200, 400, 409)
    ),
    **crud("/representatives", methods="DELETE"),
    "POST /representatives": Entry(
        Right(MANAGERS.allowed, unknown=400), {"principal": "@principals", "user": "cora"}
    ),
    # catalog
    **crud("/subject-attributes", FLIGHTS | {"name": "hub", "type": {"type": "string"}}),
    **crud("/attribute-keys", FLIGHTS | {"name": "crew"}),
    **crud("/event-types", FLIGHTS | {"name": "Arrival", "parent": "Flight"}, change=DELEGABLE),
    "POST /event-types/check": Entry(
        DELEGABLE, FLIGHTS | {"name": "Arrival", "parent": "Flight", "attributes": []}
    ),
    "GET /event-types/findings": Entry(MEMBERS, query="?domain=flights"),
    "GET /event-types/tree": Entry(MEMBERS, query="?domain=flights"),
    "GET /event-types/{id}/attributes": Entry(MEMBERS),
    "GET /event-types/{id}/diff": Entry(MEMBERS, query="?from=1&to=1"),
    "POST /event-types/{id}/retire": Entry(DELEGABLE, {"note": "n"}, (200, 400, 409)),
    "GET /event-types/{id}/versions": Entry(MEMBERS),
    # roles
    **crud("/roles", FLIGHTS | {"name": "crew"}),
    "PUT /roles/{id}": Entry(DELEGABLE),
    "PATCH /roles/{id}": Entry(DELEGABLE),
    "DELETE /roles/{id}": Entry(DELEGABLE, codes=(409,)),
    **crud("/appointments", change=DELEGABLE, methods="DELETE"),
    "POST /appointments": Entry(
        Right(DELEGABLE.allowed, unknown=400), {"principal": "@principals", "name": "licensed"}
    ),
    **crud("/appointment-rules", FLIGHTS | {"name": "chosen"}, change=DELEGABLE),
    "POST /appointment-rules": Entry(MANAGERS, FLIGHTS | {"name": "chosen"}),
    **crud("/role-settings", FLIGHTS | {"by_session": True}, methods="PUT PATCH"),
    **crud("/sessions", methods="PATCH DELETE"),
    "POST /sessions": Entry(
        Right(MANAGERS.allowed, unknown=400), {"principal": "@principals"}, (201, 400, 409)
    ),
    "GET /principals/{id}/roles": Entry(MEMBERS),
    "POST /principals/import": Entry(
        MANAGERS, b"name,kind\nDelta,subscriber\n", query="?domain=flights", media="text/csv"
    ),
    **crud("/principal-imports", methods=""),
    "GET /principal-imports/{id}/report": Entry(MEMBERS),
    "POST /principal-imports/{id}/cancel": Entry(MANAGERS, {}, (200, 409)),
    # keys and trust groups
    "GET /attribute-keys/{id}/holders": Entry(MEMBERS),
    "POST /attribute-keys/{id}/rotate": Entry(MANAGERS, {"reason": "yearly"}, NO_AUTHORITY),
    "GET /agents/{id}/standing": Entry(SHARED),
    "POST /agents/{id}/distrust": Entry(PLATFORM, {"reason": "seized"}),
    "GET /trust-groups/{id}/history": Entry(MEMBERS),
    "POST /trust-groups/{id}/rotate": Entry(MANAGERS, {"reason": "yearly"}, NO_AUTHORITY),
    **crud("/trust-groups", FLIGHTS | {"name": "crew"}),
    **crud("/key-epochs", methods=""),
    "GET /key-epochs/{id}/losses": Entry(MEMBERS),
    "POST /key-epochs/{id}/retire": Entry(MANAGERS, {"reason": "r"}, codes=NO_AUTHORITY),
    **crud("/rotations", FLIGHTS | {"key": "all", "every_days": 30}),
    "GET /domains/{id}/key-coverage": Entry(MEMBERS),
    "GET /domains/{id}/aliases": Entry(MEMBERS),
    # Nothing is compiled here, so there is nothing to encode anew.
    "GET /domains/{id}/alias-impact": Entry(MANAGERS, query="?attribute=carrier", codes=(400,)),
    "POST /domains/{id}/burn-alias": Entry(
        MANAGERS, {"attribute": "carrier", "reason": "it was seen"}, codes=(400,)
    ),
    # agreements
    **crud("/agreements", read=EITHER, methods=""),
    # An operator speaks for both sides and has to say for which: 400.
    "POST /agreements": Entry(
        LEADERS,
        {"provider": "flights", "consumer": "heating", "name": "new", "terms": TERMS},
        (201, 400),
    ),
    "POST /agreements/{id}/accept": Entry(SIDES, {"round": 1, "digest": "x"}, (400, 412)),
    "POST /agreements/{id}/counter": Entry(SIDES, {"round": 1, "terms": TERMS}, (200, 400)),
    "POST /agreements/{id}/reject": Entry(SIDES, {}, (200, 400)),
    "POST /agreements/{id}/withdraw": Entry(SIDES, {}, (200, 400, 409)),
    "GET /directory": Entry(LEADERS),
    # policies
    **crud(
        "/policies",
        FLIGHTS
        | {
            "name": "all",
            "action": "subscribe",
            "event_type": "Flight",
            "expression": "has(subject.carrier)",
        },
        change=DELEGABLE,
    ),
    "POST /policies/plan": Entry(DELEGABLE, FLIGHTS | {"policy": "@policies", "data": None}),
    "POST /policies/{id}/restore": Entry(DELEGABLE, {"number": 1}),
    "GET /policies/{id}/versions": Entry(MEMBERS),
    "GET /policies/findings": Entry(MEMBERS, query="?domain=flights"),
    **crud("/environment", FLIGHTS | {"name": "storm", "type": {"type": "bool"}}),
    "PUT /environment/{domain}/{name}": Entry(MANAGERS, {"value": True}),
    "GET /access": Entry(SIGNED_IN),
    "GET /access/matrix": Entry(MEMBERS, query="?domain=flights"),
    "GET /explain": Entry(MEMBERS, query=QUESTION + "&principal=United"),
    "GET /explain/contrast": Entry(MEMBERS, query=QUESTION + "&principal=United&other=JFK"),
    "POST /explain": Entry(
        MEMBERS,
        FLIGHTS | {"principal": "United", "action": "subscribe", "type": "Flight", "event": {}},
    ),
    # privacy
    **crud("/classifications", methods="PUT PATCH"),
    "POST /classifications/bulk": Entry(
        DELEGABLE,
        FLIGHTS
        | {
            "items": [
                {"event_type": "Flight", "attribute": "origin", "pia_class": "quasi-identifying"}
            ]
        },
    ),
    **crud("/split-plans"),
    "POST /split-plans": Entry(
        MANAGERS, FLIGHTS | {"event_type": "Flight", "groups": []}, codes=(409,)
    ),
    **crud(
        "/risk-acceptances",
        FLIGHTS
        | {
            "event_type": "Flight",
            "attribute": "origin",
            "pia_class": "confidential",
            "justification": "routes are public soon",
            "until": IN_A_MONTH,
        },
    ),
    "GET /profiles": Entry(SIGNED_IN),
    # distribution
    "GET /revisions": Entry(SIGNED_IN),
    **crud("/bundles", methods=""),
    **crud("/recipients", methods=""),
    **crud("/enforcements", methods=""),
    **crud("/rollout-plans", FLIGHTS | {"stages": [{"share": 10}]}, methods="PUT PATCH"),
    **crud("/rollouts", methods=""),
    "GET /rollouts/{id}/agents": Entry(MEMBERS),
    "POST /rollouts/{id}/continue": Entry(MANAGERS),
    "POST /rollouts/{id}/abort": Entry(MANAGERS, {"reason": "r"}),
    **crud("/revocations", methods=""),
    "POST /revocations": Entry(
        Right(MANAGERS.allowed, unknown=400), {"principal": "@principals", "reason": "r"}
    ),
    "POST /revocations/impact": Entry(
        Right(MANAGERS.allowed, unknown=400), {"principal": "@principals"}
    ),
    "GET /revocations/{id}/receipt": Entry(MEMBERS, codes=(404,)),
    "GET /revocations/{id}/check": Entry(MEMBERS),
    **crud("/jobs", methods=""),
    "GET /activity": Entry(SIGNED_IN),
    **crud("/activity-runs", methods=""),
    "POST /activity-runs": Entry(MANAGERS, FLIGHTS, codes=(400,)),
    # enrolment
    **crud("/enrolment-tokens", methods="DELETE"),
    "POST /enrolment-tokens": Entry(
        Right(MANAGERS.allowed, unknown=400), {"kind": "client", "principal": "@principals"}
    ),
    **crud("/fleets", read=UNSEEN, change=UNSEEN, methods="DELETE"),
    "POST /fleets": Entry(
        Right(("operator",), ("colleague",), 400),
        {"name": "edge", "overlay": "a", "pattern": "edge-*", "most": 3, "ends": IN_2100},
    ),
    "POST /fleets/{id}/end": Entry(UNSEEN),
    **crud("/enrolments", methods=""),
    "POST /enrolments/{id}/confirm": Entry(MANAGERS, {"fingerprint": "1"}, (400,)),
    "POST /enrolments/{id}/refuse": Entry(MANAGERS, {"reason": "another machine"}),
    **crud("/certificates", methods=""),
    "POST /enrol": Entry(EVERYBODY, {}, (400,)),
    "POST /enrol/question": Entry(EVERYBODY, {}, (400,)),
    "POST /enrol/renew": Entry(EVERYBODY, {}, (400,)),
    # change sets and files
    **crud("/change-sets", FLIGHTS | {"operations": [ROLE]}, methods="PUT PATCH"),
    "POST /change-sets": Entry(DRAFTERS, FLIGHTS | {"operations": [ROLE]}),
    "POST /change-sets/break-glass": Entry(
        MANAGERS, FLIGHTS | {"message": "fire", "minutes": 5, "operations": [ROLE]}, (400,)
    ),
    "POST /change-sets/restore": Entry(MANAGERS, FLIGHTS | {"revision": 1}, (201, 400)),
    **{
        f"POST /change-sets/{{id}}/{deed}": Entry(MANAGERS, {}, (200, 202, 400, 409, 412))
        for deed in ("approve", "plan", "reject", "submit", "undo", "withdraw")
    },
    **crud("/announcements", read=MINE, methods=""),
    "POST /announcements/{id}/read": Entry(MINE),
    "GET /export": Entry(Right(MEMBERS.allowed, unknown=400), query="?domain=flights"),
    # What is wrong with a file is said by line, not by a 403.
    "POST /plan": Entry(Right(DRAFTERS.allowed, ()), YAML, media="application/yaml"),
    "POST /apply": Entry(Right(DELEGABLE.allowed, ("other",), 400), YAML, media="application/yaml"),
    # webhooks
    **crud("/webhooks", FLIGHTS | {"name": "w", "url": HOOK, "events": ["agreement.*"]}),
    "POST /webhooks/{id}/rotate-secret": Entry(MANAGERS, {}),
    "GET /webhooks/{id}/deliveries": Entry(MEMBERS),
    "POST /webhooks/{id}/deliveries/{number}/redeliver": Entry(MANAGERS, {}),
    # audit and outbox
    "GET /audit": Entry(SIGNED_IN),
    "GET /audit/chain": Entry(OPERATORS, codes=(200, 503)),
    "GET /audit/checkpoints": Entry(SIGNED_IN),
    "GET /audit/consistency": Entry(SIGNED_IN, query="?from=1"),
    "GET /audit/export": Entry(SIGNED_IN),
    "GET /audit/tree": Entry(SIGNED_IN),
    "GET /audit/{sequence}": Entry(MEMBERS),
    "GET /audit/{sequence}/proof": Entry(MEMBERS),
    **crud("/outbox", read=OPERATORS, methods=""),
    "GET /outbox": Entry(OPERATORS),
    "POST /outbox/{id}/release": Entry(OPERATORS, {}),
}
