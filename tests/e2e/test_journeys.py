"""What people come for, played in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import PASSWORD, Heard, Site, sign_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Open = Callable[..., Page]


def test_signing_in_goes_on_to_the_page_that_was_asked_for(open_as: Open) -> None:
    page = open_as("")
    page.goto("/d/flights/policies/")
    page.get_by_label("Name").fill("mona")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_contain_text("do not go together")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/d/flights/policies/")
    page.locator(".user-menu summary").click()
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in/**")


def test_editing_a_policy_from_an_error_to_the_plan_to_the_agents(
    site: Site, open_as: Open
) -> None:
    page = open_as("mona")
    page.goto("/d/flights/policies/p/own arrivals/")
    page.get_by_role("link", name="Change", exact=True).click()
    page.wait_for_url("**/edit/")  # with its scripts, which check as one types
    field = page.get_by_role("textbox", name="Condition")
    field.fill('subject.type == "airport" && event.orign == "JFK"')
    verdict = page.locator("#verdict")
    expect(verdict.locator("mark")).to_have_text("event.orign")
    expect(verdict).to_contain_text("event.origin")
    verdict.get_by_role("button", name=re.compile("Go to the place")).click()
    chosen = field.evaluate("e => e.value.slice(e.selectionStart, e.selectionEnd)")
    assert chosen == "event.orign"

    page.get_by_role("button", name="Show the plan").click()
    page.wait_for_url("**/plan/")
    expect(page.locator("#verdict mark")).to_have_text("event.orign")

    field.fill('subject.type == "airport" && event.origin == "JFK"')
    expect(verdict).to_contain_text("This can be enforced")
    page.get_by_role("button", name="Show the plan").click()
    gains = page.locator("section", has=page.get_by_role("heading", name="Who gains what"))
    losses = page.locator("section", has=page.get_by_role("heading", name="Who loses what"))
    expect(gains).to_contain_text("ewr")
    expect(losses).to_contain_text("event.origin is EWR")
    expect(page.get_by_text("alpha, beta, gamma")).to_be_visible()

    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status").filter(has_text="is changed")).to_be_visible()
    expect(page.locator("code.expression")).to_have_text(
        'subject.type == "airport" && event.origin == "JFK"'
    )
    page.get_by_role("link", name="What changed").click()
    expect(page.locator("dd.add").first).to_contain_text("event.origin ==")
    page.get_by_role("button", name="Put back").click()
    expect(page.locator("code.expression")).to_contain_text("subject.airport == event.origin")
    site.stage("compile", "flights")


def test_a_stale_edit_shows_both_changes_and_can_be_retried(site: Site, open_as: Open) -> None:
    page = open_as("mona")
    page.goto("/d/flights/policies/p/own departures/edit/")
    page.get_by_role("textbox", name="Title").fill("What I want")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Apply").wait_for()
    site.stage("touch-policy", "flights", "own departures")
    with page.expect_response(lambda r: r.request.method == "POST") as answered:
        page.get_by_role("button", name="Apply").click()
    assert answered.value.status == 409
    expect(page.get_by_role("alert")).to_contain_text("changed since this plan was made")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody changed this policy")
    expect(page.get_by_role("alert")).to_contain_text("Changed meanwhile")
    expect(page.get_by_role("textbox", name="Title")).to_have_value("What I want")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_text("What I want")).to_be_visible()


def test_revoking_asks_for_the_name_and_leads_to_the_live_page(site: Site, open_as: Open) -> None:
    page = open_as("mona")
    page.goto("/d/flights/principals/p/WN/")
    page.get_by_role("link", name="Revoke", exact=True).click()
    page.wait_for_url("**/revoke/")
    expect(page.get_by_text("event.carrier is WN")).to_be_visible()
    button = page.get_by_role("button", name="Revoke WN")
    expect(button).to_be_disabled()
    page.get_by_label("Why").fill("contract ended")
    page.get_by_label("Type the name to confirm").fill("wn")
    expect(button).to_be_disabled()
    page.get_by_label("Type the name to confirm").fill("WN")
    button.click()
    page.get_by_role("heading", name="Revocation of WN").wait_for()
    expect(page.get_by_text("0 of 2 agents confirmed")).to_be_visible()
    page.evaluate("window.sameDocument = true")

    site.stage("stop-serving", "flights")
    expect(page.get_by_text("2 of 2 agents confirmed")).to_be_visible()
    site.stage("begin-recompute", "flights")
    expect(page.get_by_role("progressbar", name="Encodings recomputed")).to_be_visible()
    site.stage("carry-out", "flights")
    expect(page.get_by_role("link", name="Download", exact=True)).to_be_visible()
    assert page.evaluate("window.sameDocument") is True


def test_an_agent_that_catches_up_is_seen_without_a_reload(site: Site, open_as: Open) -> None:
    page = open_as("mona")
    page.goto("/agents/")
    page.wait_for_selector("[data-live-mark][data-state=live]")
    page.evaluate("window.sameDocument = true")
    row = page.locator("#holding-beta-flights")
    site.stage("touch-policy", "flights", "own flights")
    site.stage("compile", "flights")
    expect(row).to_contain_text("behind")
    site.stage("hold", "beta", "flights")
    expect(row).to_contain_text("up to date")
    assert page.evaluate("window.sameDocument") is True
    assert re.search(r"updated (just now|\d+ s ago)", page.locator("[data-live-mark]").inner_text())


def test_pages_poll_when_there_is_no_stream(site: Site, open_as: Open, heard: Heard) -> None:
    page = open_as("mona")
    page.route("**/live/", lambda route: route.abort())
    page.goto("/agents/")
    page.wait_for_selector("[data-live-mark][data-state=polling]")
    site.stage("touch-policy", "flights", "own flights")
    expect(page.locator("#holding-gamma-flights")).to_contain_text("behind")
    for agent in ("alpha", "beta", "gamma"):
        site.stage("compile", "flights")
        site.stage("hold", agent, "flights")
    expect(page.locator("#holding-gamma-flights")).to_contain_text("up to date")
    heard.problems[:] = [each for each in heard.problems if "ERR_FAILED" not in each]


def test_the_gate_says_in_plain_words_why_a_class_is_refused(open_as: Open) -> None:
    page = open_as("sten")
    page.goto("/d/heating/classification/")
    row = page.locator("tr", has=page.locator("code", has_text=re.compile("^period$")))
    row.get_by_label("Class of period").select_option("identifying")
    row.get_by_label("Why period").fill("trying")
    row.get_by_role("button", name="Save period").click()
    expect(row.get_by_role("alert")).to_contain_text("key")
    row.get_by_label("Class of period").select_option("non-confidential")
    row.get_by_label("Why period").fill("a calendar month tells nothing")
    row.get_by_role("button", name="Save period").click()
    expect(row.get_by_text("saved")).to_be_visible()
    page.reload()
    expect(row.get_by_label("Why period")).to_have_value("a calendar month tells nothing")


def test_two_attributes_are_put_on_different_overlays(open_as: Open) -> None:
    page = open_as("mona")
    page.goto("/d/flights/classification/")
    for name in ("carrier", "origin"):
        row = page.locator("tr", has=page.locator("code", has_text=re.compile(f"^{name}$")))
        row.get_by_label(f"Class of {name}").select_option("quasi-identifying")
        row.get_by_label(f"Why {name}").fill("narrows it down")
        row.get_by_role("button", name=f"Save {name}").click()
        expect(row.get_by_text("saved")).to_be_visible()
    page.goto("/d/flights/splits/Flight/")
    page.get_by_label("Overlay of carrier").select_option("a")
    page.get_by_role("button", name="Use this split").click()
    expect(page.get_by_role("alert")).to_contain_text("origin is quasi-identifying")
    expect(page.get_by_label("Overlay of carrier")).to_have_value("a")
    page.get_by_label("Overlay of origin").select_option("b")
    page.get_by_role("button", name="Use this split").click()
    expect(page.get_by_text("travel in 2 parts")).to_be_visible()
    page.wait_for_load_state()  # with its scripts, which ask first
    page.get_by_role("button", name="Let events travel whole again").click()
    page.get_by_role("button", name="Travel whole", exact=True).click()
    expect(page.get_by_text("travel whole again.")).to_be_visible()


def test_a_token_is_shown_once(open_as: Open) -> None:
    page = open_as("mona")
    page.goto("/settings/")
    page.get_by_label("Name").fill("nightly report")
    page.get_by_role("button", name="Make a token").click()
    secret = page.locator("#secret").inner_text()
    assert secret.startswith("pct_")
    page.goto("/settings/")
    assert secret not in page.content()
    page.get_by_role("button", name="Revoke token nightly report").click()
    page.get_by_role("button", name="Revoke it").click()
    expect(page.get_by_text("no longer works")).to_be_visible()


def test_an_auditor_sees_everything_and_may_press_nothing(open_as: Open) -> None:
    page = open_as("aldo")
    for address in (
        "/d/flights/policies/",
        "/d/flights/policies/p/long delays/",
        "/d/flights/policies/p/long delays/history/",
        "/d/flights/principals/",
        "/d/flights/principals/p/UA/",
        "/d/flights/keys/",
        "/d/flights/classification/",
        "/d/flights/splits/Flight/",
        "/d/flights/event-types/Flight/",
        "/agents/alpha/",
    ):
        page.goto(address)
        buttons = page.locator("main button:not([type=submit]), main form[method=post] button")
        assert buttons.count() == 0, address
        assert page.locator("main .page-actions a").count() == 0, address


def test_everything_works_from_the_keyboard(open_as: Open) -> None:
    page = open_as("mona")
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip-link"
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("own flights")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search/?**")
    page.get_by_role("link", name="own flights").first.wait_for()
    page.locator("main").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/policies/")  # with its scripts, which listen to keys
    page.get_by_role("heading", name="Policies", exact=True).wait_for()
    page.keyboard.press("Control+k")
    assert page.evaluate("!!document.activeElement.closest('[data-switcher]')") is True


def test_light_or_dark_is_remembered(open_as: Open) -> None:
    page = open_as("mona", color_scheme="light")
    page.goto("/")
    assert page.locator("html").get_attribute("data-bs-theme") == "light"
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.locator("html").get_attribute("data-bs-theme") == "dark"
    page.goto("/agents/")
    assert page.locator("html").get_attribute("data-bs-theme") == "dark"
    page.goto("/settings/")
    page.get_by_label("As the device says").check()
    page.get_by_role("button", name="Keep").click()
    page.wait_for_selector("html[data-bs-theme=light]")


def test_a_list_is_narrowed_as_one_types_and_keeps_its_address(open_as: Open) -> None:
    page = open_as("mona")
    page.goto("/d/flights/policies/")
    page.get_by_label("Words").fill("authority")
    expect(page.get_by_role("link", name="own flights")).to_have_count(0)
    expect(page.get_by_role("link", name="long delays")).to_be_visible()
    expect(page).to_have_url(re.compile(r"\?text=authority$"))
    page.reload()
    expect(page.get_by_label("Words")).to_have_value("authority")
    expect(page.get_by_role("link", name="own flights")).to_have_count(0)


def test_too_many_wrong_passwords_are_slowed_down(open_as: Open) -> None:
    page = open_as("")
    for _ in range(5):
        sign_in(page, "nobody", "wrong")
    sign_in(page, "nobody", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("Too many failed attempts")
