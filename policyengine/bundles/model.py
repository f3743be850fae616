"""The data model of bundles, in one place to import from."""

from policyengine.bundles.content import AgentContent, ClientContent
from policyengine.bundles.encoded import EncodedRule, EncodedSubject, EpochContent
from policyengine.bundles.header import BundleHeader, PartRef
from policyengine.bundles.references import AgentRef, ClientRef, HomeAgent, TagKey
from policyengine.trustgroups.wraps import Wrap

__all__ = [
    "AgentContent",
    "AgentRef",
    "BundleHeader",
    "ClientContent",
    "ClientRef",
    "EncodedRule",
    "EncodedSubject",
    "EpochContent",
    "HomeAgent",
    "PartRef",
    "TagKey",
    "Wrap",
]
