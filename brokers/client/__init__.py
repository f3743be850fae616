"""The publisher's and subscriber's library (the proxies PxP and PxC of PP-DEBS)."""

from brokers.client.aside import SetAside
from brokers.client.assembly import Event
from brokers.client.asynchronous import AsyncPublisher, AsyncSubscriber
from brokers.client.dispatch import Published
from brokers.client.errors import (
    BadRequest,
    BufferFull,
    ClientError,
    NotAuthorised,
    NotReady,
    ProfileError,
    Refused,
    TimedOut,
    TooOften,
)
from brokers.client.filterkeys import FilterKey
from brokers.client.outbox import RefusedEvent
from brokers.client.profile import create_profile
from brokers.client.publisher import Handle, Publisher
from brokers.client.subscriber import Subscriber

__all__ = [
    "AsyncPublisher",
    "AsyncSubscriber",
    "BadRequest",
    "BufferFull",
    "ClientError",
    "Event",
    "FilterKey",
    "Handle",
    "NotAuthorised",
    "NotReady",
    "ProfileError",
    "Published",
    "Publisher",
    "Refused",
    "RefusedEvent",
    "SetAside",
    "Subscriber",
    "TimedOut",
    "TooOften",
    "create_profile",
]
