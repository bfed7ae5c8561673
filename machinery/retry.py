"""Retrying, in one place: how long to wait after a failure, reading again, and read-modify-write against conflicts.

Only what is safe to repeat is repeated: reads, and writes that name the version they change. A write whose outcome is unknown
is never sent again from here; its caller reads the world anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import orjson
import tenacity

from apis.kinds import Kind
from machinery.clock import Chance, Clock
from machinery.errors import ApiError, Conflict, ServerFailed, Throttled, Unreachable
from machinery.port import Port

T = TypeVar("T")

Doc = dict[str, Any]

READ_ATTEMPTS = 5
"""Tries of one read: with waits doubling from 0.25 s about four seconds in all, as long as an API server needs to restart."""

UPDATE_ATTEMPTS = 5
"""Tries of one read-modify-write: each conflict means that somebody else got on; five in a row mean a fight, which the caller
must hear of."""


def backoff(attempt: int, *, chance: Chance, base: float = 0.25, limit: float = 30.0, error: ApiError | None = None) -> float:
    """Seconds to wait after failure number `attempt` (from 1): doubling from `base` up to `limit`, jittered down to half of
    it so that many clients do not come back together, and never less than the server's Retry-After."""
    full = min(limit, base * 2.0 ** min(attempt - 1, 32))
    asked = error.retry_after if error is not None else None
    return max(asked or 0.0, chance.uniform(full / 2, full))


async def reading(call: Callable[[], Awaitable[T]], *, clock: Clock, chance: Chance, attempts: int = READ_ATTEMPTS) -> T:
    """The result of a read that is repeated while the server is unreachable, failing or busy; then its last error."""

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        return backoff(state.attempt_number, chance=chance, error=error if isinstance(error, ApiError) else None)

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type((Unreachable, ServerFailed, Throttled)),
        stop=tenacity.stop_after_attempt(attempts),
        wait=wait,
        sleep=clock.sleep,
        reraise=True,
    )

    async def once() -> T:  # tenacity awaits what is declared `async def` only, and `call` may be a lambda
        return await call()

    return await retrying(once)


async def update(
    port: Port,
    kind: Kind,
    name: str,
    namespace: str | None,
    change: Callable[[Doc], Doc | None],
    *,
    subresource: str | None = None,
    attempts: int = UPDATE_ATTEMPTS,
) -> Doc:
    """Read an object, let `change` say what it should be, and PUT that against the version read; on Conflict read again.

    `change` gets the object (it may alter it in place and return it) and returns None when nothing is to be done. Returns the
    object as it then stands. NotFound, a last Conflict and every other error reach the caller.
    """

    async def once() -> Doc:
        current: Doc = orjson.loads(await port.get(kind, name, namespace=namespace))
        wanted = change(current)
        if wanted is None:
            return current
        written: Doc = orjson.loads(await port.replace(kind, name, wanted, namespace=namespace, subresource=subresource))
        return written

    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception_type(Conflict),
        stop=tenacity.stop_after_attempt(attempts),
        reraise=True,
    )
    return await retrying(once)
