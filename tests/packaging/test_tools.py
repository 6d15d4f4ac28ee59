"""The distribution of the tools: its commands, its version, and a gateway without it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import gateway
from gateway.cli.main import COMMANDS, TOOLS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tools"


def test_the_wheel_adds_the_commands_and_needs_its_own_version_of_the_gateway(
    tmp_path: Path,
) -> None:
    (path,) = WheelBuilder(str(FOLDER)).build(directory=str(tmp_path))
    with zipfile.ZipFile(path) as files:
        names = set(files.namelist())
        info = f"caption_gateway_tools-{gateway.__version__}.dist-info"
        metadata = files.read(f"{info}/METADATA").decode()
        points = files.read(f"{info}/entry_points.txt").decode()
    assert {"caption_tools/commands.py", "caption_tools/speech/meeting.txt"} <= names
    assert f"\nRequires-Dist: caption-gateway=={gateway.__version__}\n" in metadata
    assert points.startswith(f"[{COMMANDS}]\n")
    assert {line.partition(" ")[0] for line in points.split("\n")[1:] if line} == TOOLS


def test_a_wheel_can_be_built_from_the_sdist(tmp_path: Path) -> None:
    (sdist,) = SdistBuilder(str(FOLDER)).build(directory=str(tmp_path))
    subprocess.run(["tar", "xf", sdist, "-C", str(tmp_path)], check=True)
    unpacked = tmp_path / Path(sdist).name.removesuffix(".tar.gz")
    (wheel,) = WheelBuilder(str(unpacked)).build(directory=str(tmp_path))
    assert Path(wheel).name == f"caption_gateway_tools-{gateway.__version__}-py3-none-any.whl"


def test_the_commands_are_installed_here() -> None:
    assert {point.name for point in entry_points(group=COMMANDS)} == TOOLS


@pytest.mark.parametrize("words", [("tune", "--watch", "5"), ("bench", "load"), ("help", "top")])
def test_without_the_tools_their_commands_say_what_to_install(words: tuple[str, ...]) -> None:
    program = (
        "import sys\nfrom importlib import metadata\nmetadata.entry_points = lambda **_: ()\n"
        f"from gateway.cli.main import main\nsys.exit(main({list(words)}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    command = next(word for word in words if word != "help")
    told = f"gateway: gateway {command} is not installed: pip install caption-gateway-tools\n"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{told}See: gateway --help\n"


def test_its_licence_is_that_of_the_gateway() -> None:
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
