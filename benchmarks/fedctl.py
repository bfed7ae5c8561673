"""fedctl: how long people wait for help, for one Job and for ten thousand.

The command runs as its users start it, as a process of its own; the hub is a server of canned answers on loopback, so that what
is measured is the command. Limits are those of the issue: 300 ms for help, 500 ms for a get, 2 s for a list of 10,000 Jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

import orjson
import yaml

from apis import kinds
from benchmarks.harness import Row, cost
from e2e.programs import executable
from fedctl.submitting import Short, job

NAME: Final = "fedctl"
PAGE: Final = 500
MANY: Final = 10_000


def listed(count: int) -> list[bytes]:
    """Jobs as an API server shows them, JSON each."""
    found = []
    for number in range(count):
        tree = job(Short(f"train-{number:05d}", "trainer", command=("python", "train.py"), cpu="2", replicas=4))
        tree["metadata"] |= {"namespace": "default", "uid": f"uid-{number}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        tree["status"] = {"state": {"phase": "Running", "message": "on east: 4 pods run"}, "running": 4, "minAvailable": 4}
        found.append(orjson.dumps(tree))
    return found


@contextlib.contextmanager
def hub(jobs: Sequence[bytes]) -> Iterator[str]:
    """A server that answers gets and lists of these Jobs, page by page; its URL."""

    class Answers(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            if url.path.endswith("/jobs"):
                begin = int(query.get("continue", ["0"])[0])
                end = begin + int(query.get("limit", [str(PAGE)])[0])
                rest = f',"continue":"{end}"' if end < len(jobs) else ""
                body = b'{"kind":"JobList","metadata":{"resourceVersion":"1"%s},"items":[%s]}' % (
                    rest.encode(),
                    b",".join(jobs[begin:end]),
                )
            else:
                body = jobs[0]
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def seconds(words: Sequence[str], *, rounds: int) -> float:
    """The shortest of several runs: what the command itself takes."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run([executable("fedctl"), *words], check=True, stdout=subprocess.DEVNULL)
        best = min(best, time.perf_counter() - started)
    return best


def measure(*, jobs: int, rounds: int) -> list[Row]:
    """All cases."""
    assert kinds.JOB.plural == "jobs"
    with hub(listed(jobs)) as url, tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config"
        named = {"name": "hub"}
        config.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{**named, "cluster": {"server": url}}],
                    "users": [{**named, "user": {"token": "any"}}],
                    "contexts": [{**named, "context": {"cluster": "hub", "user": "hub"}}],
                    "current-context": "hub",
                }
            )
        )
        where = ["--kubeconfig", str(config)]
        cases = (
            ("help", ["--help"], 0.3),
            ("get one Job", ["get", "jobs", "train-00000", *where], 0.5),
            (f"list {jobs:,} Jobs", ["get", "jobs", *where], 2.0),
        )
        return [
            cost(NAME, case, ours=seconds(words, rounds=rounds) * 1000, bound=limit * 1000, unit="ms")
            for case, words, limit in cases
        ]


def main(arguments: Sequence[str]) -> int:
    """Print the rows last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=MANY)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    for row in measure(jobs=given.jobs, rounds=given.rounds):
        print(row.line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
