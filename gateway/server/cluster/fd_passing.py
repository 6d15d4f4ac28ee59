"""Connections that one process of a gateway hands to another, as if that had accepted them.

Owns: the Unix sockets between the processes, what travels over them, and which processes have
rooms. Must not know: requests, and what is served.

Each process listens on a Unix socket in a directory that only its user can enter. A connection is
handed over by its file descriptor, together with the bytes that were read of it
(`gateway.server.cluster.fd_message`). Then this process closes its own copy, which the client does
not notice. Nothing is relayed afterwards.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import logging
import os
import socket
import stat
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from gateway.server.cluster import placement
from gateway.server.cluster.fd_message import (
    ASK,
    BYTES,
    HAND,
    HEADER,
    IncomingMessage,
    tcp_connection,
)
from gateway.server.cluster.socket_folder import ensure_private, remove_if_unused
from gateway.server.runtime.tasks import BackgroundTasks

log = logging.getLogger("gateway.handover")

ANSWER_BYTES = 16_777_216
"""Bytes of an answer. That of ``/metrics`` has some 30,000."""
ANSWER_S = 2.0
"""Seconds that another process has for an answer."""
NO_FILES_S = 1.0
"""Seconds before this process accepts messages again, after it had no file left for one."""
CHECK_S = 1.0
"""Seconds between two checks that the socket of this process is still in its directory. It is less
than a connection waits for its process, so nobody is refused if the socket was removed."""
REMIND = 60
"""Checks with the same fault until it is logged again."""
BACKLOG = 512
"""Messages that the kernel holds until they are accepted."""
AT_ONCE = 256
"""Messages that are read at once. Further ones wait in the backlog, then their senders wait."""

Serve = Callable[[socket.socket, bytes], None]


def supported() -> bool:
    """Tell whether this system can pass descriptors."""
    return hasattr(socket, "AF_UNIX") and hasattr(socket, "SCM_RIGHTS")


class FdPassing:
    """The exchange of one process with the others.

    ``counts`` has connections by what became of them: ``sent``, ``taken``, ``refused`` (their
    process did not take them in time) and ``lost`` (a message without a connection).

    :param folder: directory of the sockets
    :param member: number of this process
    :param members: numbers of all processes that have rooms
    :param everybody: ``members`` and those that were retired; default: none was
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
        """Starts of processes with this number."""
        self.counts: Counter[str] = Counter()
        self.held = 0
        """Connections that wait for a process that is not running."""
        self._listener: socket.socket | None = None
        self._bound: tuple[int, int] | None = None  # device and inode of the listener's file
        self._check: asyncio.TimerHandle | None = None
        self._failed_checks = 0  # in a row
        self._no_files: asyncio.TimerHandle | None = None
        self._messages: set[IncomingMessage] = set()
        self._serve: Serve = _close
        self._answer: Callable[[], bytes] = bytes
        self._answers = BackgroundTasks(log, "a worker could not be answered")

    def owner(self, room: str) -> int:
        """Return the number of the process that has a room."""
        return placement.owner(room, self.members)

    def owns(self, room: str) -> bool:
        """Tell whether a room belongs to this process."""
        return self.owner(room) == self.member

    def retire(self, member: int) -> None:
        """Give the rooms of a process to the others.

        That process must never come back: a room could be in two processes.
        """
        self.members -= {member}

    # --- sending ----------------------------------------------------------------------------------

    def send(self, member: int, connection: int, data: bytes) -> bool:
        """Hand a connection over, and return whether its process has it now.

        The caller closes its own copy. False means that the process does not listen at the moment;
        it may be starting. Raises `OSError` if another attempt cannot succeed.

        :param connection: file descriptor
        :param data: bytes that were read of it
        """
        if len(data) > BYTES:
            raise OSError(errno.EMSGSIZE, "too much was read to hand it over")
        with _unix_socket() as peer:
            try:
                peer.connect(self._path(member))
            except (BlockingIOError, ConnectionRefusedError, FileNotFoundError):
                return False
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BYTES)
            rights = array.array("i", [connection])
            frame = [HEADER.pack(HAND, len(data)), data]
            sent = peer.sendmsg(frame, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            if sent != HEADER.size + len(data):
                raise OSError(errno.EMSGSIZE, "the system passes no messages of this size")
        self.counts["sent"] += 1
        return True

    async def ask(self, member: int) -> bytes | None:
        """Return the answer of another process, or None if it gives none in time."""
        try:
            async with asyncio.timeout(ANSWER_S):
                reader, writer = await asyncio.open_unix_connection(
                    self._path(member), limit=ANSWER_BYTES
                )
                try:
                    writer.write(HEADER.pack(ASK, 0))
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

    # --- receiving --------------------------------------------------------------------------------

    def listen(self, serve: Serve, answer: Callable[[], bytes]) -> None:
        """Receive messages from now on until `stop_listening`.

        A program that cleans up temporary files may remove the socket or its directory, and then
        nobody could reach a room of this process any more. So the socket is created again whenever
        it is missing; if that fails, the log says why.

        :param serve: called with each connection and the bytes read of it; it owns the socket
        :param answer: returns the answer for `ask`; called in a thread
        """
        self._serve, self._answer = serve, answer
        self._check_socket()

    def stop_listening(self) -> None:
        """Receive no more messages: senders wait for the next process of this number.

        Idempotent.
        """
        for timer in (self._no_files, self._check):
            if timer is not None:
                timer.cancel()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = self._bound = None
            with contextlib.suppress(OSError):
                os.unlink(self._path(self.member))

    def remove_folder(self) -> None:
        """Remove the directory, unless another process listens in it."""
        remove_if_unused(self.folder)

    async def aclose(self) -> None:
        """Stop listening, and discard messages that are not complete."""
        self.stop_listening()
        for message in list(self._messages):
            message.discard()
        await self._answers.aclose()

    def _check_socket(self) -> None:
        """Create the socket of this process if other processes cannot find it."""
        self._check = asyncio.get_running_loop().call_later(CHECK_S, self._check_socket)
        if self._can_be_found():
            return
        try:
            self._bind()
        except OSError as exc:
            if self._failed_checks % REMIND == 0:
                log.error("the other workers cannot reach this one: %s", exc)
            self._failed_checks += 1
        else:
            self._failed_checks = 0

    def _can_be_found(self) -> bool:
        """Tell whether the file that others connect to is the socket of this process."""
        try:
            found = os.stat(self._path(self.member))
        except OSError:
            return False
        # The inode alone is not enough: a new file may get the number of a removed one.
        return stat.S_ISSOCK(found.st_mode) and self._bound == (found.st_dev, found.st_ino)

    def _bind(self) -> None:
        """Listen at the path that others know. Raises `OSError`."""
        path = self._path(self.member)
        ensure_private(self.folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)  # left by a process that was killed
        made = _unix_socket()
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
            log.warning("the socket of this worker was removed from %s; it is back", self.folder)
            self._accept_rest(before)
        self._resume_accepting()

    def _accept_rest(self, before: socket.socket) -> None:
        """Accept what waits at a socket that can no longer be found, and close that socket."""
        asyncio.get_running_loop().remove_reader(before)
        with before, contextlib.suppress(OSError):
            while True:
                self._receive(before.accept()[0])

    def _accept(self) -> None:
        assert self._listener is not None, "only a listener calls this"
        while len(self._messages) + len(self._answers) < AT_ONCE:
            try:
                peer, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                # No file is left, and the next turn of the loop would have none either.
                log.error("no connection can be taken from other workers: %s", exc)
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._listener)
                self._no_files = loop.call_later(NO_FILES_S, self._resume_accepting)
                return
            self._receive(peer)
        # As many messages as allowed: the end of one resumes.
        asyncio.get_running_loop().remove_reader(self._listener)

    def _receive(self, peer: socket.socket) -> None:
        if not _same_user(peer):
            log.warning("a process of another user tried to hand a connection over")
            peer.close()
            return
        peer.setblocking(False)
        self._messages.add(IncomingMessage(peer, self._message_ended))

    def _message_ended(self, message: IncomingMessage) -> None:
        self._messages.discard(message)
        if not message.complete:
            self.counts["lost"] += 1
        elif message.kind == ASK and not message.descriptors and not message.data:
            answering = self._answers.start(self._answer_to(message.peer))
            answering.add_done_callback(lambda _: self._resume_if_below_limit())
        else:
            message.peer.close()
            self._take(message)
        self._resume_if_below_limit()

    def _take(self, message: IncomingMessage) -> None:
        """Serve the connection of a message, or close what it carries instead of one."""
        connection = tcp_connection(message.descriptors) if message.kind == HAND else None
        if connection is None:
            for descriptor in message.descriptors:
                os.close(descriptor)
            self.counts["lost"] += 1
            log.warning("a worker sent a message that carries no connection")
            return
        self.counts["taken"] += 1
        self._serve(connection, message.data)

    async def _answer_to(self, peer: socket.socket) -> None:
        with contextlib.closing(peer):
            answer = await asyncio.to_thread(self._answer)
            frame = struct.pack("!I", len(answer)) + answer
            # A peer that went away, or does not read, needs no answer.
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    await asyncio.get_running_loop().sock_sendall(peer, frame)

    def _resume_if_below_limit(self) -> None:
        if len(self._messages) + len(self._answers) == AT_ONCE - 1:
            self._resume_accepting()

    def _resume_accepting(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)


def _unix_socket() -> socket.socket:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.setblocking(False)
    return peer


def _same_user(peer: socket.socket) -> bool:
    """Tell whether the process at the other end is of this user.

    The permissions of the directory say so already; this is a second check, on Linux only.
    """
    if sys.platform != "linux":
        return True
    credentials = struct.Struct("3i")  # process, user and group: unix(7), SO_PEERCRED
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size)
    return bool(credentials.unpack(found)[1] == os.getuid())


def _close(connection: socket.socket, data: bytes) -> None:
    connection.close()
