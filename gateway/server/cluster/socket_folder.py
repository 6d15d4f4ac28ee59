"""The directory that the Unix sockets of a gateway's processes are in.

Owns: its place, and that only this user can enter it. Must not know: what travels over the sockets.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import stat
import tempfile
from pathlib import Path

PATH_BYTES = 100
"""Bytes of a socket's path. ``sun_path`` has 104 on macOS and 108 on Linux."""


def socket_folder(name: str | None = None) -> Path:
    """Create a directory for sockets that only this user can enter. Raises `OSError`.

    It is not in ``XDG_RUNTIME_DIR``: that directory is removed when the user logs out, and no room
    of a gateway that is still running could be reached any more.

    :param name: processes that cannot tell each other a path use the same name; None: a new folder
    """
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) > PATH_BYTES - 40:  # the rest is for the names of folder and socket
        base = "/tmp"
    if name is None:
        return Path(tempfile.mkdtemp(prefix="gateway-", dir=base))
    folder = Path(base) / f"gateway-{os.getuid()}-{name}"
    ensure_private(folder)
    return folder


def ensure_private(folder: Path) -> None:
    """Create a directory for this user alone, unless it exists.

    Raises `OSError` if other users can enter it.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()  # another user may have created it to intercept connections
    kind, mode = stat.S_ISDIR(found.st_mode), stat.S_IMODE(found.st_mode)
    if not kind or found.st_uid != os.getuid() or mode & 0o077:
        raise OSError(errno.EPERM, f"{folder} is not a directory of this user alone")


def remove_if_unused(folder: Path) -> None:
    """Remove a directory of sockets, unless a process listens on one of them.

    Sockets of killed processes are removed with it.
    """
    with contextlib.suppress(FileNotFoundError):  # another process was faster
        if not any(_listens(path) for path in folder.glob("*.sock")):
            shutil.rmtree(folder, ignore_errors=True)


def _listens(path: Path) -> bool:
    """Tell whether a process listens on a socket.

    The socket that asks is of the wrong type, so a listening process does not notice.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # EPROTOTYPE if a process listens; after any other error one may
            return True
    return True
