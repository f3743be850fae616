"""Attribute-based encryption: who can read an event's payload (paper 001)."""

from policyengine.abe.cp_model import CpCiphertext, CpMasterKey, CpPublicKey, CpUserKey
from policyengine.abe.cp_wire import (
    decode_cp_ciphertext,
    decode_cp_master,
    decode_cp_public,
    decode_cp_user,
    encode_cp_ciphertext,
    encode_cp_master,
    encode_cp_public,
    encode_cp_user,
)
from policyengine.abe.cpabe import cpabe_open, payload_policy
from policyengine.abe.cpabe import decapsulate as cp_decapsulate
from policyengine.abe.cpabe import encapsulate as cp_encapsulate
from policyengine.abe.cpabe import keygen as cp_keygen
from policyengine.abe.cpabe import keygen_of as cp_keygen_of
from policyengine.abe.cpabe import public_key as cp_public_key
from policyengine.abe.cpabe import setup as cp_setup
from policyengine.abe.delegation import delegate
from policyengine.abe.kp_model import FilterKey, KpCiphertext, KpMasterKey, KpMode, PublicKey
from policyengine.abe.kp_open import kpabe_open
from policyengine.abe.kp_wire import (
    decode_ciphertext,
    decode_filter_key,
    decode_master,
    decode_public,
    encode_ciphertext,
    encode_filter_key,
    encode_master,
    encode_public,
)
from policyengine.abe.kpabe import (
    decapsulate,
    encapsulate,
    keygen,
    pairings,
    public_key,
    setup,
)
from policyengine.abe.nested import open_nested, seal_nested

__all__ = [
    "CpCiphertext",
    "CpMasterKey",
    "CpPublicKey",
    "CpUserKey",
    "FilterKey",
    "KpCiphertext",
    "KpMasterKey",
    "KpMode",
    "PublicKey",
    "cp_decapsulate",
    "cp_encapsulate",
    "cp_keygen",
    "cp_keygen_of",
    "cp_public_key",
    "cp_setup",
    "cpabe_open",
    "decapsulate",
    "decode_ciphertext",
    "decode_cp_ciphertext",
    "decode_cp_master",
    "decode_cp_public",
    "decode_cp_user",
    "decode_filter_key",
    "decode_master",
    "decode_public",
    "delegate",
    "encapsulate",
    "encode_ciphertext",
    "encode_cp_ciphertext",
    "encode_cp_master",
    "encode_cp_public",
    "encode_cp_user",
    "encode_filter_key",
    "encode_master",
    "encode_public",
    "keygen",
    "kpabe_open",
    "open_nested",
    "pairings",
    "payload_policy",
    "public_key",
    "seal_nested",
    "setup",
]
