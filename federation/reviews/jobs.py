"""One Job reviewed: what the planner says, and the cheapest change that would start it. Pure, and step by step: it asks the
planner once for each step, so that others run meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from federation.reviews.questions import BadQuestion, viewed
from federation.reviews.rights import Rights
from policies import profiles
from policies.cheapest import MOST_TRIES, Search, Tried
from policies.placements import PolicyView
from policies.relaxing import BadChange, Change, Manifest, Offers, Scene, changed, ladders
from policies.trials import Answer, Surroundings, Trial, Trier
from policies.verdicts import Outcome
from policies.views import JobView, Projections

CURABLE: Final = frozenset({"QueueNotFound", "QueueNotALeaf", "QueueClosed"})
"""Reasons of a refusal that another queue cures."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known of one Job. `relaxed` are the changes it was planned with."""

    job: JobView
    answer: Answer
    policy: PolicyView
    relaxed: tuple[Change, ...] = ()
    cheapest: Tried | None = None
    tried: tuple[Tried, ...] = ()
    exhausted: bool = False


class JobReview:
    """`advance` until it is False, then `result`. Raises BadQuestion for a change that cannot be made.

    `asked`: members were asked about the Job where only they can tell.
    """

    def __init__(
        self,
        manifest: Manifest,
        *,
        trier: Trier,
        projections: Projections,
        rights: Rights,
        relax: tuple[Change, ...] = (),
        suggest: bool = True,
        asked: bool = False,
        most: int = MOST_TRIES,
    ) -> None:
        self._trier = trier
        self._projections = projections
        self._rights = rights
        self._relax = relax
        self._suggest = suggest
        self._asked = asked
        self._most = most
        job = viewed(manifest, projections=projections)
        self._governed = trier.governing(job)
        self._scene = self._relaxed(Scene(manifest, self._governed))
        self._job = viewed(self._scene.manifest, projections=projections)
        self._answer: Answer | None = None
        self._search: Search | None = None

    def advance(self) -> bool:
        """Ask the planner once more; False when all is known."""
        if self._answer is None:
            self._answer = self._trier.answer(Trial(self._job, policy=self._own_policy(self._scene), asked=self._asked))
            if self._suggest and _curable(self._answer):
                offers = offered(self._trier.surroundings, rights=self._rights)
                self._search = Search(ladders(self._scene, offers), most=self._most)
            return self._search is not None
        changes = self._search.next() if self._search is not None else None
        if changes is None or self._search is None:
            return False
        answer = self._try(changes)
        self._search.tell(answer.starts, why=self._why(answer))
        return True

    def result(self) -> Findings:
        """What is known by now."""
        if self._answer is None:
            raise ValueError("nothing was asked yet")
        found = Findings(self._job, self._answer, self._scene.policy, self._relax)
        if self._search is None:
            return found
        cheapest, exhausted = self._search.found, self._search.exhausted
        return replace(found, cheapest=cheapest, tried=tuple(self._search.tried), exhausted=exhausted)

    # --- asking ------------------------------------------------------------------------------------------------------

    def _relaxed(self, scene: Scene) -> Scene:
        try:
            return changed(scene, self._relax)
        except BadChange as error:
            raise BadQuestion("spec.relax", str(error)) from error

    def _try(self, changes: tuple[Change, ...]) -> Answer:
        scene = changed(self._scene, changes)
        job = viewed(scene.manifest, projections=self._projections)
        return self._trier.starts(Trial(job, policy=self._own_policy(scene), asked=True))

    def _own_policy(self, scene: Scene) -> PolicyView | None:
        """None where nothing was changed about the policy: then it is found as always."""
        return None if scene.policy == self._governed else scene.policy

    def _why(self, answer: Answer) -> str:
        return f"{answer.reason}: {answer.message}" if self._rights.clusters else answer.reason


def offered(there: Surroundings, *, rights: Rights) -> Offers:
    """What may be offered to somebody with these rights."""
    return Offers(
        queues=tuple(name for name in there.queues if name in rights.queues),
        profiles=tuple(name for name in there.profiles if rights.profiles or name in profiles.BUILT_IN),
        taints=there.taints if rights.clusters else (),
        node_taints=there.node_taints if rights.clusters else (),
    )


def _curable(answer: Answer) -> bool:
    if answer.outcome is Outcome.REFUSED:
        return answer.reason in CURABLE
    return answer.outcome in (Outcome.WAITING, Outcome.HELD)
