"""One round: what it places, what it tells, and that it always says the same."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from apis.vectors import ResourceVector
from federation.dispatch.items import Act, Decide, Plan
from federation.dispatch.planner import plan
from federation.dispatch.snapshot import Case, Member, Rules, Snapshot
from federation.settings import HubSettings
from policies import queueing
from policies.fit import Room, pack
from policies.members import PriorityView, QueueView
from policies.placements import Affinity, PolicyView, Selector
from policies.queue_doors import NAMESPACES, door_of
from policies.shapes import Taint
from tests.policies.build import capacity, cluster, gang, job, nodes, shape

DEFAULTS = HubSettings()
RULES = Rules(
    filters=DEFAULTS.filters, weights=DEFAULTS.weights, start_timeout=600, explain_every=10.0, orphan_grace=10.0, commits=1000
)
QUEUES = {
    "root": QueueView("", "root", "r", "1"),
    "default": QueueView("", "default", "d", "1", parent="root"),
    "narrow": QueueView("", "narrow", "n", "1", parent="root", capability=ResourceVector.from_quantities({"cpu": 4})),
}


def member(name: str, *free: tuple[int, str], **more: object) -> Member:
    rows = nodes(*free)
    return Member(cluster(name, **more), fence=1, capacity=capacity(name, rows))


def snapshot(*cases: Case, members: tuple[Member, ...], **more: object) -> Snapshot:
    return Snapshot(cases=cases, members=members, queues=QUEUES, **more)  # type: ignore[arg-type]


def case(name: str, pods: int = 2, cpu: str = "1", **more: object) -> Case:
    return Case(("default", name), job=job(name, of=gang(("work", pods, shape(cpu))), **more))


def decisions(made: Plan) -> dict[str, Decide]:
    return {item.key[1]: item for item in made.items if isinstance(item, Decide)}


def test_jobs_of_one_round_share_one_ledger() -> None:
    made = plan(snapshot(case("a", 4), case("b", 4), members=(member("east", (1, "6")),)), rules=RULES)
    acts = {name: item.act for name, item in decisions(made).items()}
    assert acts == {"a": Act.PLACE, "b": Act.WAIT}


def test_what_was_promised_is_not_there_any_more() -> None:
    busy = replace(member("east", (1, "6")), promised=(("default", gang(("work", 4, shape()))),))
    made = plan(snapshot(case("a", 4), members=(busy,)), rules=RULES)
    assert decisions(made)["a"].act is Act.WAIT


def test_priority_goes_first_then_age_then_name() -> None:
    cases = (
        case("young", 4, created="2026-01-02T00:00:00Z"),
        case("old", 4, created="2026-01-01T00:00:00Z"),
        case("urgent", 4, created="2026-01-03T00:00:00Z", priority_class="high"),
    )
    high = {"high": PriorityView("", "high", "h", "1", value=10)}
    made = plan(snapshot(*cases, members=(member("east", (2, "4")),), priorities=high), rules=RULES)
    placed = [item.key[1] for item in made.items if isinstance(item, Decide) and item.act is Act.PLACE]
    assert placed == ["urgent", "old"]


def test_a_cluster_where_everything_fits_comes_before_a_better_one_where_only_the_minimum_does() -> None:
    wide = Case(("default", "a"), job=job("a", of=gang(("work", 8, shape()), least=4)))
    made = plan(snapshot(wide, members=(member("large", (40, "1")), member("tight", (1, "7")))), rules=RULES)
    assert decisions(made)["a"].clusters == ("large",)


def test_every_rule_that_says_no_is_told_with_what_could_change_it() -> None:
    tainted = member("tainted", (9, "8"), taints=(Taint("x", "", "NoSchedule"),))
    away = Member(replace(cluster("away"), ready="Unknown"), fence=1, capacity=capacity("away", nodes((9, "8"))))
    mute = Member(cluster("mute"), fence=1)
    other = member("other", (9, "8"))
    governed = PolicyView(
        namespace="default",
        name="p",
        uid="p",
        selectors=(Selector("batch.volcano.sh/v1alpha1", "Job"),),
        affinities=(Affinity(exclude=("other",)),),
    )
    members = (tainted, away, mute, other, member("full", (1, "1")))
    made = plan(snapshot(case("a"), members=members, policies=(governed,)), rules=RULES)
    decision = decisions(made)["a"].decision
    assert decision is not None
    codes = {each.cluster: each.code for each in decision.clusters}
    assert codes == {
        "tainted": "ClusterTaint",
        "away": "ClusterNotReady",
        "mute": "CapacityUnknown",
        "other": "ClusterAffinity",
        "full": "NoRoom",
    }
    assert set(decision.wakes) == {"capacity", "cluster", "policy", "job"}


def test_overflow_clusters_are_used_once_the_policys_own_are_full() -> None:
    home = Affinity(name="home", names=("home",), overflow=(Affinity(name="burst", names=("burst",)),))
    governed = PolicyView(
        namespace="default", name="p", uid="p", selectors=(Selector("batch.volcano.sh/v1alpha1", "Job"),), affinities=(home,)
    )
    members = (member("home", (2, "1")), member("burst", (1, "64")), member("other", (1, "64")))
    made = plan(snapshot(case("a"), case("b"), members=members, policies=(governed,)), rules=RULES)
    assert {name: item.clusters for name, item in decisions(made).items()} == {"a": ("home",), "b": ("burst",)}


def test_a_queue_at_its_capability_waits_and_others_go_on() -> None:
    cases = (case("a", 3, queue="narrow"), case("b", 3, queue="narrow"), case("c", 3))
    made = plan(snapshot(*cases, members=(member("east", (1, "64")),)), rules=RULES)
    acts = {name: (item.act, item.decision.reason if item.decision else "") for name, item in decisions(made).items()}
    assert acts == {"a": (Act.PLACE, "Placed"), "b": (Act.WAIT, "QueueFull"), "c": (Act.PLACE, "Placed")}


def test_a_refused_pair_stays_closed_and_the_next_best_is_taken() -> None:
    waiting = case("a")
    assert waiting.job is not None
    assert waiting.job.gang is not None
    closed = {(waiting.job.gang.digest, "east"): "it refused: NoRoom"}
    made = plan(snapshot(waiting, members=(member("east", (1, "64")), member("west", (1, "8"))), closed=closed), rules=RULES)
    assert decisions(made)["a"].clusters == ("west",)


def test_a_round_stops_at_its_limit_and_names_the_rest() -> None:
    cases = tuple(case(f"j{index}") for index in range(5))
    made = plan(snapshot(*cases, members=(member("east", (1, "64")),)), rules=replace(RULES, commits=3))
    assert len(made.items) == 3
    assert made.rest == (("default", "j3"), ("default", "j4"))


clusters_of = st.lists(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 16)), min_size=1, max_size=3), min_size=1, max_size=4
)
jobs_of = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 8)), min_size=1, max_size=8)


@settings(max_examples=60)
@given(clusters_of, jobs_of, st.integers())
def test_the_same_snapshot_gives_the_same_bytes_and_never_promises_what_is_not_there(
    clusters: list[list[tuple[int, int]]], jobs: list[tuple[int, int]], seed: int
) -> None:
    members = tuple(member(f"c{index}", *((count, str(cpu)) for count, cpu in rows)) for index, rows in enumerate(clusters))
    cases = [case(f"j{index}", pods, str(cpu)) for index, (pods, cpu) in enumerate(jobs)]
    made = plan(snapshot(*cases, members=members), rules=RULES)
    turn = seed % len(cases)
    shuffled = [*cases[turn:], *cases[:turn]][::-1]
    again = plan(snapshot(*shuffled, members=members), rules=RULES)
    assert made.encoded() == again.encoded()
    rooms = {each.cluster.name: Room(each.capacity.rows) for each in members if each.capacity is not None}
    by_name = {each.key[1]: each for each in cases}
    for item in made.items:
        assert isinstance(item, Decide)
        for name in item.clusters:
            placed = by_name[item.key[1]].job
            assert placed is not None
            assert placed.gang is not None
            assert pack(rooms[name], placed.gang).answer == "Fits"
            rooms[name].charge(placed.gang)


# --- whose queue it is --------------------------------------------------------------------------------------------------

FOR_SALES = {"gpu": QueueView("", "gpu", "g", "1", parent="root", door=door_of({NAMESPACES: "team=sales"}))}


def _in_gpu(labels: dict[str, str] | None) -> Decide:
    wanting = Case(("default", "a"), job=job("a", queue="gpu"), labels=labels)
    looked = Snapshot(cases=(wanting,), members=(member("east", (1, "6")),), queues={**QUEUES, **FOR_SALES})
    return decisions(plan(looked, rules=RULES))["a"]


def test_a_job_that_came_past_the_door_is_kept_out_of_a_queue_for_others() -> None:
    assert _in_gpu({"team": "sales"}).act is Act.PLACE
    refused = _in_gpu({"team": "research"})
    assert refused.decision is not None
    assert (refused.act, refused.decision.reason, refused.decision.field) == (Act.REFUSE, "QueueForbidden", "spec.queue")
    assert refused.decision.message == "queue gpu is not for namespace default: it is for namespaces with team=sales"


def test_a_job_of_a_namespace_that_is_not_known_yet_waits_and_does_not_fail() -> None:
    waits = _in_gpu(None)
    assert waits.decision is not None
    assert (waits.act, waits.decision.reason) == (Act.WAIT, "NamespaceUnknown")


def test_a_flood_of_one_tenant_does_not_delay_the_first_job_of_another() -> None:
    flood = [
        Case(("default", f"f{number:03d}"), job=job(f"f{number:03d}", created="2026-01-01T00:00:00Z")) for number in range(300)
    ]
    late = Case(("late", "first"), job=replace(job("first", created="2026-01-01T09:00:00Z"), namespace="late"))
    orders = queueing.in_turns(
        {each.key: queueing.order_key(each.job, queues=QUEUES, classes={}) for each in (*flood, late) if each.job is not None}
    )
    before = [key for key, order in orders.items() if order < orders["late", "first"]]
    assert len(before) == queueing.TURN
    few = plan(snapshot(*flood, late, members=(member("east", (1, "200")),)), rules=replace(RULES, commits=queueing.TURN + 1))
    assert "first" in decisions(few)
