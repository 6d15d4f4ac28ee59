"""What somebody is told of what was there before it came.

Owns: which events, texts and drafts that is. Must not know: members, outboxes, jobs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gateway.codec import Envelope
from gateway.log import Log
from gateway.messages import Delta, Edited, Line, Retracted, Settings, Snapshot, Source
from gateway.utterance import Utterance


def decided(log: Log, tags: Iterable[tuple[str, str]], most: int) -> list[Envelope]:
    """What was decided of the last utterances, ``most`` at most.

    :param tags: each with the language that serves it; events are under the tag
    """
    tagged = list(tags)
    events = log.last(most)
    retracted = {event.id for event in events if isinstance(event, Retracted)}
    spoken = {event.id: event.lang for event in events if isinstance(event, Source)}
    told = []
    for event in events:
        if isinstance(event, Retracted | Settings) or event.id in retracted:
            continue
        lang = None if isinstance(event, Source) else event.lang
        if isinstance(event, Edited) and event.by == "human" and lang == spoken[event.id]:
            lang = None  # the original was corrected: that is for everybody
        envelope = Envelope(event)
        if lang is None:
            told.append(envelope)
        else:
            told += [envelope.tagged(tag) for tag, served in tagged if served == lang]
    return told


def under_way(utterances: Iterable[Utterance], lang: str) -> list[Delta]:
    """What is shown of the captions in a language that have not ended, oldest first."""
    shown = []
    for utterance in sorted(utterances, key=lambda utterance: utterance.ord):
        caption = utterance.captions.get(lang)
        delta = None if caption is None or caption.state.ended else caption.whole()
        if delta is not None:
            shown.append(delta)
    return shown


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
            Line(
                lang=lang,
                state=caption.state.value,
                text=caption.stable,
                draft=caption.draft or None,
                by=caption.by,
            )
            for lang, caption in sorted(utterance.captions.items())
            if langs is None or lang in langs
        ),
        ref=ref,
    )
