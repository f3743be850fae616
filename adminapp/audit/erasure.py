"""Destroys what identifies somebody in the audit, and leaves the log whole.

Hashes cover pseudonyms and ciphertext. Without the salt neither tells anything, and no key of
anybody brings it back; copies of the database from before must go in their own time.
"""

from __future__ import annotations

from django.utils import timezone

from adminapp.audit.models import Actor, Person
from adminapp.audit.services import change


@change
def erase_person(*, pseudonym: str) -> bool:
    """Make every entry about this person unreadable for ever; False if that was so already.

    Of entries that come later nothing is kept either: the pseudonym stays, to know it by.
    """
    now = timezone.now()
    _person, created = Person.objects.get_or_create(
        pseudonym=pseudonym, defaults={"erased_at": now}
    )
    known = Person.objects.filter(pseudonym=pseudonym, erased_at__isnull=True)
    return bool(known.update(salt=None, erased_at=now)) or created


@change
def erase_actor(*, user_id: int) -> bool:
    """Forget the names under which a user made changes; the entries stay one person's doing."""
    known = Actor.objects.filter(user_id=user_id, erased_at__isnull=True)
    return bool(known.update(name="", salt=None, erased_at=timezone.now()))
