"""One round of dispatch: a frozen snapshot goes in, a plan comes out. Same snapshot, same bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from apis.runs import BindingRun, Failover, PartState
from apis.vectors import ResourceVector
from federation.dispatch.going import Departures, buried, placed_anew, wishes_anew
from federation.dispatch.items import (
    Act,
    Carry,
    Decide,
    Discard,
    Governed,
    Item,
    Plan,
    Release,
    Relied,
    Shrink,
    Sweep,
    Terms,
    Versions,
)
from federation.dispatch.look import Look, Patience
from federation.dispatch.observing import look, paused, start_timeout_of
from federation.dispatch.placing import Asked, Choice, Chooser
from federation.dispatch.refusing import spec_refusal
from federation.dispatch.snapshot import Case, Key, Member, Order, Rules, Snapshot
from policies import durations, federated_quotas, parts, queueing
from policies.claims import governing, missing_overrides
from policies.departures import FOREVER
from policies.federated_quotas import Holding
from policies.matching import DEFAULT, setting
from policies.parts import Part
from policies.placements import PolicyView
from policies.queueing import Refusal
from policies.runs import DeleteWork, Grant, Leave, Run, RunState, UnknownEdge, step
from policies.shapes import Gang, Pool
from policies.statuses import TERMINAL
from policies.verdicts import ENDED_HERE, PASS, UNCLEAR, Decision, Outcome, Verdict, Wake, shortened
from policies.views import BindingView, JobView, WorkView


def plan(snapshot: Snapshot, *, rules: Rules) -> Plan:
    """Look at every case, then place what waits in queue order; stops after `rules.commits` items and names the rest."""
    planning = Planning(snapshot, rules=rules)
    while planning.advance():
        pass
    return planning.result()


@dataclass(frozen=True, slots=True)
class _Waiting:
    case: Case
    job: JobView
    policy: PolicyView
    seen: Look


WORST: Final = 4
"""Starts that timed out in a cluster count as much as one run there that did not stay whole: it is the last to be tried."""


class Planning:
    """One round, step by step. It may be left off at any step: what it has by then is a plan."""

    def __init__(self, snapshot: Snapshot, *, rules: Rules) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._members: Mapping[str, Member] = {member.cluster.name: member for member in snapshot.members}
        self._used = dict(snapshot.used)
        self._holdings = list(snapshot.holdings)
        self._chooser = Chooser(snapshot, rules=rules)
        self._pool = Pool()
        self._refusals: dict[str, Refusal | None] = {}
        self._items: list[Item] = []
        self._limited: dict[str, bool] = {}
        self._orders = self._waiting_orders()
        self._unseen = deque(sorted(snapshot.cases, key=self._first))
        self._left: list[Case] = []
        self._waiting: list[_Waiting] = []
        self._unclear: list[tuple[Key, str]] = []
        self._asks: list[tuple[Key, str, tuple[str, ...]]] = []
        self._later: list[tuple[Key, float]] = []
        self._leaving = Departures(self._members, settle=rules.settle, rate=rules.evictions)
        self._lost = tuple(sorted(name for name, member in self._members.items() if member.lost is not None))

    def advance(self) -> bool:
        """Look at one more case, or place one more; False when all is done."""
        if self._unseen:
            self._look(self._unseen.popleft())
            if not self._unseen:
                self.stop_looking()
            return True
        if not self._waiting or len(self._items) >= self._rules.commits:
            return False
        self._place(self._waiting.pop())
        return True

    def result(self) -> Plan:
        """The plan so far; what was not looked at or not placed is the rest."""
        rest = [each.case.key for each in reversed(self._waiting)] + [case.key for case in (*self._unseen, *self._left)]
        return Plan(tuple(self._items), tuple(rest), tuple(self._unclear), tuple(self._asks), tuple(self._later))

    def stop_looking(self) -> None:
        """Place what was looked at; the others are for the next round."""
        self._left += self._unseen
        self._unseen.clear()
        self._waiting.sort(key=self._order, reverse=True)

    def _waiting_orders(self) -> dict[Key, queueing.Order]:
        """Queue order of the Jobs that wait, namespaces in turns."""
        waiting = [case for case in self._snapshot.cases if not (case.binding is not None and case.binding.clusters)]
        return queueing.in_turns({case.key: self._job_order(case.job) for case in waiting if case.job is not None})

    def _job_order(self, job: JobView) -> queueing.JobOrder:
        return queueing.order_key(job, queues=self._snapshot.queues, classes=self._snapshot.priorities)

    def _first(self, case: Case) -> tuple[int, queueing.Order, Key]:
        """What runs is looked at first, what waits in queue order."""
        order = self._orders.get(case.key)
        return (0, (0, 0, 0, "", "", ""), case.key) if order is None else (1, order, case.key)

    def _look(self, case: Case) -> None:
        try:
            candidate = self._settle(case)
        except UnknownEdge as unknown:
            self._leave_alone(case, unknown)
            return
        if candidate is not None:
            self._waiting.append(candidate)

    def _order(self, candidate: _Waiting) -> queueing.Order:
        known = self._orders.get(candidate.case.key)
        if known is not None:
            return known
        queue, priority, age, namespace, name = self._job_order(candidate.job)
        return queue, priority, 0, age, namespace, name

    # --- looking -----------------------------------------------------------------------------------------------------

    def _settle(self, case: Case) -> _Waiting | None:
        """Everything but placing; answers the case if it may be placed."""
        job, binding = case.job, case.binding
        if binding is not None and (job is None or binding.job_uid != job.uid or binding.deleting):
            self._retire(case, binding)
            return None
        if job is None:
            self._sweep(case, works=[work for work in case.works if not work.deleting])
            return None
        policy = governing(job, policies=self._snapshot.policies, makers=self._snapshot.makers)
        late = start_timeout_of(
            setting("start-timeout", job=job, policy=policy, namespace=case.settings), default=self._rules.start_timeout
        )
        patience = Patience(late, self._rules.trouble_timeout)
        seen = look(
            case,
            members=self._members,
            patience=patience,
            again=policy.places_again,
            leaving=self._leaving(case, policy=policy),
        )
        self._look_anew(case, job, policy, seen)
        if seen.due < FOREVER:
            self._later.append((case.key, seen.due))
        seen.effects += paused(case, seen.run.record, suspended=policy.suspended, on=policy.suspended_on)
        self._sweep(case, works=seen.sweeps)
        self._shrink(case, seen)
        candidate = _Waiting(case, job, policy, seen)
        if seen.run.state in (RunState.WAITING, RunState.HELD) and not seen.idle:
            return candidate
        self._write(candidate)
        return None

    def _look_anew(self, case: Case, job: JobView, policy: PolicyView, seen: Look) -> None:
        """Somebody asked that it is placed anew: the same planner answers, as if it ran nowhere yet."""
        homes = wishes_anew(seen, case)
        if not homes or case.binding is None or job.gang is None:
            return
        chosen = self._chooser.anew(Asked(job, job.gang, policy, {}, case.settings), homes=homes)
        better = tuple(part.cluster for part in chosen.parts)
        due = self._leaving.turn(homes[0]) if better and set(better) != set(homes) else 0.0
        placed_anew(seen, homes, wish=case.binding.reschedule, better=better, due=due)

    def _leave_alone(self, case: Case, unknown: UnknownEdge) -> None:
        """Somebody wrote what this hub never writes, or the table lacks an edge: that is this case's trouble alone."""
        self._unclear.append((case.key, str(unknown)))
        if case.job is None or case.binding is None or case.binding.run is None:
            return
        run = Run(case.binding.run)
        policy = governing(case.job, policies=self._snapshot.policies, makers=self._snapshot.makers)
        candidate = _Waiting(case, case.job, policy, Look(run=run, before=run.record))
        text = shortened(f"nothing is done about it until it changes: {unknown}")
        self._tell(candidate, Act.RECORD, Decision(outcome=Outcome.WAITING, reason=UNCLEAR, message=text))

    def _retire(self, case: Case, binding: BindingView) -> None:
        """The Job is gone, or another has its name, or somebody deletes the binding: everything of it stops."""
        relied = Relied(binding.uid, binding.version)
        if not binding.deleting:
            # The garbage collector deletes it because its owner is gone; only where that does not come we do it ourselves.
            if case.orphaned >= self._rules.orphan_grace:
                self._items.append(Discard(case.key, relied, binding.job_uid))
            return
        run = binding.run or BindingRun(job=binding.job_uid)
        own = [work for work in case.works if work.record is None or work.record.job == binding.job_uid]
        own = [work for work in own if not buried(work, self._members.get(work.cluster))]
        gone = case.job is None or case.job.uid != binding.job_uid
        kept = binding.preserves and not binding.ended and gone
        leave = Leave if kept else DeleteWork
        stop = tuple(leave(work.cluster) for work in _by_cluster(own) if not work.deleting)
        if stop:
            self._items.append(Carry(case.key, binding.job_uid, relied, run, stop))
        elif not own and binding.finalized:
            live = tuple(
                name for name, part in sorted(run.parts.items()) if part.state is not PartState.GONE and name not in self._lost
            )
            self._items.append(Release(case.key, relied, binding.job_uid, run.epoch, live))

    def _sweep(self, case: Case, *, works: Sequence[WorkView]) -> None:
        if works:
            binding = case.binding
            relied = Relied(binding.uid, binding.version) if binding is not None else None
            named = tuple((work.namespace, work.name, work.uid) for work in _by_cluster(works))
            uid = case.job.uid if case.job is not None and binding is None else ""
            epochs = [work.record.epoch for work in works if work.record is not None and work.record.job == uid]
            self._items.append(Sweep(case.key, relied, named, uid, max(epochs, default=0)))

    def _shrink(self, case: Case, seen: Look) -> None:
        """Once the end is in the binding and on the Job, nobody needs the manifests any more (protocol.md 7)."""
        if not (case.job is not None and case.job.ended and case.binding is not None and case.binding.ended):
            return
        run = seen.run.record
        ended = [work for work in case.works if work.record is not None and work.phase in TERMINAL and not work.deleting]
        ours = [work for work in ended if (work.record.job, work.record.epoch) == (run.job, run.epoch)]  # type: ignore[union-attr]
        large = tuple((work.namespace, work.name, work.version) for work in _by_cluster(ours) if work.gang is not None)
        if large:
            self._items.append(Shrink(case.key, large))

    def _write(self, candidate: _Waiting) -> None:
        """Write what was seen, without a choice."""
        seen, case = candidate.seen, candidate.case
        if seen.changed:
            self._items.append(self._decide(candidate, act=_act(seen), seen=seen, decision=seen.why))
        elif seen.effects and case.binding is not None:
            relied = Relied(case.binding.uid, case.binding.version)
            terms = self._terms(candidate)
            self._items.append(Carry(case.key, candidate.job.uid, relied, seen.run.record, tuple(seen.effects), terms))

    def _decide(
        self, candidate: _Waiting, *, act: Act, seen: Look, decision: Decision | None = None, queue: str = ""
    ) -> Decide:
        case, binding = candidate.case, candidate.case.binding
        run = seen.run.record
        policy = candidate.policy
        return Decide(
            key=case.key,
            act=act,
            job_uid=candidate.job.uid,
            relied=Relied(binding.uid, binding.version) if binding is not None else None,
            run=run,
            clusters=tuple(sorted(name for name, part in run.parts.items() if part.state is not PartState.GONE)),
            decision=decision,
            effects=tuple(seen.effects),
            proofs=tuple(seen.proofs),
            terms=self._terms(candidate),
            governed=Governed() if policy is DEFAULT else Governed(policy.namespace, policy.name, policy.placement, policy.uid),
            queue=queue,
            generation=candidate.job.generation,
            evicted=tuple(seen.evicted),
            lost=self._lost,
        )

    def _terms(self, candidate: _Waiting) -> Terms:
        def given(name: str) -> str:
            return setting(name, job=candidate.job, policy=candidate.policy, namespace=candidate.case.settings)

        return Terms(
            exclusive=given("exclusive").lower() != "false",
            failover=Failover.FENCE if given("failover") == Failover.FENCE.value else Failover.CONTINUE,
            fence_after=_seconds(given("fence-after")) or self._rules.fence_after,
            max_run_time=_seconds(given("max-run-time")),
            paused=candidate.policy.suspended,
            paused_on=tuple(sorted(candidate.policy.suspended_on)),
            preserves=bool(candidate.policy.preserves),
        )

    # --- placing -----------------------------------------------------------------------------------------------------

    def _place(self, candidate: _Waiting) -> None:
        job, seen = candidate.job, candidate.seen
        if candidate.case.order is not None and candidate.case.order.value in ENDED_HERE:
            self._end(candidate, candidate.case.order)
            return
        refusal = spec_refusal(job) or self._queue_refusal(job.queue) or self._shut_out(candidate)
        missing = missing_overrides(candidate.policy, known=self._snapshot.overrides)
        if refusal is not None:
            self._refuse(candidate, refusal)
        elif missing and seen.run.state is not RunState.HELD:
            text = shortened(f"{candidate.policy.title} waits for override policies: {', '.join(missing)}")
            wakes = [Wake.POLICY]
            told = Decision(outcome=Outcome.WAITING, reason="WaitingForOverrides", message=text, wakes=wakes)
            self._tell(candidate, Act.WAIT, told)
        elif seen.run.state is RunState.HELD:
            held = seen.run.record.held
            self._tell(candidate, Act.HOLD, Decision(outcome=Outcome.HELD, reason=held.value if held else "", wakes=[Wake.JOB]))
        elif job.gang is not None:
            self._choose(candidate, job.gang)

    def _queue_refusal(self, name: str) -> Refusal | None:
        """Once for all Jobs of a queue."""
        if name not in self._refusals:
            self._refusals[name] = queueing.refusal(name, queues=self._snapshot.queues)
        return self._refusals[name]

    def _shut_out(self, candidate: _Waiting) -> Refusal | None:
        """Its queue is for other namespaces."""
        job = candidate.job
        return queueing.shut_out(job.queue, namespace=job.namespace, labels=candidate.case.labels, queues=self._snapshot.queues)

    def _end(self, candidate: _Waiting, order: Order) -> None:
        """A Command ends a Job that does not run: it never will."""
        candidate.seen.carried_out(candidate.case.order_uid)
        text = f"ended by {order.value} while it did not run"
        self._tell(candidate, Act.REFUSE, Decision(outcome=Outcome.REFUSED, reason=order.value, message=text))

    def _refuse(self, candidate: _Waiting, refusal: Refusal) -> None:
        """A Job that never ran fails; one that did waits until the field is right again. So does one that was accepted before
        its queue was closed."""
        accepted = refusal.reason == "QueueClosed" and candidate.case.binding is not None
        accepted = accepted or refusal.reason == queueing.NAMESPACE_UNKNOWN
        first = candidate.seen.run.record.epoch == 0 and not accepted
        decision = Decision(
            outcome=Outcome.REFUSED if first else Outcome.WAITING,
            reason=refusal.reason,
            message=refusal.message,
            field=refusal.field,
            wakes=[Wake.QUEUE, Wake.JOB],
        )
        judged = candidate.job.queue if first and refusal.field == "spec.queue" else ""
        self._tell(candidate, Act.REFUSE if first else Act.WAIT, decision, queue=judged)

    def _choose(self, candidate: _Waiting, gang: Gang) -> None:
        job, seen = candidate.job, candidate.seen
        verdict = self._admits(job, gang.requests)
        if not verdict.passes:
            text = Decision(outcome=Outcome.WAITING, reason=verdict.code, message=verdict.text, wakes=list(verdict.wakes))
            self._tell(candidate, Act.WAIT, text)
            return
        timeouts = dict(seen.run.record.start_timeouts)
        for cluster, failures in seen.run.record.failures.items():
            timeouts[cluster] = timeouts.get(cluster, 0) + WORST * failures
        choice = self._chooser.choose(Asked(job, gang, candidate.policy, timeouts, candidate.case.settings))
        if not choice.parts:
            if choice.asks:
                self._asks.append((candidate.case.key, job.asked_as, choice.asks))
            self._tell(candidate, Act.WAIT, choice.bare, words=choice)
            return
        shares = {part.cluster: self._share(part, gang) for part in choice.parts}
        requests = sum((each.requests for each in shares.values()), gang.requests * 0)
        verdict = self._admits(job, requests)
        if not verdict.passes:  # copies ask for more than one
            text = Decision(outcome=Outcome.WAITING, reason=verdict.code, message=verdict.text, wakes=list(verdict.wakes))
            self._tell(candidate, Act.WAIT, text)
            return
        chain = queueing.chain(job.queue, queues=self._snapshot.queues)
        ungranted = seen.run.record
        seen.run, effects = step(seen.run, self._grant(choice.parts, gang))
        seen.effects += effects
        self._chooser.settled(job, shares)
        for cluster, share in shares.items():
            self._chooser.take(cluster, share, queue=job.queue)
        self._holdings += [Holding(job.namespace, cluster, share.requests) for cluster, share in shares.items()]
        for name in chain:
            self._used[name] = self._used.get(name, requests * 0) + requests
        item = self._decide(candidate, act=Act.PLACE, seen=seen, decision=choice.decision)
        fences = tuple((cluster, self._members[cluster].fence or 0) for cluster in shares)
        relied = self._versions(candidate.policy, chain=chain, fences=fences)
        self._items.append(replace(item, ungranted=ungranted, versions=relied, sure=choice.sure))

    def _admits(self, job: JobView, requests: ResourceVector) -> Verdict:
        """By its queue, and by every quota of its namespace."""
        verdict = PASS
        if self._is_limited(job.queue):
            verdict = queueing.admits(job, request=requests, queues=self._snapshot.queues, used=self._used)
        if not verdict.passes or not self._snapshot.quotas:
            return verdict
        quotas = self._snapshot.quotas
        return federated_quotas.admits(requests, namespace=job.namespace, quotas=quotas, holdings=self._holdings)

    def _is_limited(self, name: str) -> bool:
        """Whether a queue, or one above it, has a capability; asked once for all Jobs of a queue."""
        if name not in self._limited:
            above = [self._snapshot.queues.get(each) for each in queueing.chain(name, queues=self._snapshot.queues)]
            self._limited[name] = any(each is not None and each.capability is not None for each in above)
        return self._limited[name]

    def _share(self, part: Part, gang: Gang) -> Gang:
        return gang if parts.is_whole(part, gang) else parts.gang_of(part, gang, pool=self._pool)

    def _grant(self, chosen: Sequence[Part], gang: Gang) -> Grant:
        members = {part.cluster: self._members[part.cluster] for part in chosen}
        return Grant(
            {name: (member.cluster.id, member.fence or 0) for name, member in members.items()},
            {part.cluster: (part.minimum, parts.shares_of(part)) for part in chosen if not parts.is_whole(part, gang)},
        )

    def _versions(self, policy: PolicyView, *, chain: Sequence[str], fences: tuple[tuple[str, int], ...]) -> Versions:
        queues = [self._snapshot.queues[name] for name in chain if name in self._snapshot.queues]
        return Versions(
            policy=None if policy is DEFAULT else (policy.namespace, policy.name, policy.uid, policy.version),
            queues=tuple((each.name, each.uid, each.generation, each.open) for each in queues),
            fences=fences,
        )

    def _tell(self, candidate: _Waiting, act: Act, decision: Decision, *, queue: str = "", words: Choice | None = None) -> None:
        """Write why it does not run, if that is news: at once when the reason changes, else now and then. `words` finds the
        words of a decision that comes without."""
        case, seen = candidate.case, candidate.seen
        known = case.binding.decision if case.binding is not None else None
        turned = known is None or (known.outcome, known.reason) != (decision.outcome, decision.reason)
        gist = words.gist if words is not None else decision.gist()
        news = turned or (not gist.same_as(known) and case.told >= self._rules.explain_every)
        if case.binding is None or seen.changed or news:
            decision = words.decision if words is not None else decision
            self._items.append(self._decide(candidate, act=act, seen=seen, decision=decision, queue=queue))


def _by_cluster(works: Sequence[WorkView]) -> list[WorkView]:
    return sorted(works, key=lambda work: (work.cluster, work.name))


def _act(seen: Look) -> Act:
    if "Restamp" in seen.told:
        return Act.RESTAMP
    return Act.STOP if seen.run.state is RunState.STOPPING else Act.RECORD


def _seconds(text: str) -> int | None:
    try:
        return durations.parse(text) if text else None
    except durations.InvalidDuration:
        return None
