"""The public names for authors of a format of transcripts; `docs/how-to/write-format.md`
shows how.
"""

from gateway.core.transcripts.formats import Choice, TextFormat
from gateway.core.transcripts.transcript import (
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
