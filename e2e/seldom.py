"""Rights that a run of the whole suite does not use, each with what it is for. Everything else that a chart allows is used."""

from __future__ import annotations

from typing import Final

SELDOM: Final[dict[tuple[str, str], str]] = {
    ("hub", "delete placementreviews.volcano-federation.io"): "reviews go ten minutes after their answer",
    ("hub", "create clusteroffers.volcano-federation.io"): "given to members: nobody grants what they have not",
    ("hub", "patch clusteroffers.volcano-federation.io"): "given to members: nobody grants what they have not",
    ("hub", "patch clustercapacities/status.volcano-federation.io"): "given to members: nobody grants what they have not",
}
"""By program (hub, agent, fencer, member) and right."""
