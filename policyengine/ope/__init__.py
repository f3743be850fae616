"""Order-preserving ciphertexts and the subscription index (SBM, paper 003).

Clients encrypt events and conjunctions of tests; a broker without a key matches them by an
index of bitmaps. Three schemes share the index:

- **SBM-I**: exact random order-preserving encryption; the broker compares ciphertexts.
- **SBM-II**: ciphertexts show nothing; a comparator, alone able to decrypt, tells the broker
  the order of bounds, which become mutable codes, and the place of an event's value.
- **plain**: points in clear, the oracle of the other two.

What the broker learns, by design: names of attributes, which of them an event has and a
subscription looks at; where an event's value lies among the bounds, equality included, so
the order of all bounds and which events fall between the same two. **Where a domain is used
densely - a bound at each of its values - the place is the value**, in SBM-I and SBM-II alike.
SBM-I shows more: the same value has the same ciphertext in every event, order holds between
events too, and a ciphertext's size tells about the upper half of the bits of the plaintext;
numbers of large domains show after how many bytes they part, texts their length and how
far they agree (not the order of letters). Words (bool, enum) stand in a random order.
So this protection is for values that may be learned in the end, never for identifying or
confidential ones.
"""

from policyengine.ope.broker import (
    Broker,
    Codes,
    ope_match,
    plain_broker,
    sbm1_broker,
    sbm2_broker,
)
from policyengine.ope.ciphers import DigitCipher, TableCipher, TextCipher, cipher_of
from policyengine.ope.clients import Client, plain_client, sbm1_client, sbm2_client
from policyengine.ope.comparator import (
    Comparator,
    KeyedComparator,
    Question,
    answers_from_bytes,
    answers_to_bytes,
    questions_from_bytes,
    questions_to_bytes,
)
from policyengine.ope.conjunctions import conjunction, parse_conjunction
from policyengine.ope.filters import RangeIndex
from policyengine.ope.functions import MAX_DOMAIN, OrderTable, random_set
from policyengine.ope.index import COMPACT_ROWS, ROWS, SubscriptionIndex
from policyengine.ope.keys import (
    ComparatorKey,
    KeyringComparator,
    RangeKey,
    Slot,
    form_of,
    split_column,
)
from policyengine.ope.layout import Column, Layout
from policyengine.ope.orders import SortedLocator, TreeLocator
from policyengine.ope.ranges import (
    ORDER,
    RangeCipher,
    RangeFilter,
    RangeValues,
    split_filter,
)
from policyengine.ope.wire import EncryptedEvent, EncryptedSubscription, Range, Scheme

__all__ = [
    "COMPACT_ROWS",
    "MAX_DOMAIN",
    "ORDER",
    "ROWS",
    "Broker",
    "Client",
    "Codes",
    "Column",
    "Comparator",
    "ComparatorKey",
    "DigitCipher",
    "EncryptedEvent",
    "EncryptedSubscription",
    "KeyedComparator",
    "KeyringComparator",
    "Layout",
    "OrderTable",
    "Question",
    "Range",
    "RangeCipher",
    "RangeFilter",
    "RangeIndex",
    "RangeKey",
    "RangeValues",
    "Scheme",
    "Slot",
    "SortedLocator",
    "SubscriptionIndex",
    "TableCipher",
    "TextCipher",
    "TreeLocator",
    "answers_from_bytes",
    "answers_to_bytes",
    "cipher_of",
    "conjunction",
    "form_of",
    "ope_match",
    "parse_conjunction",
    "plain_broker",
    "plain_client",
    "questions_from_bytes",
    "questions_to_bytes",
    "random_set",
    "sbm1_broker",
    "sbm1_client",
    "sbm2_broker",
    "sbm2_client",
    "split_column",
    "split_filter",
]
