"""An utterance and its captions: revisions in, stable text and draft out.

Owns: the texts of a caption and every change of them. Must not know: readers, sequence numbers, how
jobs are queued, when a revision is worth translating.

A reader is shown ``stable + draft`` of a caption:

* The translation of a partial revision (the source still grows) is shown when it is complete, in
  one step. The words on which it agrees with the translations before are committed as stable text,
  and the rest is draft, except for a masked tail (`gateway.core.streaming.stability`). Every later
  translation is forced to begin with the committed text. A hypothesis that only repeats the
  beginning of the shown text changes nothing, so that text does not shrink and grow again.
* The translation of a final revision is free. It streams as draft behind the committed text, while
  the rest of the last draft stays until it has been outgrown or contradicted. If it does not
  continue the committed text it is `contradicted`, and is made again with that text as its forced
  beginning. Text that came complete, in one revision, streams as stable text.

Stable text is retracted in four cases: the source it was made of was changed; a translation is made
again without it as its beginning, because a guard rejected the one before or the engine cannot
begin with a given text; a person corrects a caption that is being made; the source turns out to be
in the reader's language.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gateway.core.base.transitions import next_state
from gateway.core.streaming.stability import Agreement, StabilityRules
from gateway.core.utterances.caption_state import CAPTION_TRANSITIONS, CaptionEvent, CaptionState
from gateway.job import Chunk, Job
from gateway.protocol.fields import Statement
from gateway.protocol.messages import By, Delta, Timing
from gateway.protocol.personal import erased

_RUNNING = CaptionState.RUNNING
"""A global, because the look-up of a member of an `Enum` is a call, once for every delta."""


@dataclass(slots=True, eq=False)
class Caption:
    """An utterance in one language."""

    id: str
    lang: str
    rules: StabilityRules
    speaker: str | None = None
    state: CaptionState = CaptionState.OPEN
    rev: int = 0
    text_number: int = 0
    """`Utterance.text_number` of the text that the caption is made of."""
    by: By | None = None
    context: tuple[tuple[str, str], ...] | None = None
    """Texts before it, as its first job was told: engines reuse the same prompt."""
    job_id: str | None = None
    partial: bool = True
    stable: str = ""
    draft: str = ""
    flags: tuple[str, ...] = ()
    p: float = 1.0
    """Probability that the translation is right, as far as the engine knows it."""
    text: str = ""
    """Translation of this revision so far, with its forced beginning."""
    queued_at: float = 0.0
    """Times in seconds at which a job was queued, was given to the engine, and returned its first
    text; 0 if that has not happened."""
    started_at: float = 0.0
    first_at: float = 0.0
    _agreement: Agreement | None = None  # once a partial was translated
    _source_kept: bool = True  # the stable text was made of the source as it is
    _base: str = ""  # what the running job was forced to begin with
    _needed: int = 0  # characters that the running job was asked for; 0: all
    _whole: bool = False  # the text came complete, in one revision
    _ids: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<Caption {self.id} {self.lang} rev {self.rev} {self.state.value}>"

    @property
    def committed(self) -> str:
        """Text that later translations have to begin with; a part of the stable text."""
        return "" if self._agreement is None else self._agreement.committed

    def last(self, prefix: str) -> tuple[tuple[int, ...], str]:
        """Return the last translation of a partial: its token ids, and its text behind ``prefix``.
        Both are empty if there is none; the text also if it begins otherwise.
        """
        agreement = self._agreement
        return ((), "") if agreement is None else (agreement.ids, agreement.draft(prefix))

    @property
    def contradicted(self) -> bool:
        """True if the translation so far cannot continue the committed text."""
        return not _agree(self.committed, self.text)

    @property
    def broken(self) -> bool:
        """True if the translation as it stands does not begin with the committed text."""
        return not self.text.startswith(self.committed)

    @property
    def forced(self) -> bool:
        """True if the job had a forced beginning."""
        return self._base != ""

    def invalidate(self) -> None:
        """Allow the stable text to be retracted: the source it was made of was changed."""
        self._source_kept = not self.stable
        if self._agreement is not None:
            self._agreement.reset()

    def queue(self, job: Job, utterance: Utterance, now: float) -> None:
        """Note the job that was submitted for the text of the utterance."""
        self._begin_job(job)
        self.rev, self.text_number = utterance.rev, utterance.text_number
        self.partial, self._needed = job.partial, job.needed
        self._whole = not (job.partial or utterance.grown)
        self.queued_at = now
        self.started_at = self.first_at = 0.0

    def requeue(self, job: Job) -> None:
        """Note the job with another forced beginning that replaces one of a final revision."""
        assert not self.partial, repr(self)
        self._begin_job(job)
        if not job.prefix:  # a free translation may contradict what was shown
            self.invalidate()

    def update(self, job: Job, utterance: Utterance) -> None:
        """Note the newer text that a waiting job was given."""
        assert self.state is CaptionState.QUEUED and self.partial, repr(self)
        self.rev, self.text_number = utterance.rev, utterance.text_number
        self._needed = job.needed

    def start(self, now: float) -> None:
        """Note that the engine was given the job."""
        self.state = next_state(CAPTION_TRANSITIONS, self.state, CaptionEvent.START)
        # A caption that is made again has waited for its first job only.
        self.started_at = self.started_at or now

    def add_output(self, chunk: Chunk, now: float) -> Delta | None:
        """Add text from the engine; return the delta to show, or None if nothing changes."""
        assert self.state is _RUNNING, repr(self)
        add = chunk.text
        if add and not self.first_at:
            self.first_at = now
        text = self.stable
        if text is self.text and self._whole and add and not chunk.reset:
            # The usual case of a text that came complete: everything received is shown already, so
            # append without comparing. `_stream` would give the same, but read the whole text.
            if chunk.flags or chunk.p < 1.0:
                self._doubt(chunk)
            speaker = None if text else self.speaker
            self.stable = self.text = text = text + add
            return Delta(
                id=self.id, rev=self.rev, lang=self.lang, add=add, n=len(text), speaker=speaker
            )
        # The job was begun again, by a guard or by another engine.
        if chunk.reset:
            self.text, self._ids, self.flags, self.p = self._base, (), (), 1.0
        self.text += add
        self._doubt(chunk)
        # A partial is shown in one step at its end: drafts that grow and shrink are unreadable.
        if self.partial:
            self._ids += chunk.ids  # a final translation is never forced on another job
            return None
        return self._stream(reset=chunk.reset) if self._whole else self._extend()

    def finish_partial(self) -> Delta | None:
        """Commit the words that the ended job of a partial revision agrees on; return the
        change.
        """
        assert self.state is CaptionState.RUNNING and self.partial, repr(self)
        agreement = self._agreement = self._agreement or Agreement(self.lang, self.rules)
        # Text that the new source confirms stays, so that readers see no flicker.
        reset = not self._source_kept and not self.text.startswith(self.stable)
        if reset:
            self.stable = self.draft = ""
        elif not self._source_kept:
            agreement.commit(self.stable)
        self._source_kept = True
        self._end_job(CaptionEvent.RELEASE)
        # A hypothesis counts once it is whole: half of one always seems to disagree.
        needed = self._needed and len(self._base) + self._needed
        add = agreement.add(self.text, self._ids, needed)
        return self._show(add, agreement.visible(self.text, needed), reset=reset)

    def echo(self, text: str, rev: int) -> Delta | None:
        """Show the growing source itself to readers of the speaker's own language."""
        assert not self.state.ended and self.job_id is None, repr(self)
        self.rev = rev
        reset = self.stable != ""  # a translation, made before the speaker's language was known
        if text == self.draft and not reset:
            return None
        self.stable, self.draft = "", text
        if self._agreement is not None:
            self._agreement.reset()
        return self._delta(draft=text, reset=reset)

    def full_delta(self) -> Delta | None:
        """Return everything shown so far, for a reader that begins now; None if nothing is."""
        if not (self.stable or self.draft):
            return None
        return self._delta(add=self.stable, draft=self.draft, reset=True)

    def correct(self, text: str) -> Delta | None:
        """Return the change to show before the end if ``text`` does not continue the stable
        text.
        """
        if text.startswith(self.stable):
            return None
        self.stable, self.draft = text, ""
        return self._delta(add=text, draft="", reset=True)

    def finish(self, text: str, by: By, now: float) -> Timing:
        """End with a complete text, which only `edit` changes; return how long it took."""
        self._end_job(CaptionEvent.FINISH)
        self.stable, self.draft, self.by = text, "", by
        if by != "mt":  # a person wrote it while it was being translated
            self.flags, self.p = (), 1.0
        said = self.queued_at or now
        started = self.started_at or now
        first = self.first_at or now
        return Timing(queue=_ms(started - said), first=_ms(first - said), total=_ms(now - said))

    def fail(self) -> None:
        """End without a text."""
        self._end_job(CaptionEvent.FAIL)
        self.stable = self.draft = ""

    def cancel(self) -> None:
        """End because nobody wants the caption any more."""
        self._end_job(CaptionEvent.CANCEL)

    def erase(self) -> None:
        """Erase the text of a caption that is not being made."""
        assert self.job_id is None, repr(self)
        self.stable = self.draft = ""

    def edit(self, text: str, by: By) -> None:
        """Replace the text of a caption that is not being made."""
        self.state = next_state(CAPTION_TRANSITIONS, self.state, CaptionEvent.EDIT)
        self.stable, self.draft, self.by = text, "", by
        self.flags, self.p = (), 1.0

    def withdraw(self) -> None:
        """Note that the job was taken back or has failed; another may follow."""
        self._end_job(CaptionEvent.RELEASE)

    def _begin_job(self, job: Job) -> None:
        self.state = next_state(CAPTION_TRANSITIONS, self.state, CaptionEvent.QUEUE)
        self.job_id = job.id
        self._base = self.text = job.prefix
        self.flags, self.p, self._ids = (), 1.0, ()

    def _doubt(self, chunk: Chunk) -> None:
        self.flags += chunk.flags
        self.p *= chunk.p

    def _end_job(self, event: CaptionEvent) -> None:
        self.state = next_state(CAPTION_TRANSITIONS, self.state, event)
        self.job_id = None
        if self.state.ended:  # the room keeps it for long, so free what only a job needs
            self._base = self.text = ""
            self._ids, self._agreement = (), None

    def _show(self, add: str, visible: str, *, reset: bool = False) -> Delta | None:
        """Commit ``add``, and show ``visible`` unless that only shortened the visible text."""
        shown = self.stable + self.draft
        self.stable += add
        # A translation that only repeats the beginning would make text shrink and grow again.
        text = shown if shown.startswith(visible) else visible
        draft = text[len(self.stable) :]
        if not (add or reset) and draft == self.draft:
            return None
        changed = reset or draft != self.draft
        self.draft = draft
        return self._delta(add=add, draft=draft if changed else None, reset=reset)

    def _extend(self) -> Delta | None:
        """Show more of the final translation of a text that has grown, still as draft. The text
        becomes stable with the end, since a guard may stop the job before.
        """
        text = self.text
        if self.contradicted:
            return None  # it is made again
        reset = not _agree(self.stable, text)
        if reset:  # the source was changed
            self.stable = self.draft = ""
        return self._show("", text if len(text) > len(self.stable) else self.stable, reset=reset)

    def _stream(self, *, reset: bool) -> Delta | None:
        """Show more of the translation of a text that came complete, as stable text. A ``reset``
        replaces the text of a first attempt.
        """
        text = self.text
        reset = self.stable != "" and (reset or not _agree(self.stable, text))
        if not reset and len(text) <= len(self.stable):
            return None
        add = text if reset else text[len(self.stable) :]
        self.stable = text
        return self._delta(add=add, reset=reset)

    def _delta(self, *, add: str = "", draft: str | None = None, reset: bool = False) -> Delta:
        return Delta(
            id=self.id,
            rev=self.rev,
            lang=self.lang,
            add=add,
            draft=draft,
            reset=reset,
            n=len(self.stable),
            speaker=self.speaker if len(add) == len(self.stable) else None,
        )


class Utterance(msgspec.Struct, eq=False):
    """A text that one speaker says, through its revisions; or one part of a long text."""

    id: str
    ord: int
    author: str
    began: float = 0.0
    """Time of its begin, in seconds."""
    at: float = 0.0
    """Time of its end; of its begin while it grows."""
    root: str = ""
    """Id of the first part, under which the client says all of them."""
    seq: int = 0
    """Number of the first event about it in the log; 0 while there is none."""
    rev: int = 0
    text: str = ""
    """Text to translate: of a growing utterance as much as is agreed."""
    text_number: int = 0
    """Number of `text`, which rises with every change of it."""
    lang: str = ""
    grown: bool = False
    """True if it was spoken in several revisions."""
    final: bool = False
    cancelled: bool = False
    retracted: bool = False
    statement: Statement = Statement()
    captions: dict[str, Caption] = {}

    def __post_init__(self) -> None:
        self.root = self.root or self.id
        self.at = self.at or self.began

    def __repr__(self) -> str:
        return f"<Utterance {self.id} rev {self.rev} {'final' if self.final else 'growing'}>"

    @property
    def ended(self) -> bool:
        """True if it is complete or cancelled, and every caption of it has ended."""
        if not (self.final or self.cancelled):
            return False
        for caption in self.captions.values():  # a loop, because this is asked after every job
            if not caption.state.ended:
                return False
        return True

    def add_caption(self, lang: str, rules: StabilityRules) -> Caption:
        """Return a new caption in a language, instead of one that there was."""
        caption = self.captions[lang] = Caption(self.id, lang, rules, self.statement.speaker)
        return caption

    @property
    def active(self) -> list[Caption]:
        """Captions that have not ended."""
        return [caption for caption in self.captions.values() if not caption.state.ended]

    def erase(self) -> None:
        """Erase all texts, because the utterance was retracted."""
        self.retracted = True
        self.text = ""
        self.statement = erased(self.statement)
        for caption in self.captions.values():
            caption.erase()


def _agree(a: str, b: str) -> bool:
    return a.startswith(b) or b.startswith(a)


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
