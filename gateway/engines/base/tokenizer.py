"""Tokenizers and streaming detokenisers, for engines that tokenise in this process.

Owns: the rule that text typed by a user never becomes a control token, the streaming detokenisers,
the tokens of a forced prefix and of a draft, and the limit of an output. Must not know: any engine,
any model format except ``tokenizer.json``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from gateway.engines.profiles import Control, Profile, Prompt
from gateway.errors import EngineFault, ErrorCode, JobFault
from gateway.job import Job

FILE = "tokenizer.json"

_TAG = re.compile(r"<.*>\Z", re.DOTALL)

Tokenise = Callable[[str], list[str]]
"""A function that splits text into tokens of a vocabulary."""

CACHE_SIZE = 128
"""Parts of prompts whose ids are cached. Instructions and earlier utterances are in many prompts,
and the source is encoded and then counted. Each of these costs some 30 us of the event loop."""
CACHE_LONGEST = 1_000
"""Characters of the longest part that is cached."""

CONTEXT = 8
"""Ids before the withheld ones that `Detokenizer.flush` decodes again. The leading space of a token
depends on whether a token precedes it, and nothing depends on more."""


class Vocabulary:
    """A tokenizer that keeps control tokens and text apart. It changes the settings of the given
    one: special tokens in text are read as text.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer
        unknown = getattr(tokenizer.model, "unk_token", None)
        # `encode_special_tokens` covers entries that are marked special. It misses two kinds: tags
        # added as ordinary tokens (Qwen3's `<think>`), and `</s>` in Unigram models, which is a
        # piece like any other. `_encode_text` finds both in the ids.
        controls = {
            id: token.content
            for id, token in tokenizer.get_added_tokens_decoder().items()
            if token.content != unknown and (token.special or _TAG.match(token.content))
        }
        self.controls = frozenset(controls)
        """Ids that are never text, neither in a prompt nor in an output."""
        self._control_breaks = re.compile(
            "|".join(
                f"(?<={re.escape(content[0])})(?={re.escape(content[1:])})"
                for content in controls.values()
                if len(content) > 1
            )
            or r"(?!)"
        )
        # A cache of this object: one of the class would keep every vocabulary alive.
        self._cached_ids = lru_cache(CACHE_SIZE)(self._encode_text)

    @classmethod
    def load(cls, model: Path) -> Vocabulary:
        """Read ``tokenizer.json`` of a model directory. Blocks. Raises `EngineFault`."""
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
        """Return the id of a control token, or None if this vocabulary has no such entry."""
        return self.tokenizer.token_to_id(token)

    def token(self, id: int) -> str:
        """Return the token of an id. Raises `EngineFault` if the vocabulary has no such id."""
        token = self.tokenizer.id_to_token(id)
        if token is None:
            raise EngineFault(f"The model's vocabulary has no token {id}.")
        return token

    def text(self, text: str) -> list[int]:
        """Return the ids of ``text``. None of them is a control token, whatever the text says."""
        return list(
            self._cached_ids(text) if len(text) <= CACHE_LONGEST else self._encode_text(text)
        )

    def _encode_text(self, text: str) -> Sequence[int]:
        ids = self._encode(text)
        if self.controls.isdisjoint(ids):
            return ids
        # The text contains a control token. It is split inside it, so that it is read as letters.
        # Text that a normaliser still turns into one (full-width brackets) is left out.
        pieces = (self._encode(piece) for piece in self._control_breaks.split(text))
        return [id for piece in pieces for id in piece if id not in self.controls]

    def cut(self, text: str) -> list[str]:
        """Return the tokens of `text` as strings."""
        return [self.token(id) for id in self.text(text)]

    def count(self, text: str) -> int:
        """Return the number of tokens of ``text``."""
        return len(self.text(text))

    def encode(self, prompt: Prompt, *, prefix_ids: Sequence[int] = ()) -> list[int]:
        """Return the ids of a prompt. Each part is encoded by itself.

        :param prefix_ids: ids of the prompt's forced prefix, see `forced`

        Raises `EngineFault` if the vocabulary lacks a control token of the prompt, because the
        profile belongs to another model.
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
                    raise _missing_control(part)
                ids.append(id)
            else:
                ids += self.text(part)
        ids += prefix_ids
        return ids

    def forced(self, prefix: str, ids: Sequence[int] = ()) -> list[int]:
        """Return ids that decode to ``prefix``: the first of ``ids``, and the rest of it encoded.

        A model continues the tokens that it has chosen itself as it did before, while text that is
        encoded again may be split otherwise. A token that ends inside a character, or after
        ``prefix``, is left out. The result decodes to exactly ``prefix``, unless the vocabulary
        cannot spell it. Takes about 0.1 ms for a long sentence, in proportion to its length.

        :param ids: a hint: ids of an output of the model that begins with ``prefix``
        """
        spelling: list[int] = []
        for count, rest in _hint_ends(prefix, self._spell(ids)):
            spelling = [*ids[:count], *(self.text(rest) if rest else ())]
            if self._decode(spelling) == prefix:
                break
        return spelling

    def draft(self, job: Job, prefix_ids: Sequence[int]) -> list[int]:
        """Return the ids of a job's draft, which follow the ids of its forced prefix."""
        # There are none in a second attempt, nor if the prefix has other ids with the draft.
        if not job.draft or job.attempt > 1:
            return []
        whole = self.forced(job.prefix + job.draft, job.prefix_ids)
        return whole[len(prefix_ids) :] if whole[: len(prefix_ids)] == prefix_ids else []

    def detokenizer(self, prefix_ids: Sequence[int] = ()) -> Detokenizer:
        """Return a detokeniser of an output that continues ``prefix_ids``."""
        return Detokenizer(self.tokenizer, prefix_ids)

    def _spell(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield the text that each of ``ids`` completes, up to the first id that is no text."""
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
    """A streaming detokeniser that returns text as soon as later ids cannot change it, so whole
    characters.

    :param prefix_ids: ids before the output. Vocabularies that mark words instead of spaces need
        them for the space between a forced prefix and its continuation
    """

    def __init__(self, tokenizer: Tokenizer, prefix_ids: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(ids=list(prefix_ids), skip_special_tokens=True)
        self._prefix = list(prefix_ids)[-CONTEXT:]
        self._held: list[int] = []

    def push(self, id: int) -> str:
        """Add one id, and return the text that it completes, often none."""
        text = self._stream.step(self._tokenizer, id)
        if text is None:
            self._held.append(id)
            return ""
        self._prefix = [*self._prefix, *self._held, id][-CONTEXT:]
        self._held.clear()
        return text

    def flush(self) -> str:
        """Return the text withheld at the end of the output: a broken character, as U+FFFD."""
        if not self._held:
            return ""
        before = self._decode(self._prefix)
        text = self._decode([*self._prefix, *self._held])[len(before) :]
        self._held.clear()
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)


class SentencePieces:
    """The vocabulary of an encoder-decoder model: ``source`` and ``target`` split text, never into
    control tokens, and ``tokens`` is the target vocabulary by id.
    """

    def __init__(self, source: Tokenise, target: Tokenise, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self._ids = {token: id for id, token in enumerate(tokens)}
        self._source = source
        self.target = target

    def encode(self, parts: Sequence[Control | str]) -> list[str]:
        """Return the tokens of the encoder's input.

        Raises `EngineFault` if the vocabulary lacks a control token.
        """
        tokens: list[str] = []
        for part in parts:
            if isinstance(part, str):
                tokens += self._source(part)
            elif part.token in self._ids:
                tokens.append(part.token)
            else:
                raise _missing_control(part)
        return tokens

    def forced(self, prefix: str, ids: Sequence[int] = ()) -> list[str]:
        """Return tokens that spell ``prefix``, as `Vocabulary.forced` does."""
        hint = [self.tokens[id] for id in takewhile(range(len(self.tokens)).__contains__, ids)]
        spelling: list[str] = []
        for count, rest in _hint_ends(prefix, map(PieceDetokenizer().push, hint)):
            spelling = [*hint[:count], *(self._continue(rest) if count else self.target(rest))]
            if "".join(map(PieceDetokenizer().push, spelling)) == prefix:
                break
        return spelling

    def ids(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of the ``tokens`` that the vocabulary has."""
        return [self._ids[token] for token in tokens if token in self._ids]

    def _continue(self, rest: str) -> list[str]:
        """Return the tokens of text that follows other text."""
        if not rest or rest[0].isspace():
            return self.target(rest) if rest else []
        # The splitting function takes every text for a beginning, and marks it with a space.
        first, *others = self.target(rest) or [""]
        bare = first.removeprefix("▁")
        return others if not bare else [bare if bare in self._ids else first, *others]

    def detokenizer(self, prefix: Sequence[str] = ()) -> PieceDetokenizer:
        """Return a detokeniser of an output that continues ``prefix``."""
        return PieceDetokenizer(begun=bool(prefix))


def sentencepiece(path: Path) -> Tokenise:
    """Return a function that splits text, also ``</s>``, with a SentencePiece model. Blocks. Raises
    `EngineFault` if the file is no such model.
    """
    from sentencepiece import SentencePieceProcessor

    try:
        model = SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as exc:
        raise EngineFault(f"{path} is no SentencePiece model: {exc}") from exc
    return lambda text: list(model.encode(text, out_type=str))


class PieceDetokenizer:
    """A streaming detokeniser of pieces, which are whole characters; ``▁`` stands for a space. The
    leading space of the output counts if it has ``begun``: text precedes it.
    """

    def __init__(self, begun: bool = False) -> None:
        self._begun = begun

    def push(self, token: str) -> str:
        """Add one token, and return its text, which is final."""
        text = token.replace("▁", " ")
        if not self._begun:
            text = text.lstrip(" ")
            self._begun = bool(text)
        return text

    def flush(self) -> str:
        """Return no text, because `push` withholds none."""
        return ""


def _hint_ends(prefix: str, pieces: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield ways to spell ``prefix``, best first: number of hint tokens, and the text after them.

    The longest run of the hint is best. But vocabularies that mark words put a mark before any text
    that they get, so that the hint has to end before a word, or none of it can be taken.

    :param pieces: text that each token of the hint completes
    """
    ends = [(0, 0)]
    at = 0
    for count, piece in enumerate(pieces, 1):
        if not prefix.startswith(piece, at):
            break
        at += len(piece)
        if piece:  # else the token ends inside a character
            ends.append((count, at))
    count, at = ends[-1]
    yield count, prefix[at:]
    for count, at in reversed(ends):
        if prefix[at : at + 1].isspace():
            yield count, prefix[at:]
            yield count, prefix[at + 1 :]
            break
    yield 0, prefix


def output_limit(profile: Profile, source: int, prompt: int, prefix: int, context: int) -> int:
    """Return the most tokens of an output, for so many tokens of source, prompt and forced prefix,
    where prompt and output may take ``context`` together. Raises `JobFault` without room.
    """
    if prompt >= context:
        raise JobFault(
            f"The text takes {prompt} tokens and the model has room for {context}.",
            ErrorCode.TOO_LONG,
            hint="Send it sentence by sentence.",
        )
    return max(1, min(context - prompt, profile.max_tokens(source, prefix)))


def _missing_control(control: Control) -> EngineFault:
    return EngineFault(
        f"The model's vocabulary has no control token {control.token}.",
        hint="Choose the profile that belongs to this model.",
    )
