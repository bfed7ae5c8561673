"""Wakes the planner for the Jobs that an event concerns, in coalesced rounds, and hands its plans to the applier."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from apis import kinds, naming
from federation.dispatch.applier import AT_ONCE, Applier, Result, Validate
from federation.dispatch.asking import Asking
from federation.dispatch.backlog import Backlog
from federation.dispatch.items import Act, Decide, Item, Plan
from federation.dispatch.placing import UNTRUSTED
from federation.dispatch.rounds import Pace, planned
from federation.dispatch.snapshot import Case, Key, Order, Rules, Snapshot
from federation.dispatch.stores import Pending, Stores
from federation.dispatch.trust import REST
from federation.dispatch.trying import RoundTrier
from federation.fences import Fences
from machinery.clock import Clock
from machinery.errors import NotFound
from machinery.events import About, EventRecorder
from machinery.informer import Change, Informer, Informers
from machinery.port import Port, Preconditions
from machinery.runner import WorkMetrics, run_workers
from machinery.workqueue import WorkQueue
from policies import durations, queueing
from policies.capacities import CapacityView, only_the_member_can_tell
from policies.matching import Makers
from policies.members import ClusterView, CommandView, LeaseView, project_command
from policies.overrides import OverrideView
from policies.placements import PolicyView
from policies.statuses import TERMINAL
from policies.trials import Trier
from policies.verdicts import Outcome
from policies.views import BindingView, JobView, Projections, WorkView

log = logging.getLogger(__name__)

RETRY: Final = 1.0
"""Seconds after which an item that the API server did not take is looked at again; doubled by each further failure."""

RETRY_LIMIT: Final = 30.0
"""The longest such pause."""

WRITERS: Final = 32
"""Cases committed at the same time."""

ROUND: Final = "round"

ANYBODY: Final[Key] = ("", "")
"""Stands for every waiting case among delayed keys."""


class DispatchController:
    """Jobs become bindings and Works. Runs only in the leader; of each member it relies on nothing before H0."""

    def __init__(
        self,
        *,
        port: Port,
        informers: Informers,
        projections: Projections,
        rules: Rules,
        events: EventRecorder,
        clock: Clock,
        validate: Validate,
        fences: Fences,
        pace: Pace,
        makers: Callable[[], Makers] | None = None,
    ) -> None:
        self._port = port
        self._projections = projections
        self._rules = rules
        self._events = events
        self._clock = clock
        self._pace = pace
        self._fences = fences
        self._stores = Stores(informers, projections=projections, fences=fences, evictions=rules.evictions, rates=rules.rates)
        if makers is not None:
            self._stores.makers = makers
        self._commands: Informer[CommandView] = informers.add(kinds.COMMAND, project_command)
        self._applier = Applier(
            port,
            projections=projections,
            validate=validate,
            fences=fences,
            outdated=self._stores.outdated,
            overriding=self._stores.overridden,
            refused=self._tell_not_overridden,
        )
        self._asking = Asking(
            port=port,
            projections=projections,
            clock=clock,
            capacities=self._stores.capacities,
            priorities=self._stores.priorities,
            order=self._stores.queue_order,
        )
        self._stores.overdue = lambda cluster, now: self._asking.overdue(cluster, now=now)
        self._dirty = Backlog()
        self._waiting: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._later: WorkQueue[Key] = WorkQueue(clock)
        self._rounds: WorkQueue[str] = WorkQueue(clock)
        self._orders: WorkQueue[Key] = WorkQueue(clock)

    async def run(self, metrics: WorkMetrics | None = None) -> None:
        """Until cancelled."""
        stores = self._stores
        await stores.wait_synced()
        await self._commands.wait_synced()
        stores.jobs.subscribe(self._job_changed)
        stores.bindings.subscribe(self._binding_changed)
        stores.works.subscribe(self._work_changed)
        stores.clusters.subscribe(self._cluster_changed)
        for policies in (stores.policies, stores.cluster_policies):
            policies.subscribe(self._policy_changed)
        for informer in stores.reconsidering:
            informer.subscribe(self._reconsider)
        for overrides in (stores.overrides, stores.cluster_overrides):
            overrides.subscribe(self._overrides_changed)
        self._commands.subscribe(self._command_changed)
        self._fences.subscribe(self._fence_raised)
        async with asyncio.TaskGroup() as group:
            group.create_task(run_workers(self._rounds, self._round, workers=1, name="dispatch", metrics=metrics))
            group.create_task(run_workers(self._orders, self._take_command, workers=4, name="commands", metrics=metrics))
            group.create_task(run_workers(self._later, self._due, workers=1, name="dispatch-later", metrics=metrics))
            group.create_task(
                run_workers(self._asking.queue, self._asking.reconcile, workers=4, name="asking", metrics=metrics)
            )

    def trier(self, namespace: str) -> Trier:
        """The planner before what is known now, for whoever asks what would become of a Job of a namespace."""
        known = self._stores.namespaces.get(None, namespace)
        snapshot = self._stores.snapshot((), now=self._clock.boot())
        settings, labels = (known.settings, known.labels) if known is not None else ({}, None)
        return RoundTrier(snapshot, rules=self._rules, settings=settings, labels=labels)

    # --- waking ------------------------------------------------------------------------------------------------------

    def _touch(self, key: Key | None) -> None:
        if key is not None:
            self._dirty.add((key,))
            self._rounds.add_after(ROUND, self._pace.coalesce)

    async def _due(self, key: Key) -> None:
        if key == ANYBODY:
            self._wake_waiting()
        else:
            self._touch(key)

    def _job_changed(self, change: Change[JobView]) -> None:
        old, new = change.old, change.new
        if new is None:
            self._stores.told.pop(change.key, None)
        if new is not None and old is not None and _same_to_us(old, new):
            return  # only its status changed, which the hub itself wrote
        self._touch(change.key)

    def _binding_changed(self, change: Change[BindingView]) -> None:
        key = self._stores.saw_binding(change)
        freed = change.new is None or (bool(change.new.ended) and not (change.old and change.old.ended))
        if freed:
            self._wake_waiting()
        self._touch(key)

    def _work_changed(self, change: Change[WorkView]) -> None:
        key = self._stores.saw_work(change, now=self._clock.boot())
        new, old = change.new, change.old
        if new is not None:
            self._note_trust(new)
        if new is not None and new.phase in TERMINAL and not (old and old.phase in TERMINAL) and new.record is not None:
            self._stores.ledger.part_ended(new)
            self._wake_waiting()
        self._touch(key)

    def _note_trust(self, work: WorkView) -> None:
        """A member that does not keep what its profile says takes no new work for a while, and people are told."""
        text = self._stores.trust.saw_work(work, now=self._clock.boot())
        cluster = self._stores.clusters.get(None, work.cluster)
        if text and cluster is not None:
            log.warning("%s: %s", work.cluster, text)
            about = About(kinds.CLUSTER, "", cluster.name, cluster.uid, cluster.version)
            self._events.warn(about, reason=UNTRUSTED, message=f"{text}; it takes no new work for {durations.text(REST)}")

    def _cluster_changed(self, change: Change[ClusterView]) -> None:
        """What is asked of a cluster, and whether it hears, concerns everything that runs there."""
        old, new, name = change.old, change.new, change.key[1]
        self._stores.leaving.saw_cluster(name, new, now=self._clock.boot(), wall=self._clock.now())
        if new is not None and old is not None and _asks(old) != _asks(new):
            self._touch_cluster(name)

    def _policy_changed(self, change: Change[PolicyView]) -> None:
        """What a policy says of what runs (suspension, tolerations, failover) concerns everything that it may govern."""
        old, new = change.old, change.new
        if old is None or (new is not None and _says(old) == _says(new)):
            return  # what a new one has to say is said when it governs something
        for binding in self._stores.bindings.values():
            if not binding.ended and old.namespace in ("", binding.namespace):
                self._touch((binding.namespace, binding.job))

    def _reconsider(self, change: Change[Any]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _same_but_version(old, new):
            return
        self._wake_waiting()
        if isinstance(new, LeaseView):
            self._fences.found(new.cluster)
            self._touch_cluster(new.cluster)
        elif isinstance(old, LeaseView):
            self._fences.lost(old.cluster)

    def _fence_raised(self, cluster: str) -> None:
        """The member may be given work, and what is absent there is absent."""
        self._wake_waiting()
        self._touch_cluster(cluster)

    def _touch_cluster(self, cluster: str) -> None:
        """A raised fence number concerns every part that has not started there."""
        for binding in self._stores.bindings.values():
            if cluster in binding.clusters and not binding.ended:
                self._touch((binding.namespace, binding.job))

    def _overrides_changed(self, _: Change[OverrideView]) -> None:
        """A Work that could not be made may be made now, and one that runs may have to be made anew."""
        for key in sorted(self._failures):
            self._touch(key)
        for binding in self._stores.bindings.values():
            if binding.clusters and not binding.ended:
                self._touch((binding.namespace, binding.job))

    def _tell_not_overridden(self, key: Key, text: str) -> None:
        job = self._stores.jobs.get(*key)
        if job is not None:
            self._events.warn(_about(kinds.JOB, job), reason="ApplyOverridePolicyFailed", message=text)

    def _wake_waiting(self) -> None:
        self._dirty.add(self._waiting)
        if self._waiting:
            self._rounds.add_after(ROUND, self._pace.coalesce)

    # --- Commands ----------------------------------------------------------------------------------------------------

    def _command_changed(self, change: Change[CommandView]) -> None:
        if change.new is None and change.old is not None:
            self._stores.order_gone(change.old)
            self._touch((change.old.namespace, change.old.target[1]))
        elif change.new is not None and change.new.target[0] == kinds.JOB.kind:
            self._orders.add(change.key)

    async def _take_command(self, key: Key) -> float | None:
        """Do it, then delete it. The binding records with what was done which Command it was, by UID: whoever dies between the
        two writes, it is carried out once (reference/volcano.md 1.6). What is not done is told in an Event, never dropped in
        silence."""
        command = self._commands.get(*key)
        if command is None:
            return None
        if not self._stores.carried_out(command):
            job = await self._target(command)
            if job is not None and command.action in Order.__members__.values() and not job.ended:
                self._stores.ordered(Pending(command, job.uid, Order(command.action)), key=job.key)
                self._touch(job.key)
                return RETRY_LIMIT  # woken as soon as the binding has it; the Job may end before, or be replaced
            self._tell_undone(command, job)
        with contextlib.suppress(NotFound):
            await self._port.delete(
                kinds.COMMAND, command.name, namespace=command.namespace, preconditions=Preconditions(uid=command.uid)
            )
        return None

    def _tell_undone(self, command: CommandView, job: JobView | None) -> None:
        if job is None:
            text = f"there is no Job {command.namespace}/{command.target[1]} with the UID that it names"
            self._events.warn(_about(kinds.COMMAND, command), reason="CommandWithoutTarget", message=text)
        elif command.action not in Order.__members__.values():
            text = f"{command.action} of Command {command.name}: the hub acts on {', '.join(Order)} only; nothing was done"
            self._events.warn(_about(kinds.JOB, job), reason="CommandNotSupported", message=text)
        else:
            text = f"{command.action} of Command {command.name}: the Job has ended; nothing was done"
            self._events.warn(_about(kinds.JOB, job), reason="CommandTooLate", message=text)

    async def _target(self, command: CommandView) -> JobView | None:
        """The Job a Command is for, by a quorum read where the store does not know it. People name the Job, programs its UID as
        well."""
        job = self._stores.jobs.get(command.namespace, command.target[1])
        if job is None or command.target[2] not in ("", job.uid):
            try:
                document = await self._port.get(kinds.JOB, command.target[1], namespace=command.namespace)
            except NotFound:
                return None
            job = self._projections.job(document)
        return job if command.target[2] in ("", job.uid) else None

    # --- rounds ------------------------------------------------------------------------------------------------------

    async def _round(self, _: str) -> float | None:
        """Plan for the dirty cases and commit; a case whose item was refused is looked at again."""
        keys = self._dirty.take(self._pace.cases, order=self._importance())
        try:
            snapshot = self._stores.snapshot(keys, now=self._clock.boot())
            made = await planned(snapshot, rules=self._rules, clock=self._clock, pace=self._pace)
            results = await self._commit(made.items)
        except BaseException:
            self._dirty.put_back(keys)
            raise
        for key, story in made.unclear:
            log.error("%s/%s is left alone: %s", *key, story)
        for key, seconds in made.later:
            self._later.add_after(key, max(seconds, AT_ONCE))
        self._ask(snapshot, made)
        self._after(snapshot, results)
        self._dirty.put_back(made.rest)
        return self._pace.coalesce if self._dirty else None

    def _importance(self) -> Callable[[Key], tuple[int, Any]]:
        """What runs, stops or ended comes before what waits; that comes in queue order, from one round to the next, and where a
        round cannot look at all of it namespaces take turns."""
        order = self._stores.queue_order()
        coming = self._dirty.coming
        turns: dict[Key, queueing.Order] = {}
        if len(coming) > self._pace.cases and len({namespace for namespace, _ in coming}) > 1:
            turns = queueing.in_turns({key: order(key) for key in coming})

        def importance(key: Key) -> tuple[int, Any]:
            if key not in self._waiting and self._stores.is_placed(key):
                return 0, ()
            return 1, turns[key] if turns else order(key)

        return importance

    async def _commit(self, items: Sequence[Item]) -> list[Result]:
        """Items of one case in order, cases side by side."""
        gate = asyncio.Semaphore(WRITERS)
        by_case: dict[Key, list[Item]] = {}
        for item in items:
            by_case.setdefault(item.key, []).append(item)
        results: list[Result] = []

        async def one(group: Sequence[Item]) -> None:
            async with gate:
                for item in group:
                    result = await self._applier.commit(item)
                    self._learn(result)
                    results.append(result)

        async with asyncio.TaskGroup() as tasks:
            for group in by_case.values():
                tasks.create_task(one(group))
        return results

    def _learn(self, result: Result) -> None:
        """Charge what was written at once; the watch brings it a moment later."""
        stores, item = self._stores, result.item
        if result.binding is not None:
            stores.recent_bindings.note(result.binding)
            stores.ledger.saw_binding(result.binding, job=stores.jobs.get(*item.key))
        for work in result.works:
            stores.ledger.saw_work(work)
            if isinstance(item, Decide) and item.sure:
                stores.trust.granted(work)
        if isinstance(item, Decide) and result.binding is not None and item.decision is not None:
            stores.told[item.key] = self._clock.boot()
        if isinstance(item, Decide) and item.act is Act.STOP and result.binding is not None:
            self._note_time_outs(item)
            self._tell_withdrawal(item)
        if isinstance(item, Decide) and result.binding is not None:
            for cluster in item.evicted:
                stores.leaving.left(cluster, now=self._clock.boot())

    def _tell_withdrawal(self, item: Decide) -> None:
        """Why a run is stopped to be placed again: the next placement may be decided before anybody folds this one, and the
        same words told twice are one Event."""
        job, decision = self._stores.jobs.get(*item.key), item.decision
        if job is not None and decision is not None and decision.outcome is Outcome.WAITING and decision.message:
            text = f"{decision.reason}: {decision.message}"
            self._events.warn(_about(kinds.JOB, job), reason="ScheduleBindingFailed", message=text)

    def _note_time_outs(self, item: Decide) -> None:
        before = self._stores.bindings.get(item.key[0], naming.binding_name(item.key[1]))
        known = before.run.start_timeouts if before is not None and before.run is not None else {}
        for cluster, count in sorted(item.run.start_timeouts.items()):
            if count > known.get(cluster, 0):
                self._stores.timed_out(cluster, now=self._clock.boot())

    def _after(self, snapshot: Snapshot, results: Iterable[Result]) -> None:
        refused = {result.item.key: result for result in results if not result.committed}
        for key, result in sorted(refused.items()):
            log.info("%s/%s: %s not committed: %s", *key, type(result.item).__name__, result.why)
            self._failures[key] = self._failures.get(key, 0) + 1
            pause = AT_ONCE if result.why.startswith("stale") else RETRY
            self._later.add_after(key, min(pause * 2.0 ** min(self._failures[key] - 1, 16), RETRY_LIMIT))
        for case in snapshot.cases:
            if case.key not in refused:
                self._failures.pop(case.key, None)
            self._note_waiting(case, committed=case.key not in refused)
            self._schedule(case)
        now = self._clock.boot()
        due = min(self._stores.reopening(now=now), self._asking.next(now=now))
        if self._waiting and due < float("inf"):
            self._later.add_after(ANYBODY, due - now + AT_ONCE)

    def _ask(self, snapshot: Snapshot, made: Plan) -> None:
        """Let members be asked about what waits and was looked at now."""
        asks, rest = {key: (digest, clusters) for key, digest, clusters in made.asks}, set(made.rest)
        for case in snapshot.cases:
            if case.key in asks:
                digest, clusters = asks[case.key]
                gang = case.job.gang if case.job is not None else None
                self._asking.wish(case.key, digest, clusters, urgent=gang is not None and only_the_member_can_tell(gang))
            elif case.key not in rest:
                self._asking.forget(case.key)

    def _note_waiting(self, case: Case, *, committed: bool) -> None:
        command = self._stores.first_order(case.key)
        if command is not None and self._stores.carried_out(command):
            self._orders.add((command.namespace, command.name))
        binding = self._stores.recent_bindings.get(case.key[0], naming.binding_name(case.key[1]))
        waits = (
            case.job is not None
            and not case.job.ended
            and binding is not None
            and not binding.ended
            and not binding.clusters
            and not (binding.decision is not None and binding.decision.outcome is Outcome.REFUSED)
        )
        if waits:
            self._waiting.add(case.key)
            if 0.0 < case.told < self._rules.explain_every:
                # Too soon to tell a new detail: look again when it may be told, so that the reason on record stays current.
                self._later.add_after(case.key, self._rules.explain_every - case.told)
        else:
            self._waiting.discard(case.key)

    def _schedule(self, case: Case) -> None:
        """Look again when a start may have timed out, or a binding has lost its Job for long enough."""
        binding = case.binding
        if binding is None or binding.ended:
            return
        if case.job is None or case.job.uid != binding.job_uid:
            if not binding.deleting:
                self._later.add_after(case.key, max(self._rules.orphan_grace - case.orphaned, AT_ONCE))
            return
        for work in case.works:
            if not work.deleting and (not work.gathered or work.cluster in case.troubled):
                # A user's shorter time-out is honoured within this step; a longer one costs a few idle looks.
                left = self._rules.start_timeout - case.waited.get(work.cluster, 0.0)
                if work.cluster in case.troubled:
                    left = min(left, self._rules.trouble_timeout - case.troubled[work.cluster])
                self._later.add_after(case.key, min(max(left, RETRY), 30.0))


def _about(kind: kinds.Kind, view: JobView | CommandView) -> About:
    return About(kind, view.namespace, view.name, view.uid, view.version)


def _says(policy: PolicyView) -> tuple[object, ...]:
    """What of a policy concerns runs that it placed before."""
    return (policy.suspended, policy.suspended_on, policy.tolerations, policy.bears, policy.application)


def _asks(cluster: ClusterView) -> tuple[object, ...]:
    """What of a cluster may make runs leave it."""
    return (cluster.orders, cluster.taints, cluster.since, cluster.deleting, cluster.ready == "True")


def _same_to_us(old: JobView, new: JobView) -> bool:
    """Nothing changed that a decision depends on."""
    return (old.uid, old.generation, old.deleting, old.settings, old.labels, old.ended) == (
        new.uid,
        new.generation,
        new.deleting,
        new.settings,
        new.labels,
        new.ended,
    )


def _same_but_version(old: Any, new: Any) -> bool:
    """A renewal of a Lease, or a status that says nothing new, wakes nobody."""
    if isinstance(new, LeaseView):
        return bool(old.fence == new.fence and old.uid == new.uid)
    if isinstance(new, CapacityView):
        return bool(old.generation == new.generation and old.label_keys == new.label_keys)
    return bool(old == replace(new, version=old.version))
