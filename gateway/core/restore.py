"""What a room knew, made again from its log: for a process that goes on where another ended.

Owns: how durable events become utterances, captions and settings again. Must not know: where the
log comes from. What was never decided, such as text that still grew, is not in a log and is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from gateway.core.captioner import TranslationContext
from gateway.core.event_log import EventLog
from gateway.core.streaming import segmentation
from gateway.core.streaming.options import StreamingOptions
from gateway.core.utterance import Caption, Utterance
from gateway.protocol.messages import Cancelled, Edited, Failed, Final, Retracted, Settings, Source
from gateway.text import languages
from gateway.text.glossary import Glossary


def utterances(log: EventLog, flow: StreamingOptions) -> Iterator[Utterance]:
    """The utterances that were said to their end, in the order in which they began.

    Nobody who is here has said them, so that only moderators can correct them.
    """
    made: dict[str, Utterance] = {}
    early: dict[str, set[str]] = {}  # languages that were cancelled while it was being said
    for event, at in log.entries():
        now = log.began + at
        if isinstance(event, Source):
            made[event.id] = _said(event, now)
            for lang in early.pop(event.id, ()):
                _begun(made[event.id], lang, flow).cancel()
        elif isinstance(event, Cancelled) and event.lang is not None:
            known = made.get(event.id)
            # A caption ends once: this one is of an utterance that took over the id.
            if known is None or event.lang in known.captions:
                early.setdefault(event.id, set()).add(event.lang)
            else:
                _begun(known, event.lang, flow).cancel()
        elif not isinstance(event, Settings):
            if isinstance(event, Cancelled):
                early.pop(event.id, None)
            if event.id in made:
                _decide(made[event.id], event, flow, now)
    for utterance in sorted(made.values(), key=lambda utterance: utterance.ord):
        utterance.root = _root(utterance, made)
        yield utterance


def open_ones(log: EventLog, utterances: Iterable[Utterance], patience: float) -> list[Utterance]:
    """Those whose captions may not have ended when a process was killed, oldest first: said no
    longer than ``patience`` seconds before the last that is known. After a clean end all have."""
    if log.before is None:
        return []
    entries = log.entries()
    last = entries[-1].at if entries else 0.0
    late = {
        event.ord for event, at in entries if isinstance(event, Source) and at >= last - patience
    }
    return [u for u in utterances if u.ord in late and not u.retracted and not u.cancelled]


def brief(log: EventLog, brief: TranslationContext, settings: Settings | None = None) -> None:
    """Bring the room's settings to their last version, beginning with ``settings``."""
    if settings is not None:
        _set(brief, settings)
    for event, _ in log.entries():
        if isinstance(event, Settings):
            _set(brief, event)
        if isinstance(event, Settings | Source) and event.speaker:
            brief.meet(event.speaker)


def _root(utterance: Utterance, made: Mapping[str, Utterance]) -> str:
    """What it was said under, as far as its id tells: clients may choose such ids too."""
    first = made.get(segmentation.utterance_id(utterance.id) or "")
    if first is None or first.ord > utterance.ord or first.speaker != utterance.speaker:
        return utterance.id
    return first.id


def _set(brief: TranslationContext, event: Settings) -> None:
    brief.version = max(brief.version, event.version)
    brief.topic = brief.topic if event.context is None else event.context
    brief.style = brief.style if event.style is None else event.style or None
    if event.glossary is not None:
        brief.glossary = Glossary(event.glossary)


def _said(event: Source, now: float) -> Utterance:
    utterance = Utterance(event.id, event.ord, "", now)
    utterance.seq, utterance.rev, utterance.turn = event.seq, event.rev, 1
    utterance.lang, utterance.text, utterance.final = event.lang, event.text, True
    utterance.speaker, utterance.t0, utterance.t1 = event.speaker, event.t0, event.t1
    return utterance


def _decide(
    utterance: Utterance,
    event: Final | Failed | Edited | Cancelled | Retracted,
    flow: StreamingOptions,
    now: float,
) -> None:
    match event:
        case Final():
            _begun(utterance, event.lang, flow).finish(event.text, event.by, now)
        case Failed():
            _begun(utterance, event.lang, flow).fail()
        case Edited(by="human", lang=lang) if languages.same(lang, utterance.lang):
            utterance.text = event.text
        case Edited():
            caption = utterance.captions.get(event.lang) or _begun(utterance, event.lang, flow)
            caption.edit(event.text, event.by)
        case Cancelled():
            utterance.cancelled = True
        case Retracted():  # pragma: no branch: there is no other
            utterance.erase()


def _begun(utterance: Utterance, lang: str, flow: StreamingOptions) -> Caption:
    """A caption that is about to end; what had been put down to another of this id is void."""
    caption = utterance.captions[lang] = Caption(utterance.id, lang, flow.stability)
    caption.turn, caption.partial = 1, False
    return caption
