"""Text to token ids and back, for engines that hold the tokenizer themselves.

Owns: the rule that text typed by a user never becomes a control token, the streaming detokeniser,
and the tokens of a forced prefix. Must not know: profiles beyond `Prompt`, any engine, any model
format but ``tokenizer.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from gateway.engines.profiles import Control, Prompt
from gateway.errors import EngineFault

FILE = "tokenizer.json"

Cut = Callable[[str], list[str]]
"""Cuts text into tokens of a vocabulary."""

PARTS = 128
"""Parts of prompts whose ids are kept. Instructions and earlier utterances come again and again,
and the source, once encoded, is counted too; each time costs some 30 us of the event loop."""
PART = 1_000
"""Characters up to which a part is kept."""

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
        controls = {
            id: token.content
            for id, token in tokenizer.get_added_tokens_decoder().items()
            if token.content != unknown and (token.special or _is_tag(token.content))
        }
        self.controls = frozenset(controls)
        """Ids that are never text, neither in a prompt nor in an output."""
        self._cuts = re.compile(
            "|".join(
                f"(?<={re.escape(content[0])})(?={re.escape(content[1:])})"
                for content in controls.values()
                if len(content) > 1
            )
            or r"(?!)"
        )
        self._kept = lru_cache(PARTS)(self._text)  # not of the class: it would keep every one alive

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
        return list(self._kept(text) if len(text) <= PART else self._text(text))

    def _text(self, text: str) -> Sequence[int]:
        ids = self._encode(text)
        if self.controls.isdisjoint(ids):
            return ids
        # Somebody typed a control token. Cut inside it, so that it is read as its letters. What
        # a normaliser still turns into one (full-width brackets, say) is left out.
        pieces = (self._encode(piece) for piece in self._cuts.split(text))
        return [id for piece in pieces for id in piece if id not in self.controls]

    def cut(self, text: str) -> list[str]:
        """The same as `text`, in words of the vocabulary."""
        return [self.token(id) for id in self.text(text)]

    def count(self, text: str) -> int:
        """How many tokens ``text`` takes."""
        return len(self.text(text))

    def encode(self, prompt: Prompt, *, prefix_ids: Sequence[int] = ()) -> list[int]:
        """Ids of a prompt, each part encoded by itself.

        ``prefix_ids`` stand in for the prompt's text prefix, see `forced`. Raises `EngineFault` for
        a control token the vocabulary lacks: the profile is not of this model.
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

    def forced(self, prefix: str, ids: Sequence[int] = ()) -> list[int]:
        """Ids that spell ``prefix``: as many of ``ids`` as begin it, and the rest of it encoded.

        ``ids`` is a hint, an output of the model that begins with ``prefix``: tokens the model has
        chosen itself it also continues as it did, while text encoded again may be split otherwise.
        A token that ends inside a character, or beyond ``prefix``, is left out. What comes back
        decodes to exactly ``prefix``, unless it has what the vocabulary cannot spell. Takes time in
        proportion to ``prefix``: about 0.1 ms for a long sentence.
        """
        spelt: list[int] = []
        for count, rest in _seams(prefix, self._spell(ids)):
            spelt = [*ids[:count], *(self.text(rest) if rest else ())]
            if self._decode(spelt) == prefix:
                break
        return spelt

    def detokenizer(self, prefix_ids: Sequence[int] = ()) -> Detokenizer:
        """A stream that continues after ``prefix_ids`` without repeating them."""
        return Detokenizer(self.tokenizer, prefix_ids)

    def _spell(self, ids: Iterable[int]) -> Iterator[str]:
        """The text that each of ``ids`` completes, up to the first that is no text."""
        stream = self.detokenizer()
        for id in ids:
            if id in self.controls or self.tokenizer.id_to_token(id) is None:
                return
            yield stream.push(id)

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def _decode(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=True)


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


class SentencePieces:
    """The vocabulary of an encoder-decoder model: how text is cut, beside the list of tokens.

    :param source: cuts text of the source language; never makes a control token of it
    :param target: the same for the target language
    :param tokens: the target vocabulary by id
    """

    def __init__(self, source: Cut, target: Cut, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self._ids = {token: id for id, token in enumerate(tokens)}
        self._source = source
        self.target = target

    def encode(self, parts: Sequence[Control | str]) -> list[str]:
        """Tokens of the encoder's input. Raises `EngineFault` for a control token not there."""
        tokens: list[str] = []
        for part in parts:
            if isinstance(part, str):
                tokens += self._source(part)
            elif part.token in self._ids:
                tokens.append(part.token)
            else:
                raise _unknown(part)
        return tokens

    def forced(self, prefix: str, ids: Sequence[int] = ()) -> list[str]:
        """Tokens that spell ``prefix``; see `Vocabulary.forced`."""
        hint = [self.tokens[id] for id in takewhile(range(len(self.tokens)).__contains__, ids)]
        spelt: list[str] = []
        for count, rest in _seams(prefix, map(PieceDetokenizer().push, hint)):
            spelt = [*hint[:count], *(self._go_on(rest) if count else self.target(rest))]
            if "".join(map(PieceDetokenizer().push, spelt)) == prefix:
                break
        return spelt

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Ids of ``tokens``, without those that the vocabulary has not."""
        return [self._ids[token] for token in tokens if token in self._ids]

    def _go_on(self, rest: str) -> list[str]:
        """Tokens of text that stands behind other text; what cuts it takes it for a beginning."""
        if not rest or rest[0].isspace():
            return self.target(rest) if rest else []
        first, *others = self.target(rest) or [""]
        bare = first.removeprefix("▁")
        return others if not bare else [bare if bare in self._ids else first, *others]

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


def _seams(prefix: str, pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Where tokens of a hint may end and others spell the rest, best first: how many, what rest.

    ``pieces`` is the text that each token of the hint completes. The longest run is best, and right
    wherever text is cut alike in every place. Vocabularies that mark words put a mark before any
    text they are given: then it has to be before a word that the hint ends, or with nothing of it.
    """
    ends = [(0, 0)]
    at = 0
    for count, piece in enumerate(pieces, 1):
        if not prefix.startswith(piece, at):
            break
        at += len(piece)
        if piece:
            ends.append((count, at))
    count, at = ends[-1]
    yield count, prefix[at:]
    for count, at in reversed(ends):
        if prefix[at : at + 1].isspace():
            yield count, prefix[at:]
            yield count, prefix[at + 1 :]
            break
    yield 0, prefix


def _unknown(control: Control) -> EngineFault:
    return EngineFault(
        f"The model's vocabulary has no control token {control.token}.",
        hint="Choose the profile that belongs to this model.",
    )


def _is_tag(content: str) -> bool:
    return content.startswith("<") and content.endswith(">")
