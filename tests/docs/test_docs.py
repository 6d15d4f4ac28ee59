"""docs/protocol.md says what the structs say: every message, every field, every example."""

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

from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.streaming.source import PartialTiming
from gateway.core.streaming.target import StabilityRules
from gateway.errors import CloseCode, ErrorCode
from gateway.limits import Limits
from gateway.protocol.codec import decode
from gateway.protocol.messages import EVENTS, REQUESTS, LimitsInfo, Line, Resumed, Timing
from gateway.protocol.schema import EXAMPLES, QUERY, json_schema, tag
from gateway.server.routes import api, libretranslate, qr, sse, tickets, transcripts

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "protocol.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (.+?) \| (.*?) \| ?(.*?) ?\|$", re.MULTILINE)
NESTED = {
    "limits": ("limits.", LimitsInfo),
    "ms": ("ms.", Timing),
    "lines": ("lines[].", Line),
    "resumed": ("resumed.", Resumed),
}
"""Fields that are maps themselves, and how the page writes the fields of these."""
WORDS = dict(enumerate("no one two three four five six seven eight nine ten eleven twelve".split()))


def section(title: str, *, level: int = 2) -> str:
    """The page from one heading to the next of its level."""
    marks = "#" * level
    _, found, rest = PAGE.partition(f"\n{marks} {title}\n")
    assert found, f"docs/protocol.md has no heading {marks} {title}"
    return re.split(rf"^#{{2,{level}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def headings(part: str) -> list[str]:
    return re.findall(r"^### `(\w+)`", section(part), re.MULTILINE)


def table(text: str) -> dict[str, tuple[str, str]]:
    """Name to (default, meaning), from the first table; one row may name several."""
    rows = {}
    for names, default, meaning in ROW.findall(text):
        for name in re.findall(r"`([^`]+)`", names):
            rows[name] = (default, meaning)
    return rows


def fields(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[tuple[str, str]]:
    """(name, default) of every field as the page has to write them."""
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
    """(direction, frame) of every example, `>` from the client and `<` from the server."""
    blocks = re.findall(r"^```\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [(line[0], line[2:]) for block in blocks for line in block.splitlines()]


def heading(struct: type[Any]) -> tuple[str, str]:
    if struct in REQUESTS:
        asked = " (asked)" if tag(struct) in [tag(event) for event in EVENTS] else ""
        return "Client to server", f"`{tag(struct)}`{asked}"
    return "Server to client", f"`{tag(struct)}`"


@pytest.mark.parametrize("struct", [*REQUESTS, *EVENTS], ids=lambda s: s.__name__)
def test_a_message_is_documented_with_all_its_fields_and_their_defaults(struct: type[Any]) -> None:
    _, title = heading(struct)
    rows = table(section(title, level=3))
    assert {name: default for name, (default, _) in rows.items()} == dict(fields(struct))
    assert all(meaning for name, (_, meaning) in rows.items() if name != "seq")


@pytest.mark.parametrize(
    ("part", "structs"), [("Client to server", REQUESTS), ("Server to client", EVENTS)]
)
def test_no_message_is_documented_that_does_not_exist(part: str, structs: tuple[Any, ...]) -> None:
    assert headings(part) == [tag(struct) for struct in structs]


def test_the_query_parameters_are_those_of_the_asyncapi_document() -> None:
    rows = table(section("Connect"))
    assert list(rows) == list(QUERY)
    for name, schema in QUERY.items():
        if "default" in schema:
            assert rows[name][0] == f"`{schema['default']}`"
        for value in schema.get("enum", ()):
            assert value == "0" or f"`{value}`" in rows[name][1], f"{name} can be {value}"


def test_the_limits_have_the_defaults_of_the_code() -> None:
    rows = table(section("Limits"))
    assert list(rows) == list(LimitsInfo.__struct_fields__)
    for name, (default, _) in rows.items():
        assert default.startswith(f"{getattr(Limits(), name):g}"), name
    said = section("Limits")
    limits = Limits()
    assert f"{limits.burst} at once" in said
    assert f"longer than {limits.job_s:g} s" in said
    assert f"waited for {limits.outbox_s:g} s" in said
    assert f"{limits.outbox_bytes // 2**20} MiB waits" in said


def test_the_numbers_of_rooms_and_growing_utterances_are_the_defaults() -> None:
    limits, pace, lengths, rules = Limits(), PartialTiming(), SegmentLengths(), StabilityRules()
    rooms, growing = (" ".join(section(name).split()) for name in ("Rooms", "Growing utterances"))
    assert f"for {limits.linger_s:g} s after" in rooms
    assert rooms.count(f"the last {limits.backfill} utterances") == 2
    assert f"server's number ({limits.backfill})" in section("`want`", level=3)
    assert limits.presence_s == 1 and "once a second" in rooms
    assert f"nothing has changed for {pace.stall:g} s" in growing
    assert f"every {pace.interval:g} s at most" in growing
    assert f"has {WORDS[pace.first]} words at least" in growing
    assert f"for {WORDS[pace.step]} more words" in growing
    assert f"at once for {WORDS[pace.words]} new words" in growing
    assert f"but for the last {WORDS[rules.hold]} words, is stable" in growing
    assert f"but for the last {WORDS[rules.mask]} words, which mostly change" in growing
    assert f"a line of {WORDS[lengths.least]} words" in growing
    assert f"from {lengths.most} words on also" in growing
    assert f"from {lengths.hard} words on anywhere" in growing


def test_the_numbers_of_resuming_are_the_defaults() -> None:
    limits = Limits()
    said = " ".join(section("Resume").split())
    assert f"for {limits.resume_s / 3600:g} hours" in said
    assert f"last {limits.log} events" in said
    assert f"{limits.log_bytes // 2**20} MiB" in said
    assert f"for {limits.grace_s:g} s" in said
    assert f"{limits.room_s / 3600:g} hours after its last socket" in said


def test_every_code_on_the_page_exists() -> None:
    shown = set(re.findall(r'"code":"(\w+)"', PAGE))
    assert shown <= {code.value for code in ErrorCode}
    closes = {int(code) for code in re.findall(r"close (?:code )?(\d{4})\b", PAGE)}
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
        assert written in shown, f"docs/protocol.md lacks this example: {written}"


METHODS = ("DELETE", "POST", "GET")


def test_every_request_over_http_is_shown_with_an_example() -> None:
    served = {"GET /"} | {
        f"{next(name for name in METHODS if name in (route.methods or ()))} {route.path}"
        for routes in (api, libretranslate, transcripts, tickets, sse, qr)
        for route in routes.ROUTES
    }
    row = r"^\| `((?:GET|POST|DELETE) [^`]+)` \| `curl (?:-N |-X DELETE )?([^` ]+)"
    rows = re.findall(row, PAGE, re.MULTILINE)
    assert {request for request, _ in rows} == served
    for request, address in rows:
        host, slash, path = address.strip("'").partition("/")
        shape, _, _ = compile_path(request.split()[1])
        assert host == "localhost:8000" and shape.match(slash + path.partition("?")[0]), address


def test_every_status_of_an_error_is_on_the_page() -> None:
    rows = dict(re.findall(r"^\| (\d{3})[^|]* \| (.*?) \|$", section("HTTP"), re.MULTILINE))
    here = (ErrorCode.RATE,)  # no request meets it
    for code, status in api.STATUS.items():
        if code not in here:
            assert f"`{code}`" in rows[str(status)]


@pytest.mark.parametrize(
    "page", sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")]), ids=lambda p: p.name
)
def test_links_to_files_and_headings_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor and target.suffix == ".md":
            titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in slugs, f"{page.name} links to {link}"
