"""What somebody is told of what was there before it came.

Owns: which events, texts and drafts that is. Must not know: members, outboxes, jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec.structs import replace

from gateway.core.event_log import EventLog
from gateway.core.utterance import Caption, Utterance
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import Delta, Line, Retracted, Settings, Snapshot, View


def decided(log: EventLog, tags: Iterable[tuple[str, str]], most: int) -> list[Envelope]:
    """What was decided of the last utterances, ``most`` at most.

    :param tags: each with the language that serves it; events are under the tag
    """
    tagged = list(tags)
    events = log.last(most)
    retracted = {event.id for event in events if isinstance(event, Retracted)}
    told = []
    for event in events:
        if isinstance(event, Retracted | Settings) or event.id in retracted:
            continue
        lang = log.concerns(event)
        envelope = Envelope(event)
        if lang is None:
            told.append(envelope)
        else:
            told += [envelope.for_language(tag) for tag, served in tagged if served == lang]
    return told


def missed(
    log: EventLog, tags: Iterable[tuple[str, str]], seq: int, most: int
) -> list[tuple[int, list[Envelope]]] | None:
    """The events after ``seq``, so many ``most``, by number, as a reader of ``tags`` was sent them
    when they were decided; None where the log does not reach back.

    Nothing is left out, but for the texts of what has been taken back since.
    """
    events = log.since(seq, most)
    if events is None:
        return None
    under: dict[str, list[str]] = {}
    for tag, served in tags:
        under.setdefault(served, []).append(tag)
    told = []
    for event in events:
        lang = log.concerns(event)
        envelope = Envelope(event)
        envelopes = (
            [envelope]
            if lang is None
            else [envelope.for_language(tag) for tag in under.get(lang, ())]
        )
        assert event.seq is not None, "an event of a log has a number"
        told.append((event.seq, envelopes))
    return told


def count(log: EventLog, tags: Iterable[tuple[str, str]], seq: int) -> int:
    """How many events `missed` has after ``seq`` in all."""
    return log.count(None, seq) + sum(log.count(served, seq) for _, served in tags)


def under_way(utterances: Iterable[Utterance], lang: str) -> list[Delta]:
    """What is shown of the captions in a language that have not ended, oldest first."""
    shown = []
    for utterance in sorted(utterances, key=lambda utterance: utterance.ord):
        caption = utterance.captions.get(lang)
        delta = None if caption is None or caption.state.ended else caption.whole()
        if delta is not None:
            shown.append(delta)
    return shown


def in_flight(
    utterances: Iterable[Utterance], tags: Iterable[tuple[str, str]], view: View
) -> list[Snapshot]:
    """Those of the utterances that have a caption for a reader of ``tags`` that has not ended."""
    if view == "final":
        return []
    tagged = list(tags)
    shots = []
    for utterance in sorted(utterances, key=lambda utterance: utterance.ord):
        read = [(tag, utterance.captions.get(served)) for tag, served in tagged]
        captions = [(tag, caption) for tag, caption in read if caption is not None]
        if any(not caption.state.ended for _, caption in captions):
            lines = tuple(_line(tag, caption, view) for tag, caption in captions)
            shots.append(replace(snapshot(utterance, langs=()), lines=lines))
    return shots


def snapshot(
    utterance: Utterance, ref: str | None = None, langs: Collection[str] | None = None
) -> Snapshot:
    """One utterance as it stands, in these languages or in all."""
    return Snapshot(
        id=utterance.id,
        rev=utterance.rev,
        ord=utterance.ord,
        lang=utterance.lang,
        text=utterance.text,
        final=utterance.final,
        speaker=utterance.speaker,
        lines=tuple(
            _line(lang, caption, "live")
            for lang, caption in sorted(utterance.captions.items())
            if langs is None or lang in langs
        ),
        ref=ref,
    )


def _line(tag: str, caption: Caption, view: View) -> Line:
    return Line(
        lang=tag,
        state=caption.state.value,
        text=caption.stable,
        draft=caption.draft or None if view == "live" else None,
        by=caption.by,
    )
