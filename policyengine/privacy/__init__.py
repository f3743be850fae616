"""The privacy gate, profiles, the split planner, splitting and reassembly, and its attackers."""

from policyengine.privacy.attackers import (
    Knowledge,
    Violation,
    coalitions,
    colluding,
    exposed,
    standalone,
    violations,
)
from policyengine.privacy.gate import check_protection, gate
from policyengine.privacy.parts import (
    Assembly,
    KeySealer,
    Outcome,
    Part,
    Received,
    Sealer,
    new_id,
    roundtrip,
    split_publication,
)
from policyengine.privacy.plan import SplitPlan, plan_of
from policyengine.privacy.planner import Planned, plan_split
from policyengine.privacy.profiles import PROFILES, preset
from policyengine.privacy.protections import CLASSES, KINDS, Protection, RiskAcceptance
from policyengine.privacy.requests import learns_json, plan_json, roundtrip_json
from policyengine.privacy.risky import Filter, minimal_sets, risky_by_class
from policyengine.privacy.splitting import Complete, Reassembler, split

__all__ = [
    "CLASSES",
    "KINDS",
    "PROFILES",
    "Assembly",
    "Complete",
    "Filter",
    "KeySealer",
    "Knowledge",
    "Outcome",
    "Part",
    "Planned",
    "Protection",
    "Reassembler",
    "Received",
    "RiskAcceptance",
    "Sealer",
    "SplitPlan",
    "Violation",
    "check_protection",
    "coalitions",
    "colluding",
    "exposed",
    "gate",
    "learns_json",
    "minimal_sets",
    "new_id",
    "plan_json",
    "plan_of",
    "plan_split",
    "preset",
    "risky_by_class",
    "roundtrip",
    "roundtrip_json",
    "split",
    "split_publication",
    "standalone",
    "violations",
]
