"""Members that are drained, tainted, declared lost and removed: runs move by H2 and H4 of the protocol and by nothing else."""

from __future__ import annotations

from apis import cluster_orders, keys, kinds
from apis.runs import Ground, PartState
from simulator.world import World
from tests.support.members import annotate, condition, declare_lost, drain, notes_of, taint, undrain
from tests.support.stage import play
from tests.support.stories import binding_run, clusters, home, job, phase, running, why

EAST_FIRST = {"east": 8, "west": 4}
JOBS = ("one", "two", "three")


async def three_in_the_east(world: World, *, runs_for: float = 600.0) -> None:
    await world.apply([job(name, pods=2, runs_for=runs_for) for name in JOBS])
    await world.until(lambda: all(running(world, name) == 2 for name in JOBS), timeout=60, what="all three run")
    assert {home(world, name) for name in JOBS} == {"east"}


def moved(world: World, to: str) -> bool:
    return all(home(world, name) == to and running(world, name) == 2 for name in JOBS)


def test_a_drained_member_is_left_one_run_after_the_other_and_says_how_far_it_is() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        ordered, told = world.clock.boot(), []
        gone: list[float] = []

        def look() -> bool:
            told.append(condition(world, "east", "Drained")[1:])
            records = [binding_run(world, name) for name in JOBS]
            stopped = sum(each is not None and (each.epoch > 1 or "east" not in _granted(each)) for each in records)
            gone.extend([world.clock.boot()] * (stopped - len(gone)))
            return moved(world, "west")

        await drain(world, "east", why="a new kernel")
        await world.until(look, timeout=120, what="all have moved")
        assert gone[-1] - ordered >= 2.0, "three runs leave in two seconds at least"
        await world.until(lambda: condition(world, "east", "Drained")[0] == "True", timeout=30, what="drained")
        assert condition(world, "east", "Drained") == ("True", "Drained", "no run is left; drained by alice")
        assert any(reason == "Draining" and "left" in text for reason, text in told), told
        for name in JOBS:
            record = binding_run(world, name)
            assert record is not None
            assert [(past.cluster, past.ground) for past in record.past] == [("east", Ground.CONFIRMED)]
        await world.apply(job("late", pods=1))
        await world.until(lambda: phase(world, "late") == "Completed", timeout=60, what="a new Job ends")
        assert clusters(world, "late") == ["west"]
        await undrain(world, "east")
        await world.until(lambda: condition(world, "east", "Drained") == ("", "", ""), timeout=30, what="nothing is told of it")
        await world.apply(job("back", pods=1))
        await world.until(lambda: phase(world, "back") == "Completed", timeout=60, what="the next one ends")
        assert clusters(world, "back") == ["east"]

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})


def left_of(world: World, cluster: str) -> int:
    """Works in its execution namespace."""
    return len(world.all(kinds.WORK, namespace=keys.execution_namespace(cluster)))


def silent(world: World) -> bool:
    """A taint says that east is not heard from."""
    taints = (world.get(kinds.CLUSTER, "east") or {})["spec"].get("taints") or []
    return any(each["key"] == "silent" for each in taints)


def _granted(record: object) -> list[str]:
    parts = getattr(record, "parts", {})
    return [name for name, part in parts.items() if part.state is PartState.GRANTED]


def test_whoever_takes_a_drain_back_keeps_what_has_not_left_yet() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        await drain(world, "east")
        await world.advance(0.6)
        await undrain(world, "east")
        await world.until(lambda: all(running(world, name) == 2 for name in JOBS), timeout=90, what="all run")
        await world.advance(30.0)
        epochs = sorted(record.epoch for name in JOBS if (record := binding_run(world, name)) is not None)
        assert epochs == [1, 1, 2]

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})


def test_an_absent_member_is_drained_when_it_is_heard_from_again() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        world.cut("east")
        await world.until(lambda: condition(world, "east", "Ready")[0] == "Unknown", timeout=90, what="it is silent")
        await drain(world, "east")
        await world.until(lambda: condition(world, "east", "Drained")[1] == "MemberAbsent", timeout=30, what="it is told")
        await world.advance(60.0)
        assert all(_granted(binding_run(world, name)) == ["east"] and running(world, name) == 2 for name in JOBS)
        world.heal("east")
        await world.until(lambda: moved(world, "west"), timeout=180, what="all have moved")

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})


def test_a_lost_member_is_declared_lost_with_a_name_and_its_runs_start_elsewhere_once() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        world.lose("east")
        await world.until(lambda: condition(world, "east", "Ready")[0] == "Unknown", timeout=90, what="it is silent")
        await world.advance(60.0)
        assert all(home(world, name) == "east" for name in JOBS), "without a ground nothing moves"
        await declare_lost(world, "east")
        await world.until(lambda: moved(world, "west"), timeout=60, what="all run in the west")
        for name in JOBS:
            record = binding_run(world, name)
            assert record is not None
            (past,) = record.past
            assert (past.cluster, past.ground, past.by) == ("east", Ground.DECLARED, "alice")
            assert past.at == "2026-01-01T00:00:00Z"
        assert condition(world, "east", "DeclaredLost")[:2] == ("True", "Declared")
        assert "by alice" in condition(world, "east", "DeclaredLost")[2]
        assert cluster_orders.DECLARE_LOST not in notes_of(world, "east"), "the order is carried out once"
        lease = world.get(kinds.LEASE, "member", namespace="karmada-es-east") or {}
        assert lease["spec"]["holderIdentity"] == "hub"
        # It comes back empty: what lies there of the old epoch is confirmed and goes, and it takes new work.
        for role in ("agent", "fencer"):
            world.resume(f"{role}-east")
        for node in world.all(kinds.NODE, server="east"):
            await world.client("east").delete(kinds.NODE, node["metadata"]["name"])
        await world.until(lambda: left_of(world, "east") == 0, timeout=180, what="nothing is left there")
        await world.until(lambda: condition(world, "east", "DeclaredLost")[1] == "Returned", timeout=60, what="it is back")

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})


def test_a_member_that_lives_cannot_be_declared_lost() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        await declare_lost(world, "east")
        await world.until(lambda: condition(world, "east", "DeclaredLost")[1] == "MemberAlive", timeout=60, what="refused")
        await world.advance(5.0)
        assert cluster_orders.DECLARE_LOST not in notes_of(world, "east"), "an order that stood would act at the next silence"
        world.cut("east")
        await world.advance(120.0)
        assert all(_granted(binding_run(world, name)) == ["east"] and running(world, name) == 2 for name in JOBS)
        world.heal("east")
        await world.advance(30.0)

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})


def test_a_job_that_is_deleted_while_its_member_is_lost_goes_once_that_is_declared() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        world.lose("east")
        await world.until(lambda: condition(world, "east", "Ready")[0] == "Unknown", timeout=90, what="it is silent")
        await world.client().delete(kinds.JOB, "one", namespace="default")
        await world.advance(60.0)
        assert world.get(kinds.RESOURCE_BINDING, "one-job") is not None
        await declare_lost(world, "east")
        await world.until(lambda: world.get(kinds.RESOURCE_BINDING, "one-job") is None, timeout=60, what="the binding goes")
        await world.apply(job("one", pods=2, runs_for=5))
        await world.until(lambda: phase(world, "one") == "Completed", timeout=90, what="a new one of that name runs")
        assert clusters(world, "one")[-1] == "west"

    play(story, cpus=EAST_FIRST, pods={"default/one": 4, "default/two": 2, "default/three": 2})


def test_a_member_that_is_unjoined_leaves_nothing_at_the_hub_and_nothing_of_the_hub_in_itself() -> None:
    async def story(world: World) -> None:
        await world.apply(job("ended", pods=1, runs_for=2))
        await world.until(lambda: phase(world, "ended") == "Completed", timeout=60, what="one ends there before")
        assert clusters(world, "ended") == ["east"]
        await three_in_the_east(world)
        await world.client().delete(kinds.CLUSTER, "east")
        await world.until(lambda: world.get(kinds.CLUSTER, "east") is None, timeout=240, what="the Cluster goes")
        await world.until(lambda: moved(world, "west"), timeout=60, what="all run in the west")
        assert world.get(kinds.NAMESPACE, "karmada-es-east", namespace="") is None
        assert world.all(kinds.WORK, namespace="karmada-es-east") == []
        assert world.all(kinds.JOB, server="east") == []
        assert phase(world, "ended") == "Completed"

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})


def test_an_absent_member_leaves_on_a_persons_word_and_not_before() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        world.lose("east")
        await world.until(lambda: condition(world, "east", "Ready")[0] == "Unknown", timeout=90, what="it is silent")
        await world.client().delete(kinds.CLUSTER, "east")
        await world.until(lambda: condition(world, "east", "Drained")[1] == "MemberAbsent", timeout=30, what="it is told")
        await world.advance(120.0)
        assert all(home(world, name) == "east" for name in JOBS)
        await declare_lost(world, "east", by="bob")
        await world.until(lambda: world.get(kinds.CLUSTER, "east") is None, timeout=120, what="the Cluster goes")
        await world.until(lambda: moved(world, "west"), timeout=60, what="all run in the west")
        record = binding_run(world, "one")
        assert record is not None
        assert [(past.ground, past.by) for past in record.past] == [(Ground.DECLARED, "bob")]
        assert world.get(kinds.NAMESPACE, "karmada-es-east", namespace="") is None

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})


# --- taints and failing runs -----------------------------------------------------------------------------------------


def tolerant(name: str, *, jobs: list[str], seconds: int | None, **spec: object) -> dict[str, object]:
    """A policy whose Jobs put up with a spot cluster's notice, for a while or for ever."""
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    placement = {"clusterTolerations": [{"key": "notice", "operator": "Exists", "effect": "NoExecute", **limit}]}
    selectors = [{"apiVersion": kinds.JOB.api_version, "kind": "Job", "name": job} for job in jobs]
    kind = kinds.PROPAGATION_POLICY
    body = {"resourceSelectors": selectors, "placement": placement, **spec}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, "namespace": "default"}, "spec": body}


def test_a_taint_evicts_by_what_policies_tolerate() -> None:
    async def story(world: World) -> None:
        await world.apply([tolerant("a-while", jobs=["two"], seconds=60), tolerant("always", jobs=["three"], seconds=None)])
        await three_in_the_east(world)
        await taint(world, "east", {"key": "notice", "effect": "NoExecute"})
        started = world.clock.boot()
        await world.until(lambda: home(world, "one") == "west", timeout=40, what="the first leaves")
        assert world.clock.boot() - started >= 5.0
        assert home(world, "two") == "east"
        taints = (world.get(kinds.CLUSTER, "east") or {})["spec"]["taints"]
        assert all(each.get("timeAdded") for each in taints), "whoever put it on did not say since when; the hub does"
        await world.until(lambda: home(world, "two") == "west", timeout=120, what="the second leaves")
        assert world.clock.boot() - started >= 60.0
        await world.advance(120.0)
        assert home(world, "three") == "east"
        assert running(world, "three") == 2

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})


def test_a_taint_that_follows_a_silence_kills_nothing_when_the_silence_is_over() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        evict = {
            "apiVersion": kinds.CLUSTER_TAINT_POLICY.api_version,
            "kind": "ClusterTaintPolicy",
            "metadata": {"name": "silent"},
            "spec": {
                "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["Unknown"]}],
                "removeOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
                "taints": [{"key": "silent", "effect": "NoExecute"}],
            },
        }
        await world.apply(evict)
        world.cut("east")
        await world.until(lambda: silent(world), timeout=90, what="the taint is there")
        await world.advance(60.0)
        world.heal("east")
        await world.until(lambda: not silent(world), timeout=60, what="the taint is gone")
        await world.advance(60.0)
        for name in JOBS:
            assert (record := binding_run(world, name)) is not None
            assert record.epoch == 1
            assert running(world, name) == 2

    play(story, cpus=EAST_FIRST, hub_settings={"taint_policies_evict": True}, pods={f"default/{name}": 2 for name in JOBS})


def test_a_run_that_is_not_whole_for_too_long_is_placed_anew_where_its_policy_says_so() -> None:
    async def story(world: World) -> None:
        spec = {"propagateDeps": True, "failover": {"application": {"decisionConditions": {"tolerationSeconds": 30}}}}
        await world.apply(tolerant("moves", jobs=["train"], seconds=None, **spec))
        made = job("train", pods=2, runs_for=600)
        made["spec"]["tasks"][0]["policies"] = [{"event": "PodFailed", "action": "AbortJob"}]
        await world.apply(made)
        await world.until(lambda: running(world, "train") == 2, timeout=60, what="it runs")
        assert home(world, "train") == "east"
        pod = next(each for each in world.all(kinds.POD, server="east") if each["metadata"]["name"] == "train-worker-0")
        world.pools["east"].evict(pod["metadata"]["name"])
        await world.until(lambda: phase(world, "train") == "Aborted", timeout=60, what="its own policy aborts it there")
        aborted = world.clock.boot()
        await world.until(lambda: home(world, "train") == "west" and running(world, "train") == 2, timeout=180, what="it moved")
        assert world.clock.boot() - aborted >= 30.0
        assert "ApplicationFailure" not in why(world, "train"), "it runs again"

    play(story, cpus={"east": 8, "west": 4}, pods={"default/train": 2})


def test_a_cordoned_member_keeps_what_it_has_and_gets_nothing_new() -> None:
    async def story(world: World) -> None:
        await three_in_the_east(world)
        await taint(world, "east", {"key": keys.TAINT_UNSCHEDULABLE, "effect": "NoSchedule"})
        await annotate(world, "east", {})
        await world.apply(job("late", pods=1))
        await world.until(lambda: phase(world, "late") == "Completed", timeout=60, what="a new Job ends")
        assert clusters(world, "late") == ["west"]
        assert all(home(world, name) == "east" and running(world, name) == 2 for name in JOBS)

    play(story, cpus=EAST_FIRST, pods={f"default/{name}": 2 for name in JOBS})
