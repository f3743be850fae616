"""The publisher's and subscriber's library (the proxies PxP and PxC of PP-DEBS)."""

from brokers.client.assembly import Event
from brokers.client.errors import ProfileError, Refused
from brokers.client.profile import create_profile
from brokers.client.publisher import Handle, Published, Publisher
from brokers.client.subscriber import Subscriber

__all__ = [
    "Event",
    "Handle",
    "ProfileError",
    "Published",
    "Publisher",
    "Refused",
    "Subscriber",
    "create_profile",
]
