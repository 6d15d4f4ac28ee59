"""One model directory for every engine: what each needs is made of it, without torch.

Hugging Face Llama directories are turned into CTranslate2 ones; int8 weights with scales, which
vLLM does not know, into float16. Owns: the mapping of config and weight names, and the cache of
what was made. Must not know: engines, profiles, jobs. Everything here blocks; engines call it off
the event loop.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from gateway.errors import EngineFault

TOKENIZER = "tokenizer.json"

VERSION = 1
"""Part of the cache key: raise it when the same input converts to other files."""

KEPT = 4
"""Models kept in the cache; making one more removes the longest unused."""

Tensor = np.ndarray[Any, np.dtype[Any]]
Read = Callable[[str], Tensor]
"""Gives the float32 tensor of a name."""

_DTYPES: Mapping[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,  # numpy has no bfloat16: the upper half of a float32
    "I8": np.int8,
}


def converted(model: Path, cache: Path, quantization: str = "int8") -> Path:
    """Directory of ``model`` in CTranslate2's format, from the cache or converted into it.

    Raises `EngineFault` for models that cannot be converted.
    """
    import ctranslate2

    place = cache / key(model, f"{ctranslate2.__version__} {quantization}")
    return _cached(place, lambda made: convert(model, made, quantization))


def widened(model: Path, cache: Path) -> Path:
    """``model`` itself, or its float16 copy if its weights are int8 with scales beside them.

    The copy comes from the cache or is written into it. Models whose ``config.json`` says how they
    are quantised may have the same names in them; those are for vLLM to read. Raises `ValueError`
    for what is no model and `OSError` for what cannot be read or written.
    """
    config = json.loads((model / "config.json").read_bytes())
    tensors = _index(model)
    if "quantization_config" in config or not any(
        entry["dtype"] == "I8" and name + "_scale" in tensors
        for name, (_, _, entry) in tensors.items()
    ):
        return model
    return _cached(cache / key(model, "float16"), lambda made: widen(model, made))


def user_cache() -> Path:
    """https://specifications.freedesktop.org/basedir-spec/latest/"""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gateway"


def _cached(place: Path, make: Callable[[Path], None]) -> Path:
    """``place``, made by ``make`` in an empty directory if it is not there yet.

    Safe against another process that makes the same: each writes a directory of its own and the
    first to rename it wins.
    """
    cache = place.parent
    if not place.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".converting-", dir=cache))
        try:
            make(made)
            with contextlib.suppress(OSError):  # the other process was first
                os.rename(made, place)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        _evict(cache, place)
    os.utime(place)  # the time of last use, which `_evict` goes by
    return place


def key(model: Path, made: str) -> str:
    """Name of a model's place in the cache: changes with the model, and with how it is ``made``.

    Weights count by size and time of change, because reading gigabytes would cost what the cache
    saves; the small files count by content.
    """
    digest = hashlib.sha256(f"{VERSION} {made}".encode())
    for path in sorted(model.iterdir()):
        if path.suffix == ".safetensors":
            stat = path.stat()
            digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode())
        elif path.suffix == ".json":
            digest.update(path.name.encode() + path.read_bytes())
    return f"{model.resolve().name}-{digest.hexdigest()[:16]}"


def convert(model: Path, target: Path, quantization: str = "int8") -> None:
    """Write ``target`` (an existing, empty directory). Raises `EngineFault`."""
    try:
        config = json.loads((model / "config.json").read_bytes())
        _check(config)
        tokens = _tokens(model, config["vocab_size"])
        spec = _spec(config, reader(model))
        spec.register_vocabulary(tokens)
        spec.config.bos_token = tokens[config["bos_token_id"]]
        spec.config.eos_token = tokens[_first(config["eos_token_id"])]
        spec.config.unk_token = ""
        spec.config.layer_norm_epsilon = config["rms_norm_eps"]
        spec.validate()
        spec.optimize(quantization=quantization)
        spec.save(str(target))
        shutil.copyfile(model / TOKENIZER, target / TOKENIZER)
    except (LookupError, ValueError, FileNotFoundError) as exc:
        raise EngineFault(
            f"The model in {model} could not be converted: {type(exc).__name__}: {exc}",
            hint="Needed are a Llama config.json, *.safetensors and tokenizer.json. Convert other"
            " models with ct2-transformers-converter --model NAME --output_dir DIR"
            " --quantization int8 and name DIR.",
        ) from exc


def widen(model: Path, target: Path) -> None:
    """Write a float16 copy of ``model`` to ``target`` (an existing, empty directory)."""
    read, tensors = reader(model), _index(model)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # transformers asks for it
    scales = {name + "_scale" for name in tensors}
    names, end = [name for name in tensors if name not in scales], 0
    for name in names:
        shape = tensors[name][2]["shape"]
        begin, end = end, end + 2 * math.prod(shape)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [begin, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)  # so that the data is aligned
    with (target / "model.safetensors").open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for name in names:
            read(name).astype("<f2").tofile(file)
    for path in model.glob("*.json"):
        if not path.name.endswith(".safetensors.index.json"):
            shutil.copyfile(path, target / path.name)
    config = json.loads((model / "config.json").read_bytes())
    (target / "config.json").write_text(json.dumps(config | {"dtype": "float16"}))


def reader(model: Path) -> Read:
    """A function that reads one weight, whichever shard holds it and however it is stored.

    A weight stored as int8 has its scales beside it, one float per row, in ``<name>_scale``.
    """
    tensors = _index(model)

    def stored(name: str) -> tuple[str, Tensor]:
        path, start, entry = tensors[name]
        begin, end = entry["data_offsets"]
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        data = np.fromfile(path, dtype, (end - begin) // dtype.itemsize, offset=start + begin)
        return entry["dtype"], data.reshape(entry["shape"])

    def read(name: str) -> Tensor:
        kind, data = stored(name)
        if kind == "BF16":
            return (data.astype(np.uint32) << 16).view(np.float32)
        if kind == "I8":
            return data.astype(np.float32) * read(name + "_scale").reshape(-1, 1)
        return data.astype(np.float32)

    return read


def _index(model: Path) -> dict[str, tuple[Path, int, Mapping[str, Any]]]:
    """For each weight its file, where the data begins in there, and its entry in the header."""
    tensors: dict[str, tuple[Path, int, Mapping[str, Any]]] = {}
    for path in sorted(model.glob("*.safetensors")):
        # https://github.com/huggingface/safetensors#format: a length, a JSON header, the data.
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError(f"{path.name} is not a safetensors file (a Git LFS pointer?)")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        tensors |= {name: (path, 8 + length, entry) for name, entry in header.items()}
    return tensors


def _check(config: Mapping[str, Any]) -> None:
    """Refuse what would convert without an error and translate wrongly."""
    if "LlamaForCausalLM" not in config.get("architectures", ()):
        raise ValueError(f"the architecture is {config.get('architectures')}, not LlamaForCausalLM")
    if config.get("attention_bias") or config.get("mlp_bias"):
        raise ValueError("Llama models with biases are not supported")
    if config.get("hidden_act", "silu") != "silu":
        raise ValueError(f"the activation is {config['hidden_act']}, not silu")
    if (rope := _rope(config))[0] not in ("default", "linear"):
        raise ValueError(f"position scaling {rope[0]} is not supported")


def _rope(config: Mapping[str, Any]) -> tuple[str, float, float]:
    """Type, factor and base of the rotary positions (``rope_parameters`` since transformers 5)."""
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    base = rope.get("rope_theta") or config.get("rope_theta") or 10_000.0
    return kind, rope.get("factor", 1.0), base


def _spec(config: Mapping[str, Any], read: Read) -> Any:
    """A filled `ctranslate2.specs.TransformerDecoderModelSpec`.

    Transformers' Llama rotates halves of the head (``rotary_interleave=False``), so query and key
    weights are taken as they are.
    """
    from ctranslate2.specs import attention_spec, common_spec, transformer_spec

    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads") or heads
    rope, factor, base = _rope(config)
    linear = attention_spec.RotaryScalingType.Linear
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        config["num_hidden_layers"],
        heads,
        activation=common_spec.Activation.SWISH,
        pre_norm=True,
        ffn_glu=True,
        rms_norm=True,
        rotary_dim=0,  # 0: the whole head
        rotary_interleave=False,
        rotary_scaling_type=linear if rope == "linear" else None,
        rotary_scaling_factor=factor,
        rotary_base=base,
        num_heads_kv=None if kv_heads == heads else kv_heads,
        head_dim=config.get("head_dim"),
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = read("model.embed_tokens.weight")
    decoder.projection.weight = (
        decoder.embeddings.weight if config.get("tie_word_embeddings") else read("lm_head.weight")
    )
    decoder.layer_norm.gamma = read("model.norm.weight")
    for n, layer in enumerate(decoder.layer):
        name = f"model.layers.{n}."
        attention, ffn = layer.self_attention, layer.ffn
        attention.layer_norm.gamma = read(name + "input_layernorm.weight")
        attention.linear[0].weight = np.concatenate(
            [read(f"{name}self_attn.{part}_proj.weight") for part in "qkv"]
        )
        attention.linear[1].weight = read(name + "self_attn.o_proj.weight")
        ffn.layer_norm.gamma = read(name + "post_attention_layernorm.weight")
        ffn.linear_0.weight = read(name + "mlp.gate_proj.weight")
        ffn.linear_0_noact.weight = read(name + "mlp.up_proj.weight")
        ffn.linear_1.weight = read(name + "mlp.down_proj.weight")
    return spec


def _tokens(model: Path, size: int) -> list[str]:
    """The vocabulary in order of ids, filled up to the rows that the embedding has."""
    path = model / TOKENIZER
    if not path.is_file():
        raise FileNotFoundError(f"there is no {TOKENIZER}")
    ids = {id: token for token, id in Tokenizer.from_file(str(path)).get_vocab().items()}
    if ids and max(ids) >= size:
        raise ValueError(f"{TOKENIZER} has ids up to {max(ids)}, the model only {size} rows")
    return [ids.get(id, f"<extra_id_{id}>") for id in range(size)]


def _first(id: int | list[int]) -> int:
    return id[0] if isinstance(id, list) else id


def _evict(cache: Path, used: Path) -> None:
    """Remove the models unused for longest, and what conversions that were killed left behind."""
    made = sorted(
        (path for path in cache.iterdir() if path.is_dir() and path != used),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    hour_ago = time.time() - 3600
    for path in made:
        if path.name.startswith(".converting-") and path.stat().st_mtime < hour_ago:
            shutil.rmtree(path, ignore_errors=True)
    for path in [path for path in made if not path.name.startswith(".")][KEPT - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
