"""Whoever asks something of a member has his name on it: nobody asks in another's name, and names stay while orders do."""

from __future__ import annotations

from typing import Any

import jsonpatch
import orjson
import pytest

from apis import cluster_orders, keys, kinds
from apis.cluster_orders import DECLARE_LOST, DRAIN, ORDERED_BY, Order, Stamp
from controllers.admission import reviews
from controllers.admission.reviews import Rules
from controllers.admission.webhooks import CREATE, HUB_KINDS, MEMBER_KINDS, UPDATE, served
from simulator.world import World
from tests.controllers.admission.reviewing import facts
from tests.support.members import annotate, notes_of
from tests.support.stage import play

Doc = dict[str, Any]
(HOOK,) = (each for each in served(HUB_KINDS) if each.kind == kinds.CLUSTER)
CORDON = {"key": keys.TAINT_UNSCHEDULABLE, "effect": "NoSchedule"}


def cluster(*taints: Doc, **notes: str) -> Doc:
    named = {"drain": DRAIN, "lost": DECLARE_LOST, "ordered": ORDERED_BY}
    annotations = {named[name]: value for name, value in notes.items()}
    return {"metadata": {"name": "east", "annotations": annotations}, "spec": {"taints": list(taints)}}


def written(new: Doc, *, old: Doc | None = None, user: str) -> Doc:
    """As it is stored after this user wrote it."""
    request = {
        "uid": "1",
        "operation": UPDATE if old is not None else CREATE,
        "name": "east",
        "resource": {"group": kinds.CLUSTER.group, "version": kinds.CLUSTER.version, "resource": kinds.CLUSTER.plural},
        "object": new,
        "oldObject": old,
        "userInfo": {"username": user, "groups": ["system:authenticated"]},
    }
    body = orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    verdict = reviews.judge(reviews.parse(body, webhook=HOOK), webhook=HOOK, facts=facts(), rules=Rules())
    stored: Doc = jsonpatch.apply_patch(new, list(verdict.operations))
    return stored


def by(stored: Doc) -> dict[str, str]:
    return {name: stamp.by for name, stamp in cluster_orders.stamps(stored["metadata"].get("annotations")).items()}


def test_every_order_has_the_name_of_whoever_gave_it() -> None:
    first = written(cluster(CORDON), user="alice")
    assert by(first) == {"cordon": "alice"}
    both = {**first, "metadata": {**first["metadata"], "annotations": {**first["metadata"]["annotations"], DRAIN: "kernel"}}}
    second = written(both, old=first, user="bob")
    assert by(second) == {"cordon": "alice", "drain": "bob"}
    renewed = {**second, "metadata": {"annotations": {**second["metadata"]["annotations"], DRAIN: "another reason"}}}
    assert by(written(renewed, old=second, user="carol")) == {"cordon": "alice", "drain": "carol"}


def test_what_a_writer_says_himself_counts_for_nothing() -> None:
    forged = '{"declare-lost":{"by":"alice","at":"2026-01-01T00:00:00Z"}}'
    stored = written(cluster(lost="true", ordered=forged), old=cluster(), user="mallory")
    assert by(stored) == {"declare-lost": "mallory"}
    assert by(written(cluster(ordered=forged), old=cluster(), user="mallory")) == {}


def test_an_order_that_is_taken_back_leaves_no_name() -> None:
    drained = written(cluster(drain="true"), user="alice")
    notes = {ORDERED_BY: drained["metadata"]["annotations"][ORDERED_BY]}
    stored = written({"metadata": {"name": "east", "annotations": notes}, "spec": {}}, old=drained, user="bob")
    assert stored["metadata"]["annotations"] == {}


@pytest.mark.parametrize(("value", "asked"), [("true", True), ("a new kernel", True), ("false", False), ("", False)])
def test_an_annotation_asks_unless_it_is_empty_or_false(value: str, asked: bool) -> None:
    assert (Order.DRAIN in cluster_orders.orders(cluster(drain=value))) is asked


def test_what_cannot_be_read_is_nobodys() -> None:
    assert cluster_orders.stamps({ORDERED_BY: "nonsense"}) == {}
    assert cluster_orders.read_declaration({cluster_orders.DECLARED: "{"}) is None
    assert cluster_orders.stamps({ORDERED_BY: '{"drain":{}}'}) == {"drain": Stamp()}


def test_members_have_no_clusters_to_ask_about() -> None:
    assert all(each.kind != kinds.CLUSTER for each in served(MEMBER_KINDS))


def test_the_door_of_the_hub_stamps_who_drains() -> None:
    async def story(world: World) -> None:
        await annotate(world, "east", {DRAIN: "true", ORDERED_BY: '{"drain":{"by":"somebody else"}}'})
        stamps = cluster_orders.stamps(notes_of(world, "east"))
        assert stamps["drain"].by == "kubectl"
        await world.advance(10.0)
        assert cluster_orders.stamps(notes_of(world, "east")) == stamps, "agents and hub write it too, and change no name"

    play(story, admission=True)
