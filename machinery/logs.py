"""Structured logs on stdlib logging: one JSON object a line for machines, one plain line for people.

Modules log with `logging.getLogger(__name__)` and put fields into `extra`; this module only decides how a record looks. What
looks like a credential is masked on the way out, wherever it stands: in a message, a field, or a traceback.
"""

from __future__ import annotations

import datetime
import enum
import logging
import re
import sys
from typing import Any, TextIO

import orjson

MASK = "***"

_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime", "taskName"}

_SECRET_NAME = re.compile(r"(?i)(token|password|passwd|secret|authorization|credential|private.?key|client.?key)")

_SECRET_TEXT = re.compile(
    r"""(?ix)
      (?P<scheme> \b (?: bearer | basic ) \s+ ) [\w.~+/=-]{6,}                                 # HTTP authorization
    | (?P<name> ["']? \w* (?: token | password | passwd | secret | client-key-data ) ["']? \s* [=:] \s* ["']? )
      (?! \s | \*\*\* ) [^\s"',;}]{6,}                                                           # name=value, "name": "value"
    | \b eyJ [\w-]{10,} \. [\w-]{10,} \. [\w-]*                                                  # JSON web token
    | -----BEGIN\ [A-Z\ ]*PRIVATE\ KEY----- .*? (?: -----END\ [A-Z\ ]*PRIVATE\ KEY----- | \Z )    # PEM
    """,
    re.DOTALL,
)


class Style(enum.StrEnum):
    """How records look."""

    JSON = "json"
    CONSOLE = "console"


def masked(text: str) -> str:
    """`text` without what looks like a credential."""
    return _SECRET_TEXT.sub(lambda found: (found["scheme"] or found["name"] or "") + MASK, text)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What a record's caller put into `extra`, masked."""
    return {
        name: MASK if _SECRET_NAME.search(name) else _masked_value(value)
        for name, value in vars(record).items()
        if name not in _STANDARD
    }


def _masked_value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else masked(str(value))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the fields, and `error` with a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC)
        entry: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        entry |= {name: value for name, value in fields(record).items() if name not in entry}
        if record.exc_info:
            entry["error"] = masked(self.formatException(record.exc_info))
        return orjson.dumps(entry).decode()


class ConsoleFormatter(logging.Formatter):
    """`12:00:00.000 warning machinery.informer: message name=value`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.datetime.fromtimestamp(record.created, tz=datetime.UTC)
        clock = moment.strftime("%H:%M:%S.%f")[:-3]
        extra = "".join(f" {name}={value}" for name, value in fields(record).items())
        line = f"{clock} {record.levelname.lower():7} {record.name}: {masked(record.getMessage())}{extra}"
        if record.exc_info:
            line += "\n" + masked(self.formatException(record.exc_info))
        return line


def set_up(*, level: str = "INFO", style: Style = Style.JSON, stream: TextIO | None = None) -> None:
    """Send all records of `level` and above to `stream` (standard error), replacing what was set up before. ValueError for an
    unknown level."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if style is Style.JSON else ConsoleFormatter())
    root = logging.getLogger()
    root.setLevel(level.upper())
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    logging.getLogger("kubernetes_asyncio").setLevel(logging.WARNING)  # it logs response bodies at DEBUG
