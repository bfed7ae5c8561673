"""Two rules of an own package: a filter that keeps Jobs on green clusters, and a score for the region their people are in."""

from __future__ import annotations

from policies.filters import Question
from policies.verdicts import PASS, Verdict, Wake

LABEL = "example.com/energy"
WANTED = "example.com/green"
"""Label of a Job, "true": it runs on green clusters only."""
HOME = "example.com/home"
"""Label of a Job: the region its people are in."""


def green_only(question: Question) -> Verdict:
    """A Job that wants it goes to clusters with the label `example.com/energy: green`."""
    if question.job.labels.get(WANTED) != "true" or question.cluster.labels.get(LABEL) == "green":
        return PASS
    return Verdict("NotGreen", f"its energy is {question.cluster.labels.get(LABEL, 'unknown')}", (Wake.CLUSTER, Wake.JOB))


def near_home(question: Question) -> int:
    """100 in the region that the Job names, 0 elsewhere; 50 for a Job that names none."""
    home = question.job.labels.get(HOME)
    if home is None:
        return 50
    return 100 if question.cluster.region == home else 0
