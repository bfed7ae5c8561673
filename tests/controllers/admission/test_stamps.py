"""Whose rights a review has: admission writes it, and nobody writes another's name."""

from __future__ import annotations

from typing import Any

import jsonpatch
import orjson

from apis import kinds
from controllers.admission import reviews
from controllers.admission.reviews import Request, Rules
from controllers.admission.webhooks import CREATE, HUB_KINDS, UPDATE, Verb, served
from tests.controllers.admission.reviewing import facts

Doc = dict[str, Any]
HOOKS = {each.verb: each for each in served(HUB_KINDS) if each.kind == kinds.PLACEMENT_REVIEW}
GROUPS = ["system:authenticated", "data"]


def body(*, operation: str, new: Doc, old: Doc | None = None, user: str = "ann") -> bytes:
    """An AdmissionReview as an API server sends it."""
    kind = kinds.PLACEMENT_REVIEW
    request = {
        "uid": "1",
        "operation": operation,
        "namespace": "team",
        "name": "r",
        "resource": {"group": kind.group, "version": kind.version, "resource": kind.plural},
        "object": new,
        "oldObject": old,
        "userInfo": {"username": user, "groups": GROUPS},
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def review(**spec: Any) -> Doc:
    return {"metadata": {"name": "r", "namespace": "team"}, "spec": {"job": "train", **spec}}


def asked(verb: Verb, **given: Any) -> reviews.Verdict:
    request: Request = reviews.parse(body(**given), webhook=HOOKS[verb])
    return reviews.judge(request, webhook=HOOKS[verb], facts=facts(), rules=Rules())


def completed(new: Doc, *, user: str = "ann") -> Doc:
    operations = asked(Verb.MUTATE, operation=CREATE, new=new, user=user).operations
    made: Doc = jsonpatch.apply_patch(new, list(operations))
    return made


def test_the_creator_is_written_whatever_was_said() -> None:
    for new in (review(), review(creator={"username": "root", "groups": ["system:masters"]})):
        assert completed(new)["spec"]["creator"] == {"username": "ann", "groups": GROUPS}


def test_a_stamp_that_somebody_changed_on_the_way_is_refused() -> None:
    good = completed(review())
    assert asked(Verb.VALIDATE, operation=CREATE, new=good).problems == ()
    bad = review(creator={"username": "root"})
    assert [each.field for each in asked(Verb.VALIDATE, operation=CREATE, new=bad).problems] == ["spec.creator"]
    assert [each.field for each in asked(Verb.VALIDATE, operation=CREATE, new=good, user="bob").problems] == ["spec.creator"]


def test_a_review_is_asked_once_and_may_still_be_labelled_and_deleted() -> None:
    old = completed(review())
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    other = {**old, "spec": {**old["spec"], "job": "other"}}
    leaving = {**other, "metadata": {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    told = [asked(Verb.VALIDATE, operation=UPDATE, new=new, old=old, user="bob").problems for new in (labelled, other, leaving)]
    assert [[each.field for each in problems] for problems in told] == [[], ["spec"], []]


def test_without_webhooks_no_review_is_made_at_all() -> None:
    """Nobody could vouch for its creator."""
    assert all(hook.fails for hook in HOOKS.values())
