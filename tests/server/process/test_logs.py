"""The log lines of a process, as text and as JSON."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from gateway.engines.scripted import ScriptedEngine
from gateway.errors import EngineFault, ErrorCode
from gateway.job import Job
from gateway.server.process.logs import (
    JsonFormatter,
    LogFormat,
    TextFormatter,
    handler,
    set_up_logs,
)
from tests.server.started import SCRIPTED, gateway
from tests.support.live import browse, running
from tests.support.talk import talk


def record(**extra: Any) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "gateway.jobs", "levelno": 30, "levelname": "WARNING", "created": 1.5}
    )
    made.msg, made.args = "job %s failed", ("j1",)
    made.__dict__.update(extra)
    return made


def test_a_line_of_json_has_time_level_logger_message_and_ids() -> None:
    line = JsonFormatter().format(record(session="s", room="r", utterance="u1", job="j1"))
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:01.500+00:00",
        "level": "warning",
        "logger": "gateway.jobs",
        "message": "job j1 failed",
        "session": "s",
        "room": "r",
        "utterance": "u1",
        "job": "j1",
    }


def test_a_field_that_is_no_id_is_left_out() -> None:
    line = JsonFormatter().format(
        record(text="\u041f\u0440\u0438\u0432\u0435\u0442", speaker="Ana", room="r")
    )
    assert json.loads(line).keys() == {"time", "level", "logger", "message", "room"}


def test_a_message_of_several_lines_and_scripts_is_one_line_of_json() -> None:
    made = record()
    made.msg, made.args = "a\n\u2028\u4f60\u597d\x00", None
    line = JsonFormatter().format(made)
    assert len(line.splitlines()) <= 2 and "\n" not in line
    assert json.loads(line)["message"] == "a\n\u2028\u4f60\u597d\x00"


def test_an_exception_is_a_field_without_its_message() -> None:
    try:
        raise KeyError("k")
    except KeyError:
        line = JsonFormatter().format(record(exc_info=sys.exc_info()))
    assert json.loads(line)["traceback"].endswith("\nKeyError")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_message_of_a_library_is_never_logged_at_any_level(form: LogFormat) -> None:
    written = handler(form)
    for name in ("httpcore2.http11", "uvicorn.error", "asyncio", "gatewayed", "root"):
        made = record(name=name, filename="http11.py", lineno=7)
        for level in (logging.DEBUG, logging.INFO):
            made.levelno = level
            assert not written.filter(made)
        made.levelno = logging.WARNING
        assert written.filter(made)
        made.msg, made.args = "Set-Cookie: %s", ("secret",)
        line = written.format(made)
        assert f"{name}" in line and "its message is not logged (http11.py, line 7)" in line
        assert "secret" not in line and "Cookie" not in line
        assert made.getMessage() == "Set-Cookie: secret", "other handlers have their own rules"
    assert written.filter(record(levelno=logging.DEBUG))


def test_a_traceback_that_another_handler_has_stored_in_a_record_is_not_written() -> None:
    try:
        raise ValueError("canary", 7261 + 0)
    except ValueError:
        made = record(exc_info=sys.exc_info())
    logging.Formatter().format(made)
    assert "('canary', 7261)" in (made.exc_text or "")
    for form in (TextFormatter(), JsonFormatter()):
        line = form.format(made)
        assert line.rstrip('"}').endswith("ValueError")


def test_a_gateway_with_the_setting_writes_json_to_standard_error() -> None:
    code = (
        "from gateway.server.process.logs import set_up_logs; import logging;"
        "set_up_logs('info', 'json'); logging.getLogger('gateway.x').info('hello %d', 1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr)["message"] == "hello 1"
    assert done.stdout == ""


def test_a_gateway_that_logs_json_writes_nothing_else_to_standard_error() -> None:
    with gateway(*SCRIPTED, "--log-format", "json") as process:
        process.popen.terminate()
        assert process.popen.wait() == 0
        lines = [json.loads(line) for line in process.text.splitlines()]
    messages = [line["message"] for line in lines]
    assert any("scripted is ready.\n  Open   http://127.0.0.1:" in text for text in messages)
    assert all(line.keys() >= {"time", "level", "logger", "message"} for line in lines)


async def test_a_failed_caption_is_logged_with_session_room_utterance_and_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(job: Job, piece: int) -> None:
        raise EngineFault("It broke.", ErrorCode.TIMEOUT)

    caplog.set_level(logging.INFO, "gateway")
    async with running(ScriptedEngine(fault=fail)) as live:
        async with talk(live, "?from=en&to=de&room=board") as peer:
            (*_, welcome) = await peer.until("welcome")
            await peer.send(json.dumps({"type": "say", "id": "u7", "text": "Good morning."}))
            await peer.until("failed")
    lines = [json.loads(JsonFormatter().format(one)) for one in caplog.records]
    (failed,) = [line for line in lines if line["logger"] == "gateway.jobs"]
    assert failed["room"] == "board" and failed["utterance"] == "u7" and failed["job"]
    assert failed["session"] == welcome["session"]
    opened, closed = [line for line in lines if line["logger"] == "gateway.connection"]
    assert opened["session"] == closed["session"] == welcome["session"]
    assert opened["room"] == "board"


async def test_a_broken_form_is_told_to_the_client_and_not_to_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    forms = logging.getLogger("python_multipart")
    monkeypatch.setattr(forms, "level", forms.level)  # restores it
    set_up_logs("info")
    async with browse() as (client, _):
        kind = {"content-type": "multipart/form-data; boundary=x"}
        answer = await client.post("/translate", content=b"nonsense", headers=kind)
    assert answer.status_code == 400
    assert not [line for line in caplog.records if line.name.startswith("python_multipart")]
