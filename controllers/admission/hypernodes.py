"""The rules of a HyperNode (topology.volcano.sh): a member is found by name, by pattern or by label (reference/volcano.md 8.6).

The kind is upstream's and not served by our definitions, so documents are judged as they are.
"""

from __future__ import annotations

import re
from typing import Final

from controllers.admission.documents import Manifest, mapping
from controllers.admission.problems import Problem, among, at_least, is_subdomain

MEMBER_TYPES: Final = ("Node", "HyperNode")
_WAYS: Final = ("exactMatch", "regexMatch", "labelMatch")


def validate_hyper_node(node: Manifest) -> list[Problem]:
    """Everything that keeps a new or changed HyperNode from being taken."""
    spec = mapping(node.get("spec"))
    tier = spec.get("tier")
    found = at_least(0, tier, field="spec.tier") if isinstance(tier, int) else []
    members = spec.get("members")
    if not isinstance(members, list) or not members:
        return [*found, Problem("spec.members", "member must have at least one member")]
    for index, member in enumerate(members):
        found += _member_problems(mapping(member), field=f"spec.members[{index}]")
    return found


def _member_problems(member: Manifest, *, field: str) -> list[Problem]:
    kind, selector = member.get("type"), mapping(member.get("selector"))
    found = among(MEMBER_TYPES, str(kind) if kind is not None else "", field=f"{field}.type")
    given = [way for way in _WAYS if selector.get(way) is not None]
    if len(given) != 1:
        text = f"exactly one of {', '.join(_WAYS)} must be specified, not {len(given)}"
        return [*found, Problem(f"{field}.selector", text)]
    if given[0] == "exactMatch":
        found += _exact_problems(mapping(selector["exactMatch"]).get("name"), field=f"{field}.selector.exactMatch.name")
    elif given[0] == "regexMatch":
        found += _pattern_problems(mapping(selector["regexMatch"]).get("pattern"), field=f"{field}.selector.regexMatch.pattern")
    elif kind == "HyperNode":
        found.append(Problem(f"{field}.selector.labelMatch", "only nodes are found by label"))
    return found


def _exact_problems(name: object, *, field: str) -> list[Problem]:
    if not isinstance(name, str) or not name:
        return [Problem(field, "member exactMatch name is required: should be at least 1 chars long")]
    if not is_subdomain(name):
        return [Problem(field, f"member exactMatch name {name!r} should match a DNS-1123 subdomain")]
    return []


def _pattern_problems(pattern: object, *, field: str) -> list[Problem]:
    if not isinstance(pattern, str) or not pattern:
        return [Problem(field, "member regexMatch pattern is required: should be at least 1 chars long")]
    try:
        re.compile(pattern)
    except re.error as error:
        return [Problem(field, f"member regexMatch pattern is invalid: {pattern!r}: {error}")]
    return []
