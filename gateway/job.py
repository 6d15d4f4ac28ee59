"""One translation to be made, and the pieces in which it arrives.

Owns: the vocabulary between the core (which decides what to translate) and the engines
(which translate). Must not know: rooms, sockets, or how any engine works.
"""

from __future__ import annotations

import enum

import msgspec


class Priority(enum.IntEnum):
    """Lower runs earlier. What a reader waits for goes before what merely improves."""

    FINAL = 0
    PARTIAL = 1
    BACKFILL = 2


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One source text into one target language.

    ``id``       unique in this process; `Engine.abort` takes it
    ``room``     fairness key of the dispatcher, as is ``tenant``; engines ignore both
    ``text``     the whole source so far, NFC
    ``source``   canonical BCP 47 tag, and so is ``target``
    ``partial``  the source is still growing: do not invent its end
    ``prefix``   target text the output must continue; chunks do not repeat it
    ``prefix_ids`` token ids of an output of this engine that begins with ``prefix``: the engine
                 takes as many of them as spell it, and encodes what is left of it
    ``topic``    what the conversation is about, in the room's own words
    ``context``  earlier (source, target) pairs of the conversation, oldest first
    ``glossary`` (term, translation) pairs that occur in ``text``
    ``style``    e.g. ``formal``; used where the model's profile knows it
    ``attempt``  1, or 2 when a guard rejected the first output: the profile samples differently
    """

    id: str
    text: str
    source: str
    target: str
    room: str = ""
    tenant: str = ""
    partial: bool = False
    prefix: str = ""
    prefix_ids: tuple[int, ...] = ()
    topic: str = ""
    context: tuple[tuple[str, str], ...] = ()
    glossary: tuple[tuple[str, str], ...] = ()
    style: str | None = None
    priority: Priority = Priority.FINAL
    attempt: int = 1


class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of the translation, in order. Joined, the ``text`` of all chunks is the output.

    ``tokens`` is how many model tokens it took (0 where the engine cannot know). ``ids`` are token
    ids where the engine is in this process: joined, they spell the job's forced prefix (whose ids
    come with the first) and the output, though a chunk's own need not spell its own text. ``reset``
    means everything before this chunk is void: a second attempt begins. ``flags`` name doubts about
    the whole output (a number that is missing, say), and stand on the last chunk.
    """

    text: str
    tokens: int = 1
    reset: bool = False
    flags: tuple[str, ...] = ()
    ids: tuple[int, ...] = ()


def merged(one: Chunk, two: Chunk) -> Chunk:
    """Two chunks that follow each other as one, which says the same to whoever reads it."""
    tokens = one.tokens + two.tokens
    if two.reset:
        return Chunk(two.text, tokens, reset=True, flags=two.flags, ids=two.ids)
    return Chunk(
        one.text + two.text, tokens, one.reset, flags=one.flags + two.flags, ids=one.ids + two.ids
    )
