"""A person at the console, without a browser: pages, forms with their hidden fields, a session."""

from __future__ import annotations

import http.cookiejar
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

Fields = Mapping[str, str | list[str]]


@dataclass(frozen=True)
class Page:
    """What came back: status, final address, text."""

    status: int
    url: str
    text: str

    @property
    def words(self) -> str:
        """The text that a person would read, without markup."""
        parser = _Text()
        parser.feed(self.text)
        return " ".join(" ".join(parser.parts).split())

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.text)

    def form(self, *, containing: str = "", action: str = "") -> Form:
        """The first POST form that has a field `containing` and whose address ends in `action`."""
        parser = _Forms()
        parser.feed(self.text)
        for form in parser.forms:
            if form.method == "post" and (not containing or containing in form.fields):
                address = urllib.parse.urljoin(self.url, form.action)
                if address.endswith(action):
                    return Form(address, form.fields, form.buttons)
        raise LookupError(f"{self.url} has no form with `{containing}` for `{action}`")


@dataclass(frozen=True)
class Form:
    """A form as the page has it: address, fields with their present values, submit buttons."""

    url: str
    fields: dict[str, list[str]]
    buttons: tuple[tuple[str, str], ...]


class Browser:
    """Keeps cookies, follows redirects, sends forms with the CSRF token that the page gave."""

    def __init__(self, base: str) -> None:
        self.base = base
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )

    def get(self, path: str, *, timeout: float = 30.0) -> Page:
        """A page by its path."""
        return self._open(_request(self._url(path)), timeout)

    def submit(self, form: Form, values: Fields, *, timeout: float = 60.0) -> Page:
        """Send a form with these values in place of the ones it shows."""
        fields = {**form.fields, **{name: _many(value) for name, value in values.items()}}
        body = urllib.parse.urlencode(fields, doseq=True).encode()
        return self._open(_request(form.url, data=body, headers={"Referer": form.url}), timeout)

    def api(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> Page:
        """A call of the REST API in the same session."""
        given = {"Accept": "application/json", "Referer": self.base, **(headers or {})}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            given["Content-Type"] = "application/json"
        token = next((item.value for item in self._cookies if item.name == "csrftoken"), None)
        if token:
            given["X-CSRFToken"] = token
        request = _request(self._url(path), data=data, headers=given, method=method)
        return self._open(request, 60.0)

    def sign_in(self, username: str, password: str) -> Page:
        """Through the sign-in page; raises LookupError when it refuses."""
        page = self.get("/sign-in/")
        form = page.form(containing="username")
        after = self.submit(form, {"username": username, "password": password})
        if "/sign-in/" in after.url:
            raise LookupError(f"the console refused to sign in {username}")
        return after

    def _url(self, path: str) -> str:
        return urllib.parse.urljoin(self.base, path)

    def _open(self, request: urllib.request.Request, timeout: float) -> Page:
        try:
            with self._opener.open(request, timeout=timeout) as answer:
                return Page(answer.status, answer.url, answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Page(error.code, error.url, error.read().decode(errors="replace"))


def _request(url: str, **given: Any) -> urllib.request.Request:
    if not url.startswith("http://127.0.0.1:"):
        raise ValueError(f"the demo stays on this machine and does not open {url}")
    return urllib.request.Request(url, **given)  # noqa: S310 - the scheme was just checked


def _many(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


class _ParsedForm:
    def __init__(self, action: str, method: str) -> None:
        self.action = action
        self.method = method
        self.fields: dict[str, list[str]] = {}
        self.buttons: tuple[tuple[str, str], ...] = ()

    def add(self, name: str, value: str) -> None:
        self.fields.setdefault(name, []).append(value)


class _Forms(HTMLParser):
    """Collects forms with the values a browser would send."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[_ParsedForm] = []
        self._inside = False
        self._select = ""
        self._options: list[str] = []
        self._chosen = False
        self._textarea: tuple[str, list[str]] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            method = given.get("method", "get").lower()
            action = given.get("action", "")
            if "hx-post" in given:
                method, action = "post", given["hx-post"]
            self.forms.append(_ParsedForm(action, method))
            self._inside = True
        elif self._inside and "disabled" not in given:
            self._field(tag, given)

    def _field(self, tag: str, given: dict[str, str]) -> None:
        form, name = self.forms[-1], given.get("name", "")
        kind = given.get("type", "text").lower()
        if tag == "input" and name:
            if kind in {"checkbox", "radio"}:
                if "checked" in given:
                    form.add(name, given.get("value", "on"))
            elif kind not in {"submit", "button", "image", "file", "reset"}:
                form.add(name, given.get("value", ""))
        elif tag == "button" and name:
            form.buttons += ((name, given.get("value", "")),)
        elif tag == "select":
            self._select, self._options = name, []
            # A list that takes several may send none; a plain one sends its first option.
            self._chosen = "multiple" in given
        elif tag == "option" and self._select:
            self._options.append(given.get("value", ""))
            if "selected" in given:
                self._chosen = True
                form.add(self._select, given.get("value", ""))
        elif tag == "textarea":
            self._textarea = (name, [])

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "select":
            if self._select and self._options and not self._chosen:
                self.forms[-1].add(self._select, self._options[0])
            self._select = ""
        elif tag == "textarea" and self._textarea:
            name, parts = self._textarea
            self.forms[-1].add(name, "".join(parts).removeprefix("\n"))
            self._textarea = None

    def handle_data(self, data: str) -> None:
        if self._textarea:
            self._textarea[1].append(data)


class _Text(HTMLParser):
    """Collects what a page says, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in {"script", "style", "template"}

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in {"script", "style", "template"}

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)
