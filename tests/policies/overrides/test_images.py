"""Image references and the changes of one component (reference/karmada.md 2.3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from policies.overrides.images import Image, changed, parse
from policies.overrides.views import Fault, ImageChange

DIGEST = "sha256:" + 64 * "0"


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest"),
    [
        ("nginx", "", "nginx", "", ""),
        ("nginx:1.2", "", "nginx", "1.2", ""),
        ("library/nginx:1", "", "library/nginx", "1", ""),
        ("docker.io/library/nginx:1", "docker.io", "library/nginx", "1", ""),
        ("localhost/nginx", "localhost", "nginx", "", ""),
        ("host:5000/a/b", "host:5000", "a/b", "", ""),
        (f"gcr.io/a@{DIGEST}", "gcr.io", "a", "", DIGEST),
        (f"a:1@{DIGEST}", "", "a", "1", DIGEST),
    ],
)
def test_a_reference_is_read_and_written_back(text: str, registry: str, repository: str, tag: str, digest: str) -> None:
    assert parse(text) == Image(registry, repository, tag, digest)
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "component", "operator", "value", "outcome"),
    [
        ("nginx:1", "Registry", "add", "gcr.io", "gcr.io/nginx:1"),
        ("gcr.io/nginx:1", "Registry", "add", ":5000", "gcr.io:5000/nginx:1"),
        ("gcr.io/nginx:1", "Registry", "replace", "quay.io", "quay.io/nginx:1"),
        ("gcr.io/nginx:1", "Registry", "remove", None, "nginx:1"),
        ("gcr.io/nginx:1", "Repository", "replace", "a/b", "gcr.io/a/b:1"),
        ("nginx:1", "Repository", "add", "-slim", "nginx-slim:1"),
        ("nginx", "Tag", "add", "2", "nginx:2"),
        ("nginx:1", "Tag", "add", "-gpu", "nginx:1-gpu"),
        ("nginx:1", "Tag", "replace", "2", "nginx:2"),
        ("nginx:1", "Tag", "replace", DIGEST, f"nginx@{DIGEST}"),
        (f"nginx@{DIGEST}", "Tag", "replace", "2", "nginx:2"),
        (f"nginx@{DIGEST}", "Tag", "remove", None, "nginx"),
        ("nginx:1", "Tag", "remove", None, "nginx"),
    ],
)
def test_one_component_changes_and_the_others_stay(
    text: str, component: str, operator: str, value: str | None, outcome: str
) -> None:
    assert changed(text, ImageChange(component, operator, value)) == outcome


def test_an_image_without_a_repository_is_a_fault() -> None:
    with pytest.raises(Fault, match="would have no repository"):
        changed("gcr.io/nginx", ImageChange("Repository", "remove"))


word = some.text("abc0", min_size=1, max_size=4)
references = some.builds(
    Image,
    registry=some.sampled_from(["", "localhost", "gcr.io", "host:5000"]),
    repository=some.lists(word, min_size=1, max_size=3).map("/".join),
    tag=some.just("") | word,
    digest=some.sampled_from(["", DIGEST]),
)


@given(references)
@settings(max_examples=60)
def test_writing_and_reading_loses_nothing(image: Image) -> None:
    assert parse(str(image)) == image
