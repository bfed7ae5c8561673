"""Cluster-wide objects that the hub's chart brings, written into the chart from where they are defined.

`python -m federation.clusters.manifests` writes them, with `--check` it compares and changes nothing. A test compares, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from federation.clusters import creators, fairness, guard

FILES: Final = Path(__file__).parents[2] / "charts" / "federation" / "files"
NAMESPACE: Final = "{{ .Release.Namespace }}"
LABELS: Final = {"app.kubernetes.io/part-of": "volcano-federation", "app.kubernetes.io/managed-by": "{{ .Release.Service }}"}


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def files() -> Iterator[tuple[str, str]]:
    """Name and text of every file."""
    yield "flow-control.yaml", _text(body for _, body in fairness.manifests(NAMESPACE))
    yield "fence-policy.yaml", _text((guard.policy(), guard.binding(), guard.offer_policy(), guard.binding(guard.OFFER)))
    yield "review-policy.yaml", _text((creators.policy(), creators.binding()))


def _text(bodies: Iterable[dict[str, Any]]) -> str:
    labelled = [{**body, "metadata": {**body["metadata"], "labels": LABELS}} for body in bodies]
    return yaml.dump_all(labelled, Dumper=_Plain, sort_keys=False, width=128)


def main() -> int:
    """Write, or compare; 1 when a file is not as it should be."""
    check, stale = "--check" in sys.argv[1:], []
    for name, text in files():
        path = FILES / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    if check and stale:
        sys.stderr.write(f"not as defined: {', '.join(stale)}; run python -m federation.clusters.manifests\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
