"""Whisper in this process, in CTranslate2 and in threads of its own.

Owns: features, encoder, decoder and word times of one short window of speech, the life of the
model, the threads, and the end of jobs that nobody waits for any more. Must not know: speakers.

faster-whisper loads the model and brings tokenizer and features. Its own `transcribe` is made for
files: it pads every window to 30 s, and decodes again the rest that a window has left over. The
threads run at a lower priority than translation where the system can do that (Linux).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from gateway.engines.base.engine import log_ids
from gateway.engines.base.service import Health
from gateway.engines.recognition.base import (
    LONGEST,
    NEEDS_PACKAGE,
    BaseRecogniser,
    duration,
    placed,
)
from gateway.errors import ClientFault, EngineFault, EngineGone, ErrorCode, JobFault, redacted
from gateway.io.tasks import yield_to_others
from gateway.job import SAMPLE_RATE, Recognised, RecognitionJob, Word
from gateway.text import languages

logger = logging.getLogger(__name__)


_FRAME_RATE = 100
"""Feature frames in a second."""
_CONTEXT = 4 * _FRAME_RATE
"""Feature frames of silence that the encoder sees behind the audio. With two seconds the model
begins to repeat the last words; with 26 seconds it needs three times the CPU."""
_STEP = 2 * _FRAME_RATE
"""The context is a multiple of this many feature frames."""
_MOST = 30 * _FRAME_RATE
"""Feature frames of the longest context: the model was trained on 30 s."""

_TOKENS, _TOKENS_PER_SECOND = 16, 12
"""Bound of the output: tokens at any length, and for each second of audio. Fast speech has 6."""

_BEAM = 5
"""Width of the beam of a final hypothesis, as in Whisper itself. Others are decoded greedily."""

_HALF = 223
"""Tokens of a prompt: half the context of the decoder, less one."""


class WhisperRecogniser(BaseRecogniser):
    """A `Recogniser` with a Whisper model, which ``load`` loads in one of ``workers`` threads."""

    def __init__(self, model: str, load: Callable[[], WhisperModel], *, workers: int = 1) -> None:
        super().__init__(f"whisper:{model}", (), workers)
        self._make = load
        self._model: WhisperModel | None = None
        self._threads = ThreadPoolExecutor(workers, "recognition", initializer=yield_to_others)

    async def recognise(self, job: RecognitionJob) -> Recognised:
        self._require_health(Health.READY)
        if len(job.audio) % 2 or duration(job) > LONGEST:
            raise JobFault("The audio is no 16-bit PCM of at most 30 s.", ErrorCode.INTERNAL)
        wanted = threading.Event()
        wanted.set()
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, self._work, job, wanted)
        try:
            return await self._run(work)
        finally:
            wanted.clear()

    async def aclose(self) -> None:
        await super().aclose()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._model = None

    async def _load(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._model = await loop.run_in_executor(self._threads, self._make)
        except ImportError as exc:
            raise EngineFault(NEEDS_PACKAGE) from exc
        self.languages = self._model.languages

    def _work(self, job: RecognitionJob, wanted: threading.Event) -> Recognised:
        """Recognise a job in a thread. A job that was cancelled while it waited is not begun."""
        model = self._model
        try:
            if model is None or not wanted.is_set():
                raise EngineGone("Nobody waits for the job.")
            return model.recognise(job, wanted.is_set)
        except EngineFault:
            raise
        except Exception as exc:
            ids, failed = log_ids(job), "recognition job %s failed"
            logger.error(failed, job.id, exc_info=redacted(exc), extra=ids)
            raise EngineFault("The recogniser failed.", ErrorCode.INTERNAL) from None


def _load_fault(model: str, exc: Exception, *, download: bool) -> EngineFault:
    """Return the fault of a model that was not found, or not fetched, or could not be read."""
    # CTranslate2 raises RuntimeError for files that it cannot read. All else is about finding them.
    what = ""
    if isinstance(exc, RuntimeError):
        why = "it is broken"
    elif download:
        why = "it could not be downloaded"
    else:
        why, what = "it is not on this machine", ", or allow the download: --download"
    return EngineFault(
        f"The Whisper model {model} cannot be loaded: {why} ({type(exc).__name__}). Name the"
        f" directory of a model in CTranslate2's form with --recogniser-model{what}."
    )


class WhisperModel:
    """A loaded model. `recognise` may be called in several threads at once.

    :param model: directory of a model in CTranslate2's form, or its name or id on a hub
    :param device: ``cpu``, ``cuda`` or ``auto``
    :param compute_type: as in CTranslate2. None: ``int8`` on a CPU, where that of most files takes
        twice the time for the same text, and ``float16`` on a GPU
    :param workers: recognitions at once

    Raises `EngineFault`, with a sentence for the operator, if it cannot be loaded.
    """

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        compute_type: str | None = None,
        workers: int = 1,
        download: bool = False,
    ) -> None:
        import ctranslate2
        import faster_whisper

        if device == "auto":
            device = "cuda" if ctranslate2.get_cuda_device_count() else "cpu"
        path = Path(model).expanduser()
        if path.is_dir() and not (path / "model.bin").is_file():
            raise EngineFault(f"{path} is no Whisper model in CTranslate2's form: no model.bin.")
        try:
            self._whisper: Any = faster_whisper.WhisperModel(
                str(path) if path.is_dir() else model,
                device=device,
                compute_type=compute_type or ("int8" if device == "cpu" else "float16"),
                cpu_threads=1,  # more speakers at once matter more than one of them
                num_workers=workers,
                local_files_only=not download,
            )
        except Exception as exc:
            raise _load_fault(model, exc, download=download and not path.is_dir()) from exc
        self._codes: dict[str, str] = {}
        for code in self._whisper.supported_languages:
            try:
                self._codes.setdefault(languages.normalise(code), code)
            except ClientFault:  # a code that is no language tag
                continue
        self.languages = tuple(self._codes)
        """Canonical tags of the languages of the model."""

    def recognise(self, job: RecognitionJob, wanted: Callable[[], bool]) -> Recognised:
        """Return the words of ``job``. Blocks; raises exceptions of the libraries.

        :param wanted: tells between two steps whether anybody waits for the result

        Raises `EngineGone` if nobody does, `JobFault` if the model has no language of the job.
        """
        from faster_whisper.tokenizer import Tokenizer
        from faster_whisper.transcribe import get_suppressed_tokens

        samples = np.frombuffer(job.audio, "<i2").astype(np.float32) / 32_768.0
        if not samples.any():
            return Recognised(no_speech=1.0)
        features = self._whisper.feature_extractor(samples)[:, :_MOST]
        count = features.shape[1]
        context = min(-(-(count + _CONTEXT) // _STEP) * _STEP, _MOST)
        padded = np.pad(features, ((0, 0), (0, context - count)))
        encoded = self._whisper.encode(padded)
        if not wanted():
            raise EngineGone("The job was cancelled.")
        lang, certainty = self._language(encoded, job.langs)
        tokenizer = Tokenizer(
            self._whisper.hf_tokenizer,
            self._whisper.model.is_multilingual,
            task="transcribe",
            language=self._codes[lang],
        )
        length = _TOKENS + int(_TOKENS_PER_SECOND * len(samples) / SAMPLE_RATE)
        prompt = self._prompt(tokenizer, job)
        result = self._whisper.model.generate(
            encoded,
            [prompt],
            beam_size=_BEAM if job.final else 1,
            max_length=min(len(prompt) + length, self._whisper.max_length),
            return_scores=True,
            return_no_speech_prob=True,
            suppress_tokens=get_suppressed_tokens(tokenizer, [-1]),
        )[0]
        if not wanted():
            raise EngineGone("The job was cancelled.")
        tokens = [token for token in result.sequences_ids[0] if token < tokenizer.eot]
        text = tokenizer.decode(tokens).strip().encode()
        return Recognised(
            words=self._words(tokenizer, tokens, encoded, count, len(samples) / SAMPLE_RATE),
            lang=lang,
            lang_probability=certainty,
            no_speech=result.no_speech_prob,
            log_probability=result.scores[0] * len(tokens) / (len(tokens) + 1),
            compression=len(text) / len(zlib.compress(text)),
        )

    def _language(self, encoded: Any, allowed: tuple[str, ...]) -> tuple[str, float]:
        """Return the language that is spoken, and its probability among the allowed ones."""
        able = [tag for lang in allowed if (tag := languages.match(lang, self.languages))]
        if allowed and not able:
            raise JobFault(f"The model does not recognise {', '.join(allowed)}.")
        able = able or list(self._codes)
        if len(able) == 1:
            return able[0], 1.0
        # Tokens have the form `<|en|>`.
        detected = dict(self._whisper.model.detect_language(encoded)[0])
        odds = {tag: detected.get(f"<|{self._codes[tag]}|>", 0.0) for tag in able}
        best = max(odds, key=odds.__getitem__)
        return best, odds[best] / (sum(odds.values()) or 1.0)

    def _prompt(self, tokenizer: Any, job: RecognitionJob) -> list[int]:
        """Return the tokens before the output: names and terms, earlier text, the task."""
        before: list[int] = []
        if job.hotwords:
            before += tokenizer.encode(" " + ", ".join(job.hotwords))[: _HALF // 2]
        if job.prompt:
            before += tokenizer.encode(" " + job.prompt)[len(before) - _HALF :]
        task = [*tokenizer.sot_sequence, tokenizer.no_timestamps]
        return [tokenizer.sot_prev, *before, *task] if before else task

    def _words(
        self, tokenizer: Any, tokens: list[int], encoded: Any, count: int, seconds: float
    ) -> tuple[Word, ...]:
        """Return the words of the output, with times by attention to ``count`` feature frames."""
        from faster_whisper.transcribe import merge_punctuations

        if not tokens:
            return ()
        aligned = self._whisper.find_alignment(tokenizer, [tokens], encoded, count)[0]
        merge_punctuations(aligned, "\"'“¿([{-", "\"'.。,，!！?？:：”)]}、")
        words = (
            Word(word["word"], float(word["start"]), float(word["end"]), float(word["probability"]))
            for word in aligned
            if word["word"]
        )
        return placed(words, seconds)
