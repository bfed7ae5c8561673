"""What hub and agent say to each other: JSON, one message per WebSocket text frame, one record per line of a long answer.

Unknown fields and unknown kinds of messages are skipped, so that the two ends may differ by a version; who asked something that
the other does not know hears that it said nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from policies.flows.spec import HttpGet, TcpSocket

CONTROL: Final = "/channel/v1/control"
"""Where an agent opens its WebSocket."""
ANSWERS: Final = "/channel/v1/answers/"
"""Followed by the number of a request: where an agent posts a long answer."""
GROUP: Final = "channel.volcano-federation.io"
VERSION: Final = "v1alpha1"
API: Final = f"/apis/{GROUP}/{VERSION}"
"""Where people find the hub's end behind an API server."""
RECORDS: Final = "application/jsonl"
"""Media type of a long answer: one record per line."""

MAX_MESSAGE: Final = 256 << 10
"""Bytes of one message; a probe lists at most what a flow may hold."""
MAX_RECORD: Final = 256 << 10
"""Bytes of one record with its newline."""
CHUNK: Final = 16 << 10
"""Bytes of a log that become one record: after replacing what is no UTF-8 and escaping, far below MAX_RECORD."""
MAX_SAID: Final = 500
"""Characters of a sentence about a probe or a refusal."""
BEAT: Final = 20.0
"""Seconds between pings on a WebSocket; a peer that does not answer one within half of that is gone."""


class _Wire(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """As it goes over the wire."""


class LogOptions(_Wire, frozen=True):
    """As of `GET pods/log`; `task` and `pod` choose among the pods of the Job, "" all. `container` "": all but init containers.

    `since_seconds` counts back from now, `since_time` is RFC 3339; "" and None: from the beginning.
    """

    follow: bool = False
    tail_lines: int | None = None
    since_seconds: int | None = None
    since_time: str = ""
    timestamps: bool = False
    previous: bool = False
    container: str = ""
    task: str = ""
    pod: str = ""


class LogsAsked(_Wire, frozen=True, tag="logs"):
    """Send the logs of a Job's pods. `job` is the UID of the hub's Job, `number` that of this request on its connection."""

    number: int
    job: str
    namespace: str
    options: LogOptions = LogOptions()


class ProbeAsked(_Wire, frozen=True, tag="probe"):
    """Ask the pods of a Job, as `dependsOn.probe` says."""

    number: int
    job: str
    namespace: str
    http_get_list: tuple[HttpGet, ...] = ()
    tcp_socket_list: tuple[TcpSocket, ...] = ()


class Dropped(_Wire, frozen=True, tag="dropped"):
    """Nobody waits for this answer any more."""

    number: int


class Probed(_Wire, frozen=True, tag="probed"):
    """`said`: "" when every pod answers as it should, else which does not, and how."""

    number: int
    said: str = ""


class Refused(_Wire, frozen=True, tag="refused"):
    """The agent will not, or cannot."""

    number: int
    why: str = ""


class Lines(_Wire, frozen=True, tag="lines"):
    """A piece of one container's log: whole lines, unless one is longer than CHUNK. `several`: more containers of the pod are
    shown. `cluster` is filled in by the hub, which knows whom it asked."""

    pod: str
    container: str
    text: str
    several: bool = False
    cluster: str = ""


class Notice(_Wire, frozen=True, tag="notice"):
    """A sentence about the answer, not part of any log."""

    text: str
    pod: str = ""
    cluster: str = ""


Ask = LogsAsked | ProbeAsked | Dropped
Said = Probed | Refused
Record = Lines | Notice

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_asks = msgspec.json.Decoder(Ask)
_saids = msgspec.json.Decoder(Said)
_records = msgspec.json.Decoder(Record)


class BadMessage(ValueError):
    """Something that is no message; says why."""


def log_path(namespace: str, job: str) -> str:
    """Where the logs of a Job are."""
    return f"{API}/namespaces/{namespace}/jobs/{job}/log"


def encode(message: Ask | Said | Record) -> bytes:
    """A message, or a record without its newline."""
    return _encoder.encode(message)


def encode_lines(records: Iterable[Record]) -> bytes:
    """Records as they stand in a long answer, each with its newline."""
    return b"".join(_encoder.encode(each) + b"\n" for each in records)


def read_ask(data: str | bytes) -> Ask:
    """At the agent."""
    return _read(_asks, data)


def read_said(data: str | bytes) -> Said:
    """At the hub."""
    return _read(_saids, data)


def read_record(data: bytes) -> Record:
    """One line of a long answer."""
    return _read(_records, data)


def _read(decoder: msgspec.json.Decoder[T], data: str | bytes) -> T:
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise BadMessage(str(error)) from error
