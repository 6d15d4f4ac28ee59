"""Fields with text that people wrote, and messages without it."""

from __future__ import annotations

import msgspec
import pytest

from gateway.protocol.fields import Code, Personal, Statement, stated
from gateway.protocol.messages import EVENTS, REQUESTS, Say, Source
from gateway.protocol.personal import erased, personal_fields


class Unmarked(msgspec.Struct):
    """A message as somebody might write it who does not know of the marks."""

    note: str | None = None


class Nested(msgspec.Struct):
    """A message with text in every kind of field."""

    names: tuple[Personal, ...]
    by_tag: dict[Code, Personal]
    inner: Statement | None = None
    tags: tuple[Code, ...] = ()
    count: int = 0


def test_a_text_without_a_mark_is_refused_with_its_name() -> None:
    with pytest.raises(TypeError, match=r"Unmarked\.note holds text"):
        personal_fields(Unmarked)


def test_every_message_says_which_of_its_text_is_personal() -> None:
    for kind in (*REQUESTS, *EVENTS):
        personal_fields(kind)
    assert personal_fields(Say) == {"text": "", "speaker": None}


def test_text_is_found_in_tuples_mappings_and_structs() -> None:
    assert set(personal_fields(Nested)) == {"names", "by_tag", "inner"}


def test_an_erased_message_keeps_everything_but_its_personal_text() -> None:
    event = Source(seq=3, id="u1", rev=2, ord=1, lang="en", text="hello", speaker="Ana", t0=1.5)
    assert erased(event) == Source(seq=3, id="u1", rev=2, ord=1, lang="en", text="", t0=1.5)


def test_details_reach_every_message_that_has_a_field_for_them() -> None:
    say = Say(text="hello", speaker="Ana", t0=1.0)
    assert stated(say, Statement) == {"speaker": "Ana", "t0": 1.0, "t1": None}
    assert stated(say, Nested) == {}
