"""A server of files on this machine that behaves as the hubs of models do, and as a bad network."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.support.models import HEADS, HIDDEN, INNER, Weights, _train_spm


class Hub:
    """The files of a hub, and how it misbehaves.

    :param address: address of the server
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None]] = []
        """Path and range of each request."""
        self.cuts: list[int] = []
        """Number of bytes after which the next bodies end, with the connection."""
        self.linked = True
        """True if the redirect to a file has its SHA-256."""
        self.ranges = True


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""

    def do_GET(self) -> None:
        hub, path = self.hub, self.path
        hub.asked.append((path, self.headers.get("range")))
        if path.startswith("/resolve/") and (name := path.removeprefix("/resolve/")) in hub.files:
            self.send_response(302)
            self.send_header("location", f"{hub.address}/cdn/{name}")
            digest = hashlib.sha256(hub.files[name]).hexdigest()
            if hub.linked:
                self.send_header("x-linked-etag", f'"{digest}"')
            self.send_header("content-length", "0")
            self.end_headers()
            return
        body = hub.files.get(path.rpartition("/")[2])
        if path == "/loop":
            self.send_response(302)
            self.send_header("location", f"{hub.address}/loop")
            self.end_headers()
            return
        if body is None:
            self.send_error(404)
            return
        start, given = 0, self.headers.get("range")
        if given and hub.ranges:
            start = int(given.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.send_response(416)
                self.send_header("content-range", f"bytes */{len(body)}")
                self.send_header("content-length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("content-range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("content-length", str(len(body) - start))
        self.end_headers()
        part = body[start:]
        if hub.cuts:
            part = part[: hub.cuts.pop(0)]
            self.close_connection = True
        self.wfile.write(part)


@contextmanager
def served() -> Iterator[Hub]:
    """Run a hub for the block."""

    class Here(Handler):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Here)
    Here.hub = hub = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def opus_archive(dir: Path) -> bytes:
    """Return an archive as OPUS-MT releases it: Marian's weights, random here, and its files."""
    dir.mkdir()
    pieces: list[str] = []
    for side in ("source", "target"):
        pieces += _train_spm(dir / f"{side}.spm", bos_id=-1, pad_id=-1, eos_id=0, unk_id=1)
    vocabulary = [*dict.fromkeys(pieces), "<pad>"]
    # As Marian writes it: quoted, since pieces contain colons and quotation marks.
    lines = [f'"{escaped(piece)}": {id}' for id, piece in enumerate(vocabulary)]
    (dir / "opus.vocab.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    weights = marian_weights(len(vocabulary))
    np.savez(dir / "opus.npz", **weights)
    (dir / "decoder.yml").write_text(
        yaml.safe_dump({"models": ["opus.npz"], "vocabs": ["opus.vocab.yml", "opus.vocab.yml"]})
    )
    (dir / "LICENSE").write_text("CC-BY-4.0")
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(dir.iterdir()):
            archive.write(file, file.name)
    return made.getvalue()


def escaped(piece: str) -> str:
    return piece.replace("\\", "\\\\").replace('"', '\\"')


def marian_weights(size: int, layers: int = 2) -> dict[str, Any]:
    """Return weights of a transformer under Marian's names."""
    random = Weights(5)
    config = {
        "type": "transformer",
        "transformer-decoder-autoreg": "self-attention",
        "transformer-no-projection": False,
        "transformer-ffn-activation": "swish",
        "transformer-postprocess-emb": "d",
        "transformer-preprocess": "",
        "transformer-postprocess": "dan",
        "transformer-guided-alignment-layer": "last",
        "enc-depth": layers,
        "dec-depth": layers,
        "transformer-heads": HEADS,
    }
    text = yaml.safe_dump(config).encode() + b"\0"
    found: dict[str, Any] = {
        "special:model.yml": np.frombuffer(text, np.int8),
        "Wemb": random(size, HIDDEN),
        "decoder_ff_logit_out_b": random.zeros(size)[None],
    }

    def norm(name: str) -> None:
        found[f"{name}_ln_scale"] = random.ones(HIDDEN)[None]
        found[f"{name}_ln_bias"] = random.zeros(HIDDEN)[None]

    def attention(name: str) -> None:
        for part in "qkvo":
            found[f"{name}_W{part}"] = random(HIDDEN, HIDDEN)
            found[f"{name}_b{part}"] = random.zeros(HIDDEN)[None]
        norm(f"{name}_Wo")

    for side in ("encoder", "decoder"):
        for n in range(1, layers + 1):
            layer = f"{side}_l{n}"
            attention(f"{layer}_self")
            if side == "decoder":
                attention(f"{layer}_context")
            found[f"{layer}_ffn_W1"] = random(INNER, HIDDEN).T
            found[f"{layer}_ffn_b1"] = random.zeros(INNER)[None]
            found[f"{layer}_ffn_W2"] = random(HIDDEN, INNER).T
            found[f"{layer}_ffn_b2"] = random.zeros(HIDDEN)[None]
            norm(f"{layer}_ffn_ffn")
    return found
