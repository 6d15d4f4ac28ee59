"""The network: Llama as Hugging Face lays it out, in as much of PyTorch as training needs.

Owns: parameters under Llama's names, the forward pass over packed rows, and a cached one for
decoding. Must not know: data, optimisers, files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

THETA = 10_000.0
EPSILON = 1e-5
POSITIONS = 512


@dataclass(frozen=True, slots=True)
class Shape:
    vocabulary: int = 16_384
    width: int = 512
    layers: int = 11
    heads: int = 8
    inner: int = 1408

    @property
    def head(self) -> int:
        return self.width // self.heads

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Shape:
        """Return the shape that `config` was written for."""
        return cls(
            config["vocab_size"],
            config["hidden_size"],
            config["num_hidden_layers"],
            config["num_attention_heads"],
            config["intermediate_size"],
        )

    def config(self) -> dict[str, Any]:
        """Return Hugging Face's ``config.json``."""
        return {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.heads,
            "head_dim": self.head,
            "hidden_act": "silu",
            "max_position_embeddings": POSITIONS,
            "rms_norm_eps": EPSILON,
            "rope_theta": THETA,
            "tie_word_embeddings": True,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 0,
            "attention_bias": False,
            "mlp_bias": False,
            "dtype": "float16",
        }


class Linear(nn.Linear):
    """A matrix whose rows, and whose inputs, can be rounded to 8 bits while it is trained.

    That is how it will be used: CTranslate2 multiplies int8 by int8, with a scale for each row of
    either. The gradient passes as if nothing were rounded.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.rounded = False

    def forward(self, x: Tensor) -> Tensor:
        if self.rounded:
            return F.linear(rounded(x), rounded(self.weight).to(x.dtype))
        return F.linear(x, self.weight.to(x.dtype))


def rounded(x: Tensor) -> Tensor:
    """Return ``x`` on the grid of 255 steps that its last dimension has in int8."""
    scale = x.detach().abs().amax(-1, keepdim=True).float().clamp(min=1e-8) / 127
    grid = (x.detach().float() / scale).round() * scale
    return x + (grid.to(x.dtype) - x.detach())


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.head = shape.heads, shape.head
        self.q_proj = Linear(shape.width, shape.width)
        self.k_proj = Linear(shape.width, shape.width)
        self.v_proj = Linear(shape.width, shape.width)
        self.o_proj = Linear(shape.width, shape.width)

    def qkv(self, x: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        size, length, _ = x.shape
        q, k, v = (
            part(x).view(size, length, self.heads, self.head).transpose(1, 2)
            for part in (self.q_proj, self.k_proj, self.v_proj)
        )
        return turned(q, cosine, sine), turned(k, cosine, sine), v

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor, mask: BlockMask | Tensor) -> Tensor:
        q, k, v = self.qkv(x, cosine, sine)
        if isinstance(mask, Tensor):
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            y = flex_attention(q, k, v, block_mask=mask)  # type: ignore[assignment]
        return self.o_proj(y.transpose(1, 2).reshape(x.shape))


class Inner(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = Linear(shape.width, shape.inner)
        self.up_proj = Linear(shape.width, shape.inner)
        self.down_proj = Linear(shape.inner, shape.width)

    def forward(self, x: Tensor, dropout: float = 0.0) -> Tensor:
        y = F.silu(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(F.dropout(y, dropout, self.training))


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(shape.width, EPSILON)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = nn.RMSNorm(shape.width, EPSILON)
        self.mlp = Inner(shape)


class Trunk(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, EPSILON)


class Llama(nn.Module):
    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape, self.dropout = shape, dropout
        self.model = Trunk(shape)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                last = name.endswith(("o_proj.weight", "down_proj.weight"))
                deviation = 0.02 / ((2 * shape.layers) ** 0.5 if last else 1)
                nn.init.normal_(weight, std=deviation)
        cosine, sine = rotations(shape.head)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)

    def forward(self, tokens: Tensor, positions: Tensor, mask: BlockMask | Tensor) -> Tensor:
        """Return the last hidden state of packed rows, shape (rows, length, width)."""
        cosine, sine = self._turns(positions)
        x = self._embedded(tokens)
        for layer in self.model.layers:
            y = layer.self_attn(layer.input_layernorm(x), cosine, sine, mask)
            x = x + F.dropout(y, self.dropout, self.training)
            y = layer.mlp(layer.post_attention_layernorm(x), self.dropout)
            x = x + F.dropout(y, self.dropout, self.training)
        return self.model.norm(x)

    def cached(self, tokens: Tensor, start: int, cache: list[Tensor]) -> Tensor:
        """Return the last hidden state of ``tokens``, which begin at ``start``: (examples, width).

        They are a whole prompt at 0, and one token an example after it. ``cache`` has keys and
        values of every layer, (2, examples, heads, room, head).
        """
        length = tokens.shape[1]
        end = start + length
        positions = torch.arange(start, end, device=tokens.device)[None]
        cosine, sine = self._turns(positions)
        x = self._embedded(tokens)
        for layer, kept in zip(self.model.layers, cache, strict=True):
            q, k, v = layer.self_attn.qkv(layer.input_layernorm(x), cosine, sine)
            kept[0, :, :, start:end], kept[1, :, :, start:end] = k, v
            y = F.scaled_dot_product_attention(
                q, kept[0, :, :, :end], kept[1, :, :, :end], is_causal=length > 1
            )
            x = x + layer.self_attn.o_proj(y.transpose(1, 2).reshape(x.shape))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return self.model.norm(x[:, -1])

    def logits(self, hidden: Tensor) -> Tensor:
        weight = self.model.embed_tokens.weight
        if self.model.layers[0].mlp.up_proj.rounded:
            hidden, weight = rounded(hidden), rounded(weight)
        return F.linear(hidden, weight.to(hidden.dtype))

    def round(self, on: bool) -> None:
        """Train with 8 bits, see `Linear`."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.rounded = on

    def _embedded(self, tokens: Tensor) -> Tensor:
        x = F.embedding(tokens, self.model.embed_tokens.weight)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return F.dropout(x, self.dropout, self.training)

    def _turns(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.cosine[positions][:, None], self.sine[positions][:, None]


def rotations(head: int) -> tuple[Tensor, Tensor]:
    """Return rotary positions, with halves of the head turned as in Hugging Face's Llama."""
    frequencies = THETA ** -(torch.arange(0, head, 2).float() / head)
    angles = torch.outer(torch.arange(POSITIONS).float(), frequencies).repeat(1, 2)
    return angles.cos(), angles.sin()


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    other = torch.cat((-second, first), -1)
    return (x * cosine + other * sine).to(x.dtype)


def apart(examples: Tensor, *, blocks: bool) -> BlockMask | Tensor:
    """Return the mask under which a token sees the earlier ones of its own example."""
    rows, length = examples.shape
    if not blocks:
        causal = torch.ones(length, length, dtype=torch.bool, device=examples.device).tril()
        return ((examples[:, :, None] == examples[:, None]) & causal)[:, None]

    def seen(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (examples[row, query] == examples[row, key])

    return create_block_mask(seen, rows, None, length, length, device=str(examples.device))
