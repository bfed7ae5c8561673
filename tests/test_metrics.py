"""The page of metrics lists what the programs tell, and alerts ask for nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry

from machinery.metrics import PREFIX, Metrics
from member_agent.queues.accounts import PHASES
from member_agent.scheduling import meters
from tests.support.metrics_page import PAGE, listed, unlisted

ROOT = Path(__file__).parents[1]
PROGRAMS = ("machinery", "controllers", "federation", "member_agent")
NAME = re.compile(r"volcano_(?!federation$)[a-z0-9_*]+")
TOLD_BY = ("_time", "_of_gang", "_age")
"""Methods of the scheduler's meters that put `volcano_` before the name they are given."""
AMOUNTS = ("milli_cpu", "memory_bytes", "scalar_resources")
RULES = ROOT / "charts" / "federation" / "files" / "rules.yaml"


def texts(node: ast.expr) -> Iterator[str]:
    """Strings of an expression, `*` for what is only known when it runs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else filled(part) for part in node.values)
        yield "".join(map(str, parts))


def filled(part: ast.expr) -> str:
    named = isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name) and part.value.id == "PREFIX"
    return PREFIX if named else "*"


def names(source: str) -> Iterator[str]:
    """Names of metrics in a module, as far as it says them."""
    inside: set[ast.expr] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inside |= set(node.values)
        if isinstance(node, ast.expr) and node not in inside:
            yield from (text.replace("{}", "*") for text in texts(node) if NAME.fullmatch(text.replace("{}", "*")))


def of_meters() -> Iterator[str]:
    """Names that the scheduler's meters make up of parts."""
    for node in ast.walk(ast.parse(Path(meters.__file__).read_text())):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr in TOLD_BY:
            named = node.args[1 if node.func.attr == "_of_gang" else 0]
            told = [getattr(meters, named.id, "")] if isinstance(named, ast.Name) else texts(named)
            yield from (f"volcano_{text}" for text in told if text)
        if isinstance(node.func, ast.Name) and node.func.id == "_amounts":
            yield from (f"volcano_queue_{what}_{amount}" for what in texts(node.args[0]) for amount in AMOUNTS)


def in_code() -> set[str]:
    files = [file for program in PROGRAMS for file in sorted((ROOT / program).rglob("*.py"))]
    found = {name for file in files for name in names(file.read_text())}
    return {f"volcano_queue_pod_group_{phase.lower()}_count" for phase in PHASES} | set(of_meters()) | found


def test_every_metric_in_the_code_is_listed_and_nothing_else() -> None:
    page, code = {name for name in listed() if name.startswith("volcano_")}, in_code()
    exact = {name for name in code if "*" not in name}
    patterns = [
        re.compile(name.replace("*", "[a-z_]+")) for name in code - exact if name.count("*") == 1 and name != "volcano_*"
    ]
    own = {name for name in exact if name in page or f"{name}_total" in page}
    assert sorted(exact - own) == []
    told = own | {f"{name}_total" for name in own}
    assert [name for name in sorted(page - told) if not any(each.fullmatch(name) for each in patterns)] == []


def test_what_every_program_has_is_listed_with_its_type() -> None:
    registry = CollectorRegistry()
    Metrics(registry)
    assert unlisted(registry) == []


# --- alerts --------------------------------------------------------------------------------------------------------------


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    """What an expression asks for. ValueError when Prometheus would not read it."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)
        if isinstance(node, promql_parser.MatrixSelector):
            found.append(node.vector_selector)

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_is_read_by_prometheus_and_asks_for_metrics_and_labels_that_there_are(rule: dict[str, Any]) -> None:
    page = listed()
    asked = selectors(rule["expr"])
    assert asked
    for selector in asked:
        assert selector.name is not None
        row = page[re.sub(r"_bucket$", "", selector.name)]
        wanted = {matcher.name for matcher in selector.matchers.matchers} - {"le"}
        assert wanted <= row.labels, f"{selector.name} has no {sorted(wanted - row.labels)}"


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_what_it_means_and_the_page_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"].keys() == {"summary", "description"}
    assert f"| `{rule['alert']}` |" in PAGE.read_text()
    if "for" in rule:
        assert promql_parser.parse_duration(rule["for"]).total_seconds() >= 60


def test_the_page_tells_of_no_alert_that_there_is_not() -> None:
    assert set(re.findall(r"^\| `(Federation\w+)` \|", PAGE.read_text(), flags=re.MULTILINE)) == {r["alert"] for r in alerts()}


@pytest.mark.parametrize("wrong", ["rate(volcano_federation_leading)", "sum by (", 'up{job=~"a"'])
def test_what_prometheus_would_not_read_is_not_read_here(wrong: str) -> None:
    with pytest.raises(ValueError):
        selectors(wrong)
