"""Connections that one process hands to another, and malformed messages between them."""

from __future__ import annotations

import array
import asyncio
import os
import resource
import shutil
import socket
import stat
import struct
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from gateway.server.cluster import fd_message
from gateway.server.cluster import fd_passing as module
from gateway.server.cluster.fd_message import BYTES
from gateway.server.cluster.fd_passing import FdPassing
from gateway.server.cluster.socket_folder import socket_folder
from tests.support.live import until

LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


def descriptors() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


def connection() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return near, far


class Ends:
    """Both ends of an exchange in one process; the second one listens."""

    def __init__(self, folder: Path) -> None:
        self.one = FdPassing(folder, 0, (0, 1))
        self.two = FdPassing(folder, 1, (0, 1))
        self.taken: list[tuple[socket.socket, bytes]] = []

    def open(self) -> None:
        self.two.listen(
            lambda connection, data: self.taken.append((connection, data)), lambda: b"42"
        )

    def raw(self) -> socket.socket:
        """Connect to the second end without its protocol."""
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.connect(str(self.two.folder / "1.sock"))
        return peer


@asynccontextmanager
async def joined(folder: Path) -> AsyncIterator[Ends]:
    """Open both ends, and check at the end that no descriptor is left open."""
    ends = Ends(folder)
    await asyncio.to_thread(int)  # the thread, with its own descriptors
    before = descriptors()
    try:
        ends.open()
        yield ends
    finally:
        await ends.two.aclose()
        for made, _ in ends.taken:
            made.close()
    assert descriptors() == before


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a directory that the test may remove."""
    made = tmp_path / "sockets"
    made.mkdir(mode=0o700)
    return made


@LOOPS
def test_a_connection_is_handed_over_with_the_bytes_read_of_it(
    tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        async with joined(tmp_path) as ends:
            near, far = connection()
            with near:
                assert ends.one.send(1, far.fileno(), b"GET / HTTP/1.1\r\n")
                far.close()
                await until(lambda: bool(ends.taken))
                ((made, data),) = ends.taken
                assert data == b"GET / HTTP/1.1\r\n"
                assert not made.get_inheritable() and not made.getblocking()
                made.send(b"answer")
                assert near.recv(100) == b"answer"
            assert (ends.one.counts["sent"], ends.two.counts["taken"]) == (1, 1)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_the_last_process_removes_the_directory_with_what_killed_ones_left(
    folder: Path,
) -> None:
    async with joined(folder) as ends:
        with socket.socket(socket.AF_UNIX) as killed:
            killed.bind(str(folder / "2.sock"))
        ends.one.remove_folder()
        assert ends.one.folder.exists(), "the second one listens"
        ends.two.stop_listening()
        assert (ends.one.folder / "2.sock").is_socket()
        ends.one.remove_folder()
        assert not ends.one.folder.exists()
        ends.two.remove_folder()  # it does not matter that the other end was faster
        assert ends.two.counts["lost"] == 0


async def test_send_returns_false_if_the_process_does_not_listen(tmp_path: Path) -> None:
    async with joined(tmp_path) as ends:
        near, far = connection()
        with near, far:
            assert not ends.one.send(0, far.fileno(), b"")  # never listened
            ends.two.stop_listening()
            assert not ends.one.send(1, far.fileno(), b"")
            (tmp_path / "1.sock").touch()  # left behind by a killed process
            assert not ends.one.send(1, far.fileno(), b"")
            ends.open()  # the next process with its number
            assert ends.one.send(1, far.fileno(), b"x" * BYTES)
            with pytest.raises(OSError):
                ends.one.send(1, far.fileno(), b"x" * (BYTES + 1))
            await until(lambda: bool(ends.taken))
            assert ends.taken[0][1] == b"x" * BYTES


async def test_a_question_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with joined(tmp_path) as ends:
        assert await ends.one.ask(1) == b"42"
        assert await ends.one.ask(0) is None
        monkeypatch.setattr(module, "ANSWER_BYTES", 1)
        assert await ends.one.ask(1) is None


async def test_a_removed_socket_is_created_again_and_its_backlog_is_accepted(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with joined(folder) as ends:
        near, far = connection()
        with near, far:
            assert ends.one.send(1, far.fileno(), b"before")  # it waits in the backlog
            shutil.rmtree(folder)
            assert not ends.one.send(1, far.fileno(), b"")
            ends.two._check_socket()
            assert ends.one.send(1, far.fileno(), b"after")
            await until(lambda: len(ends.taken) == 2)
        assert [data for _, data in ends.taken] == [b"before", b"after"]
        assert ends.two.counts["lost"] == 0
        assert "the socket of this worker was removed" in caplog.text
        (folder / "1.sock").unlink()
        (folder / "1.sock").touch()  # a file of the same name
        ends.two._check_socket()
        assert await ends.one.ask(1) == b"42"
        before = ends.two._listener
        ends.two._check_socket()
        assert ends.two._listener is before, "a socket that can be found stays"


async def test_a_process_that_others_cannot_reach_logs_it_and_tries_again(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with joined(folder) as ends:
        shutil.rmtree(folder)
        folder.touch()  # noqa: ASYNC240  # a file has the name of the directory
        for _ in range(module.REMIND):
            ends.two._check_socket()
        assert len(caplog.records) == 1
        ends.two._check_socket()
        assert len(caplog.records) == 2
        assert "the other workers cannot reach this one" in caplog.text
        folder.unlink()  # noqa: ASYNC240
        ends.two._check_socket()
        assert await ends.one.ask(1) == b"42"


def rights(*passed: int) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))]


NONSENSE = {
    "another kind": struct.pack("!cI", b"X", 0),
    "a length beyond all bounds": struct.pack("!cI", b"H", 2**31),
    "more than it says": struct.pack("!cI", b"H", 1) + b"abc",
    "a connection that is not there": struct.pack("!cI", b"H", 3) + b"abc",
    "no message": b"GET / HTTP/1.1\r\n\r\n",
    "half a message": struct.pack("!cI", b"H", 9) + b"abc",
    "nothing": b"",
}


@pytest.mark.parametrize("what", NONSENSE)
async def test_a_malformed_message_is_discarded_and_the_next_one_accepted(
    tmp_path: Path, what: str
) -> None:
    async with joined(tmp_path) as ends:
        with ends.raw() as peer:
            peer.sendall(NONSENSE[what])
        await until(lambda: ends.two.counts["lost"] == 1)
        near, far = connection()
        with near, far:
            assert ends.one.send(1, far.fileno(), b"x")
            await until(lambda: len(ends.taken) == 1)


@pytest.mark.parametrize("what", ["file", "pipe", "listener", "two", "datagrams", "asked"])
async def test_a_descriptor_that_is_no_connection_is_closed(tmp_path: Path, what: str) -> None:
    async with joined(tmp_path) as ends:
        near, far = connection()
        read, write = os.pipe()
        listener = socket.create_server(("127.0.0.1", 0))
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
        passed = {
            "file": (file,),
            "pipe": (read,),
            "listener": (listener.fileno(),),
            "two": (far.fileno(), near.fileno()),
            "datagrams": (datagrams.fileno(),),
            "asked": (far.fileno(),),
        }[what]
        kind = b"A" if what == "asked" else b"H"
        with ends.raw() as peer:
            peer.sendmsg([struct.pack("!cI", kind, 1), b"x"], rights(*passed))
        await until(lambda: ends.two.counts["lost"] == 1)
        assert not ends.taken
        for one in (near, far, listener, datagrams):
            one.close()
        for descriptor in (read, write, file):
            os.close(descriptor)


async def test_an_incomplete_message_is_discarded_after_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fd_message, "RECEIVE_S", 0.05)
    async with joined(tmp_path) as ends:
        near, far = connection()
        with near, far, ends.raw() as peer:
            peer.sendmsg([struct.pack("!cI", b"H", 5), b"x"], rights(far.fileno()))
            await until(lambda: ends.two.counts["lost"] == 1)
            assert peer.recv(1) == b""


async def test_only_so_many_messages_are_read_at_once_and_the_rest_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    async with joined(tmp_path) as ends:
        silent = [ends.raw() for _ in range(2)]
        for peer in silent:
            peer.send(b"H")
        near, far = connection()
        with near, far:
            await until(lambda: len(ends.two._messages) == 2)
            assert ends.one.send(1, far.fileno(), b"x")  # it waits in the backlog
            silent[0].close()
            await until(lambda: len(ends.taken) == 1)
        silent[1].close()


async def test_a_process_without_free_descriptors_pauses_before_it_accepts_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with joined(tmp_path) as ends:
        _, most = limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        near, far = connection()
        with near, far:
            assert ends.one.send(1, far.fileno(), b"x")
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
            try:
                await until(lambda: bool(caplog.records))
                for _ in range(100):  # turns of the loop
                    await asyncio.sleep(0)
                assert len(caplog.records) == 1
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            assert not ends.taken
            assert ends.two._no_files is not None, "it waits"
            ends.two._no_files.cancel()
            ends.two._resume_accepting()  # as the timer does
            await until(lambda: len(ends.taken) == 1)


@pytest.fixture
def runtime() -> Iterator[Path]:
    """Return a directory with a short name."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        yield Path(name)


def test_the_directory_of_the_sockets_is_private_to_the_user(
    runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(runtime))
    made = socket_folder()
    assert made != socket_folder() and made.parent == runtime
    named = socket_folder("7")
    assert named == socket_folder("7")
    assert all(stat.S_IMODE(one.stat().st_mode) == 0o700 for one in (made, named))
    named.chmod(0o755)
    with pytest.raises(OSError, match="not a directory of this user alone"):
        socket_folder("7")
    named.rmdir()
    named.symlink_to(made)
    with pytest.raises(OSError, match="not a directory of this user alone"):
        socket_folder("7")


def test_the_directory_is_not_one_that_is_removed_at_logout(
    runtime: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(runtime))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert socket_folder().parent == socket_folder("7").parent == runtime


def test_a_temporary_directory_with_too_long_a_path_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    made = socket_folder()
    try:
        assert len(str(made / "63.sock")) < 104
    finally:
        made.rmdir()


def test_a_retired_process_leaves_its_rooms_to_the_others(tmp_path: Path) -> None:
    one, two = (FdPassing(tmp_path, member, (0, 1)) for member in (0, 1))
    rooms = [f"room-{n}" for n in range(50)]
    assert all(one.owns(room) != two.owns(room) for room in rooms)
    one.retire(1)
    assert all(one.owns(room) for room in rooms)
