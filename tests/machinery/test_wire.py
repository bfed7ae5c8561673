"""Bytes from an API server, however they are cut, become events, pages and errors."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from machinery import wire
from machinery.errors import ApiError, Conflict, Expired, FieldCause, Invalid, NotFound, ServerFailed, Throttled
from machinery.port import EventType, Preconditions, Propagation


@given(
    st.lists(st.binary(min_size=1, max_size=40).filter(lambda line: b"\n" not in line), max_size=8),
    st.lists(st.integers(1, 30), max_size=40),
)
def test_lines_are_the_same_however_the_stream_is_cut(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    frames, got = wire.Frames(), []
    while stream:
        size = cuts.pop() if cuts else len(stream)
        got += frames.feed(stream[:size])
        stream = stream[size:]
    assert got == lines


def test_a_line_may_be_longer_than_a_mebibyte_and_not_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    frames = wire.Frames()
    for _ in range(32):
        assert frames.feed(b"x" * 65536) == []
    assert len(frames.feed(b"\n")[0]) == 2 << 20
    monkeypatch.setattr(wire, "MAX_FRAME", 1000)
    with pytest.raises(ServerFailed, match="more than 1000 bytes"):
        frames.feed(b"x" * 1001)


def test_events_are_read_with_their_bytes_untouched() -> None:
    event = wire.read_event(b'{"type":"ADDED","object":{"metadata": {"name" : "a"}}}', request="r")
    assert (event.type, event.document) == (EventType.ADDED, b'{"metadata": {"name" : "a"}}')


def test_the_bookmark_that_ends_a_streaming_list_is_told_apart() -> None:
    plain = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
    end = {"type": "BOOKMARK", "object": {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}}
    assert not wire.read_event(orjson.dumps(plain), request="r").initial_end
    assert wire.read_event(orjson.dumps(end), request="r").initial_end


def test_an_error_event_is_raised() -> None:
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}
    with pytest.raises(Expired, match="too old"):
        wire.read_event(orjson.dumps(gone), request="r")
    failed = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd"}}
    with pytest.raises(ServerFailed, match="etcd"):
        wire.read_event(orjson.dumps(failed), request="r")
    with pytest.raises(ServerFailed):
        wire.read_event(b'{"type":"ERROR","object":{}}', request="r")


@pytest.mark.parametrize("frame", [b"", b"nonsense", b'{"type":"OTHER","object":{}}', b'{"type":"ADDED"}', b"\xff"])
def test_what_is_no_event_is_the_servers_failure(frame: bytes) -> None:
    with pytest.raises(ServerFailed, match="not a watch event"):
        wire.read_event(frame, request="r")


def test_pages_are_cut_into_documents() -> None:
    page = wire.read_page(b'{"metadata":{"resourceVersion":"7","continue":"t"},"items":[{"a":1},{"b" :2}]}', request="r")
    assert (list(page.items), page.resource_version, page.continue_token) == ([b'{"a":1}', b'{"b" :2}'], "7", "t")
    assert list(wire.read_page(b'{"metadata":{},"items":null}', request="r").items) == []
    with pytest.raises(ServerFailed, match="not a list"):
        wire.read_page(b"[]", request="r")


def test_a_status_becomes_its_error_with_fields_and_waiting_time() -> None:
    causes = [{"field": "spec.minAvailable", "message": "must be positive", "reason": "FieldValueInvalid"}]
    status = {"code": 422, "reason": "Invalid", "message": "no", "details": {"causes": causes}}
    error = wire.read_error(orjson.dumps(status), code=422, request="POST /x")
    assert isinstance(error, Invalid)
    assert error.causes == (FieldCause("spec.minAvailable", "must be positive"),)
    assert str(error) == "POST /x: no"
    busy = {"code": 429, "reason": "TooManyRequests", "message": "busy", "details": {"retryAfterSeconds": 3}}
    throttled = wire.read_error(orjson.dumps(busy), code=429, request="r")
    assert isinstance(throttled, Throttled)
    assert throttled.retry_after == 3
    assert wire.read_error(b"", code=429, request="r", retry_after="7").retry_after == 7
    assert wire.read_error(b"", code=503, request="r", retry_after="Wed, 21 Oct").retry_after is None


@pytest.mark.parametrize(
    ("code", "body", "cls"),
    [
        (404, b"404 page not found\n", NotFound),
        (409, b'{"reason":"Conflict"}', Conflict),
        (502, b"<html>", ServerFailed),
        (418, b"\xff\xfe", ApiError),
        (301, b"", ApiError),
        (400, b'{"code":400,"reason":"Expired","message":"The provided continue parameter is too old"}', Expired),
    ],
)
def test_whatever_answers_is_an_error_of_the_tree(code: int, body: bytes, cls: type[ApiError]) -> None:
    error = wire.read_error(body, code=code, request="r")
    assert type(error) is cls
    assert error.code == code


def test_deletion_says_only_what_is_asked() -> None:
    assert wire.delete_options(preconditions=None, propagation=None, grace_seconds=None) is None
    body = wire.delete_options(preconditions=Preconditions(uid="u"), propagation=Propagation.FOREGROUND, grace_seconds=0)
    assert body is not None
    assert orjson.loads(body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "propagationPolicy": "Foreground",
        "gracePeriodSeconds": 0,
    }
