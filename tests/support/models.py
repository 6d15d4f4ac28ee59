"""Tiny models with random weights in the real file formats, so that tests load them for real.

A builder fills the directory it is given and returns it; given a filled one it does nothing.
Keep the directories for a whole test session (``tmp_path_factory``): a build takes about a second.
The output of such a model is deterministic nonsense that seldom ends before its length limit.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

LANGUAGES = ("<en>", "<de>", "<fr>", "<es>", "<ja>", "<zh>")
CONTROLS = ("<pad>", "<s>", "</s>", "<sep>", "<part>", *LANGUAGES)
"""Ids 0-10 of the embedded model's vocabulary, in this order."""

CODES = ("eng_Latn", "deu_Latn", "fra_Latn")
"""Language tokens of the tiny NLLB (FLORES-200 codes)."""

LINES = (
    "Good morning everybody, can you hear me?",
    "The meeting starts at nine, and the report is not finished yet.",
    "Could you please share your screen and repeat the question?",
    "Guten Morgen zusammen, können Sie mich hören?",
    "Die Besprechung beginnt um neun, und der Bericht ist noch nicht fertig.",
    "Bonjour à tous, est-ce que vous m'entendez bien ?",
    "La réunion commence à neuf heures et le rapport n'est pas terminé.",
    "Buenos días a todos, ¿me oyen bien?",
    "おはようございます。会議は九時に始まります。",
    "大家早上好，会议九点开始。",
)

Matrix = np.ndarray[Any, np.dtype[np.float32]]
Tensor = np.ndarray[Any, np.dtype[Any]]

LAYERS, HIDDEN, HEADS, INNER = 2, 64, 4, 128


def byte_bpe(size: int = 512) -> Tokenizer:
    """Return a byte-level BPE like the embedded model's, trained on `LINES`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(CONTROLS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(LINES, trainer)
    return tokenizer


def tiny_llama(
    dir: Path, *, kv_heads: int = HEADS, head: int = HIDDEN // HEADS, tied: bool = True
) -> Path:
    """Create a Hugging Face directory like the embedded model's."""
    if (dir / "config.json").exists():
        return dir
    dir.mkdir(parents=True, exist_ok=True)
    tokenizer = byte_bpe()
    tokenizer.save(str(dir / "tokenizer.json"))
    size = tokenizer.get_vocab_size()
    random = Weights(7)
    weights = {"model.embed_tokens.weight": random(size, HIDDEN)}
    if not tied:
        weights["lm_head.weight"] = random(size, HIDDEN)
    for n in range(LAYERS):
        layer = f"model.layers.{n}."
        weights |= {
            layer + "self_attn.q_proj.weight": random(HEADS * head, HIDDEN),
            layer + "self_attn.k_proj.weight": random(kv_heads * head, HIDDEN),
            layer + "self_attn.v_proj.weight": random(kv_heads * head, HIDDEN),
            layer + "self_attn.o_proj.weight": random(HIDDEN, HEADS * head),
            layer + "mlp.gate_proj.weight": random(INNER, HIDDEN),
            layer + "mlp.up_proj.weight": random(INNER, HIDDEN),
            layer + "mlp.down_proj.weight": random(HIDDEN, INNER),
            layer + "input_layernorm.weight": random.ones(HIDDEN),
            layer + "post_attention_layernorm.weight": random.ones(HIDDEN),
        }
    weights["model.norm.weight"] = random.ones(HIDDEN)
    save_file({k: v.astype(np.float16) for k, v in weights.items()}, dir / "model.safetensors")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": size,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": kv_heads,
        "head_dim": head,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0,
        "tie_word_embeddings": tied,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "attention_bias": False,
        "mlp_bias": False,
        "dtype": "float16",
    }
    # Last, because its presence says that the directory is complete.
    (dir / "config.json").write_text(json.dumps(config))
    return dir


def store_as_int8(llama: Path) -> None:
    """Store every matrix in rows of int8 with one scale each, like the embedded model."""
    weights: dict[str, Tensor] = {}
    for name, tensor in load_file(llama / "model.safetensors").items():
        weights[name] = tensor
        if tensor.ndim == 2:
            weights[name + "_scale"] = np.abs(tensor.astype(np.float32)).max(1) / 127
            weights[name] = np.rint(tensor / weights[name + "_scale"][:, None]).astype(np.int8)
    save_file(weights, llama / "model.safetensors")


def tiny_marian(dir: Path) -> Path:
    """Create the files of ``ct2-transformers-converter`` for OPUS-MT, with ``*.spm`` files."""
    if (dir / "config.json").exists():
        return dir
    dir.mkdir(parents=True, exist_ok=True)
    pieces: list[str] = []
    for side in ("source", "target"):
        pieces += _train_spm(dir / f"{side}.spm", bos_id=-1, pad_id=-1, eos_id=0, unk_id=1)
    vocabulary = list(dict.fromkeys(pieces))
    return _save_transformer(dir, vocabulary, from_zero=True)


def tiny_nllb(dir: Path) -> Path:
    """Create the files of the converter for an NLLB model, with one SentencePiece model."""
    if (dir / "config.json").exists():
        return dir
    dir.mkdir(parents=True, exist_ok=True)
    pieces = _train_spm(dir / "sentencepiece.bpe.model", bos_id=0, pad_id=1, eos_id=2, unk_id=3)
    return _save_transformer(dir, [*pieces, *CODES, "<mask>"], from_zero=False)


class Weights:
    """Random matrices of one seed, scaled so that the output does not repeat one token."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> Matrix:
        scale = 1.5 / np.sqrt(shape[-1])
        weight: Matrix = (self._random.standard_normal(shape) * scale).astype(np.float32)
        return weight

    def ones(self, size: int) -> Matrix:
        return np.ones(size, np.float32)

    def zeros(self, size: int) -> Matrix:
        return np.zeros(size, np.float32)


def _train_spm(path: Path, **ids: Any) -> list[str]:
    import sentencepiece

    # The trainer writes its progress to the C stderr, past every Python setting.
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    sys.stderr.flush()
    os.dup2(null, 2)
    try:
        with path.open("wb") as out:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(LINES * 3),
                model_writer=out,
                vocab_size=200,
                hard_vocab_limit=False,
                character_coverage=1.0,
                **ids,
            )
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)
    spm = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [spm.id_to_piece(id) for id in range(spm.get_piece_size())]


def _save_transformer(
    dir: Path,
    vocabulary: Sequence[str],
    *,
    from_zero: bool,
) -> Path:
    from ctranslate2.specs import common_spec, transformer_spec

    random = Weights(11)
    spec = transformer_spec.TransformerSpec.from_config(
        LAYERS, HEADS, pre_norm=not from_zero, activation=common_spec.Activation.SWISH
    )
    embeddings = random(len(vocabulary), HIDDEN)
    for side, inputs in (
        (spec.encoder, spec.encoder.embeddings[0]),
        (spec.decoder, spec.decoder.embeddings),
    ):
        inputs.weight = embeddings
        side.scale_embeddings = float(np.sqrt(HIDDEN))
        side.position_encodings.encodings = _sinusoids(512)
        if not from_zero:
            _fill_norm(side.layer_norm, random)
        for layer in side.layer:
            blocks = [layer.self_attention]
            _fill_linear(layer.self_attention.linear[0], random, 3 * HIDDEN, HIDDEN)
            if side is spec.decoder:
                blocks.append(layer.attention)
                _fill_linear(layer.attention.linear[0], random, HIDDEN, HIDDEN)
                _fill_linear(layer.attention.linear[1], random, 2 * HIDDEN, HIDDEN)
            for block in blocks:
                _fill_linear(block.linear[-1], random, HIDDEN, HIDDEN)
                _fill_norm(block.layer_norm, random)
            _fill_linear(layer.ffn.linear_0, random, INNER, HIDDEN)
            _fill_linear(layer.ffn.linear_1, random, HIDDEN, INNER)
            _fill_norm(layer.ffn.layer_norm, random)
    if from_zero:
        spec.decoder.start_from_zero_embedding = True
    # Not the embeddings again, as real models have it: random layers would only repeat a token.
    spec.decoder.projection.weight = random(len(vocabulary), HIDDEN)
    spec.register_source_vocabulary(list(vocabulary))
    spec.register_target_vocabulary(list(vocabulary))
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize(quantization="int8")
    spec.save(str(dir))
    return dir


def _fill_linear(linear: Any, random: Weights, out: int, into: int) -> None:
    linear.weight = random(out, into)
    linear.bias = random.zeros(out)


def _fill_norm(norm: Any, random: Weights) -> None:
    norm.gamma = random.ones(HIDDEN)
    norm.beta = random.zeros(HIDDEN)


def _sinusoids(positions: int) -> Matrix:
    angles = np.arange(positions)[:, None] / 10000 ** (np.arange(HIDDEN // 2) * 2 / HIDDEN)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
