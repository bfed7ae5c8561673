"""What goes over the wire to an API server, as pure functions on bytes: watch frames, pages, Status, delete options.

A watch is a stream of JSON objects, one a line. Lines are cut here and not by the HTTP library, whose line reader gives up at
128 KiB while one object may have more than a mebibyte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from machinery.errors import ApiError, Expired, FieldCause, ServerFailed, from_status
from machinery.port import Body, EventType, Page, Preconditions, Propagation, WatchEvent

MAX_FRAME = 64 << 20
"""Bytes of one watch event; etcd keeps objects of 1.5 MiB at most by default, so more is not Kubernetes talking."""

INITIAL_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events of a streaming list."""

_MESSAGE = 500
"""Characters kept of an error body that is no Status."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _BookmarkMeta(msgspec.Struct):
    annotations: dict[str, str] = {}


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


class _Cause(msgspec.Struct):
    field: str = ""
    message: str = ""


class _Details(msgspec.Struct, rename="camel"):
    causes: list[_Cause] | None = None
    retry_after_seconds: float | None = None


class _Status(msgspec.Struct):
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_list_decoder = msgspec.json.Decoder(_List)
_event_decoder = msgspec.json.Decoder(_Event)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)
_status_decoder = msgspec.json.Decoder(_Status)


class Frames:
    """Cuts a stream of chunks into lines; what has no newline yet is kept, up to `limit` bytes (None: MAX_FRAME)."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines completed by `chunk`, without their newline and without empty ones. ServerFailed when one is too long."""
        head, *rest = chunk.split(b"\n")
        self._parts.append(head)
        self._size += len(head)
        limit = MAX_FRAME if self._limit is None else self._limit
        if self._size > limit:
            raise ServerFailed(f"a line has more than {limit} bytes")
        if not rest:
            return []
        lines = [b"".join(self._parts), *rest[:-1]]
        self._parts, self._size = [rest[-1]], len(rest[-1])
        return [line for line in lines if line]


def read_event(frame: bytes, *, request: str) -> WatchEvent:
    """One line of a watch. An ERROR event raises what its Status says (410: Expired); a line that is no event raises
    ServerFailed."""
    try:
        event = _event_decoder.decode(frame)
        if event.type == "ERROR":
            raise read_error(bytes(event.object), code=0, request=request)
        type = EventType(event.type)
        initial_end = False
        if type is EventType.BOOKMARK:
            initial_end = _bookmark_decoder.decode(event.object).metadata.annotations.get(INITIAL_END) == "true"
    except (msgspec.MsgspecError, ValueError) as error:
        raise ServerFailed(f"not a watch event: {error}", request=request) from error
    return WatchEvent(type, bytes(event.object), initial_end)


def read_page(body: bytes, *, request: str) -> Page:
    """Cut a list into its documents; ServerFailed when it is no list."""
    try:
        page = _list_decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise ServerFailed(f"not a list: {error}", request=request) from error
    return Page([bytes(item) for item in page.items or ()], page.metadata.resource_version, page.metadata.continue_token)


def read_error(body: bytes, *, code: int, request: str, retry_after: str | None = None) -> ApiError:
    """The error for an answer that was no success: a Status, or whatever a proxy on the way wrote. `code` is the HTTP code
    (0: the Status has it), `retry_after` the header of that name."""
    try:
        status = _status_decoder.decode(body)
    except msgspec.MsgspecError:
        status = _Status(message=body[:_MESSAGE].decode(errors="replace").strip())
    details = status.details or _Details()
    code = code or status.code
    wait = float(retry_after) if retry_after and retry_after.isdigit() else details.retry_after_seconds
    if code == 0:
        return ServerFailed(status.message or "an error without a code", request=request, reason=status.reason)
    if status.reason == "Expired" and code != 410:
        return Expired(status.message, request=request, code=code, reason=status.reason)
    return from_status(
        code=code,
        reason=status.reason,
        message=status.message or f"HTTP {code}",
        request=request,
        causes=[FieldCause(cause.field, cause.message) for cause in details.causes or ()],
        retry_after=wait,
    )


def encode(body: Body | Sequence[Mapping[str, Any]]) -> bytes:
    """The bytes of a write."""
    return body if isinstance(body, bytes) else orjson.dumps(body)


def delete_options(
    *, preconditions: Preconditions | None, propagation: Propagation | None, grace_seconds: int | None
) -> bytes | None:
    """The body of a DELETE, or None when nothing is asked for."""
    options: dict[str, Any] = {}
    if preconditions is not None:
        wanted = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        options["preconditions"] = {key: value for key, value in wanted.items() if value is not None}
    if propagation is not None:
        options["propagationPolicy"] = propagation.value
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if not options:
        return None
    return orjson.dumps({"apiVersion": "v1", "kind": "DeleteOptions", **options})
