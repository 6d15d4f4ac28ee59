"""CTranslate2 models: reading model directories, and decoding batches of jobs token by token.

Owns: the known layouts of directories, the input that each kind of model needs, and the calls of
CTranslate2. Must not know: event loops, threads, streams, what becomes of a token
(`gateway.engines.ctranslate2.decode_job`). Everything here blocks.

    config.json with LlamaForCausalLM, *.safetensors, tokenizer.json    Hugging Face: is converted
    model.bin of a decoder, tokenizer.json                              the same, converted
    model.bin of an encoder-decoder, source.spm, target.spm             OPUS-MT
    model.bin of an encoder-decoder, sentencepiece.bpe.model            NLLB-200
    model.bin of an encoder-decoder, tokenizer.json                     NLLB-200
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gateway.engines.base import model_files
from gateway.engines.base.tokenizer import SentencePieces, Vocabulary, output_limit, sentencepiece
from gateway.engines.ctranslate2.decode_job import DecodeJob, DecodeSink
from gateway.engines.guards.measures import count_words
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, GatewayError
from gateway.job import Job

NO_REPEAT_NGRAM = 4
"""Tokens in a row that a second attempt may not repeat. Most first attempts are rejected because of
a loop, and sampling alone can produce the loop again."""

CHECKED_SCORES = 2**25
"""Most scores that a check computes, one for each token of the input and of the vocabulary. They
take four bytes each."""

KNOWN_LAYOUTS = (
    "Known are: a Hugging Face directory of a Llama model (config.json, *.safetensors,"
    " tokenizer.json); a CTranslate2 directory (model.bin) with a tokenizer.json for decoders,"
    " source.spm and target.spm for OPUS-MT, and either sentencepiece.bpe.model or tokenizer.json"
    " for NLLB. Other models are made into one by ct2-transformers-converter --model NAME"
    " --output_dir DIR --quantization int8."
)


class TranslationModel(Protocol):
    """A loaded model. Thread-safe; freed with its last reference."""

    def decode(self, sinks: Sequence[DecodeSink], profile: Profile, beam: int = 1) -> None:
        """Translate the jobs of ``sinks`` as one batch, and return at the end of the longest.

        Each sink receives its own end at once, but that of a beam search, which a sink cannot stop
        either. A job that this model cannot translate ends in a fault and does not affect the
        others. The caller decides which jobs share a batch: all are sampled like the first one.

        :param beam: hypotheses of a beam search; 1: greedy decoding, or sampling
        """


def load(path: Path, cache: Path, options: Mapping[str, Any]) -> TranslationModel:
    """Return the model in ``path``, after converting it into ``cache`` if it needs that.

    :param options: arguments of CTranslate2 (``compute_type``, ``inter_threads``, ...)

    Raises `EngineFault`, with what was found and the known layouts, if there is no such model.
    """
    try:
        import ctranslate2
    except ImportError as exc:
        missing = "The package ctranslate2 is not installed."
        raise EngineFault(missing, hint="pip install ctranslate2") from exc

    if (path / "model.bin").is_file():
        kind = _spec_name(path / "model.bin")
    elif (path / "config.json").is_file():
        path = model_files.converted(path, cache)
        kind = "TransformerDecoderSpec"
    else:
        raise EngineFault(f"There is no model in {path}.", hint=KNOWN_LAYOUTS)
    try:
        match kind:
            case "TransformerDecoderSpec":
                vocabulary = Vocabulary.load(path)
                return DecoderModel(ctranslate2.Generator(str(path), **options), vocabulary)
            case "TransformerSpec":
                translator = ctranslate2.Translator(str(path), **options)
                config = json.loads((path / "config.json").read_bytes())
                return EncoderDecoderModel(translator, _load_pieces(path), config)
    except (RuntimeError, ValueError) as exc:
        raise EngineFault(f"CTranslate2 could not load {path}: {exc}") from exc
    what = f"{path} contains a {kind}, which is no translation model."
    raise EngineFault(what, hint=KNOWN_LAYOUTS)


class DecoderModel:
    """A decoder-only model. Its input is the prompt of the profile, which ends in the prefix."""

    def __init__(self, generator: Any, vocabulary: Vocabulary) -> None:
        self._generator = generator
        self._vocabulary = vocabulary
        self._width = vocabulary.tokenizer.get_vocab_size()

    def decode(self, sinks: Sequence[DecodeSink], profile: Profile, beam: int = 1) -> None:
        batch = _prepare_all(self._prepare, sinks, profile)
        ids = (self._vocabulary.control(token) for token in profile.stop)
        stop = {id for id in ids if id is not None}
        controls = self._vocabulary.controls
        scored = any(entry.doubt is not None for entry in batch)

        def take(entry: DecodeJob, id: int, *, last: bool = False) -> bool:
            """Pass on one token; return whether this job of the batch is to stop."""
            # The id of a control token is left out, since it cannot be forced as text later.
            if id not in stop:
                return entry.on_token(id, *(() if id in controls else (id,)), last=last)
            entry.end()
            return True

        def callback(result: Any) -> bool:  # pragma: no cover
            entry: DecodeJob = batch[result.batch_id]
            if scored:
                entry.add_log_prob(result.log_prob)
            return take(entry, result.token_id, last=result.is_last)

        if beam == 1 and self._checks(batch):
            batch = [entry for entry, id in self._check(batch) if id is None or not take(entry, id)]
        if not batch:
            return
        generate = partial(
            self._generator.generate_batch,
            [entry.tokens for entry in batch],
            include_prompt_in_result=False,
            end_token=list(stop) or None,
            max_length=max(entry.left for entry in batch),
            suppress_sequences=self._unwritten(batch, profile),
        )
        if beam == 1:
            sampling = _sampling(profile, batch[0].sink.job)
            generate(return_scores=scored, callback=callback, **sampling)
            return
        results = generate(beam_size=beam, return_end_token=True)
        made = zip(batch, results, strict=True)
        self._pass_on([(each, result.sequences_ids[0][: each.left]) for each, result in made], stop)

    def _pass_on(self, outputs: Sequence[tuple[DecodeJob, list[int]]], stop: Set[int]) -> None:
        """Pass on the outputs of a beam search, after a judgement of how sure the model is."""
        # CTranslate2 does not say how probable the tokens of a beam search are.
        judged = [(entry, ids) for entry, ids in outputs if entry.doubt is not None]
        inputs = [entry.tokens + list(map(self._vocabulary.token, ids)) for entry, ids in judged]
        for (entry, ids), score in zip(judged, self._generator.score_batch(inputs), strict=True):
            entry.add_log_prob(*score.log_probs[-len(ids) :])
        controls = self._vocabulary.controls
        for entry, ids in outputs:
            text = [id for id in ids if id not in controls]
            entry.add_whole(text, ended=not stop.isdisjoint(ids))

    def _unwritten(self, batch: Sequence[DecodeJob], profile: Profile) -> list[list[str]] | None:
        """Return the tokens of the marks that no output of the batch may have."""
        marks = profile.unwritten
        if any(mark in entry.sink.job.text for entry in batch for mark in marks):
            return None
        cut = self._vocabulary.cut
        return [cut(text) for mark in marks for text in (mark, f" {mark}")] or None

    def _checks(self, batch: Sequence[DecodeJob]) -> bool:
        """Tell whether to check the drafts of a batch before it is decoded."""
        read = sum(len(entry.tokens) + len(entry.draft) for entry in batch if entry.draft)
        return 0 < read * self._width <= CHECKED_SCORES

    def _check(self, batch: Sequence[DecodeJob]) -> Iterator[tuple[DecodeJob, int | None]]:
        """Check the drafts, and yield the jobs that go on, each with its next token if known."""
        drafted = [entry for entry in batch if entry.draft]
        token = self._vocabulary.token
        inputs = [entry.tokens + [token(id) for id in entry.draft] for entry in drafted]
        logits = self._generator.forward_batch(inputs)
        wide = type(logits.dtype).float32  # numpy has no bfloat16
        logits = np.asarray(logits if logits.dtype == wide else logits.to(wide))
        scores = dict(zip(drafted, logits, strict=True))
        for entry in batch:
            if (rows := scores.get(entry)) is None:
                yield entry, None
                continue
            at = len(entry.tokens)
            rows = rows[at - 1 : at + len(entry.draft)]
            count, following = accepted(rows, entry.draft, entry.sink.job.draft_bias)
            # The scores of some models have more columns than the vocabulary has tokens.
            ids = entry.draft[:count] + [following] * (following < self._width)
            if entry.doubt is not None:
                entry.add_log_prob(*log_probs(rows, ids))
            entry.tokens += map(token, ids)
            if not entry.accept(count):
                yield entry, following if len(ids) > count else None

    def _prepare(self, sink: DecodeSink, profile: Profile) -> DecodeJob:
        job, vocabulary = sink.job, self._vocabulary
        prompt = profile.prompt(job)
        if not prompt.parts:
            what = f"The profile {profile.name} leaves the prompt to a server's chat template."
            raise EngineFault(what, hint="Choose the profile that belongs to this model.")
        prefix = vocabulary.forced(prompt.prefix, job.prefix_ids)
        ids = vocabulary.encode(prompt, prefix_ids=prefix)
        source = vocabulary.count(job.text)
        limit = output_limit(profile, source, len(ids), len(prefix), profile.max_input)
        text = vocabulary.detokenizer(prefix)
        tokens = [vocabulary.token(id) for id in ids]
        draft = vocabulary.draft(job, prefix) if profile.sampling(job).greedy else []
        # A partial is replaced by the next one, and a second attempt is sampled.
        doubt = None if job.partial or job.attempt > 1 else profile.unsure
        direction = ""
        if doubt is not None and count_words(job.text) > 1:
            direction = "-".join(profile.resolve(job.source, job.target))
        return DecodeJob(
            sink, tokens, limit, prefix, text, draft=draft, doubt=doubt, direction=direction
        )


class EncoderDecoderModel:
    """A sequence-to-sequence model. The forced prefix is the beginning of the decoder's output.

    Drafts are ignored: CTranslate2 goes through a given beginning token by token, so that a checked
    one would save nothing.
    """

    def __init__(self, translator: Any, pieces: SentencePieces, config: Mapping[str, Any]) -> None:
        self._translator = translator
        self._pieces = pieces
        self._end = config.get("eos_token", "</s>")
        self._adds_end = config.get("add_source_eos", False)

    def decode(self, sinks: Sequence[DecodeSink], profile: Profile, beam: int = 1) -> None:
        batch, end = _prepare_all(self._prepare, sinks, profile), self._end
        if not batch:
            return

        def callback(result: Any) -> bool:  # pragma: no cover
            entry: DecodeJob = batch[result.batch_id]
            if result.step < len(entry.start):  # CTranslate2 reports the forced tokens as well
                return False
            if result.token != end:
                return entry.on_token(result.token, result.token_id, last=result.is_last)
            entry.end()
            return True

        self._translator.translate_batch(
            [entry.tokens for entry in batch],
            target_prefix=[entry.start for entry in batch],
            beam_size=1,  # with more, nothing is reported before the end
            max_input_length=0,  # no limit; the default of 1024 cuts the rest off silently
            max_decoding_length=max(len(entry.start) + entry.left for entry in batch),
            disable_unk=True,
            callback=callback,
            **_sampling(profile, batch[0].sink.job),
        )

    def _prepare(self, sink: DecodeSink, profile: Profile) -> DecodeJob:
        job, pieces = sink.job, self._pieces
        prompt = profile.prompt(job)
        source = pieces.encode(prompt.parts)
        if source[-1:] == [self._end]:
            source.pop()
        prefix = pieces.forced(prompt.prefix, job.prefix_ids)
        start = [*pieces.encode(prompt.start), *prefix]
        size = len(source)
        limit = output_limit(profile, size, size, len(prefix), profile.max_input)
        # CTranslate2 adds the end token for models of Marian's converter, but not for others.
        if not self._adds_end:
            source.append(self._end)
        text = pieces.detokenizer(prefix)
        return DecodeJob(sink, source, limit, pieces.ids(prefix), text, start=start)


def _prepare_all(
    make: Callable[[DecodeSink, Profile], DecodeJob], sinks: Sequence[DecodeSink], profile: Profile
) -> list[DecodeJob]:
    """Return the jobs that the model can translate. The sinks of all others get a fault."""
    batch = []
    for sink in sinks:
        try:
            batch.append(make(sink, profile))
        except GatewayError as fault:
            sink.end(fault=fault)
    return batch


def _sampling(profile: Profile, job: Job) -> dict[str, Any]:
    """Return CTranslate2's sampling options, without a seed: CTranslate2 has one per process."""
    sampling = profile.sampling(job)
    greedy = sampling.temperature <= 0
    return {
        "sampling_topk": 1 if greedy else sampling.top_k,
        "sampling_topp": 1.0 if greedy else sampling.top_p,
        "sampling_temperature": 1.0 if greedy else sampling.temperature,
        "repetition_penalty": sampling.repetition_penalty,
        "no_repeat_ngram_size": NO_REPEAT_NGRAM if job.attempt > 1 else 0,
    }


def _spec_name(path: Path) -> str:
    """Return the name of the specification in a ``model.bin``."""
    # The head of the file has a version, the length of the name, and the name.
    with path.open("rb") as file:
        head = file.read(128)
    length = int.from_bytes(head[4:6], "little")
    return head[6 : 6 + length].rstrip(b"\0").decode("ascii", "replace")


def _load_pieces(path: Path) -> SentencePieces:
    """Read the tokenizer of an encoder-decoder model. Raises `EngineFault` if there is none."""
    both, pair = path / "sentencepiece.bpe.model", (path / "source.spm", path / "target.spm")
    if all(file.is_file() for file in pair):
        source, target = map(sentencepiece, pair)
    elif both.is_file():
        source = target = sentencepiece(both)
    elif (path / "tokenizer.json").is_file():
        source = target = Vocabulary.load(path).cut
    else:
        raise EngineFault(
            f"{path} contains an encoder-decoder model without its tokenizer.",
            hint="Copy source.spm and target.spm, or sentencepiece.bpe.model, or tokenizer.json"
            " from the model that it was converted from.",
        )
    return SentencePieces(source, target, _tokens(path))


def _tokens(path: Path) -> list[str]:
    """Return the target vocabulary of a model that CTranslate2 has loaded."""
    for name in ("target_vocabulary", "shared_vocabulary"):
        if (path / f"{name}.json").is_file():
            return list(json.loads((path / f"{name}.json").read_bytes()))
    # Models of CTranslate2 before 3.17 have a text file.
    return (path / "shared_vocabulary.txt").read_text("utf-8").split("\n")


def accepted(scores: Any, draft: Sequence[int], bias: float = 0.0) -> tuple[int, int]:
    """Return how many tokens of ``draft`` are accepted, and the token that follows these.

    A token is accepted if it is the most probable one, or less probable than that by at most
    ``bias``. With a bias of 0, accepted and following tokens are those of greedy decoding. This is
    speculative decoding with greedy choice (Leviathan et al. 2023, arXiv:2211.17192), with the last
    translation as the draft and a bias towards it (arXiv:2509.21740).

    :param scores: logits of shape (tokens of the draft + 1, vocabulary); row ``n`` is of the token
        that follows ``n`` tokens of the draft
    """
    best = scores.argmax(axis=-1)
    same = best[:-1] == np.asarray(draft, dtype=best.dtype)
    if bias and not same.all():
        rows = np.exp(_log_softmax(scores[:-1]))
        same |= rows[np.arange(len(draft)), list(draft)] + bias >= rows.max(axis=-1)
    count = len(draft) if same.all() else int(same.argmin())
    return count, int(best[count])


def log_probs(scores: Any, ids: Sequence[int]) -> list[float]:
    """Return the log probability of each of ``ids``.

    :param scores: logits as in `accepted`, with at least one row for each of ``ids``
    """
    rows = _log_softmax(scores[: len(ids)])
    return [float(row[id]) for row, id in zip(rows, ids, strict=True)]


def _log_softmax(scores: Any) -> Any:
    rows = scores.astype(np.float64)
    rows -= rows.max(axis=-1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=-1, keepdims=True))
