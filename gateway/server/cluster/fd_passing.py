"""A connection goes to another process of the same gateway, as if it had been accepted there.

Owns: the Unix sockets between the processes, what travels over them, and who of the processes a
room is pinned to. Must not know: requests, what is served.

Each process listens on a Unix socket in a directory that only its user can enter. A connection is
handed over by its file descriptor (SCM_RIGHTS) together with the bytes that were read of it; then
this process closes its own copy, which the client does not notice. Nothing is relayed, and nobody
is in between afterwards. Each message has a connection of its own: a sender that dies in the midst
of one leaves nothing half done.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import logging
import os
import shutil
import socket
import stat
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from gateway.server.cluster import placement

log = logging.getLogger("gateway.handover")

BYTES = 131_072
"""Bytes that may have been read of a connection that is handed over: a head has 32 KiB at most, and
one read gives 64 KiB of what follows."""
ANSWER_BYTES = 16_777_216
"""Bytes of an answer. That of ``/metrics`` has some 30,000."""
TAKE_S = 2.0
"""Seconds for one message; the sender has all of it at hand."""
ASK_S = 2.0
"""Seconds that another process has for an answer."""
FULL_S = 1.0
"""Seconds until it is tried again to take something, where this process had no file left for it."""
LOOK_S = 1.0
"""Seconds between two looks whether the socket of this process is still in its directory. Less than
a connection waits for its process, so that nobody is refused meanwhile."""
REMIND = 60
"""Looks that find the same fault, until it is logged again."""
BACKLOG = 512
AT_ONCE = 256
"""Messages that are read at once; further ones wait in the backlog, then their senders do."""

HAND = b"H"
ASK = b"A"
_HEAD = struct.Struct("!cI")
_PATH_BYTES = 100  # sun_path has 104 on macOS, 108 on Linux

Take = Callable[[socket.socket, bytes], None]


def possible() -> bool:
    """Whether this system can pass descriptors."""
    return hasattr(socket, "AF_UNIX") and hasattr(socket, "SCM_RIGHTS")


def private(name: str | None = None) -> Path:
    """A directory for the sockets that only this user can enter. Raises `OSError`.

    It is not in ``XDG_RUNTIME_DIR``: that goes when the user logs out, and no room could be reached
    any more in a gateway that was left running.

    :param name: the same for the same, for processes that cannot tell each other; None: a new one
    """
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > _PATH_BYTES - 40:
        base = "/tmp"
    if name is None:
        return Path(tempfile.mkdtemp(prefix="gateway-", dir=base))
    folder = Path(base) / f"gateway-{os.getuid()}-{name}"
    _claim(folder)
    return folder


def _claim(folder: Path) -> None:
    """Make a directory for this user alone, unless it is there. Raises `OSError`."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()  # somebody else may have made it, to listen in
    kind, mode = stat.S_ISDIR(found.st_mode), stat.S_IMODE(found.st_mode)
    if not kind or found.st_uid != os.getuid() or mode & 0o077:
        raise OSError(errno.EPERM, f"{folder} is not a directory of this user alone")


class FdPassing:
    """The ends of one process.

    ``done`` counts what became of connections: ``sent``, ``taken``, ``refused`` (their process did
    not take them in time) and ``lost`` (what came was no connection).

    :param member: the number of this process
    :param members: the numbers of all that have rooms
    :param everybody: with those that are gone for good; default: none is
    """

    def __init__(
        self,
        folder: Path,
        member: int,
        members: Iterable[int],
        everybody: Iterable[int] | None = None,
    ) -> None:
        self.folder = folder
        self.member = member
        self.members = frozenset(members)
        self.everybody = self.members if everybody is None else frozenset(everybody)
        self.starts = 1
        """How often a process of this number was started."""
        self.done: Counter[str] = Counter()
        self.held = 0
        """Connections that wait for a process that is not there."""
        self._listener: socket.socket | None = None
        self._bound: tuple[int, int] | None = None  # device and inode of its name
        self._looking: asyncio.TimerHandle | None = None
        self._vain = 0  # looks that found it gone and could not mend it
        self._full: asyncio.TimerHandle | None = None
        self._taking: set[_IncomingMessage] = set()
        self._take: Take = _refuse
        self._answer: Callable[[], bytes] = bytes
        self._tasks: set[asyncio.Task[None]] = set()

    def owner(self, room: str) -> int:
        """The process that has a room."""
        return placement.owner(room, self.members)

    def owns(self, room: str) -> bool:
        """Whether a room is to be in this process."""
        return self.owner(room) == self.member

    def retire(self, member: int) -> None:
        """A process is gone for good: its rooms are others' from now on. It never comes back, or a
        room could be in two processes."""
        self.members -= {member}

    # --- sending ----------------------------------------------------------------------------------

    def send(self, member: int, connection: int, data: bytes) -> bool:
        """Hand a connection over, now; whether its process has it. The caller closes its own copy.

        False means: not now, it may be starting. Raises `OSError` where it will never do.

        :param connection: the file descriptor
        :param data: what was read of it
        """
        if len(data) > BYTES:
            raise OSError(errno.EMSGSIZE, "too much was read to hand it over")
        with self._connected() as peer:
            try:
                peer.connect(self._path(member))
            except (BlockingIOError, ConnectionRefusedError, FileNotFoundError):
                return False
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BYTES)
            rights = array.array("i", [connection])
            frame = [_HEAD.pack(HAND, len(data)), data]
            sent = peer.sendmsg(frame, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            if sent != _HEAD.size + len(data):
                raise OSError(errno.EMSGSIZE, "the system passes no messages of this size")
        self.done["sent"] += 1
        return True

    async def ask(self, member: int) -> bytes | None:
        """The answer of another process to the one question there is; None: it gave none."""
        try:
            async with asyncio.timeout(ASK_S):
                reader, writer = await asyncio.open_unix_connection(
                    self._path(member), limit=ANSWER_BYTES
                )
                try:
                    writer.write(_HEAD.pack(ASK, 0))
                    (size,) = struct.unpack("!I", await reader.readexactly(4))
                    if size > ANSWER_BYTES:
                        return None
                    return await reader.readexactly(size)
                finally:
                    writer.close()
                    await writer.wait_closed()
        except (OSError, EOFError, TimeoutError):
            return None

    def _path(self, member: int) -> str:
        return str(self.folder / f"{member}.sock")

    @staticmethod
    def _connected() -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.setblocking(False)
        return peer

    # --- taking -----------------------------------------------------------------------------------

    def open(self, take: Take, answer: Callable[[], bytes]) -> None:
        """Listen, from now on until `shut`: where the socket is not there, it is made again.

        Whatever tidies up temporary files may remove it, or the whole directory; nobody could reach
        a room of this process any more. Where it cannot be made, the log says so, and why.

        :param take: called with each connection and what was read of it; it owns the socket
        :param answer: to the one question there is; called in a thread
        """
        self._take, self._answer = take, answer
        self._look()

    def shut(self) -> None:
        """Take nothing more. Whoever wants to hand something over waits for the next process of
        this number. Idempotent."""
        for timer in (self._full, self._looking):
            if timer is not None:
                timer.cancel()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = self._bound = None
            with contextlib.suppress(OSError):
                os.unlink(self._path(self.member))

    def _look(self) -> None:
        """See that others find this process."""
        self._looking = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        if self._found():
            return
        try:
            self._bind()
        except OSError as exc:
            if self._vain % REMIND == 0:
                log.error("the other workers cannot reach this one: %s", exc)
            self._vain += 1
        else:
            self._vain = 0

    def _found(self) -> bool:
        """Whether the socket that others see is the one that is listened to."""
        try:
            found = os.stat(self._path(self.member))
        except OSError:
            return False
        # A number of what was removed may soon be another's.
        return stat.S_ISSOCK(found.st_mode) and self._bound == (found.st_dev, found.st_ino)

    def _bind(self) -> None:
        """Listen under the name that others know. Raises `OSError`."""
        path = self._path(self.member)
        _claim(self.folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # of one that was killed
        made = self._connected()
        try:
            made.bind(path)
            made.listen(BACKLOG)
            found = os.stat(path)
        except OSError:
            made.close()
            raise
        before, self._listener = self._listener, made
        self._bound = found.st_dev, found.st_ino
        if before is not None:
            log.warning("somebody removed a worker's socket in %s; it is there again", self.folder)
            self._rest(before)
        self._listen()

    def _rest(self, before: socket.socket) -> None:
        """Take what has come to a socket that nobody finds any more, and close it."""
        asyncio.get_running_loop().remove_reader(before)
        with before, contextlib.suppress(OSError):
            while True:
                self._admit(before.accept()[0])

    def clear(self) -> None:
        """Remove the directory, unless another process has a socket in it. What one left that was
        killed is nobody's."""
        with contextlib.suppress(FileNotFoundError):
            if not any(_listened(one) for one in self.folder.glob("*.sock")):
                shutil.rmtree(self.folder, ignore_errors=True)

    async def aclose(self) -> None:
        """`shut`, and let go of what is half read."""
        self.shut()
        for one in list(self._taking):
            one.end()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> None:
        assert self._listener is not None, "it is listened to"
        while len(self._taking) + len(self._tasks) < AT_ONCE:
            try:
                peer, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:  # no more files, which the next turn would not have either
                log.error("no connection can be handed over: %s", exc)
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._listener)
                self._full = loop.call_later(FULL_S, self._listen)
                return
            self._admit(peer)
        # As many as may be: the next one to end looks again.
        asyncio.get_running_loop().remove_reader(self._listener)

    def _admit(self, peer: socket.socket) -> None:
        if not _own(peer):
            log.warning("somebody else tried to hand a connection over")
            peer.close()
            return
        peer.setblocking(False)
        self._taking.add(_IncomingMessage(self, peer))

    def ended(self, one: _IncomingMessage) -> None:
        """A message has been read, or will not be."""
        self._taking.discard(one)
        self._again()

    def _again(self) -> None:
        if len(self._taking) + len(self._tasks) == AT_ONCE - 1:
            self._listen()

    def _listen(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def came(self, peer: socket.socket, kind: bytes, passed: list[int], data: bytes) -> None:
        """A whole message. Its descriptors are this method's to close."""
        if kind == ASK and not passed and not data:
            task = asyncio.get_running_loop().create_task(self._tell(peer))
            self._tasks.add(task)
            task.add_done_callback(self._told)
            return
        peer.close()
        connection = _connection(passed) if kind == HAND else None
        if connection is None:
            for descriptor in passed:
                os.close(descriptor)
            self.done["lost"] += 1
            log.warning("what was handed over is no connection")
            return
        self.done["taken"] += 1
        self._take(connection, data)

    async def _tell(self, peer: socket.socket) -> None:
        with contextlib.closing(peer), contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(ASK_S):
                answer = await asyncio.to_thread(self._answer)
                frame = struct.pack("!I", len(answer)) + answer
                await asyncio.get_running_loop().sock_sendall(peer, frame)

    def _told(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._again()
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("another process was not answered", exc_info=fault)


class _IncomingMessage:
    """One message on its way in."""

    def __init__(self, handover: FdPassing, peer: socket.socket) -> None:
        self._handover = handover
        self._peer: socket.socket | None = peer
        self._passed: list[int] = []
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()
        self._late = self._loop.call_later(TAKE_S, self.end)
        self._loop.add_reader(peer, self._read)

    def end(self) -> None:
        """It will not be whole: nothing of it stays. Idempotent."""
        peer = self._release()
        if peer is not None:
            peer.close()
            for descriptor in self._passed:
                os.close(descriptor)
            self._handover.done["lost"] += 1
            self._handover.ended(self)

    def _release(self) -> socket.socket | None:
        peer, self._peer = self._peer, None
        if peer is not None:
            self._late.cancel()
            self._loop.remove_reader(peer)
        return peer

    def _read(self) -> None:
        assert self._peer is not None, "it is read from"
        try:
            # Two more than are ever sent would fit: they are closed, and the message is refused.
            data, passed = _receive(self._peer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.end()
            return
        self._passed += passed
        self._data += data
        if not data or len(self._passed) > 1:
            self.end()
            return
        if len(self._data) < _HEAD.size:
            return
        kind, size = _HEAD.unpack_from(self._data)
        if size > BYTES or len(self._data) > _HEAD.size + size:
            self.end()
        elif len(self._data) == _HEAD.size + size:
            peer = self._release()
            assert peer is not None, "it has not been released before"
            self._handover.came(peer, kind, self._passed, bytes(self._data[_HEAD.size :]))
            self._handover.ended(self)


def _listened(path: Path) -> bool:
    """Whether a process has this socket. It is asked by a socket of the wrong kind, which is told
    so where there is one: the process itself notices nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        try:
            other.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # EPROTOTYPE; by any other it is not known to be dead
            return True
    return True


def _receive(peer: socket.socket) -> tuple[bytes, list[int]]:
    """What has come, with the descriptors, which no child of this process inherits."""
    room = array.array("i")
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
    data, extra, _, _ = peer.recvmsg(65_536, socket.CMSG_LEN(3 * room.itemsize), flags)
    for level, kind, body in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            room.frombytes(body[: len(body) - len(body) % room.itemsize])
    if not flags:
        for descriptor in room:
            os.set_inheritable(descriptor, False)
    return data, room.tolist()


def _connection(passed: list[int]) -> socket.socket | None:
    """The descriptor as a socket, if it is one that a client is connected to."""
    if len(passed) != 1:
        return None
    try:
        made = socket.socket(fileno=passed[0])
    except OSError:  # a file
        return None
    try:
        if made.family not in (socket.AF_INET, socket.AF_INET6) or made.type != socket.SOCK_STREAM:
            made.detach()
            return None
        if made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            made.detach()
            return None
        made.setblocking(False)
    except OSError:
        made.detach()
        return None
    return made


def _own(peer: socket.socket) -> bool:
    """Whether a process of this user is at the other end. The directory says so already."""
    if sys.platform != "linux":
        return True
    shape = struct.Struct("3i")
    got = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, shape.size)
    return bool(shape.unpack(got)[1] == os.getuid())


def _refuse(connection: socket.socket, data: bytes) -> None:
    connection.close()
