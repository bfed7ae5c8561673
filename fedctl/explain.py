"""`fedctl explain`: why a Job runs where it runs, why it waits and what would start it, or how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fedctl.flows import NOT_FOUND, OK, REFUSED, Place
from fedctl.plans import UNREADABLE, answer, show
from fedctl.relaxations import BadRelaxation, relaxations
from machinery.clock import Clock

JOBS: Final = ("job", "jobs", "vcjob", "vj", "job.batch.volcano.sh", "jobs.batch.volcano.sh")


def name_of(target: str) -> str | None:
    """The Job that `job/NAME` or `NAME` means; None for anything else."""
    kind, slash, name = target.rpartition("/")
    return name if name and (not slash or kind.lower() in JOBS) else None


async def explain(place: Place, target: str, *, relax: Sequence[str], output: str, clock: Clock) -> int:
    """Ask about the Job."""
    name = name_of(target)
    try:
        changes = relaxations(relax)
    except BadRelaxation as error:
        place.errors.print(str(error), style="red", markup=False)
        return UNREADABLE
    if name is None:
        place.errors.print(f"{target}: Jobs can be explained, as job/NAME", style="red", markup=False)
        return UNREADABLE
    status = await answer(place, {"job": name, **({"relax": changes} if changes else {})}, clock=clock)
    if isinstance(status, int):
        return status
    if status.get("reason") == "NotFound":
        place.errors.print(f"Job {place.namespace}/{name} does not exist", style="red", markup=False)
        return NOT_FOUND
    show(place, [(f"Job {place.namespace}/{name}", status)], output=output, there=True)
    denied = any(each.get("status") == "False" for each in status.get("conditions") or ())
    return REFUSED if denied else OK
