"""What the journal's entries add up to: the newest revision that was signed for each audience."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tasks.authority.refusals import RefusedError

SIGNED: Final = "bundle.signed"
OPENED: Final = "journal.opened"
SERVING: Final = "authority.serving"
ENROLLED: Final = "enrol_blind_clients"
AUDITED: Final = "sign_checkpoint"
AUDIT_FORGOTTEN: Final = "audit.forgotten"
RESTORED: Final = "authority.restored"
COUNTED: Final = "answers.counted"
# Clients are enrolled in at most two blind epochs at once.
_EPOCHS: Final = 3
_STALE: Final = "revision"


class Ledger:
    """Revisions by domain and audience, each with a digest of what was signed in each form.

    A form is all that a message says of itself beside its content: the whole of a revision, or
    what leads to it from another one.
    """

    def __init__(self) -> None:
        self._signed: dict[tuple[str, str], tuple[int, dict[str, str]]] = {}
        self._enrolled: dict[tuple[str, int], dict[str, str]] = {}
        self.tally = 0
        """Number of the newest tally whose counts stand in the journal."""
        self.audit: tuple[int, str] = (0, "")
        """Size and root, base64url, of the newest audit that was signed."""
        self.epoch = 0
        """The newest epoch in which this authority, or the one it follows, began to serve."""

    def top(self, domain: str) -> int:
        """The highest revision of the domain that was signed for anybody, 0 before the first."""
        found = [held[0] for (name, _), held in self._signed.items() if name == domain]
        return max(found, default=0)

    def mark(self, domain: str, epoch: int, handle: str) -> str:
        """What an enrolment of a client in a blind epoch is known by; empty without one."""
        return self._enrolled.get((domain, epoch), {}).get(handle, "")

    def check(self, domain: str, audience: str, revision: int, form: str, content: str) -> None:
        """See whether this may be signed.

        Raises:
            RefusedError: a newer revision was signed, or this one with another content.
        """
        held, forms = self._signed.get((domain, audience), (0, {}))
        if revision < held:
            raise RefusedError(
                f"revision {held} of `{domain}` was signed for `{audience}`: "
                f"revision {revision} goes back",
                code=_STALE,
            )
        if revision == held and forms.get(form, content) != content:
            raise RefusedError(
                f"revision {revision} of `{domain}` was signed for `{audience}` "
                "with another content",
                code=_STALE,
            )

    def take(self, domain: str, audience: str, revision: int, form: str, content: str) -> None:
        """Remember what is about to be signed."""
        held, forms = self._signed.get((domain, audience), (0, {}))
        kept = forms if held == revision else {}
        self._signed[domain, audience] = (revision, {**kept, form: content})

    def apply(self, entry: Mapping[str, Any]) -> None:
        """Add an entry of the journal."""
        kind = entry.get("op")
        if kind == SIGNED and entry.get("outcome") == "done":
            place = entry["domain"], entry["audience"]
            self.take(*place, entry["revision"], entry["form"], entry["content"])
        elif kind == COUNTED:
            self.tally = max(self.tally, entry["tally"])
        elif kind == ENROLLED and entry.get("outcome") == "done":
            self._enrol(entry["domain"], entry["epoch"], entry["enrolled"])
        elif kind == AUDITED and entry.get("outcome") == "done":
            self.audit = (entry["size"], entry["root"])
        elif kind == AUDIT_FORGOTTEN:
            self.audit = (0, "")
        elif kind in (SERVING, RESTORED):
            self.epoch = max(self.epoch, entry["epoch"])
        elif kind == OPENED:
            self._restore(entry["signed"])
            self._enrolled = {(name, epoch): held for name, epoch, held in entry["enrolled"]}
            self.tally, self.epoch = entry["tally"], entry["epoch"]
            self.audit = (entry["audit"][0], entry["audit"][1])

    def to_json(self) -> dict[str, Any]:
        """All of it, for the first entry of a part of the journal."""
        signed = [[*place, *held] for place, held in sorted(self._signed.items())]
        more = {"tally": self.tally, "epoch": self.epoch, "audit": list(self.audit)}
        marks = [[*place, held] for place, held in sorted(self._enrolled.items())]
        return {"signed": signed, "enrolled": marks, **more}

    def _enrol(self, domain: str, epoch: int, marks: Mapping[str, str]) -> None:
        self._enrolled.setdefault((domain, epoch), {}).update(marks)
        for place in [place for place in self._enrolled if place[0] == domain]:
            if place[1] <= epoch - _EPOCHS:
                del self._enrolled[place]

    def _restore(self, document: list[list[Any]]) -> None:
        self._signed = {
            (domain, audience): (revision, dict(forms))
            for domain, audience, revision, forms in document
        }
