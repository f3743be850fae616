"""What agents do: finish trapdoors and filters, match, pre-decrypt; they read nothing.

An agent may do something for a client only while it holds the client's share.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from policyengine import sde
from policyengine.blind.filters import BlindFilter
from policyengine.blind.keys import AgentShare
from policyengine.blind.parts import BlindDelivery, BlindPart, RoutedBlind, Searchable
from policyengine.blind.sealing import check_place, half_open


@dataclass(frozen=True, slots=True)
class FinishedAlternative:
    """One way in which an event can meet a filter, ready to be matched.

    Args:
        clear: what must hold of clear attributes, as text; empty where nothing.
        search: what must hold of searchable ones; None where nothing.
    """

    clear: str
    search: sde.EncryptedFilter | None


def finish_part(share: AgentShare, part: BlindPart, names: Collection[str]) -> RoutedBlind:
    """Do the home agent's part for a publisher (paper 001, section 5.2; 004, step 16).

    Args:
        share: the agent's share of the publisher.
        part: as it came.
        names: attributes that the publisher may write; others go on as absent.

    Raises:
        RejectedError: `blind-epoch`, or `system` or `user` when the share is not the
            publisher's.
        DecryptionError: trapdoors that no honest publisher makes.
    """
    check_place(share.place, part.place)
    searchable = []
    for one in part.searchable:
        kept = one.present if one.name in names else None
        present = None if kept is None else sde.reencrypt_event(share.search, kept)
        absent = sde.reencrypt_event(share.search, one.absent)
        searchable.append(Searchable(one.name, absent, present))
    always = None if part.always is None else sde.reencrypt_event(share.search, part.always)
    return RoutedBlind(part.place, always, tuple(searchable), part.values.only(names))


def finish_filter(share: AgentShare, blind: BlindFilter) -> tuple[FinishedAlternative, ...]:
    """Do the home agent's part for a subscriber (paper 001, section 5.3; 004, step 7).

    Args:
        share: the agent's share of the subscriber.
        blind: as it came.

    Raises:
        RejectedError: `blind-epoch`, or `system` or `user` when the share is not the
            subscriber's.
        DecryptionError: leaves that no honest subscriber makes.
    """
    check_place(share.place, blind.place)
    return tuple(
        FinishedAlternative(
            one.clear,
            None if one.search is None else sde.reencrypt_filter(share.search, one.search),
        )
        for one in blind.alternatives
    )


def predecrypt(
    share: AgentShare, routed: RoutedBlind, names: Collection[str]
) -> BlindDelivery | None:
    """Pre-decrypt for a subscriber (paper 004, step 19).

    Args:
        share: the agent's share of the subscriber.
        routed: the part.
        names: attributes that the subscriber may read; others are left out.

    Returns:
        What the subscriber gets; None where it gets no value.

    Raises:
        RejectedError: `blind-epoch` when the share is of another epoch.
        DecodeError: the part's lock is none.
    """
    check_place(share.place, routed.place)
    values = routed.values.only(names)
    if not values.sealed:
        return None
    return BlindDelivery(routed.place, half_open(share, routed.place, values.lock), values)
