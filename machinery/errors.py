"""The error tree of the Kubernetes port. Errors are for a broken world; a refusal by a rule is a value.

    ApiError                     anything the API server or the way to it answered but success
    ├── Unreachable              no answer: connection refused, reset, timed out, TLS; the outcome is UNKNOWN
    ├── Unauthorized   401       credentials missing or expired
    ├── Forbidden      403       not allowed (RBAC or admission policy)
    ├── NotFound       404
    ├── Conflict       409       the resourceVersion or a precondition did not match
    │   └── AlreadyExists 409    create of a name that is taken
    ├── Expired        410       resourceVersion or continue token too old: list again
    ├── TooLarge       413
    ├── Invalid        422, 400  schema, CEL or webhook refused; `causes` name the fields
    ├── Throttled      429       `retry_after` seconds asked for, or None
    └── ServerFailed   5xx       the server failed; the outcome of a write is UNKNOWN

The cause (the HTTP client's own error) is chained. `outcome_unknown` tells whether a write may have happened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One refused field, as the API server names it."""

    field: str
    message: str


class ApiError(Exception):
    """Base: what was asked, the status code (0 when none), the server's reason and message."""

    outcome_unknown = False

    def __init__(
        self,
        message: str,
        *,
        request: str = "",
        code: int = 0,
        reason: str = "",
        causes: Sequence[FieldCause] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{request}: {message}" if request else message)
        self.message = message
        self.request = request
        self.code = code
        self.reason = reason
        self.causes = tuple(causes)
        self.retry_after = retry_after


class Unreachable(ApiError):
    """No answer; whether a write happened is unknown."""

    outcome_unknown = True


class Unauthorized(ApiError):
    """401."""


class Forbidden(ApiError):
    """403."""

    @property
    def namespace_ends(self) -> bool:
        """Whether nothing is made there because the namespace is being deleted: what was to be made goes with it."""
        return any(each.field == "metadata.namespace" and "being terminated" in each.message for each in self.causes)


class NotFound(ApiError):
    """404."""


class Conflict(ApiError):
    """409: somebody else wrote first, or a precondition failed."""


class AlreadyExists(Conflict):
    """409 on create."""


class Expired(ApiError):
    """410."""


class TooLarge(ApiError):
    """413."""


class Invalid(ApiError):
    """422 or 400."""


class Throttled(ApiError):
    """429."""


class ServerFailed(ApiError):
    """5xx; whether a write happened is unknown."""

    outcome_unknown = True


_BY_CODE: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    413: TooLarge,
    422: Invalid,
    429: Throttled,
}


def from_status(
    *,
    code: int,
    reason: str,
    message: str,
    request: str,
    causes: Sequence[FieldCause] = (),
    retry_after: float | None = None,
) -> ApiError:
    """The error for a Kubernetes `Status`; unknown codes are ServerFailed from 500 on, else ApiError."""
    cls = _BY_CODE.get(code, ServerFailed if code >= 500 else ApiError)
    if code == 409 and reason == "AlreadyExists":
        cls = AlreadyExists
    return cls(message, request=request, code=code, reason=reason, causes=causes, retry_after=retry_after)
