"""The privacy gate, splitting and reassembly."""

from policyengine.privacy.gate import CLASSES, gate
from policyengine.privacy.splitting import Complete, Reassembler, split

__all__ = ["CLASSES", "Complete", "Reassembler", "gate", "split"]
