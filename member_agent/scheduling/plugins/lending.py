"""What queues lend: whose room may be taken back, so that nobody falls below what it deserves or what is guaranteed to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from apis.vectors import ResourceVector
from member_agent.scheduling.plugins.protocol import Victim
from member_agent.scheduling.plugins.sentences import at_limit
from member_agent.scheduling.reasons import Reason
from member_agent.scheduling.usage import add

Amounts = Callable[[str], Mapping[str, int]]
"""Of a queue: what it holds, what it deserves (a resource that is not named is not shared out), what is guaranteed to it."""


def lent(
    victims: Sequence[Victim],
    *,
    request: Mapping[str, int],
    held: Amounts,
    deserved: Amounts,
    guarantee: Amounts,
    path: Callable[[str], Sequence[str]],
    levels: int = 1,
) -> list[Victim]:
    """Victims whose room their queues borrow, each beside those before it. `path`: the victim's queue and those above it that
    are not also above whoever asks; of the first `levels` of them what they deserve counts, of all what is guaranteed."""
    after: dict[str, dict[str, int]] = {}
    found = []
    for victim in victims:
        names, asked = path(victim.queue), victim.pod.shape.requests
        left = {name: after[name] if name in after else dict(held(name)) for name in names}
        if all(_keeps(left[name], asked, guarantee(name)) for name in names) and all(
            _borrows(left[name], asked, deserved(name), request) for name in names[:levels]
        ):
            for name in names:
                add(left[name], asked, times=-1)
                after[name] = left[name]
            found.append(victim)
    return found


def _keeps(held: Mapping[str, int], asked: Mapping[str, int], guarantee: Mapping[str, int]) -> bool:
    """Whether a queue has what is guaranteed to it without what is asked of it."""
    return all(held.get(name, 0) - amount >= guarantee[name] for name, amount in asked.items() if guarantee.get(name))


def _borrows(
    held: Mapping[str, int], asked: Mapping[str, int], deserved: Mapping[str, int], request: Mapping[str, int]
) -> bool:
    """Whether a queue has what it deserves without what is asked of it, of a resource that whoever asks is after: of those that
    everybody has enough of nobody holds more. Who deserves none of the resources borrows all of them."""
    named = [name for name in asked if name in deserved]
    return not named or any(name in request and held.get(name, 0) - asked[name] >= deserved[name] for name in named)


def beyond_deserved(queue: str, held: Mapping[str, int], deserved: Mapping[str, int], request: ResourceVector) -> Reason | None:
    """Why a queue may not take so much back from others: with it, it would hold more than it deserves. A resource that is not
    among those it deserves is not shared out by it; a queue that deserves nothing of what is asked for borrows."""
    named = [name for name in request if name in deserved]
    if not named:
        return Reason("NothingDeserved", f"queue {queue} deserves none of {request}: it takes nothing back")
    over = [name for name in named if held.get(name, 0) + request[name] > deserved[name]]
    if not over:
        return None
    at = at_limit(held, {name: deserved[name] for name in over})
    return Reason("BeyondDeserved", f"queue {queue} is at {at} of what it deserves: {request} more is not taken back")
