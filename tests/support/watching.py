"""A watch over a whole world: after every change of any API server the promises that can be seen are checked.

What ran is judged from the nodes' container start records and from nothing that our programs say. What the API says is judged
only against its own past: epochs, fence numbers and recorded ends never go back.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apis import keys, kinds, naming, runs
from apis.vectors import ResourceVector, total
from simulator.pods import FINISHED, requests_of
from simulator.records import StartRecord
from simulator.store import Change, Doc, Stored
from simulator.world import HUB, World
from tests.support.stories import ENDED

FLOW_ENDED = frozenset({"Succeed", "Failed"})
GANG_PATIENCE = 120.0
"""Seconds a gang may stand bound in part: the agent died between two bindings, came back and was elected again, and perhaps
died once more. An agent that lives takes milliseconds."""


@functools.lru_cache(maxsize=4096)
def _record(text: str) -> runs.RunRecord | None:
    try:
        return runs.decode_record(text, where="pod")
    except runs.UnreadableRun:
        return None


@functools.lru_cache(maxsize=4096)
def _binding(text: str) -> runs.BindingRun:
    return runs.decode_binding(text, where="binding")


@dataclass(eq=False)
class Watch:
    """`pods`: how many containers each Job (namespace/name) has. `waits`: which Jobs each Job waits for. `restarts`: how often
    each Job may be restarted where it runs.

    The first broken promise is kept in `broken`; `check` raises it with the story.
    """

    world: World
    pods: Mapping[str, int] = field(default_factory=dict)
    waits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    restarts: Mapping[str, int] = field(default_factory=dict)
    gang_patience: float = GANG_PATIENCE
    broken: str = ""
    checks: int = 0
    _read: int = 0
    _epochs: dict[str, int] = field(default_factory=dict)
    _divided: dict[tuple[str, int], frozenset[str]] = field(default_factory=dict)
    """Clusters that each run a share of a Job, by its UID and epoch."""
    _starts: dict[str, list[tuple[int, StartRecord]]] = field(default_factory=dict)
    _bound: dict[tuple[str, str], dict[str, ResourceVector]] = field(default_factory=dict)
    _gangs: dict[tuple[str, str, str], set[str]] = field(default_factory=dict)
    _partly: dict[tuple[str, str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, server in self.world.servers.items():
            server.listeners.append(functools.partial(self._changed, name))

    def check(self) -> None:
        """AssertionError if a promise was broken."""
        if self.broken:
            raise AssertionError(f"{self.broken}\n{self.world.story()}")

    def _break(self, what: str) -> None:
        self.broken = self.broken or f"at {self.world.clock.boot():.3f} s: {what}"

    def _changed(self, server: str, change: Change) -> None:
        self.checks += 1
        self._read_starts()
        stored = change.new or change.old
        if stored is None:
            return
        if server == HUB:
            self._hub_changed(stored.kind, change.old, change.new)
        elif stored.kind == kinds.POD:
            self._pod_changed(server, stored, gone=change.new is None)
        self._look_at_gangs()

    # --- what ran ----------------------------------------------------------------------------------------------------

    def _read_starts(self) -> None:
        records = self.world.records.records
        while self._read < len(records):
            start = records[self._read]
            self._read += 1
            if start.job:
                self._judge(start)

    def _judge(self, start: StartRecord) -> None:
        run = _record(start.run)
        if run is None:
            self._judge_stranger(start)
            return
        before = self._starts.setdefault(run.job, [])
        self._judge_again(run.epoch, start, before)
        divided = self._divided.get((run.job, run.epoch), frozenset())
        for epoch, other in before:
            if epoch > run.epoch:
                self._break(f"{start.pod} of epoch {run.epoch} was started after epoch {epoch}")
            elsewhere = other.cluster != start.cluster and not divided >= {other.cluster, start.cluster}
            if (epoch != run.epoch or elsewhere) and other.overlaps(start):
                what = f"epoch {epoch} in {other.cluster} and epoch {run.epoch} in {start.cluster}"
                self._break(f"two runs of {start.job} at once: {what}")
            if epoch != run.epoch and self._succeeded([it for number, it in before if number == epoch], start.job):
                self._break(f"{start.job} was started again after epoch {epoch} had succeeded")
        before.append((run.epoch, start))
        for needed in self.waits.get(start.job, ()):
            if not self._succeeded(self.world.records.of_job(needed), needed):
                self._break(f"{start.job} was started before {needed} had completed")

    def _judge_again(self, epoch: int, start: StartRecord, before: list[tuple[int, StartRecord]]) -> None:
        """A container is started once in an epoch, and as often again as somebody asked for it, never beside itself."""
        same = [it for number, it in before if number == epoch and (it.pod, it.container) == (start.pod, start.container)]
        if len(same) > self.restarts.get(start.job, 0) or any(it.overlaps(start) for it in same):
            self._break(f"{start.pod} was started twice in epoch {epoch}: {same[-1].cluster} and {start.cluster}")

    def _judge_stranger(self, start: StartRecord) -> None:
        """Only a Job that was submitted in the member itself has pods without a run record."""
        namespace, name = start.job.split("/")
        job = self.world.servers[start.cluster].collection(kinds.JOB).get(namespace, name)
        if job is None or keys.RUN in (job.doc["metadata"].get("annotations") or {}):
            self._break(f"{start.cluster}/{start.pod} carries no run record")

    def _succeeded(self, starts: list[StartRecord], job: str) -> bool:
        return len({it.pod for it in starts if it.exit_code == 0}) >= self.pods.get(job, 1)

    # --- what the hub says -------------------------------------------------------------------------------------------

    def _hub_changed(self, kind: kinds.Kind, old: Stored | None, new: Stored | None) -> None:
        if new is None:
            return
        if kind == kinds.RESOURCE_BINDING:
            self._binding_changed(old, new)
        elif kind == kinds.LEASE and old is not None and new.name == keys.MEMBER_LEASE:
            before, after = (int(it.doc["spec"].get("leaseTransitions") or 0) for it in (old, new))
            if after < before:
                self._break(f"the fence number of {new.namespace} went back from {before} to {after}")
        elif kind in (kinds.JOB, kinds.JOB_FLOW) and old is not None and old.uid == new.uid:
            ends = ENDED if kind == kinds.JOB else FLOW_ENDED
            before_phase, after_phase = _phase(old.doc), _phase(new.doc)
            if before_phase in ends and after_phase != before_phase:
                self._break(f"{kind.kind} {new.name} had ended {before_phase} and is {after_phase}")
            self._steps_changed(old, new)

    def _steps_changed(self, old: Stored, new: Stored) -> None:
        known = {step["name"]: step for step in _status(new.doc).get("jobStatusList") or ()}
        for step in _status(old.doc).get("jobStatusList") or ():
            if step.get("endTimestamp"):
                after = known.get(step["name"], {})
                if (after.get("state"), after.get("endTimestamp")) != (step.get("state"), step["endTimestamp"]):
                    self._break(f"the end of step {step['name']} was {step.get('state')} and is {after.get('state')}")

    def _binding_changed(self, old: Stored | None, new: Stored) -> None:
        run = _run_of(new)
        if run is None:
            return
        if run.epoch < self._epochs.get(run.job, 0):
            self._break(f"epoch of {new.name} went back from {self._epochs[run.job]} to {run.epoch}")
        self._epochs[run.job] = run.epoch
        self._divided[run.job, run.epoch] = frozenset(name for name, part in run.parts.items() if part.shares)
        before = _run_of(old) if old is not None else None
        if before is not None and before.job == run.job:
            self._run_changed(new, before, run)
        end, was = _finished(new.doc), _finished(old.doc) if old is not None else ""
        if was and end != was and old is not None and old.uid == new.uid:
            self._break(f"the end of {new.name} was recorded as {was} and is {end or 'gone'}")

    def _run_changed(self, binding: Stored, before: runs.BindingRun, run: runs.BindingRun) -> None:
        """A part ends, or a new epoch begins: nothing of it may run any more where it was. That a Work was found absent and
        that the next epoch is granted may be one write."""
        for cluster, known in before.parts.items():
            part = run.parts.get(cluster)
            gone = run.epoch > before.epoch or part is None or part.state is runs.PartState.GONE
            if not gone or known.state is runs.PartState.GONE:
                continue
            told_by_the_agent = run.held is runs.Held.LOCALLY_DELETED and before.held is not run.held
            declared = _declared(run, part, epoch=before.epoch, cluster=cluster)  # nobody there can be told, or answer (H4)
            if known.state is runs.PartState.GRANTED and not (told_by_the_agent or declared):
                self._break(f"{binding.name}: epoch {before.epoch} was never told to stop in {cluster}")
            live = [it for epoch, it in self._starts.get(run.job, ()) if epoch == before.epoch and it.end is None]
            if any(it.cluster == cluster for it in live):
                self._break(f"{binding.name}: taken for gone from {cluster} while {live[0].pod} still runs there")
            if not (told_by_the_agent or declared) and self._has_work(binding, cluster, epoch=before.epoch):
                self._break(f"{binding.name}: taken for gone from {cluster} while its Work of epoch {before.epoch} is there")

    def _has_work(self, binding: Stored, cluster: str, *, epoch: int) -> bool:
        name = naming.work_name(binding.doc["spec"]["resource"]["name"], namespace=binding.namespace)
        work = self.world.servers[HUB].collection(kinds.WORK).get(keys.execution_namespace(cluster), name)
        if work is None or work.doc["metadata"].get("deletionTimestamp"):
            return work is not None
        record = _record((work.doc["metadata"].get("annotations") or {}).get(keys.RUN, ""))
        return record is not None and record.epoch == epoch

    # --- what is bound -----------------------------------------------------------------------------------------------

    def _pod_changed(self, member: str, pod: Stored, *, gone: bool) -> None:
        node = pod.doc["spec"].get("nodeName", "")
        if not node:
            return
        there = self._bound.setdefault((member, node), {})
        if gone or (pod.doc.get("status") or {}).get("phase") in FINISHED:
            there.pop(pod.uid, None)
        elif pod.uid not in there:
            there[pod.uid] = requests_of(pod.doc)
            room = self.world.pools[member].kubelets[node].allocatable
            taken = total(there.values())
            if not taken <= room:
                self._break(f"node {member}/{node} holds {taken.to_quantities()} of {room.to_quantities()}")
        group = (pod.doc["metadata"].get("annotations") or {}).get(keys.GROUP_NAME)
        if group and not gone:
            self._gangs.setdefault((member, pod.namespace, group), set()).add(pod.name)
            self._partly.setdefault((member, pod.namespace, group), self.world.clock.boot())

    def _look_at_gangs(self) -> None:
        for gang, since in list(self._partly.items()):
            member, namespace, name = gang
            group = self.world.servers[member].collection(kinds.POD_GROUP).get(namespace, name)
            if group is None or len(self._gangs[gang]) >= int(group.doc["spec"].get("minMember") or 0):
                del self._partly[gang]
            elif self.world.clock.boot() - since > self.gang_patience:
                bound = len(self._gangs[gang])
                self._break(f"gang {member}/{name}: {bound} of {group.doc['spec']['minMember']} bound since {since:.1f} s")


def _status(doc: Doc) -> Doc:
    return doc.get("status") or {}


def _phase(doc: Doc) -> str:
    return str((_status(doc).get("state") or {}).get("phase", ""))


def _declared(run: runs.BindingRun, part: runs.Part | None, *, epoch: int, cluster: str) -> bool:
    """A person has said that it has ended there."""
    if run.epoch == epoch:
        return part is not None and part.ground is runs.Ground.DECLARED
    grounds = [past.ground for past in run.past if (past.epoch, past.cluster) == (epoch, cluster)]
    return runs.Ground.DECLARED in grounds


def _run_of(binding: Stored) -> runs.BindingRun | None:
    annotations: Mapping[str, Any] = binding.doc["metadata"].get("annotations") or {}
    return _binding(annotations[keys.RUN]) if keys.RUN in annotations else None


def _finished(binding: Doc) -> str:
    conditions = _status(binding).get("conditions") or ()
    return next((c.get("reason", "") for c in conditions if c["type"] == "Finished" and c["status"] == "True"), "")
