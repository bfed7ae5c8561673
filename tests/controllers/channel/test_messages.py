"""What hub and agent say to each other, as laws: what is written is read, and what is no message is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.channel import messages
from controllers.channel.messages import (
    BadMessage,
    Dropped,
    Lines,
    LogOptions,
    LogsAsked,
    Notice,
    ProbeAsked,
    Probed,
    Refused,
)
from controllers.channel.plaintext import Reader, clean
from machinery.wire import Frames
from policies.flows.spec import HttpGet, TcpSocket

text = st.text(max_size=50)
number = st.integers(min_value=0, max_value=2**53)
options = st.builds(LogOptions, st.booleans(), st.none() | st.integers(0, 2**31), st.none() | st.integers(0, 2**31), text)
asks = st.one_of(
    st.builds(LogsAsked, number, text, text, options),
    st.builds(
        ProbeAsked,
        number,
        text,
        text,
        st.lists(st.builds(HttpGet, text, text, st.integers(0, 70_000))).map(tuple),
        st.lists(st.builds(TcpSocket, text, st.integers(0, 70_000))).map(tuple),
    ),
    st.builds(Dropped, number),
)
saids = st.builds(Probed, number, text) | st.builds(Refused, number, text)
records = st.builds(Lines, text, text, text, st.booleans(), text) | st.builds(Notice, text, text, text)


@given(asks)
def test_questions_are_read_as_they_were_written(ask: messages.Ask) -> None:
    assert messages.read_ask(messages.encode(ask)) == ask
    assert messages.read_ask(messages.encode(ask).decode()) == ask


@given(saids)
def test_short_answers_are_read_as_they_were_written(said: messages.Said) -> None:
    assert messages.read_said(messages.encode(said)) == said


@given(st.lists(records, max_size=8), st.integers(1, 40))
def test_records_survive_any_way_in_which_the_network_cuts_them(sent: list[messages.Record], size: int) -> None:
    stream = b"\n" + messages.encode_lines(sent)
    frames, got = Frames(messages.MAX_RECORD), []
    for at in range(0, len(stream), size):
        got += frames.feed(stream[at : at + size])
    assert [messages.read_record(line) for line in got] == sent


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"type":"exec","number":1}', b'{"type":"logs"}', b'{"type":"logs","number":"x"}']
)
def test_what_is_no_question_is_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        messages.read_ask(data)


def test_fields_of_a_later_version_are_skipped() -> None:
    ask = messages.read_ask(b'{"type":"logs","number":1,"job":"u","namespace":"n","colour":"red","options":{"follow":true}}')
    assert ask == LogsAsked(1, "u", "n", LogOptions(follow=True))


@given(st.binary(min_size=1, max_size=16))
def test_a_piece_of_any_bytes_stays_a_record_that_the_hub_takes(pattern: bytes) -> None:
    """The agent cuts logs by bytes and cleans them; the hub takes records up to a size."""
    for piece in Reader(limit=messages.CHUNK).feed(pattern * messages.CHUNK):
        assert len(messages.encode_lines([Lines("p" * 253, "c" * 253, clean(piece), cluster="x" * 48)])) <= messages.MAX_RECORD
