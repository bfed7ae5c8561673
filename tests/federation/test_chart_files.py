"""What the hub's chart brings is what the hub would put in place itself."""

from __future__ import annotations

from federation.clusters import manifests


def test_the_files_of_the_chart_are_as_defined() -> None:
    for name, text in manifests.files():
        assert (manifests.FILES / name).read_text() == text, f"{name}: run python -m federation.clusters.manifests"
