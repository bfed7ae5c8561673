"""What a command speaks of: `job/train`, `flow/nightly`, `queue/research`; a bare name is a Job."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from apis import kinds
from apis.kinds import Kind
from fedctl import exits
from fedctl.desk import Stop

WORDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("job", "jobs", "vj", "vcjob", "vcjobs"), kinds.JOB),
    **dict.fromkeys(("flow", "flows", "jobflow", "jobflows", "jf"), kinds.JOB_FLOW),
    **dict.fromkeys(("template", "templates", "jobtemplate", "jobtemplates", "jt"), kinds.JOB_TEMPLATE),
    **dict.fromkeys(("cronjob", "cronjobs", "cron"), kinds.CRON_JOB),
    **dict.fromkeys(("queue", "queues", "q"), kinds.QUEUE),
    **dict.fromkeys(("cluster", "clusters"), kinds.CLUSTER),
}
"""What people call kinds."""


@dataclass(frozen=True, slots=True)
class Ref:
    """One object."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind.lower()}/{self.name}"


def kind_of(word: str, *, only: tuple[Kind, ...] = ()) -> Kind:
    """The kind that a word means. Stop when there is none, with the nearest that there is."""
    found = WORDS.get(word.lower())
    if found is not None and (not only or found in only):
        return found
    words = [each for each, kind in WORDS.items() if not only or kind in only]
    near = difflib.get_close_matches(word.lower(), words, n=1)
    said = f"; did you mean {near[0]}?" if near else ""
    raise Stop(f"{word!r} is none of {', '.join(_plurals(only))}{said}", code=exits.USAGE)


def _plurals(only: tuple[Kind, ...]) -> list[str]:
    kinds_ = only or tuple(dict.fromkeys(WORDS.values()))
    return [next(word for word, kind in WORDS.items() if kind == each and word.endswith("s")) for each in kinds_]


def ref(text: str, *, only: tuple[Kind, ...] = (kinds.JOB, kinds.JOB_FLOW)) -> Ref:
    """Read `kind/name`; a bare name is a Job's."""
    word, slash, name = text.partition("/")
    if not slash:
        return Ref(only[0], text)
    if not name:
        raise Stop(f"{text!r}: a name comes after the slash", code=exits.USAGE)
    return Ref(kind_of(word, only=only), name)
