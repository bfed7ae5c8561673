"""What our annotations of a Job may say (design.md 3): a value that nobody could act on is refused, not passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from apis import keys
from apis.batch import Job, Task
from apis.runs import Failover
from controllers.admission.defaults import task_name
from controllers.admission.problems import Problem, among
from policies import durations

BOOLEANS: Final = (keys.SUSPEND, keys.EXCLUSIVE, keys.NO_RETRY, keys.ONLY_BELOW_MINIMUM)
LENGTHS: Final = (keys.FENCE_AFTER, keys.START_TIMEOUT, keys.MAX_RUN_TIME, keys.ESTIMATED_DURATION)


def annotation_problems(job: Job) -> list[Problem]:
    """What is wrong with the annotations of our group; an empty value counts as not given."""
    notes = job.metadata.annotations or {}
    found: list[Problem] = []
    for key in BOOLEANS:
        found += among(("true", "false"), notes.get(key), field=place_of(key))
    found += among([each.value for each in Failover], notes.get(keys.FAILOVER), field=place_of(keys.FAILOVER))
    for key in LENGTHS:
        found += _length_problems(notes.get(key), field=place_of(key))
    return found + _main_problems(notes, tasks=job.spec.tasks or [])


def place_of(key: str) -> str:
    """The path of an annotation, as problems name it."""
    return f"metadata.annotations[{key}]"


def _length_problems(text: str | None, *, field: str) -> list[Problem]:
    if not text:
        return []
    try:
        seconds = durations.parse(text)
    except durations.InvalidDuration as error:
        return [Problem(field, str(error))]
    return [] if seconds else [Problem(field, f"{text!r} should be longer than nothing")]


def _main_problems(notes: Mapping[str, str], *, tasks: list[Task]) -> list[Problem]:
    """`task=container,…`: both must be there, and a task has one main container."""
    field = place_of(keys.MAIN_CONTAINER)
    there = {task_name(task, index=index): _containers(task) for index, task in enumerate(tasks)}
    found: list[Problem] = []
    named: set[str] = set()
    for pair in filter(None, (each.strip() for each in notes.get(keys.MAIN_CONTAINER, "").split(","))):
        task, equals, container = pair.partition("=")
        if not (task and equals and container):
            found.append(Problem(field, f"{pair!r} is not task=container"))
        elif task not in there:
            found.append(Problem(field, f"{task!r} is not a task of the job"))
        elif container not in there[task]:
            found.append(Problem(field, f"{container!r} is not a container of task {task!r}"))
        elif task in named:
            found.append(Problem(field, f"task {task!r} has two main containers"))
        named.add(task)
    return found


def _containers(task: Task) -> set[str]:
    pod = (task.template or {}).get("spec")
    given = pod.get("containers") if isinstance(pod, dict) else None
    return {str(each.get("name")) for each in given or [] if isinstance(each, dict)} if isinstance(given, list) else set()
