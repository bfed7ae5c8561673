"""All clusters under one term of a policy: who passes, who is best, and who is to be named to people, in columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from federation.dispatch.ranking import Field, Order, ranked
from federation.dispatch.survey import Judged, Subject, Survey
from federation.dispatch.terrain import Terrain
from policies import terms, verdicts
from policies.choosing import UNPAID, Chosen, Wish, divided
from policies.estimates import Option
from policies.filters import ASKABLE, AWAITED
from policies.fit import Array
from policies.ground import Floats, Mask
from policies.members import ClusterView
from policies.placements import Affinity
from policies.profiles import Ranked
from policies.verdicts import BEST, Considered, Verdict, Wake

_NOBODY = Order.empty()

Words = Callable[[int, Affinity | None], Verdict]
"""What a cluster says, with its words."""


@dataclass(slots=True)
class View:
    """What one term leads to. `found` has the parts, or why there are none; `asks` are clusters that could tell more."""

    survey: Survey
    affinity: Affinity | None
    judged: Judged
    order: Order
    found: Chosen
    asks: Mask

    @property
    def wakes(self) -> set[Wake]:
        """What would change the answer."""
        known = self.survey.codes.known
        wakes = {wake for number in self.survey.codes.among(self.judged.codes) for wake in known[number][1]}
        return wakes | ({Wake.CAPACITY} if self.fitting and not self.found.parts else set())

    @property
    def awaits(self) -> bool:
        """A member is being asked what only it can tell."""
        return bool(self.survey.codes.having(self.judged.codes, (AWAITED,)).any())

    @property
    def fitting(self) -> int:
        """Clusters that passed."""
        return len(self.order.members)

    def best(self) -> list[int]:
        """The clusters that a decision names, as `policies.verdicts.best` orders them: by total, by code, by name."""
        named: list[int] = []
        if self.fitting:
            first = np.lexsort((self.order.members, -np.rint(self.order.totals)))
            named = self.order.members[first][:BEST].tolist()
        codes = self.judged.codes
        present = {self.survey.codes.known[number][0] for number in self.survey.codes.among(codes)}
        for code in sorted(present):
            if len(named) >= BEST:
                break
            if code:
                those = np.flatnonzero(self.survey.codes.having(codes, (code,)))
                named += those[: BEST - len(named)].tolist()
        return named

    def counts(self, named: Sequence[int]) -> dict[str, int]:
        """How many others there are by code ("Fits" for those that would do)."""
        counts = np.bincount(self.judged.codes, minlength=len(self.survey.codes.known)).tolist()
        for at in named:
            counts[self.judged.codes[at]] -= 1
        found: dict[str, int] = {}
        for (code, _), count in zip(self.survey.codes.known, counts, strict=True):
            if count:
                found[code or "Fits"] = found.get(code or "Fits", 0) + count
        return found

    def considered(self, named: Sequence[int], *, words: Words | None) -> list[Considered]:
        """What is told of them; without words where nobody reads them."""
        members = self.order.members.tolist()
        places = {at: members.index(at) for at in named if at in members}
        found = []
        for at in named:
            code = self.survey.codes.known[int(self.judged.codes[at])][0]
            text = self._text(at, words) if words is not None else ""
            name, place = self.survey.name(at), places.get(at)
            if place is None:
                found.append(Considered(cluster=name, code=code, text=text))
            else:
                total = round(float(self.order.totals[place]))
                found.append(Considered(cluster=name, text=text, scores=self.order.rounded(place), total=total))
        return found

    def _text(self, at: int, words: Words) -> str:
        code = self.survey.codes.known[int(self.judged.codes[at])][0]
        if code == UNPAID.code:
            return UNPAID.text
        return verdicts.shortened(words(at, self.affinity).text) if code or not self.judged.sure[at] else ""


class Viewer:
    """Looks at a round's clusters for one Job after the other."""

    def __init__(
        self, survey: Survey, terrain: Terrain, clusters: Sequence[ClusterView], *, waits: Mapping[str, float]
    ) -> None:
        self._survey, self._terrain, self._clusters, self._waits = survey, terrain, clusters, waits
        self._tiers: dict[int, Array] = {}

    def under(self, affinity: Affinity | None, subject: Subject, wish: Wish, *, penalty: Floats) -> View:
        """The best there is under one term."""
        survey = self._survey
        judged = survey.judge(subject, affinity)
        asks = survey.codes.having(judged.codes, ASKABLE) & survey.answering
        order = _NOBODY
        if judged.passed.any():
            order = self._ranked(affinity, subject, wish, judged, penalty=penalty)
        view = View(survey, affinity, judged, order, Chosen(), asks)
        # While a member that could tell is being asked, what nobody can tell is not tried elsewhere (protocol.md 4).
        if len(order.members) and not (view.awaits and not judged.sure[order.members].any()):
            view.found = self._divided(view, subject, wish)
        return view

    def option(self, view: View, wish: Wish, cluster: str) -> Option | None:
        """The way to run it there that the profile likes best."""
        at = self._survey.at(cluster)
        place = np.flatnonzero(view.order.members == at)
        if not len(place):
            return None
        row, wait = int(view.order.ways[place[0]]), self._waits.get(cluster, 0.0)
        return self._terrain.ways.option(row, wish.demand, self._clusters[at], wait=wait)

    def _divided(self, view: View, subject: Subject, wish: Wish) -> Chosen:
        survey, order, judged = self._survey, view.order, view.judged
        whole = wish.policy.replicas.strategy is None
        members = order.members[:1] if whole else order.members
        standing = [_ranked(survey.name(at), place, order) for place, at in enumerate(members.tolist())]
        passed = {}
        if not whole:
            passed = {survey.name(at): survey.question(subject, view.affinity, at, judged) for at in members.tolist()}
        tier = self._tier(view.affinity)
        found = divided(standing, passed, {name: int(tier[survey.at(name)]) for name in passed}, wish=wish)
        chosen = [survey.at(part.cluster) for part in found.parts]
        unsure = any(part.cluster in found.beyond for part in found.parts) or not bool(judged.sure[chosen].all())
        return replace(found, unsure=unsure, fitting=len(order.members), term=view.affinity.name if view.affinity else "")

    def _ranked(self, affinity: Affinity | None, subject: Subject, wish: Wish, judged: Judged, *, penalty: Floats) -> Order:
        terrain, survey, passed = self._terrain, self._survey, judged.passed
        found = terrain.ways.find(
            wish.demand,
            self._clusters,
            among=passed,
            ground=terrain.ground,
            waits=self._waits,
            markets=wish.profile.markets,
        )
        payable = np.zeros(len(self._clusters), dtype=np.bool_)
        payable[found.member] = True
        if not payable[passed].all():
            judged.codes[passed & ~payable] = survey.codes.number(UNPAID)
        field = Field(
            passed=judged.passed,
            sure=judged.sure,
            whole=judged.whole,
            penalty=penalty,
            tier=self._tier(affinity),
            left=survey.left.total,
            known=survey.known,
            ground=terrain.ground,
            clusters=self._clusters,
            ask=lambda at: survey.question(subject, affinity, at, judged),
        )
        return ranked(field, found, demand=wish.demand, profile=wish.profile)

    def _tier(self, affinity: Affinity | None) -> Array:
        known = self._tiers.get(id(affinity))
        if known is None:
            found = [terms.tier(affinity, each) or 0 for each in self._clusters]
            known = self._tiers[id(affinity)] = np.array(found, dtype=np.int64)
        return known


def _ranked(name: str, place: int, order: Order) -> Ranked:
    """For the rules of spread and division, which look at names and places."""
    return Ranked(name, Option(name), order.rounded(place), float(order.totals[place]))
