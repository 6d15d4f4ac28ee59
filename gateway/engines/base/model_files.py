"""Conversion of model directories for CTranslate2 and vLLM, without torch.

Llama models in Hugging Face's form are converted for CTranslate2; int8 weights with scales, which
vLLM cannot read, into float16. Owns: the mapping of configuration and weight names, and the cache
of converted models. Must not know: engines, profiles, jobs. Everything here blocks.
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
"""Version of the conversion, a part of the cache key. Raise it if the same input gives other
files."""

FETCHED = "fetched"
"""Folder in the cache with models that the operator has fetched; they stay."""

CACHED_MODELS = 4
"""Models kept in the cache. A further one replaces the one that was not used for longest."""

Tensor = np.ndarray[Any, np.dtype[Any]]
TensorReader = Callable[[str], Tensor]
"""A function that returns the float32 tensor of a name."""

_DTYPES: Mapping[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,  # numpy has no bfloat16: the upper half of a float32
    "I8": np.int8,
}


def converted(model: Path, cache: Path) -> Path:
    """Return a directory in ``cache`` with ``model`` in CTranslate2's format, int8. Raises
    `EngineFault` if it cannot be converted.
    """
    import ctranslate2

    directory = cache / key(model, f"{ctranslate2.__version__} int8")
    return _make_cached(directory, lambda made: convert(model, made))


def widened(model: Path, cache: Path) -> Path:
    """Return ``model``, or its float16 copy in ``cache`` if its weights are int8 with scales.

    A model whose ``config.json`` names a quantisation may have the same weight names. It is
    returned as it is, because vLLM can read it. Raises `ValueError` if the directory has no model,
    `OSError` if a file cannot be read or written.
    """
    config = json.loads((model / "config.json").read_bytes())
    tensors = _index(model)
    # A quantised model of other tools has the same names, but names its method in the config.
    if "quantization_config" in config or not any(
        entry["dtype"] == "I8" and name + "_scale" in tensors
        for name, (_, _, entry) in tensors.items()
    ):
        return model
    return _make_cached(cache / key(model, "float16"), lambda made: widen(model, made))


def user_cache() -> Path:
    """Return the default cache directory of this user."""
    # https://specifications.freedesktop.org/basedir-spec/latest/
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gateway"


def _make_cached(directory: Path, make: Callable[[Path], None]) -> Path:
    """Return ``directory``, after having ``make`` fill it if it does not exist."""
    cache = directory.parent
    if not directory.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        # Another process may do the same at the same time: each of them fills a directory of its
        # own, and the first one to rename it wins.
        made = Path(tempfile.mkdtemp(prefix=".converting-", dir=cache))
        try:
            make(made)
            with contextlib.suppress(OSError):  # another process was first
                os.rename(made, directory)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        _evict(cache, directory)
    os.utime(directory)  # `_evict` takes this as the time of last use
    return directory


def key(model: Path, made: str) -> str:
    """Return the name of a model's directory in the cache, for one kind of conversion."""
    digest = hashlib.sha256(f"{VERSION} {made}".encode())
    for path in sorted(model.iterdir()):
        # To read gigabytes of weights would cost what the cache saves.
        if path.suffix == ".safetensors":
            stat = path.stat()
            digest.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}".encode())
        elif path.suffix == ".json":
            digest.update(path.name.encode() + path.read_bytes())
    return f"{model.resolve().name}-{digest.hexdigest()[:16]}"


def convert(model: Path, target: Path, quantization: str = "int8") -> None:
    """Convert ``model`` for CTranslate2 into an empty directory. Raises `EngineFault`."""
    try:
        config = json.loads((model / "config.json").read_bytes())
        _check(config)
        tokens = _tokens(model, config["vocab_size"])
        spec = _spec(config, reader(model))
        spec.register_vocabulary(tokens)
        spec.config.bos_token = tokens[config["bos_token_id"]]
        ends = config["eos_token_id"]
        # Some models end a text with any of several tokens; CTranslate2 takes one.
        spec.config.eos_token = tokens[ends[0] if isinstance(ends, list) else ends]
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
    """Write a float16 copy of ``model`` into ``target``, an existing, empty directory."""
    read, tensors = reader(model), _index(model)
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # required by transformers
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


def reader(model: Path) -> TensorReader:
    """Return a function that reads one weight as float32, from any file and storage type."""
    tensors = _index(model)

    def read(name: str) -> Tensor:
        path, start, entry = tensors[name]
        begin, end = entry["data_offsets"]
        dtype = np.dtype(_DTYPES[entry["dtype"]])
        count = (end - begin) // dtype.itemsize
        data = np.fromfile(path, dtype, count, offset=start + begin).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            return (data.astype(np.uint32) << 16).view(np.float32)
        # The scales of an int8 weight, one float per row, are the tensor ``<name>_scale``.
        if entry["dtype"] == "I8":
            return data.astype(np.float32) * read(name + "_scale").reshape(-1, 1)
        return data.astype(np.float32)

    return read


def _index(model: Path) -> dict[str, tuple[Path, int, Mapping[str, Any]]]:
    """Return for each weight its file, the offset of the data in it, and its header entry.

    Raises `ValueError` if a file is no safetensors file.
    """
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
    """Raise `ValueError` for a model that would convert without an error and translate wrongly."""
    if "LlamaForCausalLM" not in config.get("architectures", ()):
        raise ValueError(f"the architecture is {config.get('architectures')}, not LlamaForCausalLM")
    if config.get("attention_bias") or config.get("mlp_bias"):
        raise ValueError("Llama models with biases are not supported")
    if config.get("hidden_act", "silu") != "silu":
        raise ValueError(f"the activation is {config['hidden_act']}, not silu")
    if (rope := _rope(config))[0] not in ("default", "linear"):
        raise ValueError(f"position scaling {rope[0]} is not supported")


def _rope(config: Mapping[str, Any]) -> tuple[str, float, float]:
    """Return type, factor and base of the rotary positions."""
    # They are in ``rope_parameters`` since transformers 5, in ``rope_scaling`` before.
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = rope.get("rope_type") or rope.get("type") or "default"
    base = rope.get("rope_theta") or config.get("rope_theta") or 10_000.0
    return kind, rope.get("factor", 1.0), base


def _spec(config: Mapping[str, Any], read: TensorReader) -> Any:
    """Return a `TransformerDecoderModelSpec` of CTranslate2 with the weights of a Llama model."""
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
        # Llama in transformers rotates halves of the head (``rotary_interleave=False``), so the
        # query and key weights need no permutation.
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
    # A tied model has no projection of its own.
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
    """Return the vocabulary in order of ids, filled up to ``size``, the rows of the embedding."""
    path = model / TOKENIZER
    if not path.is_file():
        raise FileNotFoundError(f"there is no {TOKENIZER}")
    ids = {id: token for token, id in Tokenizer.from_file(str(path)).get_vocab().items()}
    if ids and max(ids) >= size:
        raise ValueError(f"{TOKENIZER} has ids up to {max(ids)}, the model only {size} rows")
    return [ids.get(id, f"<extra_id_{id}>") for id in range(size)]


def _evict(cache: Path, used: Path) -> None:
    """Remove the models that were not used for longest, and the leftovers of killed conversions."""
    kept = (used, cache / FETCHED)
    made = [path for path in cache.iterdir() if path.is_dir() and path not in kept]
    made.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    hour_ago = time.time() - 3600  # another process may be converting right now
    for path in made:
        if path.name.startswith(".converting-") and path.stat().st_mtime < hour_ago:
            shutil.rmtree(path, ignore_errors=True)
    for path in [path for path in made if not path.name.startswith(".")][CACHED_MODELS - 1 :]:
        shutil.rmtree(path, ignore_errors=True)
