"""Models: reading an object and writing it back loses nothing, known or unknown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from apis.batch import Job
from apis.flow import JobFlow
from apis.scheduling import Queue
from apis.served import BY_KIND, SERVED, model_of
from tests.manifests import kind_of, served

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def names_of(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']} {manifest['metadata']['name']}"


@pytest.mark.parametrize("manifest", served(), ids=names_of)
def test_an_upstream_manifest_is_written_back_as_it_was_read(manifest: dict[str, Any]) -> None:
    resource = BY_KIND[kind_of(manifest)].model.read(json.dumps(manifest))
    assert resource.to_json() == manifest


@pytest.mark.parametrize("manifest", served(), ids=names_of)
def test_every_upstream_field_is_declared(manifest: dict[str, Any]) -> None:
    def unknown(model: Any, path: str) -> list[str]:
        found = [f"{path}.{name}" for name in (model.model_extra or {})]
        for name in type(model).model_fields:
            value = getattr(model, name)
            for each in value if isinstance(value, list) else value.values() if isinstance(value, dict) else [value]:
                if hasattr(each, "model_extra"):
                    found += unknown(each, f"{path}.{name}")
        return found

    assert unknown(BY_KIND[kind_of(manifest)].model.read(json.dumps(manifest)), "") == []


@given(
    st.sampled_from(served()), st.dictionaries(st.text(min_size=1, max_size=12).map(lambda t: "x" + t), json_values, max_size=4)
)
def test_law_unknown_fields_survive_a_write(manifest: dict[str, Any], unknown: dict[str, Any]) -> None:
    model = BY_KIND[kind_of(manifest)].model
    widened = {**manifest, **unknown, "metadata": {**manifest["metadata"], **unknown}}
    for part in ("spec", "status"):
        if isinstance(manifest.get(part), dict):
            widened[part] = {**manifest[part], **unknown}
    assert model.read(json.dumps(widened)).to_json() == widened


def test_an_explicit_null_stays_a_null() -> None:
    manifest = {"spec": {"minAvailable": None, "tasks": None}, "metadata": {"name": "x", "creationTimestamp": None}}
    assert Job.read(json.dumps(manifest)).to_json() == manifest


def test_a_malformed_quantity_is_refused_with_field_and_text() -> None:
    with pytest.raises(ValidationError, match=r"(?s)spec.capability.cpu.*'4x' is not a quantity"):
        Queue.read(json.dumps({"spec": {"capability": {"cpu": "4x"}}}))


def test_a_text_is_not_taken_for_a_number() -> None:
    with pytest.raises(ValidationError, match="minAvailable"):
        Job.read(json.dumps({"spec": {"minAvailable": "3"}}))


def test_a_new_object_says_what_it_is() -> None:
    flow = JobFlow.of("f", namespace="ns", spec={"flows": [{"name": "a"}]})
    assert flow.key == "ns/f"
    assert flow.to_json() == {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {"name": "f", "namespace": "ns"},
        "spec": {"flows": [{"name": "a"}]},
    }
    assert Queue.of("q").key == "q"


def test_a_model_is_found_by_what_an_object_says_it_is() -> None:
    assert model_of({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}) is Job
    assert model_of({"apiVersion": "batch/v1", "kind": "Job"}) is None


def test_every_kind_is_served_once() -> None:
    assert len(BY_KIND) == len(SERVED) == len({each.kind.name for each in SERVED})
