"""Commands by the Job they name; those that no Job will ever carry out are told of and deleted."""

from __future__ import annotations

from collections.abc import Iterable

from apis import kinds
from machinery.informer import Change, Key
from member_agent.jobs.applier import JobApplier
from member_agent.jobs.telling import Teller
from member_agent.views import JobView
from policies.members import CommandView


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

    def meant_for(self, job: JobView) -> tuple[CommandView, ...]:
        """Of those that name it: all but the ones for an earlier Job of this name."""
        return tuple(each for each in self.of((job.namespace, job.name)) if each.target[2] in ("", job.uid))

    def strange_to(self, job: JobView) -> tuple[CommandView, ...]:
        """The ones for an earlier Job of this name."""
        return tuple(each for each in self.of((job.namespace, job.name)) if each.target[2] not in ("", job.uid))


class Dismissals:
    """Deletes Commands whose Job has gone, is going, or never was. Asks by quorum first: a watch may be late."""

    def __init__(self, commands: CommandIndex, *, applier: JobApplier, teller: Teller) -> None:
        self._commands = commands
        self._applier = applier
        self._teller = teller

    async def without_target(self, key: Key) -> None:
        """Commands for a Job that there is not."""
        commands = self._commands.of(key)
        if commands and await self._applier.uid_of(*key) is None:
            await self._lonely(commands)

    async def strangers(self, job: JobView) -> None:
        """Commands for an earlier Job of this name."""
        commands = self._commands.strange_to(job)
        if commands and await self._applier.uid_of(job.namespace, job.name) == job.uid:
            await self._lonely(commands)

    async def too_late(self, job: JobView, *, why: str) -> None:
        """All that name the Job."""
        for command in self._commands.of((job.namespace, job.name)):
            self._teller.too_late(job, command, why=why)
            await self._applier.dismiss(command)

    async def _lonely(self, commands: Iterable[CommandView]) -> None:
        for command in commands:
            self._teller.without_target(command)
            await self._applier.dismiss(command)
