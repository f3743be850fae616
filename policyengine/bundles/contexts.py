"""The purposes that signatures and seals are bound to; one for each structure."""

from __future__ import annotations

from typing import Final

BUNDLE: Final = b"portcullis/bundle/v1"
NOTICE: Final = b"portcullis/notice/v1"
LEASE: Final = b"portcullis/lease/v1"
RECEIPT: Final = b"portcullis/receipt/v1"
LEASE_REQUEST: Final = b"portcullis/lease-request/v1"
ACKNOWLEDGEMENT: Final = b"portcullis/acknowledgement/v1"
PUBLICATION: Final = b"portcullis/publication/v1"
HOP: Final = b"portcullis/hop/v1"
INTEREST: Final = b"portcullis/interest/v1"
CARRIAGE: Final = b"portcullis/carriage/v1"
TAKEN: Final = b"portcullis/taken/v1"
DELIVERY: Final = b"portcullis/delivery/v1"
SESSION: Final = b"portcullis/session/v1"
IN_SESSION: Final = b"portcullis/in-session/v1"
SUBSCRIBE: Final = b"portcullis/subscribe/v1"
CONFIRM: Final = b"portcullis/confirm/v1"
BACKLOG: Final = b"portcullis/backlog/v1"
REPLY: Final = b"portcullis/reply/v1"
