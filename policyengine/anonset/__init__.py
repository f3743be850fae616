"""Anonymous sets: blinding, encoding, matching, sizing (PS-ACF).

What an agent can tell, within its own key (one agent, domain and epoch):

- which policies are equal or share attributes (masks do not hide it), and how many
  elements a policy has;
- which subjects share an attribute (`bloom`: BF_t with BF_i; `tokens`: plainly);
- which subjects a policy grants, and at which places of their conjunctions.

What it cannot: names and values of attributes, how many attributes a subject has
(conjunctions are padded to n and shuffled), and anything across two agents, domains
or epochs. Padding is fresh for each encoding: encode a subject once an epoch and keep
the result, since two encodings of one subject show which elements are padding. Between
`bloom` and `tokens` the difference is size and false grants, not what leaks.
"""

from policyengine.anonset.batch import SubjectMatrix, encode_many
from policyengine.anonset.encoder import Encoder
from policyengine.anonset.matching import Match, match
from policyengine.anonset.parameters import (
    ENCODINGS,
    Encoding,
    Parameters,
    false_positive,
    fill,
    length_for,
    size_for,
)
from policyengine.anonset.tags import tag, tags

__all__ = [
    "ENCODINGS",
    "Encoder",
    "Encoding",
    "Match",
    "Parameters",
    "SubjectMatrix",
    "encode_many",
    "false_positive",
    "fill",
    "length_for",
    "match",
    "size_for",
    "tag",
    "tags",
]
