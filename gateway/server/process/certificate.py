"""Check of the TLS certificate and its private key before the gateway starts.

Owns: what is wrong with the two files, in words. Must not know: sockets, uvicorn.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from gateway.settings.catalogue import Settings, SettingsError

MISMATCHES = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons for a key that belongs to another certificate, or is of another kind."""


def check_certificate(settings: Settings) -> None:
    """Raise `SettingsError` if the certificate cannot be used. uvicorn would report it late."""
    if settings.certfile is None:
        if settings.keyfile is not None:
            raise SettingsError("--keyfile needs its certificate: name that with --certfile.")
        return
    certfile, keyfile = settings.certfile, settings.keyfile or settings.certfile
    if b"CERTIFICATE-----" not in _read("certfile", certfile):
        raise SettingsError(f"{certfile} holds no certificate in PEM form. Check --certfile.")
    key = _read("keyfile" if settings.keyfile else "certfile", keyfile)
    if b"PRIVATE KEY-----" not in key:
        raise SettingsError(f"{keyfile} holds no private key in PEM form. Name one with --keyfile.")
    if b"ENCRYPTED" in key:
        raise SettingsError(
            f"The private key in {keyfile} is encrypted. Write a copy without a passphrase"
            f" (openssl pkey -in {keyfile} -out FILE) and name it with --keyfile."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without a password OpenSSL would ask for one on the terminal and wait.
        context.load_cert_chain(expanded(certfile), expanded(keyfile), password="-")
    except ssl.SSLError as exc:
        if exc.reason in MISMATCHES:
            raise SettingsError(
                f"The key in {keyfile} does not belong to the first certificate in {certfile}."
            ) from exc
        raise SettingsError(
            f"OpenSSL cannot use {certfile} with {keyfile} ({exc.reason or exc})."
        ) from exc


def expanded(name: str) -> Path:
    """Return the path of a file setting, with ``~`` expanded."""
    return Path(name).expanduser()


def _read(setting: str, file: str) -> bytes:
    """Read the file that a setting names. Raises `SettingsError`."""
    try:
        return expanded(file).read_bytes()
    except OSError as exc:
        raise SettingsError(f"{file} cannot be read: {exc.strerror}. Check --{setting}.") from exc
