"""The jobs of a room's captions: everything that an engine is told.

Owns: the languages, the text, the context and the glossary of each job. Must not know: when a job
is made, what becomes of it (`gateway.core.captions.captioner`).
"""

from __future__ import annotations

from functools import lru_cache

from gateway.core.base.model import Model
from gateway.core.base.translation_context import Pairs, TranslationContext
from gateway.core.scheduling.scheduler import Scheduler
from gateway.core.streaming.length_ratios import LengthRatios
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.collection import Utterances
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.job import Job, Priority
from gateway.text import languages


class JobBuilder:
    """The builder of one room's jobs.

    ``tenant`` is the tenant whose share of the engine the jobs use. ``length_ratios`` are lengths
    of translations, which rooms may share.

    :param room: the name of the room
    """

    def __init__(
        self,
        room: str,
        *,
        model: Model,
        scheduler: Scheduler,
        context: TranslationContext,
        rules: StabilityRules,
        utterances: Utterances,
    ) -> None:
        self.tenant = ""
        self.length_ratios = LengthRatios(rules)
        self.context = context
        self.rules = rules
        self._room = room
        self._model = model
        self._scheduler = scheduler
        self._utterances = utterances

    def job(self, utterance: Utterance, caption: Caption) -> Job | None:
        """Return the job for a caption as it stands; None if the model lacks the languages."""
        pair = _pair(self._model, utterance.lang, caption.lang)
        if pair is None:
            return None
        source, target, steps = pair
        growing = not utterance.final
        prefix = caption.committed if growing else ""
        ids, draft = caption.last(prefix)
        needed = 0
        if growing:
            needed = self.length_ratios.needed(source, target, utterance.text, prefix)
        # The context of the first job stays, so that engines can reuse its prompt.
        if caption.context is None:
            caption.context = self._utterances.translated_before(utterance, caption.lang)
        terms: Pairs = ()
        if self.context.names or self.context.glossary.terms:  # most rooms have neither
            terms = self.context.terms(utterance.text, target)
        return Job(
            id=self._scheduler.new_id(self._room),
            room=self._room,
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
    """Return the model's tags for two languages, and the number of steps of a translation.

    Returns None if the model lacks them.
    """
    source = languages.match(spoken, model.sources)
    target = languages.match(read, model.targets)
    if source is None or target is None or not model.supports(source, target):
        return None
    return source, target, 2 if model.pivots(source, target) else 1
