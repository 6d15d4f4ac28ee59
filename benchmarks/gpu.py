"""The gateway beside its peers on one GPU: the raw engine, vLLM's own servers, this gateway.

    python -m benchmarks.gpu MODEL --seqs 256 --streams 16,64,256 --arms raw,serve,rust,gateway

Every arm gets the same pairs of lengths (prompts of 50 to 240 tokens, outputs of 10 to 199, as
variable as real meetings) in closed loop, from client processes of its own. Weights may be dummies:
this measures speed. `model()` writes a configuration and a tokenizer to measure with; its every
ASCII character is one token, so that text and token counts agree. Prints one JSON line per point.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

CLIENTS = 8
PROFILE = """
title = "Benchmark: the text is the prompt, the output as long as the text is over 40 tokens"
kind = "raw"
licence = "none"
languages = ["en", "de"]
stop = []
max_input = 2048

[output]
factor = 1.0
extra = -40
cap = 256

[models]
names = ['no-model-is-called-so']

[[template]]
text = "{text}"
"""
ENGINE = {"dtype": "bfloat16", "max_model_len": 2048, "gpu_memory_utilization": 0.5}


def model(path: Path, layers: int = 28, hidden: int = 1024, inner: int = 3072) -> Path:
    """A Qwen3-shaped model without weights (0.6B by default) and a one-character tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocab = {"<pad>": 0, "<s>": 1, "</s>": 2}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[letter] = len(vocab)
    size = 151_936
    vocab |= {f"Ġw{n}": n for n in range(len(vocab), size)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    path.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(path / "tokenizer.json"))
    (path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "</s>"})
    )
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "vocab_size": size,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "hidden_act": "silu",
        "attention_bias": False,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "dtype": "bfloat16",
    }
    (path / "config.json").write_text(json.dumps(config))
    (path / "profile.toml").write_text(PROFILE)
    return path


# --- load -----------------------------------------------------------------------------------------


def lengths(count: int, seed: int) -> Iterator[tuple[str, int]]:
    """(text, output tokens); a text has 40 characters, which are tokens, more than its output."""
    rng = random.Random(seed)
    for _ in range(count):
        tokens = rng.randrange(10, 200)
        text = "".join(rng.choice("etaoin shrdlu") for _ in range(40 + tokens - 2))
        yield "a" + text + "b", tokens


class Tally:
    """What the streams of one process saw. Times in seconds."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.gaps: list[float] = []
        self.whole: list[float] = []
        self.tokens = 0
        self.wall = 0.0

    async def watch(self, pieces: Any, tokens: int) -> None:
        """Time an async iterator that yields whenever text arrives."""
        begun = last = time.perf_counter()
        first = True
        async for _ in pieces:
            now = time.perf_counter()
            (self.first if first else self.gaps).append(now - last)
            first, last = False, now
        self.whole.append(time.perf_counter() - begun)
        self.tokens += tokens

    async def run(
        self, streams: int, count: int, seed: int, one: Callable[[Any], Awaitable[None]]
    ) -> None:
        """``streams`` at once until ``count`` are done: closed loop."""
        jobs = lengths(count, seed)

        async def stream() -> None:
            await one(jobs)

        begun = time.perf_counter()
        await asyncio.gather(*(stream() for _ in range(streams)))
        self.wall = time.perf_counter() - begun


async def load_socket(port: int, streams: int, count: int, seed: int) -> Tally:
    from websockets.asyncio.client import connect

    tally = Tally()

    async def one(jobs: Iterator[tuple[str, int]]) -> None:
        url = f"ws://127.0.0.1:{port}/v1/ws?from=en&to=de"
        async with connect(url, compression=None, max_size=None) as ws:
            await ws.recv()

            async def pieces() -> Any:
                async for frame in ws:
                    if '"delta"' in frame:
                        yield frame
                    elif '"final"' in frame:
                        return
                    elif '"failed"' in frame or '"error"' in frame:
                        raise RuntimeError(frame)

            for text, tokens in jobs:
                await ws.send(text)
                await tally.watch(pieces(), tokens)

    await tally.run(streams, count, seed, one)
    return tally


async def load_sse(port: int, name: str, streams: int, count: int, seed: int) -> Tally:
    tally = Tally()

    async def one(jobs: Iterator[tuple[str, int]]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def pieces(body: bytes) -> Any:
            head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            tail = b""
            while not tail.endswith(b"0\r\n\r\n"):
                data = await reader.read(65_536)
                if not data:
                    raise ConnectionError
                tail = tail[-64:] + data
                if b'"text_completion"' in data:
                    yield data

        for text, tokens in jobs:
            ids = [3 + ord(letter) % 90 for letter in text]
            body = {"model": name, "prompt": ids, "max_tokens": tokens, "temperature": 0}
            body |= {"ignore_eos": True, "stream": True}
            await tally.watch(pieces(json.dumps(body).encode()), tokens)
        writer.close()

    await tally.run(streams, count, seed, one)
    return tally


async def raw(path: str, seqs: int, streams: list[int]) -> None:
    """The engine with nothing around it, its output thrown away: the bound for all others."""
    from vllm import AsyncEngineArgs, AsyncLLMEngine, SamplingParams
    from vllm.inputs import tokens_input
    from vllm.sampling_params import RequestOutputKind

    args = AsyncEngineArgs(model=path, load_format="dummy", max_num_seqs=seqs, **ENGINE)
    args.max_num_batched_tokens = 8192
    engine = AsyncLLMEngine.from_engine_args(args)
    for count in [8, *streams]:
        tally = Tally()

        async def one(jobs: Iterator[tuple[str, int]], tally: Tally = tally) -> None:
            for text, tokens in jobs:
                sampling = SamplingParams(
                    temperature=0,
                    max_tokens=tokens,
                    ignore_eos=True,
                    output_kind=RequestOutputKind.DELTA,
                    skip_clone=True,
                )
                prompt = tokens_input([3 + ord(letter) % 90 for letter in text])
                await tally.watch(engine.generate(prompt, sampling, str(random.random())), tokens)

        cpu = time.process_time()
        await tally.run(count, max(count * 4, 64), 1, one)
        if count != 8 or 8 in streams:
            report("raw", count, [vars(tally)], time.process_time() - cpu)
    engine.shutdown()


# --- measuring ------------------------------------------------------------------------------------


def report(arm: str, streams: int, tallies: list[dict[str, Any]], cpu: float) -> None:
    """One line: throughput, first text, gaps, and front-end CPU for each token."""
    wall = max(tally["wall"] for tally in tallies)
    tokens = sum(tally["tokens"] for tally in tallies)
    first = sorted(x for tally in tallies for x in tally["first"])
    gaps = sorted(x for tally in tallies for x in tally["gaps"])
    whole = sorted(x for tally in tallies for x in tally["whole"])
    line = {
        "arm": arm,
        "streams": streams,
        "requests_s": round(len(whole) / wall, 1),
        "tokens_s": round(tokens / wall),
        "first_p50_ms": _ms(first, 0.5),
        "first_p99_ms": _ms(first, 0.99),
        "gap_p50_ms": _ms(gaps, 0.5),
        "gap_p99_ms": _ms(gaps, 0.99),
        "whole_p50_ms": _ms(whole, 0.5),
        "cpu_us_token": round(1e6 * cpu / tokens, 1),
    }
    print(json.dumps(line), flush=True)


def drive(arm: str, pid: int, port: int, name: str, streams: list[int]) -> None:
    """Load a server from client processes of its own."""
    for count in [8, *streams]:
        clients = min(CLIENTS, count)
        before = _cpu(pid)
        command = [sys.executable, "-m", "benchmarks.gpu", name, "--client", arm]
        command += ["--port", str(port)]
        share = [str(count // clients), str(max(count * 4, 64) // clients)]
        running = [
            subprocess.Popen([*command, "--share", *share, str(seed)], stdout=subprocess.PIPE)
            for seed in range(clients)
        ]
        tallies = [json.loads(client.communicate()[0]) for client in running]
        if count != 8 or 8 in streams:
            report(arm, count, tallies, _cpu(pid) - before)


def serve(arm: str, path: str, seqs: int, streams: list[int]) -> None:
    """Start a server, load it, stop it."""
    port = _free_port()
    env = dict(os.environ)
    if arm == "gateway":
        command = ["-m", "gateway", "serve", "--engine", "vllm", "--model", path]
        command += ["--profile", f"{path}/profile.toml", "--load-format", "dummy"]
        command += ["--no-guards", "--limit-queue", "4096", "--max-num-seqs", str(seqs)]
        for key, value in ENGINE.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        ready = "/readyz"
    else:
        command = ["-m", "vllm.entrypoints.cli.main", "serve", path, "--load-format", "dummy"]
        command += ["--max-num-seqs", str(seqs), "--max-num-batched-tokens", "8192"]
        for key, value in ENGINE.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        env["VLLM_USE_RUST_FRONTEND"] = "1" if arm == "rust" else "0"
        ready = "/health"
    log = Path(os.environ.get("OUT", tempfile.gettempdir())) / f"{arm}.log"
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, *command, "--port", str(port), "--host", "127.0.0.1"],
            env=env,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        begun = time.monotonic()
        while not _answers(f"http://127.0.0.1:{port}{ready}"):
            if server.poll() is not None or time.monotonic() - begun > 300:
                print(json.dumps({"arm": arm, "error": f"did not start, see {log.name}"}))
                return
            time.sleep(0.5)
        print(json.dumps({"arm": arm, "ready_s": round(time.monotonic() - begun)}), flush=True)
        drive(arm, server.pid, port, path, streams)
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


def _ms(values: list[float], share: float) -> float | None:
    return round(1000 * values[int(share * (len(values) - 1))], 2) if values else None


def _cpu(pid: int) -> float:
    """CPU seconds of a server's front end: its processes, without those that run the model."""
    total = 0.0
    family = {pid}
    for path in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parent.name)):
        try:
            name, _, rest = path.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended
        fields = rest.split()
        if int(path.parent.name) in family or int(fields[1]) in family:
            family.add(int(path.parent.name))
            if "Engine" not in name and "Worker" not in name:
                total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a model directory; one without weights is made if missing")
    parser.add_argument("--seqs", type=int, default=256)
    parser.add_argument("--streams", default="16,64,256")
    parser.add_argument("--arms", default="raw,serve,rust,gateway")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--share", type=int, nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        load = (
            load_socket(args.port, *args.share)
            if args.client == "gateway"
            else load_sse(args.port, args.model, *args.share)
        )
        print(json.dumps(vars(asyncio.run(load))))
        return
    path = Path(args.model)
    if not (path / "config.json").exists():
        model(path)
    streams = [int(n) for n in args.streams.split(",")]
    for arm in args.arms.split(","):
        if arm == "raw":
            asyncio.run(raw(str(path), args.seqs, streams))
        else:
            serve(arm, str(path), args.seqs, streams)


if __name__ == "__main__":
    main()
