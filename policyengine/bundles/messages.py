"""Every message of the protocol, in one place to import from."""

from policyengine.bundles.deliveries import Delivery, open_delivery, seal_delivery
from policyengine.bundles.framing import (
    Control,
    Request,
    decode_control,
    decode_framed,
    decode_request,
    encode_control,
    encode_framed,
    encode_request,
)
from policyengine.bundles.hops import RoutedPart, open_hop, seal_hop
from policyengine.bundles.leases import Lease, open_lease, seal_lease
from policyengine.bundles.notices import Notice, open_notice, seal_notice
from policyengine.bundles.publications import (
    PublicationPart,
    SignedPart,
    open_publication,
    seal_publication,
)
from policyengine.bundles.receipts import sign_receipt, verify_receipt
from policyengine.bundles.requests import (
    Acknowledgement,
    LeaseRequest,
    sign_ack,
    sign_lease_request,
    verify_ack,
    verify_lease_request,
)
from policyengine.bundles.subscriptions import (
    Reply,
    SignedSubscribe,
    SubscribeRequest,
    open_reply,
    open_subscribe,
    seal_reply,
    seal_subscribe,
)

__all__ = [
    "Acknowledgement",
    "Control",
    "Delivery",
    "Lease",
    "LeaseRequest",
    "Notice",
    "PublicationPart",
    "Reply",
    "Request",
    "RoutedPart",
    "SignedPart",
    "SignedSubscribe",
    "SubscribeRequest",
    "decode_control",
    "decode_framed",
    "decode_request",
    "encode_control",
    "encode_framed",
    "encode_request",
    "open_delivery",
    "open_hop",
    "open_lease",
    "open_notice",
    "open_publication",
    "open_reply",
    "open_subscribe",
    "seal_delivery",
    "seal_hop",
    "seal_lease",
    "seal_notice",
    "seal_publication",
    "seal_reply",
    "seal_subscribe",
    "sign_ack",
    "sign_lease_request",
    "sign_receipt",
    "verify_ack",
    "verify_lease_request",
    "verify_receipt",
]
