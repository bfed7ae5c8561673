"""Rounds judge and rank all clusters at once, in columns. Laws: what they choose, and what they say of it, is what asking one
cluster after the other leads to, also when much has been taken in the same round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from apis.capacity import ShapeAnswer
from apis.vectors import ResourceVector
from federation.dispatch.floors import Floors, floor_of
from federation.dispatch.placing import Asked, Chooser
from federation.dispatch.snapshot import Member, Rules, Snapshot
from policies import verdicts
from policies.capacities import MemberQueue
from policies.choosing import Chosen
from policies.division import Strategy
from policies.fit import Array, NodeClass, Room, Rows, rows
from policies.ground import Fit, Ground, Left
from policies.offers import OfferView
from policies.placements import Affinity, PolicyView, ReplicaRule
from policies.profiles import BUILT_IN
from policies.shapes import Gang, PodShape, Taint, Toleration
from tests.policies.build import capacity, cluster, gang, job
from tests.policies.offering import flat, offer

RULES = Rules(
    filters=("health", "affinity", "taints", "apis", "refused", "queue", "capacity"),
    weights=BUILT_IN["balanced"].weights,
    start_timeout=600,
    explain_every=10.0,
    orphan_grace=10.0,
    commits=100,
)
TAINT = Taint("reserved", "batch", "NoSchedule")
CLASSES = (
    NodeClass("0", {"zone": "a"}),
    NodeClass("1", {"zone": "b", "disk": "ssd"}),
    NodeClass("2", {"zone": "a", "disk": "ssd"}, (TAINT,)),
)
WHERES: tuple[dict[str, Any], ...] = (
    {},
    {"node_selector": (("zone", "a"),)},
    {"node_selector": (("disk", "ssd"),), "tolerations": (Toleration("reserved", "Exists"),)},
    {"one_per_node": True},
    {"unknown": "inter-pod affinity"},
)


@some.composite
def published(draw: some.DrawFn) -> Rows:
    listed = draw(
        some.lists(some.tuples(some.integers(0, 2), some.integers(0, 9), some.integers(0, 9), some.integers(1, 4)), max_size=6)
    )
    return rows(
        CLASSES,
        [
            (kind, ResourceVector({"cpu": cpu * 500, "memory": memory * 1000, "pods": 9000}), n)
            for kind, cpu, memory, n in listed
        ],
    )


@some.composite
def shapes(draw: some.DrawFn, wheres: int = len(WHERES)) -> PodShape:
    amounts = {"cpu": draw(some.integers(0, 4)) * 500, "memory": draw(some.integers(0, 3)) * 1000, "pods": 1000}
    return PodShape(ResourceVector(amounts), **WHERES[draw(some.integers(0, wheres - 1))])


@some.composite
def gangs(draw: some.DrawFn) -> Gang:
    tasks = draw(some.lists(some.tuples(some.integers(1, 8), shapes()), min_size=1, max_size=3))
    named = tuple((f"t{at}", count, each) for at, (count, each) in enumerate(tasks))
    least = draw(some.integers(1, sum(count for count, _ in tasks)) | some.none())
    return gang(*named, least=least)


@some.composite
def members(draw: some.DrawFn, name: str) -> Member:
    limit = {"cpu": draw(some.integers(0, 30)) * 500} if draw(some.booleans()) else None
    queues = {
        "root": MemberQueue("root", "", True, ResourceVector(), None),
        "team": MemberQueue("team", "root", draw(some.integers(0, 9)) > 0, ResourceVector({"cpu": 500}), limit),
    }
    there = capacity(name, draw(published()), generation=draw(some.integers(0, 3)), queues=queues)
    wait = draw(some.sampled_from((None, 60)))
    answers = draw(some.sampled_from((None, {}, {"x": ShapeAnswer(hash="x", fits=draw(some.integers(0, 2)), wait=wait)})))
    return Member(
        cluster=replace(
            cluster(
                name, region=draw(some.sampled_from(("n", "s"))), taints=(TAINT,) if draw(some.integers(0, 9)) == 0 else ()
            ),
            ready="True" if draw(some.integers(0, 9)) else "Unknown",
        ),
        fence=draw(some.sampled_from((1, 1, 1, None))),
        capacity=replace(there, answers=answers, label_keys=frozenset(("zone", "disk"))) if draw(some.integers(0, 9)) else None,
        promised=tuple(("team", each) for each in draw(some.lists(gangs(), max_size=2))),
        penalty=draw(some.sampled_from((0.0, 0.0, 0.3))),
        overdue=frozenset(("x",)) if draw(some.booleans()) else frozenset(),
    )


OFFERS = (
    flat("c0", cpu=2),
    offer(
        "c1",
        classes=[
            {"name": "a", "labels": {"zone": "a"}, "prices": {"cpu": 1, "memory": 1}, "throughput": 2},
            {"name": "b", "labels": {"zone": "b"}, "spot": {"prices": {"cpu": 1, "memory": 0}, "interruptionsPerHour": "0.2"}},
        ],
        pools=[{"name": "p", "nodeClass": "a", "size": {"cpu": 4, "memory": 9, "pods": 9}, "max": 3, "provisionTime": "2m"}],
    ),
    offer("c2", currency="USD", classes=[{"name": "all", "prices": {"cpu": 1, "memory": 1}}]),
)

POLICIES = (
    PolicyView("", "any"),
    PolicyView("default", "two", affinities=(Affinity(names=("c0",), name="first"), Affinity(exclude=("c3",), name="second"))),
    PolicyView("default", "over", affinities=(Affinity(names=("c1",), overflow=(Affinity(names=("c2", "c3")),)),)),
    PolicyView("default", "parts", replicas=ReplicaRule(Strategy.AGGREGATED)),
    PolicyView("default", "spot", settings={"profile": "cost-first"}),
    PolicyView("default", "fast", settings={"profile": "efficiency-first"}),
)


@some.composite
def looks(draw: some.DrawFn) -> Snapshot:
    offers: tuple[OfferView, ...] = OFFERS[: draw(some.integers(0, 3))]
    there = tuple(draw(members(f"c{at}")) for at in range(draw(some.integers(0, 5))))
    closed = {("x", "c0"): "it refused"} if draw(some.booleans()) else {}
    return Snapshot(cases=(), members=there, offers=offers, closed=closed)


def asked(draw: some.DrawFn, number: int, of: Gang) -> Asked:
    policy = draw(some.sampled_from(POLICIES))
    beyond = "x" if of.unknown else ""
    view = job(f"j{number}", of=of, queue=draw(some.sampled_from(("team", "other"))), beyond=beyond)
    return Asked(view, of, policy, {"c1": 1} if draw(some.booleans()) else {}, {})


@settings(max_examples=100)
@given(some.data())
def test_columns_choose_and_say_what_asking_every_cluster_leads_to(data: some.DataObject) -> None:
    snapshot = data.draw(looks())
    chooser = Chooser(snapshot, rules=replace(RULES, rates=data.draw(some.sampled_from(({}, {"EUR": 1.0})))))
    told: set[str] = set()
    for number in range(data.draw(some.integers(1, 4))):
        one = data.draw(some.composite(asked)(number, data.draw(gangs())))
        choice = chooser.choose(one)
        plain = chooser.explain(one, choice.wish)
        assert (choice.parts, choice.sure) == (plain.parts, bool(plain.parts) and not plain.unsure)
        assert_said(choice.decision, plain)
        for part in choice.parts:
            chooser.take(part.cluster, one.gang, queue=one.job.queue)
        told.add(choice.decision.reason)


def assert_said(decision: verdicts.Decision, plain: Chosen) -> None:
    clusters, counts = verdicts.best(plain.told)
    assert decision.clusters == clusters
    assert decision.counts == counts
    assert plain.parts or decision.wakes == list(plain.wakes)
    assert plain.parts or decision.message.startswith(plain.text)


@settings(max_examples=100)
@given(some.data())
def test_counts_follow_what_is_taken(data: some.DataObject) -> None:
    """Places by columns are those that each cluster's own rows have, whatever was taken since."""
    listed = data.draw(some.lists(published(), min_size=1, max_size=4))
    left, rooms = Left(Ground(listed)), [Room(each) for each in listed]
    wanted = data.draw(some.lists(shapes(), min_size=1, max_size=3))
    for _ in range(3):
        for shape in wanted:
            assert left.places(shape).tolist() == [room.places(shape) for room in rooms]
        pods = [(shape, data.draw(some.integers(1, 6))) for shape in wanted]
        for room, fits in zip(rooms, left.fits(pods).tolist(), strict=True):
            found = room.copy().take_all(pods) is None
            assert fits == Fit.MAYBE or found is (fits == Fit.YES)
        at = data.draw(some.integers(0, len(rooms) - 1))
        changes: list[tuple[Array, Array, Array]] = []
        rooms[at].changes = changes
        rooms[at].take(data.draw(shapes()), pods=data.draw(some.integers(1, 9)))
        left.note(at, changes)
        assert [int(each) for each in left.total[:, at]] == [rooms[at].free.get(name) for name in left.resources]


@settings(max_examples=50)
@given(some.data())
def test_a_floor_that_is_lent_is_what_it_would_be_anew(data: some.DataObject) -> None:
    """Whatever was promised, withdrawn or published since the round before."""
    lent, member = Floors(), data.draw(members("c0"))
    for _ in range(3):
        found, anew = lent.floor(member), floor_of(member)
        assert (found.member, found.promised, found.unsure) == (member, anew.promised, anew.unsure)
        shape = data.draw(shapes())
        if found.room is not None and anew.room is not None:
            assert (found.room.free, found.room.places(shape)) == (anew.room.free, anew.room.places(shape))
            assert len(found.room.changes or ()) == len(anew.room.changes or ())
        found.take(data.draw(gangs()), queue="team")  # a round's own takes do not stay
        kept = member.promised[data.draw(some.integers(0, 1)) :]
        published = (
            replace(member.capacity, version="2") if member.capacity is not None and data.draw(some.booleans()) else None
        )
        member = replace(
            member,
            promised=(*kept, *(("team", each) for each in data.draw(some.lists(gangs(), max_size=2)))),
            capacity=published or member.capacity,
        )


def test_what_has_not_changed_is_lent_to_the_next_ground() -> None:
    """Classes keep their numbers, and the answer is that of a fresh one."""
    one = rows(CLASSES, [(0, ResourceVector({"cpu": 4000, "pods": 9000}), 2)])
    two = rows(CLASSES[::-1], [(0, ResourceVector({"cpu": 8000, "pods": 9000}), 1), (2, ResourceVector({"gpu": 1000}), 1)])
    shape = PodShape(ResourceVector({"cpu": 1000, "pods": 1000}), node_selector=(("zone", "a"),))
    before = Ground([one, None])
    before.placed(shape)
    after = Ground([one, two], before=before)
    assert (
        after.by_member(after.placed(shape)).tolist() == Ground([one, two]).by_member(Ground([one, two]).placed(shape)).tolist()
    )
    assert (before.is_of([one, None]), before.is_of([one, two])) == (True, False)
