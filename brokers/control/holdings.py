"""What one audience holds of what the control plane said, and what follows from it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from brokers.control.lease import LeaseBook
from brokers.control.sync import epochs_of, held_report
from policyengine.bundles import Content, Lease, Root, TrustedState


@dataclass(frozen=True)
class ControlView:
    """What is known on the control side at one moment; `root` is None where keys are pinned."""

    state: TrustedState
    book: LeaseBook
    root: Root | None = None


class Holdings:
    """The trusted state, the leases, and which bundles are in force in memory.

    One thread changes it; others read `view`, which is replaced as a whole.

    Args:
        state: as the disk keeps it.
        root: the root that is trusted; None where only keys are pinned.
    """

    def __init__(self, state: TrustedState, root: Root | None) -> None:
        self.view = ControlView(state, LeaseBook.empty(), root)
        self._epochs: dict[str, dict[int, str]] = {}
        self._below: dict[str, int] = {}

    # what follows from it

    def in_force(self, domain: str) -> bool:
        """Whether the bundle that the state names is in force, and not on disk alone."""
        return domain in self._epochs

    def standing(self, domain: str, boot: float) -> str:
        """Whether a domain's events may be handled at a moment, and if not, why.

        Args:
            domain: name of the domain.
            boot: boot time in seconds.
        """
        view = self.view
        held = view.state.revisions.get(domain)
        if held is None:
            return "no-policy"
        if held.revision < max(self._below.get(domain, 0), view.state.floors_of(domain).revision):
            return "behind-revision"
        return view.book.standing(
            domain,
            boot=boot,
            revision=held.revision,
            notice=view.state.notices.get(domain, 0),
        )

    def report(self) -> dict[str, dict[str, Any]]:
        """What is held, as lease requests and acknowledgements tell it.

        Only what is in force: a bundle whose file is damaged is asked for again.
        """
        report = held_report(self.view.state, self._epochs)
        for domain, entry in report.items():
            if domain not in self._epochs:
                entry.update(revision=0, digest="")
        return report

    # changes

    def put_into_force(self, domain: str, content: Content, state: TrustedState) -> None:
        """A bundle's content was swapped in; `state` is on disk."""
        self._epochs = {**self._epochs, domain: epochs_of(content)}
        self.keep(state)

    def wait_for(self, domain: str, revision: int) -> None:
        """Handle nothing of a domain below a revision; counts before the notice is on disk."""
        self._below = {**self._below, domain: revision}

    def keep(self, state: TrustedState) -> None:
        """Another trusted state is on disk."""
        self.view = replace(self.view, state=state)

    def ask(self, nonce: str, boot: float) -> None:
        """A question for a lease is about to leave; see `LeaseBook.ask`."""
        self.view = replace(self.view, book=self.view.book.ask(nonce, boot))

    def answer(self, lease: Lease) -> None:
        """Take a verified lease; raises what `LeaseBook.answer` does."""
        self.view = replace(self.view, book=self.view.book.answer(lease))

    def follow(self, root: Root | None, state: TrustedState) -> None:
        """Another root is trusted; both are on disk.

        INVARIANT: no lease that the keys before vouched for counts on.
        """
        self._epochs = _within(self._epochs, state)
        self.view = ControlView(state, self.view.book.without_leases(), root)


def _within(epochs: Mapping[str, dict[int, str]], state: TrustedState) -> dict[str, dict[int, str]]:
    return {name: held for name, held in epochs.items() if name in state.revisions}
