"""What must not work: unknown types, and bundles that are forged, expired or somebody else's."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from adminapp.core.authority import AuthorityClient
from brokers.adapters.brokers_file import BrokersFile
from brokers.adapters.files import BundleFolder, Keys
from brokers.adapters.rootfile import load_anchors
from brokers.adapters.stomp import StompTransport
from brokers.client import Refused
from policyengine.bundles import (
    AgentContent,
    OpenedBundle,
    build_bundle,
    control_queue,
    encode_control,
    open_bundle,
)
from policyengine.primitives.signatures import generate_signing_key, sign
from tasks.local.demo.report import Step
from tasks.local.demo.world import World, require, wait

_AGENT, _OTHER, _DOMAIN = "alpha", "beta", "heating"
_HOUR = 3600


@dataclass(frozen=True)
class Forgery:
    """A bundle that must be refused, and the reason that the agent must give."""

    what: str
    message: bytes
    reasons: tuple[str, ...]


def refusals(step: Step, world: World) -> None:
    """Each is refused, the agent says why, and the control plane's pages show it."""
    _unknown_type(step, world)
    _bad_expression(step, world)
    before = world.agent_status(_AGENT)["domains"][_DOMAIN]["revision"]
    forgeries = _forgeries(world)
    for forgery in forgeries:
        _refused(step, world, forgery)
    after = world.agent_status(_AGENT)["domains"][_DOMAIN]["revision"]
    step.equal("the agent still holds the revision that it held", after, before)
    _shown(step, world, {reason for forgery in forgeries for reason in forgery.reasons})


def _unknown_type(step: Step, world: World) -> None:
    publisher = world.clients.publishers["flights", "ewr"]
    try:
        publisher.publish("Submarine", {"depth": 100}, timeout=20.0)
        answer = "accepted"
    except Refused as refusal:
        answer = refusal.reason
    step.equal("an event of an unknown type is answered", answer, "unknown-type")

    def told() -> list[str]:
        last = world.agent_status(_AGENT)["last_refusals"]
        return [entry["reason"] for entry in last if entry["type"] == "Submarine"]

    # It answers first and counts afterwards.
    wait("alpha to tell of the refusal", lambda: bool(told()), seconds=60)
    step.equal("and the agent's status tells of it", told(), ["unknown-type"])


def _bad_expression(step: Step, world: World) -> None:
    form = world.manager.get("/d/heating/policies/new/").form(containing="expression")
    wrong = 'subject.type == "individual" && && event.value > 3'
    fields = {"name": "broken", "event_type": "Consumption", "expression": wrong}
    page = world.manager.submit(form, fields)
    place = f'data-place="{wrong.index("&& event")}"'
    step.equal("a policy that does not parse is refused", page.status, 422)
    step.true("and the form points at the place", place in page.text, place)
    names = {row["name"] for row in world.rows("policies?domain=heating")}
    step.true("and no policy was made", "broken" not in names)


def _forgeries(world: World) -> list[Forgery]:
    """Made from alpha's real bundle, with its keys and the real authority: the worst case."""
    opened = _in_force(world, _AGENT)
    stranger = generate_signing_key()
    authority = AuthorityClient(world.layout.authority_socket)

    def honest(context: bytes, payload: bytes) -> bytes:
        return authority.sign("policy", context, payload)

    try:
        return [
            Forgery(
                "a bundle signed by a stranger",
                _build(world, opened, lambda c, p: sign(stranger, c, p)),
                ("signature",),
            ),
            Forgery(
                "an unsigned bundle",
                _build(world, opened, lambda _c, _p: b""),
                ("signature", "malformed"),
            ),
            Forgery(
                "an expired bundle", _build(world, opened, honest, age=8 * 24 * _HOUR), ("expired",)
            ),
            Forgery(
                "a bundle for another agent",
                _build(world, _readdressed(opened), honest),
                ("audience",),
            ),
            Forgery(
                "another agent's own bundle",
                _message(world, _OTHER),
                ("audience", "malformed"),
            ),
        ]
    finally:
        authority.close()


def _message(world: World, agent: str) -> bytes:
    message = BundleFolder(world.layout.agent(agent) / "bundles").load(_DOMAIN)
    assert message is not None, f"{agent} keeps no bundle of {_DOMAIN}"
    return message


def _in_force(world: World, agent: str) -> OpenedBundle:
    return open_bundle(
        _message(world, agent),
        key=Keys.load(world.layout.agent(agent) / "keys.json").sealing,
        audience=f"agent:{agent}",
        domain=_DOMAIN,
        policy_key=load_anchors(world.layout.anchors).policy,
    )


def _readdressed(opened: OpenedBundle) -> OpenedBundle:
    assert isinstance(opened.content, AgentContent)
    audience = f"agent:{_OTHER}"
    return replace(
        opened,
        header=replace(opened.header, audience=audience),
        content=replace(opened.content, agent=_OTHER),
    )


def _build(
    world: World, opened: OpenedBundle, sign_: Callable[[bytes, bytes], bytes], *, age: int = 0
) -> bytes:
    now = int(time.time())
    header = opened.header
    return build_bundle(
        domain=header.domain,
        audience=header.audience,
        revision=header.revision + 1,
        previous="",
        issued=now - age,
        expires=now - age + 7 * 24 * _HOUR,
        root_version=header.root_version,
        content=opened.content,
        sign=sign_,
        recipient=Keys.load(world.layout.agent(_AGENT) / "keys.json").sealing.public,
    ).message


def _refused(step: Step, world: World, forgery: Forgery) -> None:
    known = len(world.agent_status(_AGENT)["refused_bundles"])
    brokers = BrokersFile.load(world.layout.brokers_file("control"))
    transport = StompTransport(brokers.control_broker(), name="forger")
    try:
        transport.connect(10.0)
        body = encode_control("bundle", _DOMAIN, forgery.message)
        transport.send(control_queue(f"agent:{_AGENT}"), body)
    finally:
        transport.close()

    def told() -> list[dict[str, str]]:
        found: list[dict[str, str]] = world.agent_status(_AGENT)["refused_bundles"]
        return found[: len(found) - known]

    wait(f"alpha to refuse {forgery.what}", lambda: bool(told()), seconds=60)
    reason = told()[0]["reason"]
    step.true(f"{forgery.what} is refused", reason in forgery.reasons, reason)


def _shown(step: Step, world: World, reasons: set[str]) -> None:
    heading = "Refused bundles from elsewhere"
    wanted = sorted({"audience", "expired", "signature"} & reasons)

    def named() -> list[str]:
        page = require(world.manager.get(f"/agents/{_AGENT}/"), 200).words
        shown = page.partition(heading)[2]
        return [reason for reason in wanted if reason in shown]

    # Each refusal comes in an acknowledgement of its own.
    wait("the control plane to hear of it", lambda: named() == wanted, seconds=60, step=0.5)
    step.equal("the console's page of the agent tells of it", named(), wanted)
    audit = require(world.manager.get("/audit/?action=bundle.refused"), 200).words
    step.true("and the audit keeps it", "bundle.refused" in audit or "refused" in audit)
