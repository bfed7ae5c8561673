"""Runs every benchmark (or those named), one after another, and keeps their rows: `python -m benchmarks [name …]`.

`results/<name>.jsonl` holds the rows of the last run of each, `results/table.md` all of them; the README shows the same table.
Exit status 0 means that all ran, whatever the figures.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import RESULTS, Row, read_rows, table

README = Path(__file__).parent.parent / "README.md"
BEGIN, END = "<!-- bench:begin -->\n", "<!-- bench:end -->"
NOT_BENCHMARKS = frozenset({"federations", "harness", "hub_jobs", "jobs", "members", "__main__"})


def names() -> list[str]:
    """All benchmarks, by name."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in found if name not in NOT_BENCHMARKS)


def run_one(name: str) -> tuple[int, list[Row]]:
    """Runs a benchmark in a process of its own, showing its output as it comes."""
    print(f"=== {name}", flush=True)
    lines = []
    command = [sys.executable, "-m", f"benchmarks.{name}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, read_rows(lines)


def keep(name: str, rows: Sequence[Row], *, folder: Path = RESULTS) -> None:
    """Replaces the kept rows of one benchmark and writes the table anew."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(row.line() + "\n" for row in rows))
    everything = [row for path in sorted(folder.glob("*.jsonl")) for row in read_rows(path.read_text().splitlines())]
    (folder / "table.md").write_text(table(everything))


def shown(readme: str, *, rows: str) -> str:
    """The README with this table between its two marks; ValueError when a mark is missing."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}{rows}{END}{after}"


def main(asked: Sequence[str]) -> int:
    unknown = set(asked) - set(names())
    if unknown:
        print(f"no such benchmark: {', '.join(sorted(unknown))}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    failed = []
    for name in asked or names():
        status, rows = run_one(name)
        if status or not rows:
            failed.append(f"{name} (status {status}, {len(rows)} rows)")
        else:
            keep(name, rows)
            README.write_text(shown(README.read_text(), rows=(RESULTS / "table.md").read_text()))
    print((RESULTS / "table.md").read_text() if (RESULTS / "table.md").exists() else "no results yet")
    for name in failed:
        print(f"did not run: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
