"""The command line: what each command prints, and the sentence and status of what cannot be."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__
from gateway.cli.main import main
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.stability import WITHOUT_CHECKS
from gateway.limits import Limits
from gateway.settings import catalogue, loading
from gateway.settings.catalogue import Settings
from tests.support.command import fails

pytestmark = pytest.mark.usefixtures("bare")


def test_no_command_is_answered_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    out = capsys.readouterr().out
    assert all(command in out for command in ("serve", "say", "chat", "languages", "schema"))


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"gateway {__version__}\n"


def test_every_setting_is_a_flag_of_serve(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    out = capsys.readouterr().out
    for row in catalogue.table().values():
        assert row.flag in out


def help_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main([*argv])
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_the_help_lists_settings_by_topic_with_their_defaults_and_choices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = help_of(capsys, "serve", "--help")
    titles = re.findall(r"^(\S.*):$", out, re.MULTILINE)
    assert titles == ["options", "settings", *(title.lower() for title in catalogue.by_topic())]
    assert "--log-level debug|error|info|warning" in out
    limits = out.partition("\nlimits:\n")[2].partition("\n\n")[0]
    assert re.findall(r"--[\w-]+", limits)[0] == "--limit-frame"
    assert "Default: 65536." in limits


def test_a_command_that_only_translates_lists_the_settings_of_engines_and_takes_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = help_of(capsys, "languages", "--help")
    assert "--model" in out and "--certfile" not in out
    assert main(["languages", "--engine", "scripted", "--certfile", "x"]) == 0


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert help_of(capsys, "help", "chat") == help_of(capsys, "chat", "--help")
    assert help_of(capsys, "help").startswith("usage: gateway [-h]")


def test_every_topic_of_settings_begins_with_a_setting() -> None:
    assert set(catalogue.TOPICS) <= set(catalogue.table())
    listed = [row.name for rows in catalogue.by_topic().values() for row in rows]
    assert listed == list(catalogue.table())


def test_serve_gets_the_settings_and_gives_the_status(monkeypatch: pytest.MonkeyPatch) -> None:
    from gateway.server.process import serve as process

    served: list[Settings] = []

    def serve(given: Settings) -> int:
        served.append(given)
        return 7

    monkeypatch.setattr(process, "serve", serve)
    flags = ["--no-guards", "--limit-text", "5", "--vllm-arg", "seed=3", "--vllm-arg", "a=b=c"]
    assert main(["serve", "--engine", "vllm", *flags]) == 7
    assert served == [
        Settings(
            engine="vllm",
            guards=False,
            limits=Limits(text=5),
            flow=StreamingOptions(stability=WITHOUT_CHECKS),
            vllm={"seed": 3, "a": "b=c"},
        )
    ]


def test_serve_says_so_when_its_port_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        status, err = fails(capsys, "serve", "--engine", "scripted", "--port", port)
    assert status == 1
    says = f"Cannot listen on 127.0.0.1:{port}: another program uses this port."
    assert err == f"gateway: {says} End that one, or choose another --port.\n"


def test_a_full_disk_behind_stdout_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def full(*args: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loading, "as_text", full)
        assert fails(capsys, "settings") == (1, "gateway: No space left on device\n")


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["serve", "--host", "0.0.0.0"], "requires no key"),
        (["serve", "--prot", "8"], "Unknown option --prot. Did you mean --port?"),
        (["serve", "--workers", "4"], "no setting any more. Start several gateways with `redis`"),
        (["serve", "--port", "web"], "--port cannot be 'web': it is a whole number"),
        (["serve", "--vllm-arg", "seed"], "--vllm-arg cannot be 'seed': it is KEY=VALUE"),
        (["srve"], "invalid choice: 'srve'"),
        (["srve"], "Did you mean serve?"),
        (["--prot"], "Unknown option --prot."),
        (["bench"], "required: load"),
        (["bench", "lod"], "(choose from 'load')"),
        (["bench", "load", "--rat=3", "ws://x"], "Unknown option --rat. Did you mean --rate?"),
        (["bench", "load", "ws://x", "more"], "Unexpected argument: 'more'."),
        (["tune", "--descrbe", "4 a second"], "Did you mean --describe?"),
        (["say", "hello"], "--to"),
        (["say", "hello", "--to", ","], "it names no language"),
    ],
)
def test_a_wrong_command_line_is_status_2_with_a_sentence_and_a_way_to_help(
    capsys: pytest.CaptureFixture[str], argv: list[str], says: str
) -> None:
    status, err = fails(capsys, *argv)
    assert status == 2
    assert says in err
    assert "--help" in err


@pytest.mark.parametrize("text", ["port = 'web'", "prot = 8", "port = ", None])
def test_a_fault_in_the_file_of_settings_does_not_point_to_the_help_of_flags(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "gateway.toml"
    if text is not None:
        path.write_text(text, "utf-8")
    status, err = fails(capsys, "serve", "--config", str(path))
    assert status == 2
    assert str(path) in err
    assert "--help" not in err


def test_the_usage_of_a_command_with_settings_fits_on_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["say", "--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    assert usage == (
        "usage: gateway say [-h] [--config FILE] [--SETTING VALUE ...] --to LANG[,LANG]"
        " [--from LANG] [--url URL] TEXT"
    )


@pytest.mark.parametrize(
    ("argv", "help"),
    [
        (["--prot"], "gateway"),
        (["bench", "lod"], "gateway bench"),
        (["bench", "load", "--rat", "3"], "gateway bench load"),
        (["bench", "load", "ws://x", "--rate", "0"], "gateway bench load"),
        (["tune"], "gateway tune"),
    ],
)
def test_an_error_points_to_the_help_of_its_own_command(
    capsys: pytest.CaptureFixture[str], argv: list[str], help: str
) -> None:
    assert fails(capsys, *argv)[1].splitlines()[-1] == f"See: {help} --help"


def test_a_gateway_that_serves_does_not_import_the_tools_for_operators() -> None:
    script = """
import sys
from gateway.cli import main as cli
from gateway.server.process import serve as process

process.serve = lambda settings: 0
assert cli.main(["serve", "--engine", "scripted"]) == 0
tools = {name for name in sys.modules if name.startswith("caption_tools")}
print(sorted(tools - {"caption_tools", "caption_tools.commands"}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_missing_file_is_reported_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    status, err = fails(capsys, "tune", "--engine", "scripted", "--replay", "nowhere.jsonl")
    assert (status, err) == (1, "gateway: nowhere.jsonl: No such file or directory\n")


def test_settings_are_shown_with_their_origin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_OPENAI_API_KEY", "sesame")
    monkeypatch.setenv("GATEWAY_MODLE", "x")
    assert main(["settings", "--port", "9"]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"^port +9 +--port$", out, re.MULTILINE)
    assert "sesame" not in out + err
    assert "Did you mean GATEWAY_MODEL?" in err


def test_settings_are_shown_as_json_with_secrets_masked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_OPENAI_API_KEY", "sesame")
    flags = ["--port", "9", "--openai-url", "http://me:pass@there/v1", "--vllm-arg", "seed=3"]
    assert main(["settings", "--json", *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == list(catalogue.table())
    assert found["port"] == {"value": 9, "origin": "--port"}
    assert found["model"] == {"value": None, "origin": "default"}
    assert found["vllm"] == {"value": {"seed": 3}, "origin": "--vllm-arg"}
    assert found["openai_url"]["value"] == "http://****@there/v1"
    assert found["openai_api_key"] == {"value": "****", "origin": "GATEWAY_OPENAI_API_KEY"}
    assert found["jwt_key"]["value"] is None


def test_languages_are_listed_for_people_and_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["languages", "--engine", "scripted"]) == 0
    assert re.search(r"^de +German +to ar, en,", capsys.readouterr().out, re.MULTILINE)
    assert main(["languages", "--engine", "scripted", "--json"]) == 0
    rows = {row["code"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["de"]["name"] == "German"
    assert "en" in rows["de"]["targets"]
    assert "de" not in rows["de"]["targets"]


def test_the_protocol_is_printed_as_a_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert "$schema" in json.loads(capsys.readouterr().out)
    assert main(["schema", "--asyncapi"]) == 0
    assert json.loads(capsys.readouterr().out)["asyncapi"].startswith("3.")


def test_a_closed_stdout_is_no_traceback() -> None:
    command = [sys.executable, "-m", "gateway", "schema"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.parametrize(("before", "status"), [("", -signal.SIGINT), ("SIG_IGN", 2)])
def test_ctrl_c_during_the_imports_ends_the_command_quietly_unless_it_is_ignored(
    before: str, status: int
) -> None:
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)" if before else ""
    program = f"""
import os, signal, sys
{ignored}

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == "gateway.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupted())
sys.argv = ["gateway"]
from gateway.__main__ import start
sys.exit(start())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (status, "")


def test_a_language_of_speakers_that_is_no_tag_is_refused_at_the_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = ("--engine", "scripted", "--port", 0, "--lang", "klingon")
    status, err = fails(capsys, "serve", *flags)
    assert status == 2 and "`klingon` is not a language tag" in err and "Check --lang." in err


def test_a_wrong_address_of_redis_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    status, err = fails(capsys, "serve", "--engine", "scripted", "--port", 0, "--redis", "x://y")
    assert status == 2 and err.startswith("gateway: redis: ")


def test_redis_without_its_extra_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gateway.server.fleet.rooms", None)
    status, err = fails(
        capsys, "serve", "--engine", "scripted", "--port", 0, "--redis", "redis://y"
    )
    assert status == 2 and "caption-gateway[redis]" in err
