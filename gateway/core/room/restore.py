"""The state of a room, restored from its log when a process continues after another.

Owns: how durable events become utterances, captions and settings again. Must not know: where the
log comes from. State that never reached the log, such as growing text, is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gateway.core.base.translation_context import TranslationContext
from gateway.core.history.event_log import EventLog
from gateway.core.streaming import segmentation
from gateway.core.streaming.options import StreamingOptions
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.protocol.fields import Statement, stated
from gateway.protocol.messages import (
    Cancelled,
    Edited,
    Failed,
    Final,
    Retracted,
    ServerMessage,
    Settings,
    Source,
)
from gateway.text import languages


def utterances(log: EventLog, options: StreamingOptions) -> Iterator[Utterance]:
    """Return the complete utterances of a log, in the order in which they began."""
    made: dict[str, Utterance] = {}
    early: dict[str, set[str]] = {}  # languages cancelled before the utterance was complete
    for event, at in log.entries():
        now = log.began + at
        if isinstance(event, Source):
            made[event.id] = _restored(event, log.authors.get(event.seq, ""), now)
            # A language can be cancelled while the utterance still grows.
            for lang in early.pop(event.id, ()):
                _new_caption(made[event.id], lang, options).cancel()
        elif isinstance(event, Cancelled) and event.lang is not None:
            known = made.get(event.id)
            # A caption ends once, so this event is of a later utterance with the same id.
            if known is None or event.lang in known.captions:
                early.setdefault(event.id, set()).add(event.lang)
            else:
                _new_caption(known, event.lang, options).cancel()
        elif not isinstance(event, Settings):
            if isinstance(event, Cancelled):
                early.pop(event.id, None)
            if event.id in made:
                _apply(made[event.id], event, options, now)
    for utterance in sorted(made.values(), key=lambda utterance: utterance.ord):
        utterance.root = _root(utterance, made)
        yield utterance


def interrupted(log: EventLog, utterances: Iterable[Utterance], patience: float) -> list[Utterance]:
    """Return utterances that a crash may have left without their captions, oldest first. Captions
    take ``patience`` seconds at most. After a clean end there are none.
    """
    # The process before has ended all captions when it stopped.
    if log.before is None:
        return []
    entries = log.entries()
    last = entries[-1].at if entries else 0.0
    late = {
        event.ord for event, at in entries if isinstance(event, Source) and at >= last - patience
    }
    return [u for u in utterances if u.ord in late and not u.retracted and not u.cancelled]


def settings(log: EventLog, context: TranslationContext) -> None:
    """Bring the settings of a room to their last version in the log."""
    if log.settings is not None:
        _set(context, log.settings)
    # Names are learned from what was said, not only from settings.
    for event, _ in log.entries():
        learn(context, event)


def learn(context: TranslationContext, event: ServerMessage) -> None:
    """Change the settings of a room as an event of its log says."""
    if isinstance(event, Settings):
        _set(context, event)
    if isinstance(event, Settings | Source) and event.speaker:
        context.add_speaker(event.speaker)


def _root(utterance: Utterance, made: Mapping[str, Utterance]) -> str:
    """Return the id that a part was said under, or its own: clients may choose such ids too."""
    first = made.get(segmentation.utterance_id(utterance.id) or "")
    if (
        first is None
        or first.ord > utterance.ord
        or first.statement.speaker != utterance.statement.speaker
    ):
        return utterance.id
    return first.id


def _set(context: TranslationContext, event: Settings) -> None:
    context.version = max(context.version, event.version)
    context.change(event)


def _restored(event: Source, author: str, now: float) -> Utterance:
    utterance = Utterance(event.id, event.ord, author, now)
    utterance.seq, utterance.rev, utterance.text_number = event.seq, event.rev, 1
    utterance.lang, utterance.text, utterance.final = event.lang, event.text, True
    utterance.statement = Statement(**stated(event, Statement))
    return utterance


def _apply(
    utterance: Utterance,
    event: Final | Failed | Edited | Cancelled | Retracted,
    options: StreamingOptions,
    now: float,
) -> None:
    match event:
        case Final():
            _new_caption(utterance, event.lang, options).finish(event.text, event.by, now)
        case Failed():
            _new_caption(utterance, event.lang, options).fail()
        case Edited(by="human", lang=lang) if languages.same(lang, utterance.lang):
            utterance.text = event.text
        case Edited():
            caption = utterance.captions.get(event.lang) or _new_caption(
                utterance, event.lang, options
            )
            caption.edit(event.text, event.by)
        case Cancelled():
            utterance.cancelled = True
        case Retracted():  # pragma: no branch: there is no other
            utterance.erase()


def _new_caption(utterance: Utterance, lang: str, options: StreamingOptions) -> Caption:
    """Return a new caption that is about to end, instead of one of an earlier utterance."""
    caption = utterance.add_caption(lang, options.stability)
    caption.text_number, caption.partial = 1, False
    return caption
