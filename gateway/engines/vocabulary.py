"""Text to token ids and back, for engines that hold the tokenizer themselves.

Owns: the rule that text typed by a user never becomes a control token, and the streaming
detokeniser. Must not know: profiles beyond `Prompt`, any engine, any model format but
``tokenizer.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from gateway.errors import EngineFault
from gateway.profiles import Control, Prompt

FILE = "tokenizer.json"

Cut = Callable[[str], list[str]]
"""Cuts text into tokens of a vocabulary."""

CONTEXT = 8
"""Ids before the withheld ones that are decoded again by `Detokenizer.flush`.

The leading space of a token depends on whether something precedes it; nothing depends on more.
"""


class Vocabulary:
    """A tokenizer that keeps control tokens and text apart.

    Takes the tokenizer over: it changes settings of the object (no truncation, no padding,
    special tokens in text read as text), so give it one that nobody else uses.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        unknown = getattr(tokenizer.model, "unk_token", None)
        # `encode_special_tokens` covers entries marked special. Two kinds get past it: tags added
        # as ordinary tokens (Qwen3's `<think>`), and Unigram models, which hold `</s>` as a piece
        # like any other. Both are found again in the output, see `text`.
        self._controls = {
            id: token.content
            for id, token in tokenizer.get_added_tokens_decoder().items()
            if token.content != unknown and (token.special or _is_tag(token.content))
        }
        self._cuts = re.compile(
            "|".join(
                f"(?<={re.escape(content[0])})(?={re.escape(content[1:])})"
                for content in self._controls.values()
                if len(content) > 1
            )
            or r"(?!)"
        )

    @classmethod
    def load(cls, model: Path) -> Vocabulary:
        """Read ``tokenizer.json`` of a model directory. Raises `EngineFault`. Blocks."""
        path = model / FILE
        if not path.is_file():
            raise EngineFault(
                f"There is no {FILE} in {model}.",
                hint="Copy it from the model's Hugging Face repository.",
            )
        try:
            return cls(Tokenizer.from_file(str(path)))
        except Exception as exc:  # the Rust side raises bare Exception
            raise EngineFault(f"The tokenizer {path} could not be read: {exc}.") from exc

    def control(self, token: str) -> int | None:
        """Id of a control token, or None if this vocabulary has no such entry."""
        return self.tokenizer.token_to_id(token)

    def token(self, id: int) -> str:
        """The entry of an id. Raises `EngineFault` for an id there is none of."""
        token = self.tokenizer.id_to_token(id)
        if token is None:
            raise EngineFault(f"The model's vocabulary has no token {id}.")
        return token

    def text(self, text: str) -> list[int]:
        """Ids of ``text``, none of which is a control token, whatever the text says."""
        ids = self._encode(text)
        if self._controls.keys().isdisjoint(ids):
            return ids
        # Somebody typed a control token. Cut inside it, so that it is read as its letters. What
        # a normaliser still turns into one (full-width brackets, say) is left out.
        pieces = (self._encode(piece) for piece in self._cuts.split(text))
        return [id for piece in pieces for id in piece if id not in self._controls]

    def cut(self, text: str) -> list[str]:
        """The same as `text`, in words of the vocabulary."""
        return [self.token(id) for id in self.text(text)]

    def count(self, text: str) -> int:
        """How many tokens ``text`` takes."""
        return len(self.text(text))

    def encode(self, prompt: Prompt, *, prefix_ids: Sequence[int] = ()) -> list[int]:
        """Ids of a prompt, each part encoded by itself.

        ``prefix_ids`` stand in for the prompt's text prefix: ids the model itself produced are
        exact, text encoded again may be split otherwise. Raises `EngineFault` for a control
        token the vocabulary lacks: the profile is not of this model.
        """
        parts = prompt.parts
        if prefix_ids and prompt.prefix:
            assert parts[-1] == prompt.prefix, "the forced prefix is the last part of a prompt"
            parts = parts[:-1]
        ids: list[int] = []
        for part in parts:
            if isinstance(part, Control):
                id = self.control(part.token)
                if id is None:
                    raise _unknown(part)
                ids.append(id)
            else:
                ids += self.text(part)
        ids += prefix_ids
        return ids

    def detokenizer(self, prefix_ids: Sequence[int] = ()) -> Detokenizer:
        """A stream that continues after ``prefix_ids`` without repeating them."""
        return Detokenizer(self.tokenizer, prefix_ids)

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids


class Detokenizer:
    """Ids in, text out, only as far as later ids cannot change it.

    A character split over several byte-level tokens is withheld until it is whole. Priming with
    the ids of a forced prefix makes the space between prefix and continuation come out right in
    vocabularies that mark words instead of spaces (SentencePiece).
    """

    def __init__(self, tokenizer: Tokenizer, prefix_ids: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(ids=list(prefix_ids), skip_special_tokens=True)
        self._prefix = list(prefix_ids)[-CONTEXT:]
        self._held: list[int] = []

    def push(self, id: int) -> str:
        """Add one id; returns the text that became final by it, often empty."""
        text = self._stream.step(self._tokenizer, id)
        if text is None:
            self._held.append(id)
            return ""
        self._prefix = [*self._prefix, *self._held, id][-CONTEXT:]
        self._held.clear()
        return text

    def flush(self) -> str:
        """What was still withheld when the output ended: a broken character, as U+FFFD."""
        if not self._held:
            return ""
        before = self._decode(self._prefix)
        text = self._decode([*self._prefix, *self._held])[len(before) :]
        self._held.clear()
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)


class Pieces:
    """The vocabulary of an encoder-decoder model: how text is cut, beside the list of tokens.

    :param source: cuts text of the source language; never makes a control token of it
    :param target: the same for the target language
    :param tokens: the target vocabulary by id
    """

    def __init__(self, source: Cut, target: Cut, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self._known = frozenset(tokens)
        self._source = source
        self.target = target

    def encode(self, parts: Sequence[Control | str]) -> list[str]:
        """Tokens of the encoder's input. Raises `EngineFault` for a control token not there."""
        tokens: list[str] = []
        for part in parts:
            if isinstance(part, str):
                tokens += self._source(part)
            elif part.token in self._known:
                tokens.append(part.token)
            else:
                raise _unknown(part)
        return tokens

    def detokenizer(self, prefix: Sequence[str] = ()) -> PieceDetokenizer:
        """A stream that continues after ``prefix`` without repeating it."""
        return PieceDetokenizer(begun=bool(prefix))


def sentencepiece(path: Path) -> Cut:
    """Cut text with a SentencePiece model, which reads ``</s>`` in text as text. Blocks.

    Raises `EngineFault` for a file that is not such a model.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        model = SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as exc:
        raise EngineFault(f"{path} is no SentencePiece model: {exc}") from exc
    return lambda text: list(model.encode(text, out_type=str))


class PieceDetokenizer:
    """Tokens in, text out. Each piece is whole characters; ``▁`` stands for a space before it."""

    def __init__(self, begun: bool = False) -> None:
        self._begun = begun

    def push(self, token: str) -> str:
        """Add one token; returns its text, which is final."""
        text = token.replace("▁", " ")
        if not self._begun:
            text = text.lstrip(" ")
            self._begun = bool(text)
        return text


def _unknown(control: Control) -> EngineFault:
    return EngineFault(
        f"The model's vocabulary has no control token {control.token}.",
        hint="Choose the profile that belongs to this model.",
    )


def _is_tag(content: str) -> bool:
    return content.startswith("<") and content.endswith(">")
