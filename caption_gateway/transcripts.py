"""The public names for those who write a format of transcripts; `docs/how-to/write-format.md`
shows how.
"""

from gateway.transcripts.formats import Choice, TextFormat
from gateway.transcripts.transcript import (
    EntryState,
    Transcript,
    TranscriptCaption,
    TranscriptEntry,
)

__all__ = [
    "Choice",
    "EntryState",
    "TextFormat",
    "Transcript",
    "TranscriptCaption",
    "TranscriptEntry",
]
