"""One or more good questions of each operation."""

from __future__ import annotations

from typing import Any

ATTRIBUTES: dict[str, Any] = {
    "zone": {"type": "string"},
    "level": {"type": "int", "min": 0, "max": 1023},
    "unit": {"type": "enum", "values": ["a", "b"]},
    "on": {"type": "bool"},
    "t": {"type": "float", "min": 0, "max": 100, "step": 0.5},
}
POLICY = 'atLeast(2, [zone.startsWith("We"), level in [1, 2], !on]) && unit != "b" || has(t)'
VALUES: dict[str, Any] = {"zone": "West", "level": 2, "unit": "a", "on": False, "t": 0.5}
TYPES: dict[str, Any] = {
    "PoliceEvent": {
        "parent": None,
        "attributes": {
            "location": {"type": "string", "keys": ["police", "fire"]},
            "level": {"type": "int"},
        },
    },
    "BurglaryEvent": {
        "parent": "PoliceEvent",
        "attributes": {"location": {"type": "string", "keys": ["police"]}},
    },
}
PLAN: dict[str, Any] = {"overlays": [["a"], ["b"]], "encrypted": ["c"]}
PUBLICATION: dict[str, Any] = {"a": 1, "b": "two", "c": 3.5}

SAMPLES: dict[str, list[dict[str, Any]]] = {
    "evaluate": [{"attributes": ATTRIBUTES, "expression": POLICY, "values": VALUES}],
    "normalise": [{"attributes": ATTRIBUTES, "expression": POLICY}],
    "anonset.match": [
        {
            "encoding": encoding,
            "attributes": ATTRIBUTES,
            "policy": POLICY,
            "subject": [{"zone": "x", "level": 3}, VALUES],
            **sizes,
        }
        for encoding, sizes in (("bloom", {"m": 400, "k": 8}), ("bloom", {}), ("tokens", {}))
    ],
    "bundle.apply": [
        {
            "agent": "alpha",
            "steps": [
                {
                    "at": 10,
                    "bundle": {
                        "agent": "alpha", "revision": 1, "expires": 99, "previous": "right",
                    },
                    "mutate": mutation,
                },
                {
                    "at": 11.5,
                    "bundle": {
                        "agent": "alpha", "revision": 4, "expires": 99, "previous": "wrong",
                    },
                },
            ],
        }
        for mutation in (None, {"flip_bit": 7}, "strip_signature", "foreign_key", "truncate")
    ],
    "sde.match": [
        {"group": "curve", "attributes": ATTRIBUTES, "event": VALUES, "filter": POLICY},
        {"group": "zp1024", "attributes": ATTRIBUTES, "event": VALUES, "filter": "on || level < 5"},
    ],
    "kpabe.open": [
        {
            "mode": mode, "attributes": ATTRIBUTES, "event": VALUES,
            "filter": "!on && level in [1, 2]", "payload": "é😀",
        }
        for mode in ("hash", "polynomial")
    ],
    "cpabe.open": [
        {
            "attributes": ATTRIBUTES, "policy": "!on && level in [1, 2]", "subject": VALUES,
            "payload": "é😀",
        }
    ],
    "ope.match": [
        {
            "scheme": scheme,
            "attributes": ATTRIBUTES,
            "subscriptions": {
                "s1": 'level >= 1 && zone.startsWith("We")',
                "s2": "t < 5 && on == true",
                "s3": "unit in [\"a\"] && has(t)",
            },
            "events": [VALUES, {}],
        }
        for scheme in ("sbm1", "sbm2", "plain")
    ],
    "roles.session": [
        {
            "policy": {
                "rules": [
                    {
                        "role": "employee(x)", "prerequisites": [], "appointments": ["hired(x)"],
                        "constraints": [], "membership": ["hired(x)"],
                    },
                    {
                        "role": "officer(x)", "prerequisites": ["employee(x)"],
                        "appointments": ["sworn(x)"],
                        "constraints": ["env.hour >= 9 && env.hour < 17"],
                        "membership": ["employee(x)", "env.hour >= 9 && env.hour < 17"],
                    },
                ]
            },
            "steps": [
                {"do": "appoint", "appointment": "hired(7)"},
                {"do": "appoint", "appointment": "sworn(7)"},
                {"do": "set", "env": {"hour": 10}},
                {"do": "activate", "role": "employee(7)"},
                {"do": "activate", "role": "officer(7)"},
                {"do": "set", "env": {"hour": 20}},
                {"do": "revoke", "appointment": "hired(7)"},
                {"do": "deactivate", "role": "employee(7)"},
            ],
        }
    ],
    "events.covers": [
        {
            "types": TYPES,
            "first": {
                "type": "PoliceEvent",
                "filters": [{"expression": "has(location)", "keys": ["police", "fire"]}],
            },
            "second": {
                "type": "BurglaryEvent",
                "filters": [
                    {"expression": 'location == "West"', "keys": ["police"]},
                    {"expression": "level > 3", "keys": []},
                ],
            },
        }
    ],
    "events.restrict": [
        {
            "types": TYPES,
            "policy": {
                "read": {"officer": {"PoliceEvent": ["location"]}},
                "write": {"officer": {"BurglaryEvent": ["level"]}},
            },
            "roles": ["officer", "guest"],
            **request,
        }
        for request in (
            {"publication": {"type": "BurglaryEvent", "values": {"level": 4, "location": "West"}}},
            {"subscription": {"type": "BurglaryEvent", "attributes": ["location", "level"]}},
        )
    ],
    "split.plan": [
        {
            "attributes": ["a", "b", "c", "d"], "risky": [["a", "b"], ["b", "c", "d"]],
            "colluding": 1, "max_overlays": 3, "encrypt_cost": {"a": 2, "b": 1.5},
        }
    ],
    "split.roundtrip": [{"plan": PLAN, "publication": PUBLICATION, "deliver": [1, 0, 1]}],
    "split.learns": [{"plan": PLAN, "publication": PUBLICATION, "colluding": [0, 1]}],
}  # fmt: skip
