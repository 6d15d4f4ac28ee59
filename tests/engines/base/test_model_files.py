"""Tests that a converted model computes the same as the original, and of the cache."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gateway.engines.base import model_files
from gateway.errors import EngineFault
from tests.support import models

ctranslate2 = pytest.importorskip("ctranslate2")

PROMPT = [1, 5, 6, 300, 301, 302, 303, 3]


def configure(model: Path, **changes: Any) -> None:
    config = json.loads((model / "config.json").read_bytes())
    (model / "config.json").write_text(json.dumps(config | changes))


def logits_after_conversion(model: Path, target: Path) -> models.Matrix:
    target.mkdir()
    model_files.convert(model, target, "float32")
    generator = ctranslate2.Generator(str(target), compute_type="float32")
    logits: models.Matrix = np.array(generator.forward_batch([PROMPT]))[0]
    return logits


def llama(model: Path) -> models.Matrix:
    """Return the logits for `PROMPT`, computed from the definition of the architecture."""
    config = json.loads((model / "config.json").read_bytes())
    w = {name: t.astype(np.float32) for name, t in load_file(model / "model.safetensors").items()}
    heads, head = config["num_attention_heads"], config["head_dim"]
    kv_heads, n = config["num_key_value_heads"], len(PROMPT)

    def norm(x: models.Matrix, name: str) -> models.Matrix:
        scale = np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"])
        return np.asarray(x / scale * w[name])

    def rotate(x: models.Matrix) -> models.Matrix:  # (head, position, dimension)
        frequency = config["rope_theta"] ** (-np.arange(0, head, 2) / head)
        angle = np.outer(np.arange(n) / config.get("rope_factor", 1), frequency)
        a, b = x[..., : head // 2], x[..., head // 2 :]
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def split(x: models.Matrix, count: int) -> models.Matrix:
        return x.reshape(n, count, head).swapaxes(0, 1)

    x = w["model.embed_tokens.weight"][PROMPT]
    hidden = np.triu(np.full((n, n), -np.inf), 1)
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        y = norm(x, p + "input_layernorm.weight")
        q = rotate(split(y @ w[p + "self_attn.q_proj.weight"].T, heads))
        k = rotate(split(y @ w[p + "self_attn.k_proj.weight"].T, kv_heads))
        v = split(y @ w[p + "self_attn.v_proj.weight"].T, kv_heads)
        k, v = (np.repeat(t, heads // kv_heads, axis=0) for t in (k, v))
        scores = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(head) + hidden)
        mixed = (scores / scores.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(n, -1)
        x = x + mixed @ w[p + "self_attn.o_proj.weight"].T
        y = norm(x, p + "post_attention_layernorm.weight")
        gate = y @ w[p + "mlp.gate_proj.weight"].T
        up = y @ w[p + "mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[p + "mlp.down_proj.weight"].T
    out = w.get("lm_head.weight", w["model.embed_tokens.weight"])
    return np.asarray(norm(x, "model.norm.weight") @ out.T)


@pytest.mark.parametrize("shape", [{}, {"kv_heads": 2}, {"tied": False}, {"head": 32}], ids=str)
def test_a_converted_model_computes_what_the_architecture_defines(
    shape: dict[str, Any], tmp_path: Path
) -> None:
    model = models.tiny_llama(tmp_path / "model", **shape)
    converted = logits_after_conversion(model, tmp_path / "out")
    np.testing.assert_allclose(converted, llama(model), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("spelling", ["rope_theta", "rope_parameters", "rope_scaling"])
def test_the_base_of_the_positions_is_read_in_every_spelling(spelling: str, tmp_path: Path) -> None:
    model = models.tiny_llama(tmp_path / "model")
    configure(model, rope_theta=500.0)
    expected = llama(model)
    if spelling != "rope_theta":
        rope = {"rope_type": "default", "rope_theta": 500.0}
        configure(model, **{"rope_theta": None, spelling: rope})
    converted = logits_after_conversion(model, tmp_path / "out")
    np.testing.assert_allclose(converted, expected, rtol=1e-3, atol=1e-3)


def test_linear_scaling_of_the_positions_is_kept(tmp_path: Path) -> None:
    model = models.tiny_llama(tmp_path / "model")
    configure(model, rope_scaling={"type": "linear", "factor": 4.0}, rope_factor=4.0)
    converted = logits_after_conversion(model, tmp_path / "out")
    np.testing.assert_allclose(converted, llama(model), rtol=1e-3, atol=1e-3)


def test_weights_in_several_files_are_found(tmp_path: Path) -> None:
    model = models.tiny_llama(tmp_path / "model")
    expected = llama(model)
    weights = list(load_file(model / "model.safetensors").items())
    (model / "model.safetensors").unlink()
    save_file(dict(weights[:5]), model / "model-00001-of-00002.safetensors")
    save_file(dict(weights[5:]), model / "model-00002-of-00002.safetensors")
    converted = logits_after_conversion(model, tmp_path / "out")
    np.testing.assert_allclose(converted, expected, rtol=1e-3, atol=1e-3)


def write_raw(path: Path, **tensors: tuple[str, models.Tensor]) -> None:
    """Write a safetensors file with types that numpy does not have, nor the library."""
    header, data = {}, b""
    for name, (kind, tensor) in tensors.items():
        end = len(data) + tensor.nbytes
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [len(data), end]}
        data += tensor.tobytes()
    head = json.dumps(header).encode()
    path.write_bytes(len(head).to_bytes(8, "little") + head + data)


def test_bfloat16_is_read_as_the_upper_half_of_float32(tmp_path: Path) -> None:
    values = np.array([[1.0, -2.5], [0.15625, 3e38]], np.float32)
    upper = (values.view(np.uint32) >> 16).astype(np.uint16)
    write_raw(tmp_path / "model.safetensors", w=("BF16", upper))
    read = model_files.reader(tmp_path)("w")
    assert read.dtype == np.float32
    np.testing.assert_allclose(read, values, rtol=2**-8)


def test_int8_weights_are_multiplied_by_the_scales_of_their_rows(tmp_path: Path) -> None:
    write_raw(
        tmp_path / "model.safetensors",
        w=("I8", np.array([[127, -64], [1, 2]], np.int8)),
        w_scale=("F32", np.array([0.5, 10.0], np.float32)),
    )
    read = model_files.reader(tmp_path)("w")
    np.testing.assert_array_equal(read, [[63.5, -32.0], [10.0, 20.0]])


def test_int8_weights_are_widened_to_the_float16_that_they_stand_for(tmp_path: Path) -> None:
    model = models.tiny_llama(tmp_path / "model", tied=False)
    original = load_file(model / "model.safetensors")
    models.store_as_int8(model)
    read = model_files.reader(model)
    copy = load_file(model_files.widened(model, tmp_path / "cache") / "model.safetensors")
    assert copy.keys() == original.keys()
    for name, tensor in copy.items():
        assert (tensor.dtype, tensor.shape) == (np.dtype(np.float16), original[name].shape)
        np.testing.assert_array_equal(tensor, read(name).astype(np.float16))
        np.testing.assert_allclose(tensor, original[name], atol=np.abs(original[name]).max() / 200)


def test_a_widened_model_has_one_file_of_weights_and_the_small_files_of_the_original(
    tmp_path: Path,
) -> None:
    model = models.tiny_llama(tmp_path / "model")
    models.store_as_int8(model)
    configure(model, dtype="int8")
    weights = list(load_file(model / "model.safetensors").items())
    (model / "model.safetensors").unlink()
    save_file(dict(weights[:5]), model / "model-00001-of-00002.safetensors")
    save_file(dict(weights[5:]), model / "model-00002-of-00002.safetensors")
    (model / "model.safetensors.index.json").write_text("{}")
    copy = model_files.widened(model, tmp_path / "cache")
    names = ["config.json", "model.safetensors", "tokenizer.json"]
    assert sorted(path.name for path in copy.iterdir()) == names
    assert json.loads((copy / "config.json").read_bytes())["dtype"] == "float16"
    assert (copy / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()


def test_a_widened_model_converts_to_the_same_as_the_original(tmp_path: Path) -> None:
    model = models.tiny_llama(tmp_path / "model")
    models.store_as_int8(model)
    copy = model_files.widened(model, tmp_path / "cache")
    np.testing.assert_allclose(
        logits_after_conversion(copy, tmp_path / "of the copy"),
        logits_after_conversion(model, tmp_path / "of the original"),
        atol=2e-2,
    )


def test_a_model_is_widened_once_beside_its_conversion_and_again_when_it_changes(
    tmp_path: Path,
) -> None:
    model, cache = models.tiny_llama(tmp_path / "model"), tmp_path / "cache"
    models.store_as_int8(model)
    first = model_files.widened(model, cache)
    (first / "mark").touch()
    assert (model_files.widened(model, cache) / "mark").exists()
    configure(model, rms_norm_eps=1e-6)
    assert len({first, model_files.widened(model, cache), model_files.converted(model, cache)}) == 3


def test_models_that_are_not_stored_as_int8_with_scales_are_left_as_they_are(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"
    model = models.tiny_llama(tmp_path / "float16")
    assert model_files.widened(model, cache) == model
    # What other tools quantise has the same names, but says so, and vLLM reads it.
    models.store_as_int8(model)
    configure(model, quantization_config={"quant_method": "compressed-tensors"})
    assert model_files.widened(model, cache) == model
    assert not cache.exists()


def test_the_cache_is_in_the_users_cache_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert model_files.user_cache() == tmp_path / "gateway"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_files.user_cache() == tmp_path / ".cache" / "gateway"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"architectures": ["Qwen2ForCausalLM"]}, "Qwen2ForCausalLM"),
        ({"attention_bias": True}, "biases"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"num_hidden_layers": 3}, "model.layers.2"),
        ({"vocab_size": 20}, "rows"),
    ],
)
def test_a_model_that_would_translate_wrongly_is_refused_with_the_reason(
    changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    model = models.tiny_llama(tmp_path / "model")
    configure(model, **changes)
    with pytest.raises(EngineFault, match=said):
        model_files.convert(model, tmp_path)


def remove_tokenizer(model: Path) -> None:
    (model / "tokenizer.json").unlink()


def leave_a_pointer(model: Path) -> None:
    (model / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")


def cut_the_weights(model: Path) -> None:
    path = model / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


@pytest.mark.parametrize("damage", [remove_tokenizer, leave_a_pointer, cut_the_weights])
def test_an_incomplete_directory_is_refused_and_leaves_nothing_in_the_cache(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    model = models.tiny_llama(tmp_path / "model")
    damage(model)
    with pytest.raises(EngineFault, match="could not be converted"):
        model_files.converted(model, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_model_is_converted_once(tmp_path: Path) -> None:
    model = models.tiny_llama(tmp_path / "model")
    first = model_files.converted(model, tmp_path / "cache")
    (first / "mark").touch()
    assert (model_files.converted(model, tmp_path / "cache") / "mark").exists()


def test_a_changed_model_is_converted_again(tmp_path: Path) -> None:
    model = models.tiny_llama(tmp_path / "model")
    first = model_files.converted(model, tmp_path / "cache")
    weights = model / "model.safetensors"
    os.utime(weights, ns=(0, weights.stat().st_mtime_ns + 1))
    second = model_files.converted(model, tmp_path / "cache")
    configure(model, rms_norm_eps=1e-6)
    third = model_files.converted(model, tmp_path / "cache")
    assert len({first, second, third}) == 3


def test_two_processes_that_convert_at_once_use_one_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = models.tiny_llama(tmp_path / "model")
    both, convert = threading.Barrier(2, timeout=40), model_files.convert

    def convert_together(*args: Any) -> None:
        convert(*args)
        both.wait()  # neither renames before both have written

    monkeypatch.setattr(model_files, "convert", convert_together)
    results: list[Path] = []
    threads = [
        threading.Thread(
            target=lambda: results.append(model_files.converted(model, tmp_path / "cache"))
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0] == results[1]
    assert list((tmp_path / "cache").iterdir()) == [results[0]]


def test_the_cache_keeps_the_models_used_last(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for n in range(model_files.CACHED_MODELS + 1):
        old = cache / f"old-{n}"
        old.mkdir(parents=True)
        os.utime(old, (n, n))
    left_behind = cache / ".converting-killed"
    left_behind.mkdir()
    os.utime(left_behind, (0, 0))
    used = model_files.converted(models.tiny_llama(tmp_path / "model"), cache)
    assert {path.name for path in cache.iterdir()} == {"old-2", "old-3", "old-4", used.name}
