"""The data model of bundles, in one place to import from."""

from policyengine.bundles.content import AgentContent, ClientContent, ComparatorContent
from policyengine.bundles.encoded import EncodedRule, EncodedSubject, EpochContent, RateLimit
from policyengine.bundles.header import BundleHeader, PartRef
from policyengine.bundles.ordered import OrderedColumn
from policyengine.bundles.references import AgentRef, ClientRef, HomeAgent, TagKey
from policyengine.trustgroups.wraps import Wrap

__all__ = [
    "AgentContent",
    "AgentRef",
    "BundleHeader",
    "ClientContent",
    "ClientRef",
    "ComparatorContent",
    "EncodedRule",
    "EncodedSubject",
    "EpochContent",
    "HomeAgent",
    "OrderedColumn",
    "PartRef",
    "RateLimit",
    "TagKey",
    "Wrap",
]
