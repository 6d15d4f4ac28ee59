"""OpenAI's transcription of files: a request, and its answer in each format.

Owns: the form of ``/v1/audio/transcriptions`` and ``/v1/audio/translations``, and the bodies of
their answers. Must not know: HTTP, how a file is decoded, recognised and translated.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import field

from gateway.core.transcripts import formats
from gateway.core.transcripts.formats import Format
from gateway.core.transcripts.transcript import Transcript
from gateway.errors import bad_frame
from gateway.protocol.fields import Context, Tag, Tags
from gateway.text import languages, word_units

Granularity = Literal["segment", "word"]


class AudioFileRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The form of both paths. Fields that are not listed are ignored.

    ``language`` may name several, with commas between them. ``target_lang`` is this gateway's own,
    and only for translations.
    """

    EXAMPLE: ClassVar = "curl -F file=@talk.wav -F language=en -F response_format=srt"
    file: bytes
    language: Tags = ""
    prompt: Context = ""
    response_format: Literal["json", "text", "srt", "vtt", "verbose_json"] = "json"
    stream: bool = False
    granularities: Granularity | tuple[Granularity, ...] = field(
        name="timestamp_granularities[]", default="segment"
    )
    target_lang: Tag = "en"

    def check(self) -> None:
        """Raise `ClientFault` (``bad_frame``) if something is asked for that is not made."""
        if self.stream:
            raise bad_frame("A file is answered as a whole.", 'Leave "stream" out.')
        if "word" in self.granularities:
            raise bad_frame("Words have no times here.", 'Ask for the granularity "segment".')

    def answer(self, heard: Transcript, seconds: float, target: str | None) -> tuple[str, bytes]:
        """Return the media type and the body of the answer: what was said in so many seconds of
        sound, or its translation into ``target``.
        """
        if self.response_format in (Format.SRT, Format.VTT):
            format = formats.OWN[self.response_format]
            return format.media_type, format.write(heard, (target,)).encode()
        segments = [
            _segment(number, entry.begin, entry.end, str(shown))
            for number, (entry, (shown,)) in enumerate(formats.shown_texts(heard, (target,)))
        ]
        spaced = all(word_units.spaced(target or entry.lang) for entry in heard.utterances)
        text = (" " if spaced else "").join(segment["text"] for segment in segments)
        if self.response_format == "text":
            return formats.OWN[Format.TXT].media_type, f"{text}\n".encode()
        body: dict[str, Any] = {"text": text}
        if self.response_format == "verbose_json":
            spoken = heard.utterances[0].lang if heard.utterances else ""
            body |= {
                "task": "transcribe" if target is None else "translate",
                "language": languages.name(target or spoken).lower() if target or spoken else "",
                "duration": round(seconds, 3),
                "segments": segments,
            }
        body["usage"] = {"type": "duration", "seconds": math.ceil(seconds)}
        return "application/json", msgspec.json.encode(body)


def _segment(number: int, begin: float, end: float, text: str) -> dict[str, Any]:
    """Return a segment as OpenAI's clients read one. All of its fields are required there."""
    return {
        "id": number,
        "start": round(begin, 3),
        "end": round(end, 3),
        "text": text,
        # Of Whisper's windows, which are not those of the segments here.
        "seek": 0,
        "tokens": [],
        "temperature": 0.0,
        "avg_logprob": 0.0,
        "compression_ratio": 1.0,
        "no_speech_prob": 0.0,
    }
