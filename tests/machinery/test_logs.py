"""Logs are one object a line for machines, one line for people, and never carry a credential."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from machinery import logs
from machinery.logs import Style


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def said(style: Style, *args: Any, error: BaseException | None = None, **extra: Any) -> str:
    stream = io.StringIO()
    logs.set_up(level="debug", style=style, stream=stream)
    logging.getLogger("test").warning(*args, exc_info=error, extra=extra)
    return stream.getvalue()


def test_a_record_is_one_json_object_with_its_fields() -> None:
    line = orjson.loads(said(Style.JSON, "lost %s", "east", cluster="east", attempts=3, key=("a", "b")))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "test",
        "message": "lost east",
        "cluster": "east",
        "attempts": 3,
        "key": "('a', 'b')",
    }


def test_people_get_one_line() -> None:
    line = said(Style.CONSOLE, "lost %s", "east", attempts=3)
    assert line.endswith("warning test: lost east attempts=3\n")


@pytest.mark.parametrize("style", list(Style))
def test_an_exception_comes_with_its_traceback(style: Style) -> None:
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError as error:
        text = said(style, "failed", error=error)
    assert "Traceback" in text
    assert "a bug" in text


SECRETS = [
    "Authorization: Bearer abcdef.123456",
    "sent Basic dXNlcjpwYXNz",
    'kubeconfig {"token": "abcdef.123456"}',
    "password=hunter22",
    "client-key-data: LS0tLS1CRUdJTg==",
    "got eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZ2VudCJ9.c2lnbmF0dXJl here",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
]


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("secret", SECRETS)
def test_credentials_are_masked_wherever_they_stand(style: Style, secret: str) -> None:
    hidden = ("abcdef", "dXNl", "hunter22", "LS0t", "eyJ", "MIIE")
    text = said(style, "%s", secret, note=secret, error=ValueError(secret))
    assert not [word for word in hidden if word in text]
    assert text.count(logs.MASK) >= 3


def test_a_field_named_like_a_credential_is_masked() -> None:
    line = orjson.loads(said(Style.JSON, "joined", bootstrap_token="x1", cluster="east"))
    assert (line["bootstrap_token"], line["cluster"]) == (logs.MASK, "east")


def test_ordinary_words_about_credentials_stay_readable() -> None:
    for text in ("token expired", "no password given", "the secret team/creds is missing", "page token too old"):
        assert logs.masked(text) == text


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="LOUD"):
        logs.set_up(level="loud")
