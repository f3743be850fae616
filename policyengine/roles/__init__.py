"""Roles as OASIS has them: rules with parameters, appointments, constraints, sessions.

Build upon Bacon et al. (paper 002), section 3.2.
"""

from policyengine.roles.activation import RoleRule, active_roles, constraint_met
from policyengine.roles.appointments import MAX_HELD, Appointment
from policyengine.roles.constraints import Constraint, read_constraint
from policyengine.roles.crowds import JOIN_LIMIT, Crowd, crowd, free_parameters, in_order
from policyengine.roles.findings import Finding, findings
from policyengine.roles.outcomes import Activation, Denial, Fallen, Missing, Outcome
from policyengine.roles.policy import MAX_RULES, MAX_TOTAL, RolePolicy
from policyengine.roles.reading import read_rule
from policyengine.roles.records import activation_from_json, activation_to_json
from policyengine.roles.rules import MAX_CONDITIONS, Bound, Credential, Rule
from policyengine.roles.search import SEARCH_LIMIT
from policyengine.roles.session import MAX_ACTIVE, Session
from policyengine.roles.steps import MAX_STEPS, WORK_LIMIT, run_session
from policyengine.roles.terms import (
    MAX_ATOM,
    MAX_PARAMETERS,
    Atom,
    Variable,
    ground_atom,
    read_atom,
)

__all__ = [
    "JOIN_LIMIT",
    "MAX_ACTIVE",
    "MAX_ATOM",
    "MAX_CONDITIONS",
    "MAX_HELD",
    "MAX_PARAMETERS",
    "MAX_RULES",
    "MAX_STEPS",
    "MAX_TOTAL",
    "SEARCH_LIMIT",
    "WORK_LIMIT",
    "Activation",
    "Appointment",
    "Atom",
    "Bound",
    "Constraint",
    "Credential",
    "Crowd",
    "Denial",
    "Fallen",
    "Finding",
    "Missing",
    "Outcome",
    "RolePolicy",
    "RoleRule",
    "Rule",
    "Session",
    "Variable",
    "activation_from_json",
    "activation_to_json",
    "active_roles",
    "constraint_met",
    "crowd",
    "findings",
    "free_parameters",
    "ground_atom",
    "in_order",
    "read_atom",
    "read_constraint",
    "read_rule",
    "run_session",
]
