"""Multi-user searchable encryption of events and filters (paper 001, sections 4 and 5).

Publishers and subscribers share no key with one another that a broker has, and the broker
matches encrypted events with encrypted filters. What a broker learns:

- which filters an event satisfies, and which leaf by which trapdoor;
- which events have an element in common (TD is the same each time), and how often each
  comes: on a small set of values, with a guess at their frequencies, that tells values;
- how many trapdoors an event has, rounded up to the padding;
- the gates of a filter, how many leaves it has and which of them are negated.

What it does not: labels, values, which leaves of filters are equal before an event met
them, or the answer to a guess, since it does not hold the PRF's key. A broker together with
any one user, however, recovers x and that key, and with them everything (`keys`).
Nothing here is authenticated: that is the matter of the envelope around it.
"""

from policyengine.sde.broker import Shares
from policyengine.sde.events import (
    MAX_TRAPDOORS,
    PADDING,
    EncryptedEvent,
    PreparedEvent,
    UserEvent,
    encrypt_event,
    reencrypt_event,
)
from policyengine.sde.filters import (
    EncryptedFilter,
    PreparedFilter,
    UserFilter,
    encrypt_filter,
    reencrypt_filter,
)
from policyengine.sde.group import GroupName
from policyengine.sde.keys import BrokerKey, MasterKey, UserKey, init, keygen
from policyengine.sde.making import TrapdoorMaker
from policyengine.sde.matcher import MEMORY, Matcher
from policyengine.sde.matching import matches
from policyengine.sde.oneshot import sde_match
from policyengine.sde.wire import System

__all__ = [
    "MAX_TRAPDOORS",
    "MEMORY",
    "PADDING",
    "BrokerKey",
    "EncryptedEvent",
    "EncryptedFilter",
    "GroupName",
    "MasterKey",
    "Matcher",
    "PreparedEvent",
    "PreparedFilter",
    "Shares",
    "System",
    "TrapdoorMaker",
    "UserEvent",
    "UserFilter",
    "UserKey",
    "encrypt_event",
    "encrypt_filter",
    "init",
    "keygen",
    "matches",
    "reencrypt_event",
    "reencrypt_filter",
    "sde_match",
]
