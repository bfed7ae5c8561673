"""Logs as plain text: what a terminal or a page would obey is gone, everything else is as it was."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.channel.plaintext import Interleaved, Reader, clean, page

printable = st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\ufeff") | st.sampled_from("\n\t"))
nasty = st.text(st.sampled_from("\x1b\x9b\x9d\x90[]P0;31mK?\x07\\\r\n\tab\x00\x7f\u202e\u2028\ufeff"), max_size=40)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("plain\n", "plain\n"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]52;c;cGFzdGU=\x07clipboard", "clipboard"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x9b31mred\x9d0;title\x9ctext", "redtext"),
        ("\x1b]never ended\nnext", "\nnext"),
        ("\x1b(Bset\x1bcreset\x1b7", "setreset"),
        ("10%\r20%\r\n", "10%\n20%\n"),
        ("bell\x07 back\x08 null\x00 del\x7f", "bell back null del"),
        ("user\u202egnp.exe", "usergnp.exe"),
        ("half\x1b[", "half"),
        ("tab\tand ünïcödé ✓", "tab\tand ünïcödé ✓"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(printed: str, shown: str) -> None:
    assert clean(printed) == shown


@given(nasty)
def test_nothing_is_left_that_begins_a_sequence_however_it_is_mixed(text: str) -> None:
    shown = clean(text)
    assert not set(shown) & set("\x1b\x9b\x9d\x90\x07\r\x00\x7f\u202e\u2028\ufeff")
    assert clean(shown) == shown


@given(printable)
def test_text_that_asks_nothing_of_a_terminal_stays_as_it_is(text: str) -> None:
    assert clean(text) == text
    assert html.unescape(page(text)) == text and "<" not in page(text)


@given(st.lists(st.binary(max_size=60)), st.integers(min_value=4, max_value=32))
def test_all_bytes_come_through_in_pieces_of_limited_size(chunks: list[bytes], limit: int) -> None:
    reader, pieces = Reader(limit=limit), []
    for chunk in chunks:
        pieces += reader.feed(chunk)
    pieces.append(reader.end())
    assert "".join(pieces) == b"".join(chunks).decode(errors="replace")
    assert all(len(piece) <= limit + 4 for piece in pieces)


def test_pieces_are_whole_lines_where_these_are_short_enough() -> None:
    reader = Reader(limit=8)
    assert reader.feed(b"one\ntw") == ["one\n"]
    assert reader.feed(b"o\nthree\nx") == ["two\n", "three\n"]
    assert reader.end() == "x"


def test_lines_of_several_logs_keep_to_themselves() -> None:
    lines = Interleaved()
    shown = lines.add("[a] ", "one\ntw") + lines.add("[a] ", "o\n") + lines.add("[b] ", "half") + lines.add("[a] ", "three\n")
    assert shown + lines.add("[b] ", "rest") + lines.end() == "[a] one\n[a] two\n[b] half\n[a] three\n[b] rest\n"
    assert lines.end() == ""


@given(st.lists(st.tuples(st.sampled_from(["[a] ", "[b] "]), st.text(st.sampled_from("xy\n"), max_size=12))))
def test_every_line_stands_under_a_label(pieces: list[tuple[str, str]]) -> None:
    lines = Interleaved()
    shown = "".join(lines.add(label, text) for label, text in pieces) + lines.end()
    assert all(line.startswith(("[a] ", "[b] ")) for line in shown.splitlines())
    kept = "".join(line[4:] for line in shown.splitlines())
    assert sorted(kept) == sorted("".join(text for _, text in pieces).replace("\n", ""))
