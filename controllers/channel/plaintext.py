"""Logs as plain text: whatever a program prints, it does nothing to the terminal or the page that shows it.

Terminal escape sequences (ECMA-48, whole, with their parameters and strings), other control characters and those that change
the direction of text are taken out. Newline and tab stay; a lone carriage return, with which programs write a line over
another, begins a new line, so that nothing can be written over the name of a pod.
"""

from __future__ import annotations

import codecs
import html
import re
from typing import Final

_SEQUENCES: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC: titles, clipboards, links
    r"|\x1b[ -/]*[0-~]?"  # everything else that begins with ESC
    r"|\x9b[0-?]*[ -/]*[@-~]?"  # CSI as one character
    r"|[\x90\x98\x9d-\x9f][^\x07\x1b\n\x9c]*(?:\x07|\x1b\\|\x9c)?"  # the strings as one character
)
_RETURNS: Final = re.compile(r"\r+\n?")
_OTHERS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def clean(text: str) -> str:
    """The text without anything that a terminal would obey. Clean text is returned as it is; cleaning twice changes nothing."""
    if _OTHERS.search(text) is None:
        return text
    return _OTHERS.sub("", _RETURNS.sub("\n", _SEQUENCES.sub("", text)))


def page(text: str) -> str:
    """Clean text for a place in HTML."""
    return html.escape(clean(text))


class Reader:
    """Turns the bytes of one log into pieces of text: whole lines as far as they have come, a line that is longer than `limit`
    bytes in pieces. What is no UTF-8 becomes U+FFFD."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, chunk: bytes) -> list[str]:
        """The pieces that are complete with `chunk`."""
        data, pieces, start = self._rest + chunk, [], 0
        while len(data) - start >= self._limit:
            cut = data.rfind(b"\n", start, start + self._limit) + 1 or start + self._limit
            pieces.append(data[start:cut])
            start = cut
        end = data.rfind(b"\n", start) + 1
        if end > start:
            pieces.append(data[start:end])
            start = end
        self._rest = data[start:]
        return [text for text in map(self._decoder.decode, pieces) if text]

    def end(self) -> str:
        """What is left: a last line without newline, or ""."""
        rest, self._rest = self._rest, b""
        return self._decoder.decode(rest, final=True)


class Interleaved:
    """Pieces of several logs as the lines of one, each line under the label of the log that it is from."""

    def __init__(self) -> None:
        self._open = ""

    def add(self, label: str, text: str) -> str:
        """What to show for one piece: a line that another log began and has not ended is ended first."""
        if not text:
            return ""
        begun, whole = self._open, text.endswith("\n")
        body = (text[:-1] if whole else text).replace("\n", f"\n{label}")
        self._open = "" if whole else label
        before = "" if begun == label else f"\n{label}" if begun else label
        return f"{before}{body}\n" if whole else f"{before}{body}"

    def end(self) -> str:
        """A newline, where the last line has none."""
        begun, self._open = self._open, ""
        return "\n" if begun else ""
