"""The Kubernetes port: the one door to an API server, real or in memory.

Documents are JSON as bytes in both directions: a caller decodes what it declares (msgspec structs on hot paths, pydantic
models elsewhere) and nobody pays for a tree of dicts it does not read. Bodies of writes are bytes, or a mapping that the
port encodes. Every call raises from the tree in `errors`; nothing here retries.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from apis.kinds import Kind

Document = bytes
"""One object as JSON."""

Body = bytes | Mapping[str, Any]
"""One object to write; a mapping is encoded by the port."""

WATCH_TIMEOUT = 290.0
"""Seconds after which a watch is asked to end by the server, so that a silent connection is noticed."""


class PatchType(enum.Enum):
    """How a patch body is meant; the value is its content type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Propagation(enum.StrEnum):
    """What becomes of dependents on deletion."""

    ORPHAN = "Orphan"
    BACKGROUND = "Background"
    FOREGROUND = "Foreground"


class EventType(enum.StrEnum):
    """Types of watch events that reach a caller; ERROR events are raised instead."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list: documents (without apiVersion and kind where the server leaves them out), where the list stood, and
    the token of the next page ("" on the last)."""

    items: Sequence[Document]
    resource_version: str
    continue_token: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event. A BOOKMARK's document carries only `metadata.resourceVersion`; `initial_end` marks the bookmark that ends
    the initial events of a streaming list."""

    type: EventType
    document: Document
    initial_end: bool = False


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must still hold at deletion; a mismatch is Conflict."""

    uid: str | None = None
    resource_version: str | None = None


@runtime_checkable
class Streams(Protocol):
    """Answers that are read while they come: logs."""

    def stream(self, path: str, *, query: Mapping[str, str] | None = None) -> AsyncIterator[bytes]:
        """The bytes of one GET, however many and however long it takes; little is read ahead of who takes them. Raises from
        the tree in `errors` before the first bytes, and Unreachable when it breaks off."""
        ...


@runtime_checkable
class Impersonator(Protocol):
    """A port that may ask in somebody else's name, where its own account may `impersonate` them."""

    def acting_as(self, user: str) -> Port:
        """The same API server over the same connections; every request is judged by the rights of `user`. A service account's
        groups are known to the API server."""
        ...


class Port(Protocol):
    """An API server.

    `namespace` is None for cluster-scoped kinds, and for lists and watches over all namespaces. `labels` and `fields` are
    selector strings as kubectl takes them. `subresource` is "status", "scale", "binding", …
    """

    async def get(self, kind: Kind, name: str, *, namespace: str | None = None) -> Document:
        """Quorum read of one object."""
        ...

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page:
        """One page; a token that is too old raises Expired."""
        ...

    def watch(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        send_initial: bool = False,
        timeout: float = WATCH_TIMEOUT,
    ) -> AsyncIterator[WatchEvent]:
        """Events after `resource_version`, bookmarks included, until the server ends the watch (the iterator then stops).

        `send_initial` asks for a streaming list: ADDED for everything there is, then a bookmark with `initial_end`.
        Raises Expired when the version is no longer kept.
        """
        ...

    async def create(self, kind: Kind, body: Body, *, namespace: str | None = None, dry_run: bool = False) -> Document:
        """POST; `metadata.generateName` works. AlreadyExists when the name is taken."""
        ...

    async def replace(
        self, kind: Kind, name: str, body: Body, *, namespace: str | None = None, subresource: str | None = None
    ) -> Document:
        """PUT; Conflict unless `metadata.resourceVersion` in the body is current."""
        ...

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: Body | Sequence[Mapping[str, Any]],
        *,
        type: PatchType,
        namespace: str | None = None,
        subresource: str | None = None,
        field_manager: str = "",
        force: bool = False,
    ) -> Document:
        """PATCH; a JSON patch body is a sequence of operations, APPLY needs a `field_manager`."""
        ...

    async def delete(
        self,
        kind: Kind,
        name: str,
        *,
        namespace: str | None = None,
        preconditions: Preconditions | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """DELETE; NotFound when it is gone already."""
        ...

    async def bind(self, pod: str, *, namespace: str, node: str, uid: str | None = None) -> None:
        """POST pods/binding; Conflict when the pod is bound already or has another UID."""
        ...

    async def request(self, method: str, path: str, *, body: Body | None = None) -> Document:
        """Anything else by path: discovery, /version, /readyz, SubjectAccessReview."""
        ...

    async def close(self) -> None:
        """Release connections; running watches end."""
        ...
