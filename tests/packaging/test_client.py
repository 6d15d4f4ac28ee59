"""The light distribution of the client: its size, its names, and a meeting with it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import gateway
import gateway.client
from tests.support.live import in_thread

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients" / "python"
MOST_BYTES = 5_000_000
"""Limit of all that the client installs, dependencies included."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the client, as pip does."""
    (path,) = WheelBuilder(str(CLIENT)).build(directory=str(tmp_path_factory.mktemp("dist")))
    return Path(path)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel and its dependencies in a new environment, and return the environment."""
    venv = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"), "install", "-q"]
    subprocess.run([*pip, "--disable-pip-version-check", "--no-compile", str(wheel)], check=True)
    return venv


def run(venv: Path, code: str, folder: Path) -> str:
    """Return the output of a program in the environment. It runs in a folder of its own."""
    python = str(venv / "bin" / "python")
    done = subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_is_small_and_brings_no_server_and_no_model(installed: Path) -> None:
    (site,) = installed.glob("lib/python*/site-packages")
    files = [path for path in site.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    packages = {path.name for path in site.iterdir() if not path.name.endswith(".dist-info")}
    assert packages == {"caption_gateway_client", "msgspec", "websockets"}


def test_the_program_of_its_readme_prints_a_caption(installed: Path, tmp_path: Path) -> None:
    readme = (CLIENT / "README.md").read_text(encoding="utf-8")
    program = re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S)[0]
    # A package that is called gateway is no hindrance.
    (tmp_path / "gateway.py").write_text("raise AssertionError('imported by mistake')")
    with in_thread() as live:
        code = program.replace("ws://127.0.0.1:8000", live.ws)
        assert run(installed, code, tmp_path) == "[de] We meet again on Thursday at nine.\n"


def test_it_has_the_names_types_and_version_of_the_client_of_the_gateway(
    installed: Path, wheel: Path, tmp_path: Path
) -> None:
    code = (
        "import caption_gateway_client as c\nprint(*c.__all__, all(hasattr(c, n) for n in dir(c)))"
    )
    assert run(installed, code, tmp_path).split() == [*sorted(gateway.client.__all__), "True"]
    code = "import caption_gateway_client.messages as m\nprint(m.Final.__module__)"
    assert run(installed, code, tmp_path) == "caption_gateway_client.protocol.messages\n"
    assert "caption_gateway_client/py.typed" in zipfile.ZipFile(wheel).namelist()
    assert wheel.name == f"caption_gateway_client-{gateway.__version__}-py3-none-any.whl"


def test_nothing_in_it_is_imported_from_the_gateway(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if name.endswith(".py"):
                text = files.read(name).decode()
                assert not re.search(r"\b(from|import) gateway\b", text), name


def test_a_wheel_can_be_built_from_its_sdist(wheel: Path, tmp_path: Path) -> None:
    (sdist,) = SdistBuilder(str(CLIENT)).build(directory=str(tmp_path))
    subprocess.run(["tar", "xf", sdist, "-C", str(tmp_path)], check=True)
    unpacked = tmp_path / Path(sdist).name.removesuffix(".tar.gz")
    (again,) = WheelBuilder(str(unpacked)).build(directory=str(tmp_path))
    contents = [
        {name: files.read(name) for name in files.namelist() if "RECORD" not in name}
        for files in (zipfile.ZipFile(wheel), zipfile.ZipFile(again))
    ]
    assert contents[0] == contents[1]


def test_its_dependencies_and_licence_are_those_of_the_gateway() -> None:
    client, whole = (
        tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
        for folder in (CLIENT, ROOT)
    )
    assert set(client["dependencies"]) <= set(whole["dependencies"])
    assert client["requires-python"] == whole["requires-python"]
    assert (CLIENT / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
