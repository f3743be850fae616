"""The demo's form filler sends what a browser would send."""

from __future__ import annotations

import pytest

from tasks.local.demo.browser import Page

PAGE = """
<title>Policy</title><script>var hidden = 1;</script>
<form action="/search/"><input name="q"></form>
<form method="post" action="?step=2">
 <input type="hidden" name="csrfmiddlewaretoken" value="token">
 <input name="title" value="A &amp; B"><input name="gone" value="x" disabled>
 <input type="checkbox" name="on" checked><input type="checkbox" name="off">
 <input type="checkbox" name="many" value="1" checked>
 <input type="checkbox" name="many" value="2" checked>
 <select name="first"><option value="a">A</option><option value="b">B</option></select>
 <select name="chosen"><option value="a">A</option><option value="b" selected>B</option></select>
 <select name="none" multiple><option value="a">A</option></select>
 <textarea name="expression">
event.x &lt; 3</textarea>
 <button name="act" value="plan">Plan</button>
</form>
"""


def test_a_form_holds_what_a_browser_would_send() -> None:
    form = Page(200, "http://127.0.0.1/policies/1/", PAGE).form(containing="expression")
    assert form.url == "http://127.0.0.1/policies/1/?step=2"
    assert form.fields == {
        "csrfmiddlewaretoken": ["token"],
        "title": ["A & B"],
        "on": ["on"],
        "many": ["1", "2"],
        "first": ["a"],
        "chosen": ["b"],
        "expression": ["event.x < 3"],
    }
    assert form.buttons == (("act", "plan"),)


def test_a_page_without_the_form_says_so() -> None:
    with pytest.raises(LookupError, match="no form with `password`"):
        Page(200, "http://127.0.0.1/", PAGE).form(containing="password")


def test_words_leave_out_markup_and_scripts() -> None:
    words = Page(200, "http://127.0.0.1/", PAGE).words
    assert "hidden" not in words
    assert words.startswith("Policy")
