"""How long the counters of a Job wait to be written while they keep changing. Pure: the time is told."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CounterPace:
    """The first change is written after `first` seconds, the next ones after twice as long each, up to `longest`.

    So a Job whose thousand pods start over half a minute costs a few writes, and one of which a pod ends now and then is told
    at once. What is written for another reason than counters starts anew, and so does a Job that was quiet for a while.
    """

    first: float
    longest: float
    _written: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By UID: the delay of the last write, and when that was."""

    def delay(self, uid: str, *, now: float) -> float:
        """Seconds that a change waits which is found now."""
        last, at = self._written.get(uid, (0.0, now))
        return min(2 * last, self.longest) if last and now - at <= 2 * self.longest else self.first

    def written(self, uid: str, *, now: float, counters: bool) -> None:
        """A status was written; `counters`: for nothing but them."""
        if counters:
            self._written[uid] = (self.delay(uid, now=now), now)
        else:
            self._written.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The Job has gone."""
        self._written.pop(uid, None)
