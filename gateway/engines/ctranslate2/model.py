"""Model directories on disk, made into something that decodes jobs together, token by token.

Owns: which layouts are known, how each wants its input, and the calls into CTranslate2. Must not
know: event loops, threads, streams. Everything here blocks.

    config.json with LlamaForCausalLM, *.safetensors, tokenizer.json    Hugging Face: is converted
    model.bin of a decoder, tokenizer.json                              the same, converted
    model.bin of an encoder-decoder, source.spm, target.spm             OPUS-MT
    model.bin of an encoder-decoder, sentencepiece.bpe.model            NLLB-200
    model.bin of an encoder-decoder, tokenizer.json                     NLLB-200
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from gateway.engines.base import model_files
from gateway.engines.base.tokenizer import SentencePieces, Vocabulary, sentencepiece
from gateway.engines.profiles import Profile
from gateway.errors import EngineFault, ErrorCode, GatewayError, JobFault
from gateway.job import Job

LOOP = 4
"""A second attempt may not repeat this many tokens in a row: a loop is what most first attempts
are rejected for, and sampling alone can fall into it again."""

KNOWN = (
    "Known are: a Hugging Face directory of a Llama model (config.json, *.safetensors,"
    " tokenizer.json); a CTranslate2 directory (model.bin) with a tokenizer.json for decoders,"
    " source.spm and target.spm for OPUS-MT, and either sentencepiece.bpe.model or tokenizer.json"
    " for NLLB. Other models are made into one by ct2-transformers-converter --model NAME"
    " --output_dir DIR --quantization int8."
)


class DecodeSink(Protocol):
    """A job, and where its output goes. Called in the threads of CTranslate2.

    Neither it nor the callback around it may hold the model: CTranslate2 drops them in one of the
    model's threads, a little after the result is there, and a model freed there ends the process.
    """

    @property
    def job(self) -> Job: ...

    def step(self, text: str, ids: Sequence[int]) -> bool:
        """Take the text that a token completed (often none), and its id. True: this job is to stop.

        The ids of the forced prefix come with the first; a control token has none.
        """

    def end(self, rest: str = "", fault: GatewayError | None = None) -> None:
        """Take what was withheld until the end, or why there is nothing more."""


class TranslationModel(Protocol):
    """A loaded model. Thread-safe; freed with its last reference."""

    def decode(self, sinks: Sequence[DecodeSink], profile: Profile) -> None:
        """Translate together. Returns with the longest; each sink is told its own end at once.

        A job that this model cannot be given ends with a fault and is not in the others' way.
        What may share a batch is up to the caller: the sampling is that of the first.
        """


def load(path: Path, cache: Path, options: Mapping[str, Any]) -> TranslationModel:
    """The model in ``path``, converted into ``cache`` where that is needed.

    ``options`` are CTranslate2's own (``compute_type``, ``inter_threads``, ...). Raises
    `EngineFault` with a sentence that says what was found and what is known.
    """
    try:
        import ctranslate2
    except ImportError as exc:
        raise EngineFault(
            "The package ctranslate2 is not installed.", hint="pip install ctranslate2"
        ) from exc

    if (path / "model.bin").is_file():
        kind = _kind(path / "model.bin")
    elif (path / "config.json").is_file():
        path = model_files.converted(path, cache)
        kind = "TransformerDecoderSpec"
    else:
        raise EngineFault(f"There is no model in {path}.", hint=KNOWN)
    try:
        match kind:
            case "TransformerDecoderSpec":
                vocabulary = Vocabulary.load(path)
                return DecoderModel(ctranslate2.Generator(str(path), **options), vocabulary)
            case "TransformerSpec":
                translator = ctranslate2.Translator(str(path), **options)
                config = json.loads((path / "config.json").read_bytes())
                return EncoderDecoderModel(translator, _pieces(path), config)
    except (RuntimeError, ValueError) as exc:
        raise EngineFault(f"CTranslate2 could not load {path}: {exc}") from exc
    raise EngineFault(f"{path} holds a {kind}, which is no translation model.", hint=KNOWN)


class DecodeJob:
    """One job of a batch: the tokens that go in, and what becomes of those that come out.

    :param limit: how many may come; CTranslate2 knows only the largest limit of the batch
    :param push: makes text of a token
    :param flush: the text withheld at the end
    :param prefix: ids of the forced prefix
    :param start: for an encoder-decoder, what its output begins with
    """

    def __init__(
        self,
        sink: DecodeSink,
        tokens: list[str],
        limit: int,
        prefix: Sequence[int],
        push: Callable[[Any], str],
        flush: Callable[[], str] = str,
        start: Sequence[str] = (),
    ) -> None:
        self.sink = sink
        self.tokens = tokens
        self.limit = limit
        self.start = list(start)
        self._left = limit
        self._ids = list(prefix)  # that the sink has not got yet
        self._push = push
        self._flush = flush

    # Coverage does not see the threads that call this.
    def take(self, token: Any, *ids: int, last: bool) -> bool:  # pragma: no cover
        """One token of the output. True stops this job, and no other of the batch."""
        self._left -= 1
        stop = self.sink.step(self._push(token), [*self._ids, *ids]) or last or not self._left
        self._ids.clear()
        if stop:
            self.end()
        return stop

    def end(self) -> None:  # pragma: no cover
        self.sink.end(self._flush())


class DecoderModel:
    """A decoder-only model. The profile writes the prompt, the forced prefix is its end."""

    def __init__(self, generator: Any, vocabulary: Vocabulary) -> None:
        self._generator = generator
        self._vocabulary = vocabulary

    def decode(self, sinks: Sequence[DecodeSink], profile: Profile) -> None:
        runs = _runs(self._run, sinks, profile)
        if not runs:
            return
        ids = (self._vocabulary.control(token) for token in profile.stop)
        stop = {id for id in ids if id is not None}
        controls = self._vocabulary.controls

        def callback(result: Any) -> bool:  # pragma: no cover
            run: DecodeJob = runs[result.batch_id]
            if (id := result.token_id) not in stop:
                return run.take(id, *(() if id in controls else (id,)), last=result.is_last)
            run.end()
            return True

        self._generator.generate_batch(
            [run.tokens for run in runs],
            include_prompt_in_result=False,
            end_token=list(stop) or None,
            max_length=max(run.limit for run in runs),
            callback=callback,
            **_sampling(profile, runs[0].sink.job),
        )

    def _run(self, sink: DecodeSink, profile: Profile) -> DecodeJob:
        job, vocabulary = sink.job, self._vocabulary
        prompt = profile.prompt(job)
        if not prompt.parts:
            raise EngineFault(
                f"The profile {profile.name} leaves the prompt to a server's chat template.",
                hint="Choose the profile that belongs to this model.",
            )
        prefix = vocabulary.forced(prompt.prefix, job.prefix_ids)
        ids = vocabulary.encode(prompt, prefix_ids=prefix)
        limit = _limit(profile, vocabulary.count(job.text), len(ids), len(prefix))
        text = vocabulary.detokenizer(prefix)
        tokens = [vocabulary.token(id) for id in ids]
        return DecodeJob(sink, tokens, limit, prefix, text.push, text.flush)


class EncoderDecoderModel:
    """A sequence-to-sequence model. The forced prefix goes where decoding starts."""

    def __init__(self, translator: Any, pieces: SentencePieces, config: Mapping[str, Any]) -> None:
        self._translator = translator
        self._pieces = pieces
        self._end = config.get("eos_token", "</s>")
        self._adds_end = config.get("add_source_eos", False)

    def decode(self, sinks: Sequence[DecodeSink], profile: Profile) -> None:
        runs, end = _runs(self._run, sinks, profile), self._end
        if not runs:
            return

        def callback(result: Any) -> bool:  # pragma: no cover
            run: DecodeJob = runs[result.batch_id]
            if result.step < len(run.start):  # the forced tokens are reported too
                return False
            if result.token != end:
                return run.take(result.token, result.token_id, last=result.is_last)
            run.end()
            return True

        self._translator.translate_batch(
            [run.tokens for run in runs],
            target_prefix=[run.start for run in runs],
            beam_size=1,  # with more, nothing is reported before the end
            max_input_length=0,  # 1024 by default, and the rest would be cut off silently
            max_decoding_length=max(len(run.start) + run.limit for run in runs),
            disable_unk=True,
            callback=callback,
            **_sampling(profile, runs[0].sink.job),
        )

    def _run(self, sink: DecodeSink, profile: Profile) -> DecodeJob:
        job, pieces = sink.job, self._pieces
        prompt = profile.prompt(job)
        source = pieces.encode(prompt.parts)
        if source[-1:] == [self._end]:
            source.pop()
        prefix = pieces.forced(prompt.prefix, job.prefix_ids)
        start = [*pieces.encode(prompt.start), *prefix]
        limit = _limit(profile, len(source), len(source), len(prefix))
        if not self._adds_end:  # what Marian's own converter has the model do, others leave to us
            source.append(self._end)
        push = pieces.detokenizer(prefix).push
        return DecodeJob(sink, source, limit, pieces.ids(prefix), push, start=start)


def _runs(
    make: Callable[[DecodeSink, Profile], DecodeJob], sinks: Sequence[DecodeSink], profile: Profile
) -> list[DecodeJob]:
    """What the model can be given; the rest are told why not."""
    runs = []
    for sink in sinks:
        try:
            runs.append(make(sink, profile))
        except GatewayError as fault:
            sink.end(fault=fault)
    return runs


def _limit(profile: Profile, source: int, prompt: int, prefix: int) -> int:
    """How many tokens may come, given the tokens of source, whole prompt and forced prefix."""
    room = profile.max_input - prompt
    if room < 1:
        raise JobFault(
            f"The text takes {prompt} tokens and the model has room for {profile.max_input}.",
            ErrorCode.TOO_LONG,
            hint="Send it sentence by sentence.",
        )
    return min(room, profile.max_tokens(source, prefix))


def _sampling(profile: Profile, job: Job) -> dict[str, Any]:
    """CTranslate2's options. Its random numbers have one seed per process, so ours is unused."""
    sampling = profile.sampling(job)
    greedy = sampling.temperature <= 0
    return {
        "sampling_topk": 1 if greedy else sampling.top_k,
        "sampling_topp": 1.0 if greedy else sampling.top_p,
        "sampling_temperature": 1.0 if greedy else sampling.temperature,
        "repetition_penalty": sampling.repetition_penalty,
        "no_repeat_ngram_size": LOOP if job.attempt > 1 else 0,
    }


def _kind(path: Path) -> str:
    """Name of the specification in the head of a ``model.bin``: version, length, name."""
    with path.open("rb") as file:
        head = file.read(128)
    length = int.from_bytes(head[4:6], "little")
    return head[6 : 6 + length].rstrip(b"\0").decode("ascii", "replace")


def _pieces(path: Path) -> SentencePieces:
    both, pair = path / "sentencepiece.bpe.model", (path / "source.spm", path / "target.spm")
    if all(file.is_file() for file in pair):
        source, target = map(sentencepiece, pair)
    elif both.is_file():
        source = target = sentencepiece(both)
    elif (path / "tokenizer.json").is_file():
        source = target = Vocabulary.load(path).cut
    else:
        raise EngineFault(
            f"{path} holds an encoder-decoder model without its tokenizer.",
            hint="Copy source.spm and target.spm, or sentencepiece.bpe.model, or tokenizer.json"
            " from the model that it was converted from.",
        )
    return SentencePieces(source, target, _tokens(path))


def _tokens(path: Path) -> list[str]:
    """The target vocabulary of a model that CTranslate2 has loaded, so it is there."""
    for name in ("target_vocabulary", "shared_vocabulary"):
        if (path / f"{name}.json").is_file():
            return list(json.loads((path / f"{name}.json").read_bytes()))
    # Before CTranslate2 3.17 it was text.
    return (path / "shared_vocabulary.txt").read_text("utf-8").split("\n")
