"""Signing in and out."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache

from adminapp.identity import throttling


class SignInForm(AuthenticationForm):
    """Name and password; says when guessing has been slowed down."""

    error_messages = {
        "invalid_login": "That name and password do not go together. Check both and try again.",
        "inactive": "This account is switched off. Ask an operator.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, label in (("username", "Name"), ("password", "Password")):
            self.fields[name].label = label
            self.fields[name].widget.attrs["class"] = "form-control"

    def get_invalid_login_error(self) -> Any:
        error = super().get_invalid_login_error()
        name = self.cleaned_data.get("username")
        wait = throttling.seconds_to_wait(self.request, name) if name else 0
        if wait:
            minutes = -(-int(wait) // 60)
            error.message = (
                f"Too many failed attempts. Wait {minutes} minute{'s' if minutes > 1 else ''} "
                "and try again."
            )
        return error


class SignIn(LoginView):
    """The sign-in page; who is signed in already goes on to the console."""

    authentication_form = SignInForm
    template_name = "console/sign_in.html"
    redirect_authenticated_user = True


sign_in = never_cache(SignIn.as_view())


class SignOut(LogoutView):
    """Ends the session; a POST, so that no foreign page can do it."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return super().post(request, *args, **kwargs)


sign_out = SignOut.as_view()
