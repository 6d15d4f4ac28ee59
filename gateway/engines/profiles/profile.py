"""One model profile: its keys, its languages, and the prompts it makes.

Owns: the keys of a TOML file, and turning a `Job` into a `Prompt`. Must not know: which profiles
exist, any engine, any tokenizer, the clock.

In a prompt the parts that vary least stand first, so that the prefix cache of an engine is used:
system, language pair, topic, glossary, context, source, assistant header, forced prefix. A prompt
never contains an id or a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from string import Formatter
from typing import Any, Literal

import msgspec

from gateway.engines.profiles.doubt import Doubt
from gateway.engines.profiles.pairs import find_language, find_pair
from gateway.errors import ClientFault
from gateway.job import Job
from gateway.text import languages

MIN_CONTINUATION = 8
"""Tokens that may always follow a forced prefix of any length: enough to end a sentence."""

# Control tokens of common models. Every profile escapes them in text, beside its own.
_LOOKALIKES = (
    r"<\|[^<>|\s]{1,64}\|?>",  # <|im_start|>, and Gemma's <|turn>
    r"<[^<>|\s]{1,64}\|>",  # Gemma's <turn|>
    r"<｜[^<>｜\s]{1,64}｜>",  # Hunyuan, DeepSeek
    r"<(?:/?s|/?think|bos|eos|pad|unk|mask|(?:start|end)_of_turn)>",
    r"\[/?INST\]|<</?SYS>>",
)

# Names that may stand in braces in a template, and flags on which a block of it may depend.
_FIELDS = frozenset(
    "text topic glossary context style source source_zh source_code source_tag target target_zh"
    " target_code target_tag".split()
)
_JOB_FLAGS = ("topic", "glossary", "context", "style", "partial")
_FLAGS = frozenset((*_JOB_FLAGS, "chinese"))


class Control(msgspec.Struct, frozen=True):
    """A control token such as ``<|im_start|>``: one vocabulary entry, never ordinary text."""

    token: str


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt in three equivalent forms.

    ``parts``     control tokens and text, in order, the forced prefix last. Engines with a
                  tokenizer encode each part by itself, so that text typed by a user never becomes a
                  control token. Empty if only the model's own chat template knows the tokens
    ``messages``  (role, content) for servers that apply the chat template; empty if the model is no
                  chat model. A forced prefix is a last ``assistant`` message
    ``text``      ``parts`` as one string, for ``/v1/completions``. It has all control tokens, so
                  the server must not add any (vLLM: ``add_special_tokens: false``)
    ``prefix``    the forced prefix alone
    ``start``     for encoder-decoder models, the control tokens with which the decoder begins,
                  before the prefix. For them ``parts`` is the encoder's input, without the prefix

    In ``messages`` and ``text`` everything that looks like a control token is escaped
    (`Profile.escape_controls`).
    """

    parts: tuple[Control | str, ...]
    messages: tuple[tuple[str, str], ...] = ()
    text: str = ""
    prefix: str = ""
    start: tuple[Control, ...] = ()


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sampling parameters. Temperature 0 takes the likeliest token, whatever ``top_p`` is."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0: off
    repetition_penalty: float = 1.0
    seed: int | None = None

    @property
    def greedy(self) -> bool:
        """True if each token of the output is the most probable one."""
        return self.temperature <= 0 and self.repetition_penalty == 1


class Output(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Length limit of an output in tokens: ``min(cap, factor * source + extra)``."""

    factor: float = 2.0
    extra: int = 16
    cap: int = 256


class ModelPatterns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The models that a profile is for.

    ``names``   regular expressions searched in the path or hub id, ignoring case. Groups named
                ``source`` and ``target`` are the one language pair of such a model
    ``config``  alternatives, each with keys of ``config.json`` and the values they must have
    """

    names: tuple[str, ...] = ()
    config: tuple[dict[str, Any], ...] = ()


class TemplateBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a template, which is used if all flags in ``when`` hold (``!`` negates one)."""

    text: str
    when: tuple[str, ...] = ()


class ChatTurns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model's chat template: one string for each turn, with ``{}`` for its content.

    ``open`` begins the answer, and the forced prefix follows it. For a model that thinks unless its
    answer begins with an empty thought, ``open`` has that thought.
    """

    user: str
    open: str
    system: str = ""


class _TemplateField(msgspec.Struct, frozen=True):
    """A place in a template that is filled with a value of the job."""

    name: str


_Piece = Control | str | _TemplateField
_Blocks = tuple[tuple[tuple[str, ...], tuple[_Piece, ...]], ...]
_Values = Mapping[str, Control | str]


class Profile(
    msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False, forbid_unknown_fields=True
):
    """The prompt format, languages and sampling of one family of models, from its TOML file.

    ``kind``        ``chat`` models have turns; ``raw`` and ``ids`` models have neither turns nor
                    messages. An ``ids`` model needs token ids, because no server tokenises its text
                    correctly
    ``encoder``     whether it is an encoder-decoder model; its decoder begins with ``start``
    ``languages``   canonical tags; ``zh`` is Simplified Chinese. ``beta`` ones work less well
    ``pairs``       ``any``: each language into each other; ``english``: English on one side; or a
                    list of pairs
    ``codes``       the model's own codes of languages, if they are not the tags
    ``tag``         format of the control token of a code
    ``names``       the model's names of languages, if they are not those of the gateway;
                    ``zh_names`` the same in Chinese, for prompts in Chinese
    ``bos``         control token at the beginning of every prompt
    ``control``     control tokens in the templates
    ``delimiters``  strings in the templates that delimit the source as data
    ``stop``        control tokens that end the output
    ``attempts``    sampling of the first attempt, and of the one after a guard rejected its output.
                    They have to differ, because greedy decoding would repeat the same output
    ``server``      ``chat_template_kwargs`` for servers that apply the chat template
    ``max_input``   tokens that prompt and output may take together
    ``beam``        hypotheses of a decoder's search (`Job.search`); 1: greedy decoding
    ``unwritten``   marks that the model must not write, unless the source has them
    ``unsure``      how sure the model is of its outputs, see `Doubt`
    """

    name: str
    kind: Literal["ids", "chat", "raw"]
    title: str = ""
    licence: str = ""
    licence_url: str = ""
    licence_note: str = ""
    models: ModelPatterns = ModelPatterns()
    encoder: bool = False
    start: str = ""
    languages: tuple[str, ...] = ()
    beta: tuple[str, ...] = ()
    pairs: Literal["any", "english"] | tuple[tuple[str, str], ...] = "any"
    codes: dict[str, str] = {}
    tag: str = "{}"
    names: dict[str, str] = {}
    zh_names: dict[str, str] = {}
    bos: str = ""
    control: tuple[str, ...] = ()
    delimiters: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    system: tuple[TemplateBlock, ...] = ()
    template: tuple[TemplateBlock, ...] = (TemplateBlock("{text}"),)
    turns: ChatTurns | None = None
    glossary_line: str = "{} = {}"
    context_line: str = "{}\n{}"
    attempts: tuple[Sampling, ...] = (Sampling(), Sampling(temperature=0.3, top_p=0.9, seed=2))
    output: Output = Output()
    server: dict[str, bool] = {}
    max_input: int = 512
    beam: int = 1
    unwritten: tuple[str, ...] = ()
    unsure: Doubt | None = None

    def __post_init__(self) -> None:
        for key in ("beta", "codes", "names", "zh_names"):
            if unknown := set(getattr(self, key)).difference(self.languages):
                raise ValueError(f"`{key}` names {sorted(unknown)}, missing in `languages`")
        for block in self.system + self.template:
            if unknown := {flag.removeprefix("!") for flag in block.when} - _FLAGS:
                raise ValueError(f"`when` has {sorted(unknown)}; it may have {sorted(_FLAGS)}")
            pieces = self._pieces(block.text)
            fields = {piece.name for piece in pieces if isinstance(piece, _TemplateField)}
            if unknown := fields - _FIELDS:
                raise ValueError(f"`text` has {sorted(unknown)}; it may have {sorted(_FIELDS)}")

    # Languages

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Languages that the model translates from."""
        if isinstance(self.pairs, str):
            return self.languages
        return tuple(dict.fromkeys(source for source, _ in self.pairs))

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """Languages that the model translates into."""
        if isinstance(self.pairs, str):
            return self.languages
        return tuple(dict.fromkeys(target for _, target in self.pairs))

    def supports(self, source: str, target: str) -> bool:
        """Tell whether the model translates from ``source`` into ``target``."""
        try:
            self.resolve(source, target)
        except ClientFault:
            return False
        return True

    @property
    def glossary(self) -> bool:
        """True if the prompt has a place for the terms of a glossary."""
        return any("{glossary}" in block.text for block in self.system + self.template)

    @property
    def pivot(self) -> None:
        """A single model has no pivot, see `gateway.engines.wrappers.routed`."""
        return None

    def pivots(self, source: str, target: str) -> bool:
        """Return False: a single model translates every pair that it has directly."""
        return False

    def resolve(self, source: str, target: str) -> tuple[str, str]:
        """Return the model's languages for two canonical tags: ``de`` for ``de-AT``. Raises
        `ClientFault` (``lang_unsupported``, ``pair_unsupported``) with what is possible.
        """
        return find_pair(source, target, self, self._translates, "model")

    def _translates(self, source: str, target: str) -> bool:
        if isinstance(self.pairs, str):
            return source != target and (self.pairs == "any" or "en" in (source, target))
        return (source, target) in self.pairs

    # Prompts

    def prompt(self, job: Job) -> Prompt:
        """Render ``job``. Raises `ClientFault` for a language the model does not have."""
        flags = {name: bool(getattr(job, name)) for name in _JOB_FLAGS}
        flags["chinese"] = "zh" in (job.source[:2], job.target[:2])
        known = self._language_values(job.source, job.target)
        safe = known | self._user_values(job, self.escape_controls)
        safe_prefix = self.escape_controls(job.prefix)
        messages: list[tuple[str, str]] = []
        if self.kind == "chat":
            if self.system or (self.turns and self.turns.system):
                messages.append(("system", _join(_fill(self._system, flags, safe))))
            messages.append(("user", _join(_fill(self._template, flags, safe))))
            if job.prefix:
                messages.append(("assistant", safe_prefix))
            # Only the server knows the tokens around the turns of this model.
            if self.turns is None:
                return Prompt(parts=(), messages=tuple(messages), prefix=job.prefix)
        raw = known | self._user_values(job, self._escape_delimiters)
        parts = self._render_parts(flags, raw)
        text = _join(self._render_parts(flags, safe))
        if job.prefix and not self.encoder:
            parts.append(job.prefix)
            text += safe_prefix
        return Prompt(
            parts=tuple(parts),
            messages=tuple(messages),
            text=text,
            prefix=job.prefix,
            start=tuple(p for p in _fill(self._start, flags, known) if isinstance(p, Control)),
        )

    def escape_controls(self, text: str) -> str:
        """Return ``text`` with a space inside everything that could be read as a control token.

        For text that goes to a tokenizer which looks for control tokens. ``<|im_end|>`` becomes
        ``< |im_end|>``, which only people still read as the same. Idempotent.
        """
        return self._lookalike.sub(_insert_space, text)

    def _escape_delimiters(self, text: str) -> str:
        """Return ``text`` with a space inside every delimiter, so that it cannot end its own."""
        return self._delimiter.sub(_insert_space, text) if self.delimiters else text

    def _language_values(self, source: str, target: str) -> dict[str, Control | str]:
        """Return the values of template fields for the languages."""
        values: dict[str, Control | str] = {}
        for side, asked in (("source", source), ("target", target)):
            tag = find_language(asked, self.languages)
            code = self.codes.get(tag, tag)
            values[side] = self.names.get(tag) or languages.name(tag)
            values[f"{side}_zh"] = self.zh_names.get(tag, tag)
            values[f"{side}_code"] = code
            values[f"{side}_tag"] = Control(self.tag.format(code))
        return values

    def _user_values(self, job: Job, clean: Callable[[str], str]) -> dict[str, Control | str]:
        """Return the values of template fields that users typed, passed through ``clean``."""
        terms = (map(clean, pair) for pair in job.glossary)
        earlier = (map(clean, pair) for pair in job.context)
        return {
            "text": clean(job.text),
            "topic": clean(job.topic),
            "style": clean(job.style or ""),
            "glossary": "\n".join(self.glossary_line.format(*pair) for pair in terms),
            "context": "\n".join(self.context_line.format(*pair) for pair in earlier),
        }

    def _render_parts(self, flags: Mapping[str, bool], values: _Values) -> list[Control | str]:
        """Return the parts of a prompt without the forced prefix, with adjacent texts joined."""
        framed: list[Control | str] = [Control(self.bos)] if self.bos else []
        for piece in self._frame:
            if isinstance(piece, _TemplateField):
                inner = _fill(getattr(self, piece.name), flags, values)
            else:
                inner = iter((piece,))
            for part in inner:
                # Tokenizers merge characters of adjacent texts. Joined texts give the same ids as
                # the model's own chat template.
                if isinstance(part, str) and framed and isinstance(framed[-1], str):
                    framed[-1] += part
                else:
                    framed.append(part)
        return framed

    # Templates and patterns, parsed once

    @cached_property
    def _frame(self) -> tuple[_Piece, ...]:
        """Parts around the system text and the template: the turns, if the model has any."""
        if self.turns is None:
            return (_TemplateField("_template"),)
        system, user = self.turns.system, self.turns.user
        frame = self._pieces(system.replace("{}", "{_system}"))
        frame += self._pieces(user.replace("{}", "{_template}"))
        return frame + self._pieces(self.turns.open)

    @cached_property
    def _system(self) -> _Blocks:
        return tuple((block.when, self._pieces(block.text)) for block in self.system)

    @cached_property
    def _template(self) -> _Blocks:
        return tuple((block.when, self._pieces(block.text)) for block in self.template)

    @cached_property
    def _start(self) -> _Blocks:
        return (((), self._pieces(self.start)),)

    def _pieces(self, text: str) -> tuple[_Piece, ...]:
        """Split ``text`` into control tokens, fields, and the text between them."""
        pieces: list[_Piece] = []
        tokens = "|".join(map(re.escape, self.control)) or r"(?!)"
        for literal, field, _, _ in Formatter().parse(text):
            for index, piece in enumerate(re.split(f"({tokens})", literal)):
                if piece:
                    pieces.append(Control(piece) if index % 2 else piece)
            if field is not None:
                pieces.append(_TemplateField(field))
        return tuple(pieces)

    @cached_property
    def _delimiter(self) -> re.Pattern[str]:
        return _pattern_of_starts(map(re.escape, self.delimiters))

    @cached_property
    def _lookalike(self) -> re.Pattern[str]:
        tags = {self.tag.format(self.codes.get(tag, tag)) for tag in self.languages}
        # A tag that is a word (NLLB's) cannot be told from text. Such models get ids, not text.
        own = {tag for tag in tags if not tag[0].isalnum()}
        own |= {self.bos, *self.control, *self.delimiters, *self.stop} - {""}
        return _pattern_of_starts([*map(re.escape, sorted(own)), *_LOOKALIKES])

    # Decoding

    def sampling(self, job: Job) -> Sampling:
        """Return the sampling parameters for this attempt at ``job``."""
        return self.attempts[min(job.attempt, len(self.attempts)) - 1]

    def max_tokens(self, source_tokens: int, prefix_tokens: int = 0) -> int:
        """Return the most tokens to generate, for the tokens of a source and of a forced prefix."""
        rule = self.output
        most = min(rule.cap, int(rule.factor * source_tokens) + rule.extra)
        # A forced prefix counts as output, but a few tokens may always follow to end the sentence.
        return max(most - prefix_tokens, min(MIN_CONTINUATION, most))


def _fill(blocks: _Blocks, flags: Mapping[str, bool], values: _Values) -> Iterator[Control | str]:
    """Yield the pieces of the ``blocks`` whose flags hold, with ``values`` for their fields."""
    for when, pieces in blocks:
        if all(flags[flag.lstrip("!")] is not flag.startswith("!") for flag in when):
            for piece in pieces:
                yield values[piece.name] if isinstance(piece, _TemplateField) else piece


def _join(parts: Iterable[Control | str]) -> str:
    """Return parts as one string, with control tokens as text."""
    return "".join(part.token if isinstance(part, Control) else part for part in parts)


def _pattern_of_starts(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds the first character of every match, also of overlapping ones."""
    return re.compile(f"(?=(?:{'|'.join(patterns)})).", re.DOTALL)


def _insert_space(match: re.Match[str]) -> str:
    """Return the matched character with a space after it."""
    return f"{match[0]} "
