"""`roles.session`: roles activated and deactivated step by step (paper 002)."""

from __future__ import annotations

from policyengine.conformance.fields import Fields
from policyengine.roles import run_session


def answer_session(fields: Fields) -> dict[str, object]:
    """Play a session and report the active roles after each step."""
    return {"steps": run_session(fields.mapping("policy"), fields.items("steps"))}
