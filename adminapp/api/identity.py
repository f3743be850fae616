"""Names that moved to modules of their own."""

from adminapp.api.access import AccessSerializer
from adminapp.api.filters import DomainFilter
from adminapp.api.platform import agents_by_name

__all__ = ["AccessSerializer", "DomainFilter", "agents_by_name"]
