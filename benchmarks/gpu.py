"""The gateway and its peers on one GPU: the raw engine, vLLM's own servers, a prototype.

    python -m benchmarks.gpu MODEL --streams 16,64,256 --arms raw,engine,bare,gateway,serve,rust

Arms: ``raw`` AsyncLLM with its output discarded, ``engine`` the gateway's engine with its output
discarded, ``bare`` a prototype (`benchmarks.prototype`), ``gateway`` this gateway, ``serve`` and
``rust`` vLLM's own servers, ``remote`` a gateway before such a server, whose CPU time
counts with its own, ``two`` the gateway with an engine on each of two GPUs, ``halved`` with two
engines on one GPU. ``raw+scheduling_policy="priority"`` is an arm with another option of vLLM. All
are started first, share the GPU's memory, and are then loaded in turn, round after round. The speed
of a machine varies, so only results of the same minute are compared. While one is loaded the others
sleep. `benchmarks.check` runs before all of them.

Every arm gets the same pairs of lengths (prompts of 50 to 240 tokens, outputs of 10 to 199, as
variable as real meetings) in closed loop, from client processes of its own. Weights may be dummies:
this measures speed. `model()` writes a configuration and a tokenizer for that; each ASCII character
is one token, so that text and token counts agree. Prints one JSON line per point, and at the end
one for each arm and number of streams with the medians of its rounds, and ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.arms import Arm
from benchmarks.journey.plan import invented
from benchmarks.streams import MORE

CLIENTS = 8
LEAST = 192
"""Utterances of a point at least; otherwise four for each stream."""
ARMS = ("raw", "engine", "bare", "gateway", "serve", "rust")
"""Arms that are compared by default."""
SAMPLE_MS = 100
BUSY = 90
"""Per cent at which the device counts as used; below a ninth of that it counts as idle."""
SHAPES: dict[str, dict[str, int]] = {
    "0.6b": {"layers": 28, "hidden": 1024, "inner": 3072, "heads": 16},
    "4b": {"layers": 36, "hidden": 2560, "inner": 9728, "heads": 32},
    "tiny": {"layers": 2, "hidden": 64, "inner": 128, "heads": 2, "size": 2048},
}
"""Shapes of Qwen3 models without weights; ``tiny`` to try this program on a CPU."""


def model(
    path: Path,
    layers: int = 28,
    hidden: int = 1024,
    inner: int = 3072,
    heads: int = 16,
    size: int = 151_936,
) -> Path:
    """Write a Qwen3-shaped model without weights (default: 0.6B) and a one-character tokenizer."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    vocab = {"<pad>": 0, "<s>": 1, "</s>": 2}
    for letter in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab[letter] = len(vocab)
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
        "num_attention_heads": heads,
        "num_key_value_heads": min(heads, 8),
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
    (path / "profile.toml").write_text(invented(less=MORE))
    return path


class Clients:
    """The processes that produce the load."""

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-m", "benchmarks.streams"]
        self._all = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(count)
        ]

    def load(self, arm: Arm, streams: int, count: int, seed: int) -> list[dict[str, Any]]:
        if arm.inside:
            return [_asked(arm.process, {"streams": streams, "count": count, "seed": seed})]
        some = self._all[:streams]
        how = "sse" if arm.kind in ("serve", "rust") else "socket"
        command = {"how": how, "port": arm.port, "name": arm.path}
        for number, client in enumerate(some):
            assert client.stdin is not None
            share = {
                "streams": streams // len(some),
                "count": count // len(some),
                "seed": seed * 100 + number,
            }
            client.stdin.write(json.dumps(command | share) + "\n")
            client.stdin.flush()
        return [_answer(client) for client in some]

    def stop(self) -> None:
        for client in self._all:
            assert client.stdin is not None
            client.stdin.close()
            client.wait(10)


class Device:
    """Use of the GPU during a point, by NVML's count, as `nvidia-smi` tells it."""

    def __init__(self) -> None:
        query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
        try:
            self._smi: subprocess.Popen[str] | None = subprocess.Popen(
                ["nvidia-smi", *query, "-i", "0", "-lms", str(SAMPLE_MS)],
                stdout=subprocess.PIPE,
                text=True,
            )
        except FileNotFoundError:
            self._smi = None

    def stop(self) -> dict[str, Any]:
        """Return mean and 5th percentile in per cent, and shares of the samples.

        Return {} if there is no GPU.
        """
        if self._smi is None:
            return {}
        self._smi.terminate()
        seen = [int(line) for line in self._smi.communicate()[0].split() if line.isdigit()]
        seen = sorted(seen[3:-3])  # the first and the last look at times before and after
        if not seen:
            return {}
        return {
            "gpu_mean": round(statistics.fmean(seen), 1),
            "gpu_p5": seen[len(seen) // 20],
            "gpu_busy_share": round(sum(one >= BUSY for one in seen) / len(seen), 3),
            "gpu_idle_share": round(sum(one < 10 for one in seen) / len(seen), 3),
        }


def point(arm: Arm, clients: Clients, streams: int, number: int) -> dict[str, Any]:
    """Return throughput, first text, gaps, and front-end CPU for each token of one round."""
    device = Device()
    before = _cpu(arm.process.pid)
    tallies = clients.load(arm, streams, max(4 * streams, LEAST), number)
    cpu = _cpu(arm.process.pid) - before
    busy = device.stop()
    wall = max(tally["wall"] for tally in tallies)
    tokens = sum(tally["tokens"] for tally in tallies)
    first = sorted(x for tally in tallies for x in tally["first"])
    gaps = sorted(x for tally in tallies for x in tally["gaps"])
    whole = sorted(x for tally in tallies for x in tally["whole"])
    return {
        "arm": arm.name,
        "streams": streams,
        "requests_s": round(len(whole) / wall, 1),
        "tokens_s": round(tokens / wall),
        "first_p50_ms": _ms(first, 0.5),
        "first_p99_ms": _ms(first, 0.99),
        "gap_p50_ms": _ms(gaps, 0.5),
        "gap_p99_ms": _ms(gaps, 0.99),
        "whole_p50_ms": _ms(whole, 0.5),
        "whole_p95_ms": _ms(whole, 0.95),
        "cpu_us_token": round(1e6 * cpu / tokens, 1),
        "tokens_a_piece": round(tokens / sum(tally["pieces"] for tally in tallies), 2),
        "refused": sum(tally["refused"] for tally in tallies),
        "client_core": round(max(tally["cpu"] / tally["wall"] for tally in tallies), 2),
        **busy,
    }


def summary(points: list[dict[str, Any]], streams: list[int]) -> list[dict[str, Any]]:
    """Return medians over the rounds, and of the ratios within a round to ``raw`` and ``rust``."""
    lines = []
    for count in streams:
        rounds: dict[str, list[dict[str, Any]]] = {}
        for one in points:
            if one["streams"] == count:
                rounds.setdefault(one["arm"], []).append(one)
        for arm, own in rounds.items():
            line: dict[str, Any] = {"summary": arm, "streams": count, "rounds": len(own)}
            for key in own[0]:
                if isinstance(own[0][key], int | float) and key != "streams":
                    line[key] = round(statistics.median(one[key] for one in own), 2)
            for peer, keys in (
                ("raw", ("tokens_s",)),
                ("rust", ("tokens_s", "cpu_us_token", "first_p50_ms", "first_p99_ms")),
            ):
                if peer in rounds and peer != arm:
                    for key in keys:
                        pairs = zip(own, rounds[peer], strict=True)
                        ratio = statistics.median(one[key] / other[key] for one, other in pairs)
                        line[f"{key}_to_{peer}"] = round(ratio, 3)
            lines.append(line)
    return lines


def _asked(process: subprocess.Popen[str], command: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    process.stdin.write(json.dumps(command) + "\n")
    process.stdin.flush()
    return _answer(process)


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith('{"first"'):  # vLLM may write there too
            answer: dict[str, Any] = json.loads(line)
            return answer
    raise RuntimeError("a process ended before it had answered")


def _ms(values: list[float], share: float) -> float | None:
    return round(1000 * values[int(share * (len(values) - 1))], 2) if values else None


def _cpu(pid: int) -> float:
    """Return the CPU seconds of a server's front end: its processes, without those of the model."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="a model directory; one without weights is made if missing")
    parser.add_argument("--shape", choices=SHAPES, default="0.6b", help="of the model to be made")
    parser.add_argument("--seqs", type=int, default=256)
    parser.add_argument("--streams", default="16,64,256")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--share", type=float, help="of the GPU an arm may ask for; default: 0.8 by all"
    )
    parser.add_argument("--kv-gib", type=float, default=8.0, help="KV cache of an arm")
    parser.add_argument("--eager", action="store_true", help="no compiling: to try this program")
    parser.add_argument("--cases", type=Path, help="of `benchmarks.check`, as written elsewhere")
    parser.add_argument("--out", type=Path, help="a file for all points and the summary, as JSON")
    args = parser.parse_args()
    for name in ("HF_HUB_OFFLINE", "VLLM_NO_USAGE_STATS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("VLLM_USE_FLASHINFER_SAMPLER", "0")
    if not args.eager:  # nothing is measured that was not read
        given = ["--cases", str(args.cases)] if args.cases else []
        subprocess.run([sys.executable, "-m", "benchmarks.check", *given], check=True)
    path, names = Path(args.model), args.arms.split(",")
    if not (path / "config.json").exists():
        model(path, **SHAPES[args.shape])
    streams = [int(n) for n in args.streams.split(",")]
    options: dict[str, Any] = {
        "max_num_seqs": args.seqs,
        "max_num_batched_tokens": 8192,
        "dtype": "bfloat16",
        "max_model_len": 2048,
        "gpu_memory_utilization": args.share or round(0.8 / len(names), 2),
        "kv_cache_memory_bytes": int(args.kv_gib * 2**30),
        "load_format": "dummy",
    } | ({"enforce_eager": True} if args.eager else {})
    logs = Path(os.environ.get("OUT", tempfile.gettempdir()))
    arms: list[Arm] = []
    clients = Clients(CLIENTS)
    points: list[dict[str, Any]] = []
    try:
        # The first compiles what the others find in the cache then.
        arms.append(Arm(names[0], str(path), options, logs))
        ready = [arm for arm in arms if arm.wait()]
        arms += [Arm(name, str(path), options, logs) for name in names[1:]]
        ready += [arm for arm in arms[1:] if arm.wait()]
        for arm in ready:
            point(arm, clients, 8, 0)  # whatever is put off until it is needed
        for number in range(1, args.rounds + 1):
            for count in streams:
                for arm in ready:
                    points.append(point(arm, clients, count, number) | {"round": number})
                    print(json.dumps(points[-1]), flush=True)
    finally:
        for arm in arms:
            arm.stop()
        for arm in arms:
            arm.gone()
        clients.stop()
    lines = summary(points, streams)
    for line in lines:
        print(json.dumps(line), flush=True)
    if args.out:
        args.out.write_text(json.dumps({"points": points, "summary": lines}, indent=1))


if __name__ == "__main__":
    main()
