"""What the benchmarks of Jobs share: cases, what a side did, the stream of a watch, documents under another Job's name."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson

from apis import keys, kinds
from apis.kinds import Kind
from benchmarks.harness import Write, raw_rate
from e2e.controlplane.api import Api, ApiRefused

NAMESPACE = "bench"
QUEUE = "default"
LONGEST = 600.0
"""Seconds after which a case that is not done is stuck."""
AUDIT_LAG = 3.0
"""Seconds until the last write is in the audit log."""
GONE = 404
ENDLESS = aiohttp.ClientTimeout(total=None)
READY = b"ready"
"""The line with which a side says that its watches are open."""
POD_SPEC = {
    "restartPolicy": "Never",
    "containers": [{"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
}

Doc = dict[str, Any]


def typed(kind: Kind) -> Doc:
    """apiVersion and kind of a document."""
    return {"apiVersion": kind.api_version, "kind": kind.kind}


@dataclass(frozen=True, slots=True)
class Case:
    """So many Jobs of so many pods."""

    jobs: int
    pods: int

    @classmethod
    def parse(cls, text: str) -> Case:
        """From `<Jobs>x<pods>`; ValueError for anything else."""
        jobs, cross, pods = text.partition("x")
        if not cross or not jobs.isdecimal() or not pods.isdecimal() or not int(jobs) * int(pods):
            raise ValueError(f"{text!r} is not <Jobs>x<pods>, both at least 1")
        return cls(int(jobs), int(pods))

    @property
    def total(self) -> int:
        """Pods of all Jobs."""
        return self.jobs * self.pods

    def __str__(self) -> str:
        return f"{self.jobs}x{self.pods}"

    def job(self, number: int) -> Doc:
        """The manifest of one Job."""
        task = {"name": "work", "replicas": self.pods, "template": {"spec": POD_SPEC}}
        spec = {"minAvailable": self.pods, "queue": QUEUE, "schedulerName": keys.DEFAULT_SCHEDULER, "tasks": [task]}
        return {**typed(kinds.JOB), "metadata": {"name": f"job-{number}"}, "spec": spec}


@dataclass(slots=True)
class Side:
    """One side's work over all rounds of a case: pods, seconds, and writes by what they wrote."""

    pods: int = 0
    seconds: float = 0.0
    writes: Counter[str] = field(default_factory=Counter)

    @property
    def rate(self) -> float:
        """Pods per second."""
        return self.pods / self.seconds if self.seconds else 0.0


def counted(found: Sequence[Write]) -> Counter[str]:
    """Successful writes by verb and what they wrote."""
    return Counter(
        f"{each.verb} {each.resource.split('.')[0]}{'/' + each.subresource if each.subresource else ''}"
        for each in found
        if each.code < 300
    )


def described(case: Case, side: str, *, done: Side, rounds: int) -> list[str]:
    """For people: the rate, and writes per pod and per Job."""
    pods, others = split(done.writes)
    per_pod = sum(pods.values()) / (case.total * rounds)
    per_job = sum(others.values()) / (case.jobs * rounds)
    listed = ", ".join(f"{what} {count / (case.jobs * rounds):.2f}" for what, count in sorted(others.items()))
    return [
        f"{case} {side}: {done.rate:.0f} pods/s",
        f"    {per_pod:.2f} writes per pod, {per_job:.2f} further writes per Job ({listed})",
    ]


def split(writes: Mapping[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Writes of pods and their subresources, and all others."""
    pods = {what: count for what, count in writes.items() if what.split()[1].split("/")[0] == "pods"}
    return pods, {what: count for what, count in writes.items() if what not in pods}


def shares(average: float) -> Iterator[int]:
    """Whole numbers, one per Job, whose sum keeps to the average."""
    for number in itertools.count():
        yield int((number + 1) * average + 0.5) - int(number * average + 0.5)


def renamed(document: Mapping[str, Any], name: str, *, sample: Mapping[str, Any], job: Mapping[str, Any]) -> bytes:
    """A document of the sample's Job as one of another Job (its metadata), under the given name."""
    text = orjson.dumps({**document, "metadata": {**document["metadata"], "name": name}})
    for end in ('"', "-"):  # the Job's name, and names that begin with it
        text = text.replace(f'"{sample["job"]}{end}'.encode(), f'"{job["name"]}{end}'.encode())
    return text.replace(sample["uid"].encode(), job["uid"].encode())


async def events(api: Api, kind: Kind, *, namespace: str | None = None) -> AsyncIterator[bytes]:
    """Raw lines of a watch from now on, without looking into them; one that ends is opened again where it ended."""
    path = kind.path(namespace=namespace)
    version = (await api.get(f"{path}?limit=1"))["metadata"]["resourceVersion"]
    while True:
        last = b""
        asked = f"{api.server}{path}?watch=1&resourceVersion={version}&timeoutSeconds=3600"
        async with api.session.get(asked, timeout=ENDLESS, read_bufsize=1 << 24) as response:
            async for last in response.content:
                yield last
        if last:
            version = orjson.loads(last)["object"]["metadata"]["resourceVersion"]


async def _delete_all(api: Api, kind: Kind) -> None:
    """Of the namespace, one by one: a request for all may outlive its answer on a loaded machine, and take what comes next."""
    items = (await api.get(kind.path(namespace=NAMESPACE)))["items"]
    names = [item["metadata"]["name"] for item in items]

    async def one(number: int) -> None:
        path = kind.path(namespace=NAMESPACE, name=names[number])
        try:
            await api.delete(f"{path}?gracePeriodSeconds=0&propagationPolicy=Background")
        except ApiRefused as error:
            if error.code != GONE:
                raise

    await raw_rate(one, count=len(names))


async def clear(api: Api, *, kinds_made: Sequence[Kind] = (kinds.JOB, kinds.POD_GROUP, kinds.POD, kinds.EVENT)) -> None:
    """Deletes everything of a round and returns when it is gone; TimeoutError after LONGEST."""
    for kind in kinds_made:
        await _delete_all(api, kind)
    for _ in range(int(2 * LONGEST)):
        lists = [await api.get(f"{kind.path(namespace=NAMESPACE)}?limit=1") for kind in kinds_made if kind != kinds.EVENT]
        if not any(each["items"] for each in lists):
            return
        await asyncio.sleep(0.5)
    raise TimeoutError(f"namespace {NAMESPACE} does not get empty")
