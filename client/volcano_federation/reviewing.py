"""Questions to the planner of the hub: what would become of a manifest, why a Job waits. Nothing of it is made."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from volcano_federation.errors import ApiError, NoAnswer
from volcano_federation.nouns import REVIEW, Doc
from volcano_federation.transport import Door, Sleep

PATIENCE: Final = 30.0
"""Seconds that an answer is waited for; a hub that is alive takes a fraction of one."""
FIRST: Final = 0.05
LONGEST: Final = 0.5
"""Seconds between two looks: the first pause, doubled up to the longest."""
MYSELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@dataclass(frozen=True, slots=True)
class Answer:
    """What the planner says. `outcome`: Starts, Waits, Held, Refused, Placed, Runs or Ended; `reason`: one word why; `status`:
    all of it (docs/concepts/placement-review.md of the federation: placements, clusters with verdicts or scores, the
    cheapest change that would start it, cost, expected times, steps of a flow)."""

    about: str
    outcome: str
    reason: str
    message: str
    status: Doc

    @property
    def clusters(self) -> list[str]:
        """Where it would run, or runs."""
        return [str(each["cluster"]) for each in self.status.get("placements") or ()]

    @property
    def verdicts(self) -> dict[str, str]:
        """Why clusters cannot take it, by name."""
        found = self.status.get("clusters") or ()
        return {str(each["name"]): str(each.get("text") or each["code"]) for each in found if each.get("code")}

    @property
    def advice(self) -> list[str]:
        """The cheapest changes that would start it now, made together."""
        return [str(each["text"]) for each in (self.status.get("cheapest") or {}).get("changes") or ()]

    def __str__(self) -> str:
        lines = [f"{self.about}: {self.outcome}" + (f" on {', '.join(self.clusters)}" if self.clusters else "")]
        lines += [f"  {self.message}"] if self.message else []
        lines += [f"  {name}: {text}" for name, text in self.verdicts.items()]
        lines += [f"  it would start with: {text}" for text in self.advice]
        return "\n".join(lines)


async def ask(door: Door, spec: Mapping[str, Any], *, namespace: str, about: str, sleep: Sleep) -> Answer:
    """Where no webhook writes who asks, it is asked once more with the name that the API server knows us by."""
    status = await _once(door, spec, namespace=namespace, about=about, sleep=sleep)
    if status.get("reason") == "Unstamped":
        creator = await _myself(door)
        status = await _once(door, {**spec, "creator": creator}, namespace=namespace, about=about, sleep=sleep)
    outcome, reason, message = (str(status.get(word) or "") for word in ("outcome", "reason", "message"))
    return Answer(about, outcome, reason, message, status)


def changes(relax: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Part of a question: changes to make first, as {"change": "Queue", "to": "research"}."""
    return {"relax": [dict(each) for each in relax]} if relax else {}


async def _once(door: Door, spec: Mapping[str, Any], *, namespace: str, about: str, sleep: Sleep) -> Doc:
    path = REVIEW.path(namespace=namespace)
    body = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "metadata": {"generateName": "client-"}, "spec": spec}
    made = await door.ask("POST", path, about=about, body=body)
    own = f"{path}/{made['metadata']['name']}"
    try:
        waited, pause = 0.0, FIRST
        while waited < PATIENCE:
            await sleep(pause)
            waited, pause = waited + pause, min(2 * pause, LONGEST)
            status: Doc = (await door.ask("GET", own, about=about)).get("status") or {}
            if status.get("answeredAt"):
                return status
        raise NoAnswer(f"the hub did not answer within {PATIENCE:g} s: is federation-hub running?", about=about)
    finally:
        with contextlib.suppress(ApiError):  # who may not delete it leaves it to the hub, which removes it soon
            await door.ask("DELETE", own, about=about)


async def _myself(door: Door) -> dict[str, Any]:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = await door.ask("POST", MYSELF, about="who I am", body=body)
    user = (found.get("status") or {}).get("userInfo") or {}
    return {"username": user.get("username", ""), **({"groups": user["groups"]} if user.get("groups") else {})}
