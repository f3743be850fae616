"""Roles and the rules that activate them."""

from policyengine.roles.activation import RoleRule, active_roles, constraint_met

__all__ = ["RoleRule", "active_roles", "constraint_met"]
