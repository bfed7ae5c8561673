"""The rules of lifecycle policies (reference/volcano.md 1.4, rule 4): one list at a time, of a Job or of a task."""

from __future__ import annotations

from collections.abc import Sequence

from apis.batch import ACTIONS, ANY_EVENT, EVENTS, LifecyclePolicy
from controllers.admission.problems import Problem, among, duration


def policy_problems(policies: Sequence[LifecyclePolicy], *, field: str) -> list[Problem]:
    """What is wrong with one list of policies, of the Job or of a task."""
    found: list[Problem] = []
    events: set[str] = set()
    codes: set[int] = set()
    for index, policy in enumerate(policies):
        place = f"{field}[{index}]"
        named = dict.fromkeys([*(policy.events or []), *([policy.event] if policy.event else [])])
        if named and policy.exit_code is not None:
            found.append(Problem(place, "must not specify event and exitCode simultaneously"))
        if not named and policy.exit_code is None:
            found.append(Problem(place, "either event and exitCode should be specified"))
        if policy.action not in ACTIONS:
            found.append(Problem(place, f"invalid policy action {policy.action!r}, want one of {', '.join(ACTIONS)}"))
        found += _exit_code_problems(policy.exit_code, seen=codes, place=place, field=field)
        found += duration(policy.timeout, field=f"{place}.timeout")
        for event in named:
            path = f"{place}.event" if event == policy.event else f"{place}.events[{(policy.events or []).index(event)}]"
            found += among(EVENTS, event, field=path)
            if event in events:
                found.append(Problem(field, f"duplicate event {event}: one event may stand in one policy only"))
        events |= named.keys()
    if ANY_EVENT in events and len(events) > 1:
        found.append(Problem(field, "if there's * here, no other policy should be here"))
    return found


def _exit_code_problems(code: int | None, *, seen: set[int], place: str, field: str) -> list[Problem]:
    if code is None:
        return []
    if code == 0:
        return [Problem(f"{place}.exitCode", "0 is not a valid error code")]
    if code in seen:
        return [Problem(field, f"duplicate exitCode {code}: one exit code may stand in one policy only")]
    seen.add(code)
    return []
