"""What can go wrong. Every error says which object it is about and, where the API server gave one, its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class FederationError(Exception):
    """The root. `about`: the object, as `Job team/train`, a file or an address; `reason`: one word, "" where there is none."""

    def __init__(self, message: str, *, about: str = "", reason: str = "") -> None:
        super().__init__(f"{about}: {message}" if about else message)
        self.message = message
        self.about = about
        self.reason = reason


class BadKubeconfig(FederationError):
    """A kubeconfig that cannot be used."""


class BadManifest(FederationError):
    """Something that is no manifest, or none that this call takes."""


class Unreachable(FederationError):
    """Nothing answers at the address of the hub, or what answers is not trusted."""


class ApiError(FederationError):
    """The API server says no. `code`: HTTP status; `fields`: what is wrong, by the path of the field."""

    def __init__(
        self, message: str, *, about: str = "", reason: str = "", code: int = 0, fields: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, about=about, reason=reason)
        self.code = code
        self.fields = dict(fields or {})


class NotAllowed(ApiError):
    """Not signed in (401), or without the right (403)."""


class NotFound(ApiError):
    """It is not there, or its kind is not served."""


class AlreadyExists(ApiError):
    """Another object has this name."""


class Conflict(ApiError):
    """Somebody else changed it first."""


class Invalid(ApiError):
    """The object is refused: `fields` says why."""


class Expired(ApiError):
    """A watch asks for changes that are no longer kept; the client begins anew by itself."""


class NoAnswer(FederationError):
    """The hub did not answer a question in time: nothing runs there, or it is busy."""


class NotEnded(FederationError):
    """It still runs when the time to wait is over; it goes on."""


class Failed(FederationError):
    """It ended, and not well. `reason` is its phase."""


_BY_CODE: Mapping[int, type[ApiError]] = {
    400: Invalid,
    401: NotAllowed,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
}


def from_status(status: Mapping[str, Any], *, code: int, about: str) -> ApiError:
    """The error for a Status of Kubernetes, or for an answer that is none ({})."""
    reason, message = str(status.get("reason") or ""), str(status.get("message") or f"HTTP status {code}")
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    fields = {str(each["field"]): str(each.get("message") or "") for each in causes or () if each.get("field")}
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_CODE.get(code, ApiError)
    return kind(message, about=about, reason=reason, code=code, fields=fields)
