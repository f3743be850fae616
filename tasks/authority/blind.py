"""Keys of the blind profiles: masters made here, leaving only sealed to who is to hold what.

A master leaves the authority wrapped under the key-encryption key, a client's keys sealed for
that client, the agent's share sealed for that agent, a key of an order-preserving attribute
sealed for a client or a comparator. Everything is drawn from the master, so asking twice gives
the same keys in another seal, and nothing but the master has to be kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from policyengine.blind import BlindMaster
from policyengine.bundles.authority_seals import SecretKind, seal_secret
from policyengine.ope import RangeKey, Slot
from policyengine.ope.keys import ORDER_SCHEMES
from policyengine.primitives import canonical
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import RandomSource
from tasks.authority.answers import Answer
from tasks.authority.lane import Lane
from tasks.authority.refusals import RefusedError
from tasks.authority.store import AuthorityState

MAX_BATCH: Final = 1024
"""Most clients, handles or attributes of one request."""
MAX_TOKENS: Final = 4096
"""Most tokens of one variant of a subject."""
_NAME: Final = re.compile(r"[a-z0-9-]{1,64}\Z")
_ATTRIBUTE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_@]{0,63}\Z")
_MAX_EPOCH: Final = 10**9
_MARK: Final = b"portcullis/enrolment-mark/v1"
_ORDER: Final = b"portcullis/order-key/v1"
# INVARIANT: an agent is never given a key of an order-preserving attribute: it would read it.
_ORDER_READERS: Final = ("client", "comparator")


class BlindOperations:
    """The operations about blind epochs, over the authority's state.

    Args:
        state: holds the key-encryption key.
        random: for wrapping.
        lane: where the heavy work is done.
    """

    def __init__(self, state: AuthorityState, random: RandomSource, lane: Lane) -> None:
        self._state = state
        self._random = random
        self._lane = lane

    def create_blind_master(self, *, domain: str, epoch: int) -> dict[str, Any]:
        """A fresh master of a domain's blind epoch, wrapped, and its public key."""
        key_id = key_id_of(domain, epoch)
        made = self._lane("master", {"domain": domain, "epoch": epoch})
        master = canonical.unb64(made["secret"])
        return {
            "wrapped": self._state.wrap(key_id, master, self._random),
            "public": made["public"],
        }

    def enrol_blind_clients(
        self, *, domain: str, epoch: int, wrapped: str, clients: list[dict[str, Any]]
    ) -> Answer:
        """Each client's keys, for its subject's tokens, sealed for that client."""
        secret = self._master(domain, epoch, wrapped)
        # INVARIANT: everything is checked here; the lane works and judges nothing.
        checked = [checked_client(entry) for entry in _batch(clients)]
        work = {"secret": canonical.b64(secret), "clients": checked}
        marks = {client["handle"]: mark_of(secret, client) for client in checked}
        place = {"domain": domain, "epoch": epoch, "enrolled": marks}
        return Answer({"sealed": self._lane("enrol", work)}, place)

    def share_blind(
        self,
        *,
        domain: str,
        epoch: int,
        wrapped: str,
        agent: str,
        recipient: str,
        handles: list[str],
    ) -> dict[str, Any]:
        """An agent's shares for the clients at home there, each sealed for that agent."""
        master = BlindMaster.from_bytes(self._master(domain, epoch, wrapped))
        _check(_NAME, agent, "an agent")
        public = canonical.unb64(recipient)
        found = []
        for handle in _batch(handles):
            _check(_NAME, handle, "a handle")
            sealed = _sealed(
                "share",
                master.share(handle).to_bytes(),
                domain=domain,
                epoch=epoch,
                name=handle,
                recipient=public,
                audience=f"agent:{agent}",
            )
            found.append(sealed)
        return {"sealed": found}

    def seal_order_keys(
        self,
        *,
        domain: str,
        epoch: int,
        wrapped: str,
        audience: str,
        recipient: str,
        scheme: str,
        attributes: list[list[str]],
    ) -> dict[str, Any]:
        """The keys of order-preserving attributes, each sealed for one client or comparator.

        A client's make ciphertexts, a comparator's compare those of SBM-II and do nothing else.
        """
        secret = self._master(domain, epoch, wrapped)
        kind, _, name = _text(audience).partition(":")
        if kind not in _ORDER_READERS:
            raise RefusedError("keys of this kind go to clients and comparators only")
        if scheme not in ORDER_SCHEMES:
            raise RefusedError("not a scheme of order-preserving encryption")
        _check(_NAME, name, "an audience")
        public = canonical.unb64(recipient)
        found = []
        for entry in _batch(attributes):
            event_type, attribute = _pair(entry)
            place = (event_type.encode(), attribute.encode())
            drawn = derive(secret, info=canonical.pack(_ORDER, scheme.encode(), *place))
            key = RangeKey(Slot(domain, event_type, attribute, epoch), scheme, drawn)
            held = key if kind == "client" else key.comparator_key()
            sealed = _sealed(
                "order",
                held.to_bytes(),
                domain=domain,
                epoch=epoch,
                name=f"{event_type}.{attribute}",
                recipient=public,
                audience=audience,
            )
            found.append(sealed)
        return {"sealed": found}

    def _master(self, domain: str, epoch: int, wrapped: str) -> bytes:
        return self._state.unwrap(key_id_of(domain, epoch), _text(wrapped))


def mark_of(secret: bytes, client: Mapping[str, Any]) -> str:
    """What the journal keeps of an enrolment: nothing to guess tokens by without the master.

    Whether the client's own keys read is not in it: by its tokens it may ask for keys of filters.
    """
    told = canonical.dumps([client["handle"], client["variants"]])
    return derive(secret, info=canonical.pack(_MARK, told))[:16].hex()


def _sealed(kind: SecretKind, secret: bytes, **place: Any) -> str:
    return canonical.b64(seal_secret(kind, secret, **place))


def key_id_of(domain: str, epoch: int) -> str:
    """The name that the master of a domain's blind epoch is wrapped under."""
    _check(_NAME, domain, "a domain")
    if type(epoch) is not int or not 0 < epoch < _MAX_EPOCH:
        raise RefusedError("not the number of an epoch")
    return f"blind:{domain}:master:{epoch}"


def checked_client(entry: object) -> dict[str, Any]:
    """Handle, variants and recipient of a client, and whether its keys read (`reads`; they do
    where nothing is said); raises RefusedError for anything else.
    """
    if not isinstance(entry, dict) or set(entry) - {"reads"} != {"handle", "variants", "recipient"}:
        raise RefusedError("a client has a handle, variants and a recipient")
    reads = entry.get("reads", True)
    if not isinstance(reads, bool):
        raise RefusedError("whether a client's keys read is true or false")
    _check(_NAME, entry["handle"], "a handle")
    variants = [checked_tokens(each) for each in _batch(entry["variants"])]
    canonical.unb64(_text(entry["recipient"]))
    return {
        "handle": entry["handle"],
        "variants": variants,
        "recipient": entry["recipient"],
        "reads": reads,
    }


def checked_tokens(tokens: object) -> list[str]:
    """Tokens, sorted and each once; raises RefusedError for anything else."""
    if not isinstance(tokens, list) or len(tokens) > MAX_TOKENS:
        raise RefusedError("a variant is a list of tokens")
    if not all(isinstance(token, str) and token for token in tokens):
        raise RefusedError("a token is text")
    if tokens != sorted(set(tokens)):
        raise RefusedError("the tokens of a variant are sorted and stand once")
    return tokens


def _pair(entry: object) -> tuple[str, str]:
    if not isinstance(entry, list) or len(entry) != 2:
        raise RefusedError("an attribute is a pair of type and name")
    for name in entry:
        _check(_ATTRIBUTE, name, "an attribute")
    return entry[0], entry[1]


def _batch(items: object) -> Sequence[Any]:
    if not isinstance(items, list) or len(items) > MAX_BATCH:
        raise RefusedError(f"a request has a list of at most {MAX_BATCH}")
    return items


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise RefusedError("missing, unknown or mistyped field")
    return value


def _check(pattern: re.Pattern[str], value: object, what: str) -> None:
    if not isinstance(value, str) or not pattern.match(value):
        raise RefusedError(f"not the name of {what}")
