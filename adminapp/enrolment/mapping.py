"""Rows as what the audit keeps of them. No secret and no token stands there."""

from __future__ import annotations

from typing import Any

from adminapp.enrolment.models import Certificate, Enrolment, EnrolmentToken, Fleet


def fleet(row: Fleet) -> dict[str, Any]:
    return {
        "name": row.name,
        "overlay": row.overlay.name,
        "pattern": row.pattern,
        "most": row.most,
        "ends": row.ends.isoformat(),
    }


def token(row: EnrolmentToken) -> dict[str, Any]:
    return {
        "uid": row.uid,
        "kind": row.kind,
        "for": row.whom(),
        "fleet": None if row.fleet is None else row.fleet.name,
        "expires": row.expires.isoformat(),
    }


def enrolment(row: Enrolment) -> dict[str, Any]:
    return {
        "uid": row.uid,
        "kind": row.kind,
        "name": row.name,
        "sealing_key": row.sealing_key,
        "verify_key": row.verify_key,
        "fingerprint": row.fingerprint,
        "state": row.state,
        "reason": row.reason,
    }


def certificate(row: Certificate) -> dict[str, Any]:
    return {
        "serial": row.serial,
        "subject": row.subject,
        "begins": row.begins.isoformat(),
        "ends": row.ends.isoformat(),
    }
