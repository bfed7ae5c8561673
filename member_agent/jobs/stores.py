"""What the Job controller looks at, and the pods, Commands and names that belong to each Job, kept by deltas."""

from __future__ import annotations

from dataclasses import dataclass

from apis import kinds
from machinery.informer import Change, Informer, Key
from member_agent.jobs.roster import Roster
from member_agent.views import GroupView, JobView, Named, PodView, PriorityView, QueueView, WorkView
from policies.members import CommandView


@dataclass(frozen=True, slots=True)
class Stores:
    """The informers this role reads."""

    jobs: Informer[JobView]
    groups: Informer[GroupView]
    pods: Informer[PodView]
    queues: Informer[QueueView]
    works: Informer[WorkView]
    priorities: Informer[PriorityView]
    claims: Informer[Named]
    commands: Informer[CommandView]

    async def wait_synced(self) -> None:
        """Works are not waited for: local Jobs run without the hub."""
        for informer in (self.jobs, self.groups, self.pods, self.queues, self.priorities, self.claims, self.commands):
            await informer.wait_synced()


class PodIndex:
    """Pods by the UID of the Job that controls them."""

    def __init__(self) -> None:
        self._rosters: dict[str, Roster] = {}

    def changed(self, change: Change[PodView]) -> None:
        """Fold one change in."""
        old, new = change.old, change.new
        if old is not None and old.owner and (new is None or not new.task or (new.uid, new.owner) != (old.uid, old.owner)):
            roster = self._rosters.get(old.owner)
            if roster is not None:
                roster.remove(old)
        if new is not None and new.owner and new.task:
            self._rosters.setdefault(new.owner, Roster()).add(new)

    def of(self, owner: str) -> Roster:
        """Pods of a Job."""
        return self._rosters.get(owner) or Roster()

    def forget(self, owner: str) -> None:
        """The Job has gone; a roster of pods that are still there stays until they are."""
        roster = self._rosters.get(owner)
        if roster is not None and not roster.pods:
            del self._rosters[owner]


class CommandIndex:
    """Commands by the Job they name, the oldest first."""

    def __init__(self) -> None:
        self._commands: dict[Key, dict[str, CommandView]] = {}

    def changed(self, change: Change[CommandView]) -> Key | None:
        """Fold one change in; the Job concerned, None where it is none."""
        command = change.new or change.old
        if command is None or command.target[0] != kinds.JOB.kind:
            return None
        key = (command.namespace, command.target[1])
        held = self._commands.setdefault(key, {})
        if change.new is not None:
            held[command.uid] = change.new
        elif held.pop(command.uid, None) is not None and not held:
            del self._commands[key]
        return key

    def of(self, key: Key) -> tuple[CommandView, ...]:
        """In the order in which they were given."""
        return tuple(sorted(self._commands.get(key, {}).values(), key=lambda each: each.order))
