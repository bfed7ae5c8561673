"""The way to the hub that a kubeconfig names, for one command."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from fedctl import exits
from fedctl.demo import opened
from fedctl.flows import Place
from machinery import errors
from machinery.clock import SystemClock

NO_SERVER: Final = exits.NO_SERVER
NOT_ALLOWED: Final = exits.NOT_ALLOWED


async def carry_out(
    kubeconfig: Path | None, context: str | None, *, namespace: str, action: Callable[[Place], Coroutine[Any, Any, int]]
) -> int:
    """The exit code of the action; what goes wrong on the way is said in a sentence."""
    said = Console(stderr=True)
    try:
        async with opened(kubeconfig, context) as port:
            return await action(Place(port, namespace, Console(), said, SystemClock().now()))
    except (errors.Forbidden, errors.Unauthorized) as error:
        said.print(f"not allowed: {error.message}", style="red", markup=False)
        return NOT_ALLOWED
    except (errors.ApiError, OSError, ValueError) as error:
        text = error.message if isinstance(error, errors.ApiError) else str(error)
        said.print(f"the hub cannot be reached: {text}", style="red", markup=False)
        return NO_SERVER
