"""What agents and clients hold: epochs, bundles, notices, and what they acknowledged."""

from adminapp.distribution.models.activity import (
    ActivityDay,
    ActivityRun,
    DecisionKey,
    DecisionSegment,
    RevocationCheck,
    RevokedRight,
)
from adminapp.distribution.models.bundles import Bundle, Comparator, Compilation, Recipient
from adminapp.distribution.models.deltas import BundleChunk, ContentOutline, SealedWrap
from adminapp.distribution.models.epochs import (
    BlindEpoch,
    BlindKey,
    EncodedItem,
    EncodingEpoch,
    EncodingKey,
)
from adminapp.distribution.models.filters import FilterReader
from adminapp.distribution.models.history import Enforcement
from adminapp.distribution.models.pulses import Pulse
from adminapp.distribution.models.recompute import RecomputeJob
from adminapp.distribution.models.revocations import Notice, Revocation, RevocationEvent
from adminapp.distribution.models.rollouts import Rollout, RolloutMember
from adminapp.distribution.models.rotation import RotationSchedule
from adminapp.distribution.models.stages import PolicyRollout, RolloutPlan
from adminapp.distribution.models.uids import new_uid

__all__ = [
    "ActivityDay",
    "ActivityRun",
    "BlindEpoch",
    "BlindKey",
    "Bundle",
    "BundleChunk",
    "Comparator",
    "Compilation",
    "ContentOutline",
    "DecisionKey",
    "DecisionSegment",
    "EncodedItem",
    "EncodingEpoch",
    "EncodingKey",
    "Enforcement",
    "FilterReader",
    "Notice",
    "PolicyRollout",
    "Pulse",
    "Recipient",
    "RecomputeJob",
    "Revocation",
    "RevocationCheck",
    "RevocationEvent",
    "RevokedRight",
    "Rollout",
    "RolloutMember",
    "RolloutPlan",
    "RotationSchedule",
    "SealedWrap",
    "new_uid",
]
