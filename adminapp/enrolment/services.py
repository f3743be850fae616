"""The area's writes, in one place to import from."""

from adminapp.enrolment.certificates import renew
from adminapp.enrolment.deciding import confirm_enrolment, expire_old, refuse_enrolment
from adminapp.enrolment.requests import ask, place_of, request_enrolment
from adminapp.enrolment.tokens import (
    create_fleet,
    delete_fleet,
    end_fleet,
    issue_agent_token,
    issue_client_token,
    prune_tokens,
    withdraw_token,
)

__all__ = [
    "ask",
    "confirm_enrolment",
    "create_fleet",
    "delete_fleet",
    "end_fleet",
    "expire_old",
    "issue_agent_token",
    "issue_client_token",
    "place_of",
    "prune_tokens",
    "refuse_enrolment",
    "renew",
    "request_enrolment",
    "withdraw_token",
]
