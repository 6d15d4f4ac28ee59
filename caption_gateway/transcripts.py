"""The public names for those who write a format of transcripts; `docs/how-to/write-format.md`
shows how.
"""

from gateway.transcripts.format_registry import TextFormat
from gateway.transcripts.formats import Choice
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
