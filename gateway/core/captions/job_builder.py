"""The jobs of a room's captions: everything that an engine is told.

Owns: the languages, the text, the context and the glossary of each job. Must not know: when a job
is made, what becomes of it (`gateway.core.captions.captioner`).
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from gateway.core.base.model import Model
from gateway.core.base.translation_context import Pairs, TranslationContext
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.streaming.length_ratios import LengthRatios
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.job import Job, Priority
from gateway.text import languages


class JobBuilder(msgspec.Struct, eq=False, kw_only=True):
    """The builder of one room's jobs."""

    room: str
    model: Model
    scheduler: Scheduler
    context: TranslationContext
    rules: StabilityRules
    utterances: Utterances
    length_ratios: LengthRatios
    """Lengths of translations, which rooms may share."""
    tenant: str = ""
    """Tenant whose share of the engine the jobs use."""

    def job(self, utterance: Utterance, caption: Caption) -> Job | None:
        """Return the job for a caption as it stands; None if the model lacks the languages."""
        pair = _pair(self.model, utterance.lang, caption.lang)
        if pair is None:
            return None
        source, target, steps = pair
        growing = not utterance.final
        prefix = caption.committed if growing else ""
        ids, draft = caption.last(prefix)
        ratios = self.length_ratios
        needed = ratios.needed(source, target, utterance.text, prefix) if growing else 0
        # The context of the first job stays, so that engines can reuse its prompt.
        if caption.context is None:
            caption.context = self.utterances.translated_before(utterance, caption.lang)
        terms: Pairs = ()
        if self.context.names or self.context.glossary.terms:  # most rooms have neither
            terms = self.context.terms(utterance.text, target)
        return Job(
            id=self.scheduler.new_id(self.room),
            room=self.room,
            tenant=self.tenant,
            utterance=utterance.id,
            steps=steps,
            text=utterance.text,
            source=source,
            target=target,
            partial=growing,
            prefix=prefix,
            prefix_ids=ids,
            draft=draft,
            draft_bias=self.rules.bias if growing else 0.0,
            needed=needed,
            search=not growing,
            topic=self.context.topic,
            context=caption.context,
            glossary=terms,
            style=self.context.style,
            priority=Priority.PARTIAL if growing else Priority.FINAL,
        )


@lru_cache(maxsize=1_024)  # of the few models that a process has at a time; every job asks
def _pair(model: Model, spoken: str, read: str) -> tuple[str, str, int] | None:
    """Return the model's tags for two languages, and the number of steps of a translation. Returns
    None if the model lacks them.
    """
    source = languages.match(spoken, model.sources)
    target = languages.match(read, model.targets)
    if source is None or target is None or not model.supports(source, target):
        return None
    return source, target, 2 if model.pivots(source, target) else 1
