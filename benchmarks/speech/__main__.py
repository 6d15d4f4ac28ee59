"""Errors, delay and CPU of speech recognition.

    python -m benchmarks.speech [--model DIR] [--compute-type float32] [--noise MINUTES]

Real speech is played through voice detection, the speech stream and Whisper, in the time of the
audio: an answer is there as many seconds after its question as it took CPU time. Offline is the
same model on windows of 20 s. By default the model is the tiny.en of requirements/speech.txt.
With ``--noise`` silence and noises of many kinds are played too, of which nothing may be heard.

Owns: the command. Must not know: how speech is recognised.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from benchmarks.speech import material
from benchmarks.speech.playback import Playback, play
from benchmarks.speech.score import final_delays, percentile, word_delays, word_errors
from gateway.core.recognition.speech_recognition import SpeechRecognition
from gateway.engines.recognition.voice import VoiceDetector
from gateway.engines.recognition.whisper import WhisperModel
from gateway.job import Recognised, RecognitionJob

OFFLINE = 20
"""Seconds of a window of the offline recognition."""


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speech")
    parser.add_argument("--model", default=None, help="directory of a Whisper model in CTranslate2")
    parser.add_argument(
        "--compute-type", default="int8", help="number format; default: %(default)s"
    )
    parser.add_argument("--noise", type=float, default=0, help="minutes of silence and noise")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    directory = options.model or str(material.model())
    model = WhisperModel(directory, device="cpu", compute_type=options.compute_type)

    def recognise(job: RecognitionJob) -> Recognised:
        return model.recognise(job, lambda: True)

    def offline(audio: bytes) -> str:
        size = 32_000 * OFFLINE
        jobs = (
            RecognitionJob(id="offline", audio=audio[n : n + size], langs=("en",), final=True)
            for n in range(0, len(audio), size)
        )
        return " ".join(recognise(job).text for job in jobs)

    figures: dict[str, dict[str, float]] = {}
    recognise(RecognitionJob(id="warm", audio=material.recording("beckett"), langs=("en",)))
    for name, reference in (("two_cities", material.TWO_CITIES), ("beckett", None)):
        audio = material.recording(name)
        begin = time.process_time()
        alone = offline(audio)
        offline_cpu = time.process_time() - begin
        played = play(audio, recognise, SpeechRecognition("bench", ("en",)), VoiceDetector())
        figures[name] = measured(played, alone, offline_cpu, reference)
    if options.noise:
        figures["noise"] = noise(recognise, options.noise * 60)
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, values in figures.items():
            print(name)
            for what, value in values.items():
                print(f"  {what:44} {value:8.3f}")


def measured(
    played: Playback, offline: str, offline_cpu: float, reference: str | None
) -> dict[str, float]:
    """Return the figures of one recording."""
    values: dict[str, float] = {"seconds of audio": played.seconds}
    if reference is not None:
        for what, text in (("streaming", played.text), ("offline", offline)):
            errors, words = word_errors(reference, text)
            values[f"word error rate, {what}"] = errors / words
    errors, words = word_errors(offline, played.text)
    values["word error rate, streaming against offline"] = errors / max(1, words)
    for times, what in ((1, "shown"), (2, "agreed")):
        delays = word_delays(played, times)
        for share in (0.5, 0.95):
            values[f"end of word to {what}, s, p{share * 100:.0f}"] = percentile(delays, share)
    for share in (0.5, 0.95):
        delays = final_delays(played)
        values[f"end of speech to final, s, p{share * 100:.0f}"] = percentile(delays, share)
    values["hypotheses a second"] = played.jobs / played.seconds
    values["real-time factor, offline"] = offline_cpu / played.seconds
    values["CPU seconds of recognition a second"] = played.cpu / played.seconds
    values["CPU seconds of voice detection a second"] = played.detection_cpu / played.seconds
    values["speakers for each core"] = played.seconds / (played.cpu + played.detection_cpu)
    return values


def noise(recognise: Callable[[RecognitionJob], Recognised], seconds: float) -> dict[str, float]:
    """Play sound without speech, and return how much was heard of it."""
    stream, detector = SpeechRecognition("noise", ("en",)), VoiceDetector()
    jobs = heard = 0
    cpu = 0.0
    for piece in material.noises(seconds):
        played = play(piece, recognise, stream, detector)
        jobs, heard = jobs + played.jobs, heard + len(played.heard)
        cpu += played.cpu + played.detection_cpu
    return {"seconds": seconds, "jobs": jobs, "texts": heard, "CPU seconds a second": cpu / seconds}


if __name__ == "__main__":
    main()
