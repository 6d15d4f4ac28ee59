"""The protocol pages of docs/ agree with the structs: every message, field, default and example."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from starlette.routing import compile_path

from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.streaming.stability import StabilityRules
from gateway.errors import CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.audio import AudioInfo
from gateway.protocol.codec import decode
from gateway.protocol.fields import LimitsInfo, RoomSettings
from gateway.protocol.messages import EVENTS, REQUESTS, Line, Resumed, Timing
from gateway.server.app import HTTP_ROUTES
from gateway.server.routes import api
from scripts.schema import json_schema, tag
from scripts.schema_examples import EXAMPLES, QUERY

FOLDER = Path(__file__).parents[2] / "docs" / "reference" / "protocol"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.md"))}
EVERYTHING = "\n".join(PAGES.values())
ROW = re.compile(r"^\| (.+?) \| (.*?) \| ?(.*?) ?\|$", re.MULTILINE)
NESTED: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "limits": ("limits.", LimitsInfo),
    "settings": ("settings.", RoomSettings),
    "ms": ("ms.", Timing),
    "lines": ("lines[].", Line),
    "audio": ("audio.", AudioInfo),
    "resumed": ("resumed.", Resumed),
}
"""Fields that are maps themselves, with the prefix that the pages give to the fields of the map."""
WORDS = dict(enumerate("no one two three four five six seven eight nine ten eleven twelve".split()))


def section(page: str, title: str) -> str:
    """Return the text below a heading of a page, up to the next heading of that level."""
    _, found, rest = PAGES[page].partition(f"\n## {title}\n")
    assert found, f"{page}.md has no heading ## {title}"
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def prose(page: str, title: str = "") -> str:
    """Return a page or one section of it with single spaces, to search for phrases."""
    return " ".join((section(page, title) if title else PAGES[page]).split())


def headings(page: str) -> list[str]:
    """Return the names of the messages that a page documents, in order."""
    return re.findall(r"^## `(\w+)`", PAGES[page], re.MULTILINE)


def table(text: str) -> dict[str, tuple[str, str]]:
    """Map each name to its default and meaning; one row may have several names."""
    rows = {}
    for names, default, meaning in ROW.findall(text):
        for name in re.findall(r"`([^`]+)`", names):
            rows[name] = (default, meaning)
    return rows


def fields(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and default of every field, as the page must write them."""
    for field in msgspec.structs.fields(struct):
        if field.encode_name in NESTED and not prefix and field.type is not int:
            yield from fields(NESTED[field.encode_name][1], NESTED[field.encode_name][0])
        elif field.required:
            yield prefix + field.encode_name, "mandatory"
        elif field.default is None:
            yield prefix + field.encode_name, "none"
        else:
            yield prefix + field.encode_name, f"`{json.dumps(field.default)}`"


def frames() -> list[tuple[str, str]]:
    """Return the direction (`>` from the client, `<` from the server) and text of every example."""
    blocks = re.findall(r"^```\n(.*?)^```$", EVERYTHING, re.MULTILINE | re.DOTALL)
    return [(line[0], line[2:]) for block in blocks for line in block.splitlines()]


def heading(struct: type[Any]) -> tuple[str, str]:
    """Return page and heading of a message."""
    if struct in REQUESTS:
        asked = " (asked)" if tag(struct) in [tag(event) for event in EVENTS] else ""
        return "client-messages", f"`{tag(struct)}`{asked}"
    return "server-messages", f"`{tag(struct)}`"


@pytest.mark.parametrize("struct", [*REQUESTS, *EVENTS], ids=lambda s: s.__name__)
def test_a_message_is_documented_with_all_its_fields_and_their_defaults(struct: type[Any]) -> None:
    rows = table(section(*heading(struct)))
    assert {name: default for name, (default, _) in rows.items()} == dict(fields(struct))
    assert all(meaning for name, (_, meaning) in rows.items() if name != "seq")


@pytest.mark.parametrize(
    ("page", "structs"), [("client-messages", REQUESTS), ("server-messages", EVENTS)]
)
def test_no_message_is_documented_that_does_not_exist(page: str, structs: tuple[Any, ...]) -> None:
    assert headings(page) == [tag(struct) for struct in structs]


def test_the_query_parameters_are_those_of_the_asyncapi_document() -> None:
    rows = table(PAGES["connect"])
    assert list(rows) == list(QUERY)
    for name, schema in QUERY.items():
        if "default" in schema:
            assert rows[name][0] == f"`{schema['default']}`"
        for value in schema.get("enum", ()):
            assert value == "0" or f"`{value}`" in rows[name][1], f"{name} can be {value}"


def test_the_limits_have_the_defaults_of_the_code() -> None:
    rows = table(section("limits", "Limits"))
    assert list(rows) == list(LimitsInfo.__struct_fields__)
    for name, (default, _) in rows.items():
        assert default.startswith(f"{getattr(Limits(), name):g}"), name
    said = prose("limits")
    limits = Limits()
    assert f"{limits.burst} at once" in said
    assert f"longer than {limits.job_s:g} s" in said
    assert f"waited for {limits.outbox_s:g} s" in said
    assert f"{limits.outbox_bytes // 2**20} MiB waits" in said


def test_the_numbers_of_rooms_and_growing_utterances_are_the_defaults() -> None:
    limits, pace, lengths, rules = Limits(), PartialTiming(), SegmentLengths(), StabilityRules()
    rooms, growing = prose("rooms"), prose("growing")
    assert f"for {limits.linger_s:g} s after" in rooms
    assert rooms.count(f"the last {limits.backfill} utterances") == 2
    assert f"server's number ({limits.backfill})" in section("client-messages", "`want`")
    assert limits.presence_s == 1 and "once a second" in rooms
    assert f"nothing has changed for {pace.stall:g} s" in growing
    assert f"every {pace.interval:g} s at most" in growing
    assert f"has {WORDS[pace.first]} words at least" in growing
    assert f"for {WORDS[pace.step]} more words" in growing
    assert f"at once for {WORDS[pace.words]} new words" in growing
    agreed = f"common beginning of {WORDS[rules.agree]} translations in a row"
    assert f"{agreed}, but for the last {WORDS[rules.hold]} words, is stable" in growing
    assert f"is what {WORDS[rules.agree]} translations agree on" in growing
    assert f"but for the last {WORDS[rules.mask]} words, which mostly change" in growing
    assert f"a line of {WORDS[lengths.least]} words" in growing
    assert f"from {lengths.most} words on also" in growing
    assert f"from {lengths.hard} words on anywhere" in growing


def test_the_numbers_of_resuming_are_the_defaults() -> None:
    limits = Limits()
    said = prose("resume")
    assert f"for {limits.resume_s / 3600:g} hours" in said
    assert f"last {limits.log} events" in said
    assert f"{limits.log_bytes // 2**20} MiB" in said
    assert f"for {limits.grace_s:g} s" in said
    assert f"{limits.room_s / 3600:g} hours after its last socket" in said


def test_every_code_on_the_page_exists() -> None:
    shown = set(re.findall(r'"code":"(\w+)"', EVERYTHING))
    assert shown <= {code.value for code in ErrorCode}
    named = r"\bclose[sd]?(?: code| with)? (\d{4})\b"
    closes = {int(code) for code in re.findall(named, EVERYTHING)}
    assert closes and closes <= {code.value for code in CloseCode}


def test_every_example_is_a_frame_that_this_direction_can_carry() -> None:
    schema = json_schema()
    validators = {
        sign: Draft202012Validator({**schema, "anyOf": [{"$ref": f"#/$defs/{name}"}]})
        for sign, name in ((">", "ClientMessage"), ("<", "ServerMessage"))
    }
    assert len(frames()) > 50
    for direction, frame in frames():
        if direction == ">":
            decode(frame)
        if frame.startswith("{"):
            validators[direction].validate(json.loads(frame))


def test_every_message_has_an_example_and_those_of_the_schema_are_among_them() -> None:
    shown = [(sign, json.loads(frame)) for sign, frame in frames() if frame.startswith("{")]
    for example in EXAMPLES:
        sign = ">" if type(example) in REQUESTS else "<"
        written = (sign, json.loads(msgspec.json.encode(example)))
        assert written in shown, f"The protocol pages lack this example: {written}"


METHODS = ("DELETE", "POST", "GET")


def test_every_request_over_http_is_shown_with_an_example() -> None:
    served = {"GET /"} | {
        f"{next(name for name in METHODS if name in (route.methods or ()))} {route.path}"
        for route in HTTP_ROUTES
    }
    row = r"^\| `((?:GET|POST|DELETE) [^`]+)` \| `curl (?:-N |-X DELETE )?([^` ]+)"
    rows = re.findall(row, PAGES["http"], re.MULTILINE)
    assert {request for request, _ in rows} == served
    for request, address in rows:
        host, slash, path = address.strip("'").partition("/")
        shape, _, _ = compile_path(request.split()[1])
        assert host == "localhost:8000" and shape.match(slash + path.partition("?")[0]), address


def test_every_status_of_an_error_is_on_the_page() -> None:
    rows = dict(re.findall(r"^\| (\d{3})[^|]* \| (.*?) \|$", PAGES["http"], re.MULTILINE))
    here = (ErrorCode.RATE,)  # no request meets it
    for code, status in api.STATUS.items():
        if code not in here:
            assert f"`{code}`" in rows[str(status)]
