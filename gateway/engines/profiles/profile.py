"""What a profile says, and what engines ask of it.

Owns: the keys of a TOML file, and turning a `Job` into a `Prompt`. Must not know: which profiles
there are, any engine, any tokenizer, the clock.

What varies least stands first in a prompt, so that an engine's prefix cache is hit: system,
language pair, topic, glossary, context, source, assistant header, forced prefix. Never an id or a
time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from string import Formatter
from typing import Any, Literal

import msgspec

from gateway.errors import ClientFault, ErrorCode
from gateway.job import Job
from gateway.text import languages

LEAST = 8
"""Tokens that may always follow a forced prefix, however long it is: enough to end a sentence."""

# Control tokens of models at large, broken up in text by every profile beside its own.
_LOOKALIKES = (
    r"<\|[^<>|\s]{1,64}\|?>",  # <|im_start|>, and Gemma's <|turn>
    r"<[^<>|\s]{1,64}\|>",  # Gemma's <turn|>
    r"<｜[^<>｜\s]{1,64}｜>",  # Hunyuan, DeepSeek
    r"</?s>",
    r"<(?:bos|eos|pad|unk|mask)>",
    r"<(?:start|end)_of_turn>",
    r"</?think>",
    r"\[/?INST\]",
    r"<</?SYS>>",
)

# What may stand in braces in a template, and what a part of it may depend on.
_FIELDS = frozenset(
    ("text", "topic", "glossary", "context", "style")
    + ("source", "source_zh", "source_code", "source_tag")
    + ("target", "target_zh", "target_code", "target_tag")
)
_FLAGS = frozenset(("topic", "glossary", "context", "style", "partial", "chinese"))


class Control(msgspec.Struct, frozen=True):
    """A control token such as ``<|im_start|>``: one vocabulary entry, never ordinary text."""

    token: str


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered prompt, in three equivalent forms.

    ``parts``     control tokens and text, in order, the forced prefix last: engines that own the
                  tokenizer encode each part by itself, so that text typed by a user can never
                  become a control token. Empty where only the model's own chat template knows them
    ``messages``  (role, content) for servers that apply the chat template themselves; empty where
                  the profile is not a chat model. A forced prefix is a last ``assistant`` message
    ``text``      ``parts`` as one string, for ``/v1/completions``. All control tokens are in it:
                  the server is to add none (vLLM: ``add_special_tokens: false``)
    ``prefix``    the forced prefix alone
    ``start``     encoder-decoder models: what the decoder begins with, before the prefix. There
                  ``parts`` is what the encoder gets, and holds no prefix

    In ``messages`` and ``text`` whatever looks like a control token is broken up
    (`Profile.neutral`).
    """

    parts: tuple[Control | str, ...]
    messages: tuple[tuple[str, str], ...] = ()
    text: str = ""
    prefix: str = ""
    start: tuple[Control, ...] = ()


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the next token is chosen. Temperature 0 takes the likeliest, whatever ``top_p`` says."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0: off
    repetition_penalty: float = 1.0
    seed: int | None = None


class Output(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Length limit of an output in tokens: ``min(cap, factor * source + extra)``."""

    factor: float = 2.0
    extra: int = 16
    cap: int = 256


class ModelPatterns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which models a profile is for.

    ``names``   regular expressions searched in the path or hub id, whatever the case. Groups named
                ``source`` and ``target`` tell the one pair such a model translates
    ``config``  alternatives, each some keys of ``config.json`` with the values they must have
    """

    names: tuple[str, ...] = ()
    config: tuple[dict[str, Any], ...] = ()


class TemplateBlock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of a template, left out unless all flags in ``when`` hold (``!`` negates one)."""

    text: str
    when: tuple[str, ...] = ()


class ChatTurns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model's chat template: one string for each turn, with ``{}`` for its content.

    ``open`` begins the answer, and the forced prefix stands behind it. A model that thinks unless
    it finds an empty thought finds it there.
    """

    user: str
    open: str
    system: str = ""


class _TemplateField(msgspec.Struct, frozen=True):
    """A place in a template where something of the job is put."""

    name: str


_Piece = Control | str | _TemplateField
_Blocks = tuple[tuple[tuple[str, ...], tuple[_Piece, ...]], ...]
_Values = Mapping[str, Control | str]


class Profile(
    msgspec.Struct, frozen=True, kw_only=True, dict=True, eq=False, forbid_unknown_fields=True
):
    """How one family of models is prompted: the keys of its TOML file, and what engines ask of it.

    ``kind``        ``chat`` has turns; ``raw`` and ``ids`` have none, and no messages. An ``ids``
                    model is to be given token ids, as no server would tokenize its text right
    ``encoder``     an encoder-decoder model; ``start`` is what its decoder begins with
    ``languages``   canonical tags; ``zh`` is Simplified Chinese. ``beta`` ones work less well
    ``pairs``       ``any`` of them into any other, ``english`` on one side, or a list of pairs
    ``codes``       the model's own code of a language, where that is not the tag
    ``tag``         makes a control token of a code
    ``names``       what the model calls a language, where that is not what we call it;
                    ``zh_names`` the same in Chinese, for prompts in Chinese
    ``bos``         control token at the beginning of every prompt
    ``control``     control tokens in the templates
    ``delimiters``  strings in the templates that mark off the source as data
    ``stop``        control tokens that end the output
    ``attempts``    sampling of the first attempt, and of the one after a guard refused its output.
                    They have to differ: greedy decoding would only say the same again
    ``server``      ``chat_template_kwargs`` for servers that apply the chat template
    ``max_input``   tokens that prompt and output may take together
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

    def __post_init__(self) -> None:
        for key in ("beta", "codes", "names", "zh_names"):
            if unknown := set(getattr(self, key)).difference(self.languages):
                raise ValueError(f"`{key}` names {sorted(unknown)}, missing in `languages`")
        for block in self.system + self.template:
            if unknown := {flag.removeprefix("!") for flag in block.when} - _FLAGS:
                raise ValueError(f"`when` has {sorted(unknown)}; it may have {sorted(_FLAGS)}")
            fields = {
                piece.name
                for piece in self._pieces(block.text)
                if isinstance(piece, _TemplateField)
            }
            if unknown := fields - _FIELDS:
                raise ValueError(f"`text` has {sorted(unknown)}; it may have {sorted(_FIELDS)}")

    # --- languages

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The languages it translates from."""
        if isinstance(self.pairs, str):
            return self.languages
        return tuple(dict.fromkeys(source for source, _ in self.pairs))

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The languages it translates into."""
        if isinstance(self.pairs, str):
            return self.languages
        return tuple(dict.fromkeys(target for _, target in self.pairs))

    def supports(self, source: str, target: str) -> bool:
        """Whether it translates from the one into the other; see `resolve`."""
        try:
            self.resolve(source, target)
        except ClientFault:
            return False
        return True

    def resolve(self, source: str, target: str) -> tuple[str, str]:
        """Return the model's languages for two canonical tags: ``de-AT`` is served by ``de``.

        Raises `ClientFault` (``lang_unsupported``, ``pair_unsupported``), its hint saying what
        there is.
        """
        one, other = _serving(source, self.sources), _serving(target, self.targets)
        if isinstance(self.pairs, str):
            able = one != other and (self.pairs == "any" or "en" in (one, other))
            into = [lang for lang in self.targets if lang != one]
            into = ["en"] if self.pairs == "english" and one != "en" else into
        else:
            able = (one, other) in self.pairs
            into = [lang for from_, lang in self.pairs if from_ == one]
        if not able:
            raise ClientFault(
                ErrorCode.PAIR_UNSUPPORTED,
                f"This model does not translate from `{one}` into `{other}`.",
                hint=f"From `{one}` it translates into {', '.join(into)}.",
            )
        return one, other

    def code(self, tag: str) -> str:
        """Return the model's own code of a language. Raises `ClientFault` if it has none."""
        tag = _serving(tag, self.languages)
        return self.codes.get(tag, tag)

    # --- prompts

    def prompt(self, job: Job) -> Prompt:
        """Render ``job``. Raises `ClientFault` for a language the model does not have."""
        flags = {
            "topic": bool(job.topic),
            "glossary": bool(job.glossary),
            "context": bool(job.context),
            "style": bool(job.style),
            "partial": job.partial,
            "chinese": "zh" in (job.source[:2], job.target[:2]),
        }
        known = self._known(job.source, job.target)
        safe = known | self._said(job, self.neutral)
        safe_prefix = self.neutral(job.prefix)
        messages: list[tuple[str, str]] = []
        if self.kind == "chat":
            if self.system or (self.turns and self.turns.system):
                messages.append(("system", _text(_filled(self._system, flags, safe))))
            messages.append(("user", _text(_filled(self._template, flags, safe))))
            if job.prefix:
                messages.append(("assistant", safe_prefix))
            if self.turns is None:
                return Prompt(parts=(), messages=tuple(messages), prefix=job.prefix)
        raw = known | self._said(job, self._undelimited)
        parts = self._framed(flags, raw)
        text = _text(self._framed(flags, safe))
        if job.prefix and not self.encoder:
            parts.append(job.prefix)
            text += safe_prefix
        return Prompt(
            parts=tuple(parts),
            messages=tuple(messages),
            text=text,
            prefix=job.prefix,
            start=tuple(p for p in _filled(self._start, flags, known) if isinstance(p, Control)),
        )

    def neutral(self, text: str) -> str:
        """Return ``text`` with a space inside everything that could be read as a control token.

        For text on its way to a tokenizer that looks for them. ``<|im_end|>`` becomes
        ``< |im_end|>``: a person still reads it, the tokenizer does not. Idempotent.
        """
        return self._lookalike.sub(_broken, text)

    def _undelimited(self, text: str) -> str:
        """``text`` that cannot end the delimiters it stands in."""
        return self._delimiter.sub(_broken, text) if self.delimiters else text

    def _known(self, source: str, target: str) -> dict[str, Control | str]:
        """What a template may say of the languages."""
        values: dict[str, Control | str] = {}
        for side, asked in (("source", source), ("target", target)):
            tag = _serving(asked, self.languages)
            code = self.codes.get(tag, tag)
            values[side] = self.names.get(tag) or languages.name(tag)
            values[f"{side}_zh"] = self.zh_names.get(tag, tag)
            values[f"{side}_code"] = code
            values[f"{side}_tag"] = Control(self.tag.format(code))
        return values

    def _said(self, job: Job, clean: Callable[[str], str]) -> dict[str, Control | str]:
        """What people typed, each piece of it passed through ``clean``."""
        terms = (map(clean, pair) for pair in job.glossary)
        earlier = (map(clean, pair) for pair in job.context)
        return {
            "text": clean(job.text),
            "topic": clean(job.topic),
            "style": clean(job.style or ""),
            "glossary": "\n".join(self.glossary_line.format(*pair) for pair in terms),
            "context": "\n".join(self.context_line.format(*pair) for pair in earlier),
        }

    def _framed(self, flags: Mapping[str, bool], values: _Values) -> list[Control | str]:
        """Everything but the forced prefix, neighbouring texts joined.

        Joined, because tokenizers merge characters across such a seam: the ids have to be those
        that the model's own chat template leads to.
        """
        framed: list[Control | str] = [Control(self.bos)] if self.bos else []
        for piece in self._frame:
            if isinstance(piece, _TemplateField):
                inner = _filled(getattr(self, piece.name), flags, values)
            else:
                inner = iter((piece,))
            for part in inner:
                if isinstance(part, str) and framed and isinstance(framed[-1], str):
                    framed[-1] += part
                else:
                    framed.append(part)
        return framed

    # Templates and patterns, taken apart once.

    @cached_property
    def _frame(self) -> tuple[_Piece, ...]:
        """What stands around the system text and the template: the turns, where there are any."""
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
        """``text`` cut into control tokens, fields, and what is between them."""
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
        return _beginning(map(re.escape, self.delimiters))

    @cached_property
    def _lookalike(self) -> re.Pattern[str]:
        tags = {self.tag.format(self.codes.get(tag, tag)) for tag in self.languages}
        # A tag that is a mere word (NLLB's) cannot be told from text, and goes to no text server.
        own = {tag for tag in tags if not tag[0].isalnum()}
        own |= {self.bos, *self.control, *self.delimiters, *self.stop} - {""}
        return _beginning([*map(re.escape, sorted(own)), *_LOOKALIKES])

    # --- decoding

    def sampling(self, job: Job) -> Sampling:
        """Return how to sample this attempt at ``job``."""
        return self.attempts[min(job.attempt, len(self.attempts)) - 1]

    def max_tokens(self, source_tokens: int, prefix_tokens: int = 0) -> int:
        """Return the most tokens to be generated for a source of ``source_tokens``.

        A forced prefix of ``prefix_tokens`` is part of the output, but for `LEAST` tokens.
        """
        rule = self.output
        most = min(rule.cap, int(rule.factor * source_tokens) + rule.extra)
        return max(most - prefix_tokens, min(LEAST, most))


def _serving(tag: str, among: tuple[str, ...]) -> str:
    """The language that serves ``tag``. Raises `ClientFault`."""
    found = languages.match(tag, among)
    if found is None:
        raise ClientFault(
            ErrorCode.LANG_UNSUPPORTED,
            f"This model does not have the language `{tag}`.",
            hint=f"It has {', '.join(among)}.",
        )
    return found


def _filled(blocks: _Blocks, flags: Mapping[str, bool], values: _Values) -> Iterator[Control | str]:
    for when, pieces in blocks:
        if all(flags[flag.lstrip("!")] is not flag.startswith("!") for flag in when):
            for piece in pieces:
                yield values[piece.name] if isinstance(piece, _TemplateField) else piece


def _text(parts: Iterable[Control | str]) -> str:
    return "".join(part.token if isinstance(part, Control) else part for part in parts)


def _beginning(patterns: Iterable[str]) -> re.Pattern[str]:
    """Finds the first character of every occurrence, of those that overlap too."""
    return re.compile(f"(?=(?:{'|'.join(patterns)})).", re.DOTALL)


def _broken(found: re.Match[str]) -> str:
    return f"{found[0]} "
