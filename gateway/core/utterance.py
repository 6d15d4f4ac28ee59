"""One utterance and its captions: revisions in, stable text and draft out.

Owns: the state of a caption and every change of it. Must not know: who reads, sequence numbers, how
jobs are queued, when a revision is worth translating.

What a reader sees of a caption is ``stable + draft``:

* A partial revision (the source still grows) is shown when its translation is complete, in one
  step: what it agrees on with the one before is committed, as stable text, and the rest is draft,
  but for a masked tail (`gateway.core.streaming.target`). What was committed is forced on every
  later one. A hypothesis that only repeats the beginning of what is shown changes nothing: text
  does not shrink and grow again.
* A final revision is translated freely and streams, as draft behind what was committed, while the
  rest of the last draft stays until it has been outgrown or contradicted. Where it does not go on
  from what was committed it is `contradicted`, and has to be made again with that as its forced
  beginning. Text that came complete, in one revision, streams as stable text.

Stable text is what two translations agree on. It is taken back when the source was changed in what
it was made of, when a translation is made again without the stable text as its beginning (a guard
rejected the earlier one, or the engine cannot begin with a given text), when a person corrects a
caption that is being made, and when the source turns out to be in the reader's language.
"""

from __future__ import annotations

import enum

from gateway.core.streaming.target import Agreement, StabilityRules
from gateway.job import Chunk
from gateway.protocol.messages import By, Delta, Timing


class CaptionState(enum.Enum):
    """Life of a caption. Changed only by the methods of `Caption`."""

    OPEN = "open"  # nothing to do until the source grows
    QUEUED = "queued"
    RUNNING = "running"
    FINAL = "final"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self in _ENDED


_RUNNING = CaptionState.RUNNING
"""The look-up of a member of an `Enum` is a call."""
_ENDED = frozenset((CaptionState.FINAL, CaptionState.FAILED, CaptionState.CANCELLED))


class Caption:
    """One utterance in one language."""

    __slots__ = (
        "_agreement",
        "_base",
        "_first",
        "_hypothesis",
        "_ids",
        "_said",
        "_started",
        "_whole",
        "_sure",
        "by",
        "context",
        "draft",
        "flags",
        "id",
        "job_id",
        "lang",
        "partial",
        "rev",
        "stable",
        "state",
        "turn",
    )

    def __init__(self, id: str, lang: str, rules: StabilityRules) -> None:
        self.id = id
        self.lang = lang
        self.state = CaptionState.OPEN
        self.rev = 0
        self.turn = 0
        """Which of the utterance's admitted texts the caption is, or is being, made of."""
        self.by: By | None = None
        self.context: tuple[tuple[str, str], ...] | None = None
        """What was said before, as its first job was told: the same prompt again costs less."""
        self.job_id: str | None = None
        self.partial = True
        self.stable = ""
        self.draft = ""
        self.flags: tuple[str, ...] = ()
        self._agreement = Agreement(lang, rules)
        self._sure = True  # the source still is what the stable text was made of
        self._base = ""  # what the running job was forced to begin with
        self._whole = False  # the text came complete, in one revision
        self._hypothesis = ""
        self._ids: tuple[int, ...] = ()
        self._said = self._started = self._first = 0.0

    def __repr__(self) -> str:
        return f"<Caption {self.id} {self.lang} rev {self.rev} {self.state.value}>"

    @property
    def committed(self) -> str:
        """What later translations have to begin with; a part of the stable text."""
        return self._agreement.committed

    @property
    def ids(self) -> tuple[int, ...]:
        """Token ids of a translation that begins with `committed`; empty where unknown."""
        return self._agreement.ids if self._agreement.committed else ()

    @property
    def contradicted(self) -> bool:
        """Whether the translation so far cannot go on from what was committed."""
        return not _one_way(self._agreement.committed, self._hypothesis)

    @property
    def broken(self) -> bool:
        """Whether the translation, as it stands, does not begin with what was committed."""
        return not self._hypothesis.startswith(self._agreement.committed)

    @property
    def forced(self) -> bool:
        """Whether the job had a forced beginning."""
        return self._base != ""

    def doubt(self) -> None:
        """The source was changed in what the stable text was made of: it may be taken back."""
        self._sure = not self.stable
        self._agreement.reset()

    def queue(
        self,
        job_id: str,
        rev: int,
        turn: int,
        *,
        partial: bool,
        grown: bool = False,
        base: str = "",
        now: float,
    ) -> None:
        """A job for this text of the utterance was submitted.

        ``base`` is its forced beginning; ``grown`` says that the text has been said bit by bit.
        """
        assert not self.state.ended and self.job_id is None, repr(self)
        self.state = CaptionState.QUEUED
        self.job_id = job_id
        self.rev = rev
        self.turn = turn
        self.partial = partial
        self._whole = not (partial or grown)
        self.flags = ()
        self._base = self._hypothesis = base
        self._ids = ()
        self._said = now
        self._started = self._first = 0.0

    def again(self, job_id: str, *, base: str) -> None:
        """The job of a final revision was taken back, and one with another beginning submitted."""
        assert not self.state.ended and self.job_id is None and not self.partial, repr(self)
        self.state = CaptionState.QUEUED
        self.job_id = job_id
        self.flags = ()
        self._base = self._hypothesis = base
        self._ids = ()
        if not base:
            self.doubt()

    def update(self, rev: int, turn: int) -> None:
        """The job still waits and was given a newer text."""
        assert self.state is CaptionState.QUEUED and self.partial, repr(self)
        self.rev, self.turn = rev, turn

    def start(self, now: float) -> None:
        """The engine was given the job."""
        assert self.state is CaptionState.QUEUED, repr(self)
        self.state = CaptionState.RUNNING
        self._started = self._started or now

    def feed(self, chunk: Chunk, now: float) -> Delta | None:
        """More text from the engine; the delta to show, or None where nothing changes."""
        assert self.state is _RUNNING, repr(self)
        add = chunk.text
        if add and not self._first:
            self._first = now
        text = self.stable
        if text is self._hypothesis and self._whole and add and not chunk.reset:
            # As nearly always of a text that came complete: all that the engine has said is shown,
            # and it says more. `_stream` would find the same, by looking at all of it.
            if chunk.flags:
                self.flags += chunk.flags
            self.stable = self._hypothesis = text = text + add
            return Delta(id=self.id, rev=self.rev, lang=self.lang, add=add, n=len(text))
        if chunk.reset:
            self._hypothesis, self._ids, self.flags = self._base, (), ()
        self._hypothesis += add
        self.flags += chunk.flags
        if self.partial:
            self._ids += chunk.ids  # what comes complete is never forced on another job
            return None
        return self._stream(reset=chunk.reset) if self._whole else self._extend()

    def rest(self) -> Delta | None:
        """The job of a partial revision ended: what it commits, and what changes on the screen."""
        assert self.state is CaptionState.RUNNING and self.partial, repr(self)
        reset = not self._sure and not self._hypothesis.startswith(self.stable)
        if reset:
            self.stable = self.draft = ""
        elif not self._sure:
            self._agreement.commit(self.stable)
        self._sure = True
        self._release(CaptionState.OPEN)
        add = self._agreement.add(self._hypothesis, self._ids)
        return self._show(add, self._agreement.visible(self._hypothesis), reset=reset)

    def echo(self, text: str, rev: int) -> Delta | None:
        """Show the growing source itself, to readers of the speaker's own language."""
        assert not self.state.ended and self.job_id is None, repr(self)
        self.rev = rev
        reset = self.stable != ""  # made before it was known that this language is spoken
        if text == self.draft and not reset:
            return None
        self.stable, self.draft = "", text
        self._agreement.reset()
        return self._delta(draft=text, reset=reset)

    def whole(self) -> Delta | None:
        """Everything shown so far, for a reader who begins to read now."""
        if not (self.stable or self.draft):
            return None
        return self._delta(add=self.stable, draft=self.draft, reset=True)

    def correct(self, text: str) -> Delta | None:
        """What has to be shown before the end, where that does not go on from the stable text."""
        if text.startswith(self.stable):
            return None
        self.stable, self.draft = text, ""
        return self._delta(add=text, draft="", reset=True)

    def finish(self, text: str, by: By, now: float) -> Timing:
        """The caption is complete and will not change again, unless it is edited."""
        assert not self.state.ended, repr(self)
        self.stable, self.draft, self.by = text, "", by
        if by != "mt":  # it was being translated when somebody wrote it
            self.flags = ()
        self._release(CaptionState.FINAL)
        said = self._said or now
        started = self._started or now
        first = self._first or now
        return Timing(queue=_ms(started - said), first=_ms(first - said), total=_ms(now - said))

    def fail(self) -> None:
        """There will be no caption."""
        assert not self.state.ended, repr(self)
        self.stable = self.draft = ""
        self._release(CaptionState.FAILED)

    def cancel(self) -> None:
        """Nobody wants the caption any more."""
        assert not self.state.ended, repr(self)
        self._release(CaptionState.CANCELLED)

    def erase(self) -> None:
        """Forget what the caption said; it is not being made."""
        assert self.job_id is None, repr(self)
        self.stable = self.draft = ""

    def edit(self, text: str, by: By) -> None:
        """Another text takes the place of a caption that is not being made."""
        assert self.job_id is None, repr(self)
        self.stable, self.draft, self.by = text, "", by
        self.flags = ()
        self.state = CaptionState.FINAL

    def withdraw(self) -> None:
        """The job was taken back, or it failed; another may follow."""
        self._release(CaptionState.OPEN)

    @property
    def text(self) -> str:
        """What the engine has made of this revision so far, its forced beginning included."""
        return self._hypothesis

    def _release(self, state: CaptionState) -> None:
        self.state = state
        self.job_id = None
        if state.ended:  # a room remembers it for long
            self._base = self._hypothesis = ""
            self._ids = ()
            self._agreement.reset()

    def _show(self, add: str, visible: str, *, reset: bool = False) -> Delta | None:
        """Commit ``add``, and show ``visible`` unless that would only shorten what is shown."""
        shown = self.stable + self.draft
        self.stable += add
        text = shown if shown.startswith(visible) else visible
        draft = text[len(self.stable) :]
        if not (add or reset) and draft == self.draft:
            return None
        changed = reset or draft != self.draft
        self.draft = draft
        return self._delta(add=add, draft=draft if changed else None, reset=reset)

    def _extend(self) -> Delta | None:
        """Show more of the final translation of a text that has grown: still as draft.

        It is stable when it is complete: a guard may stop it before.
        """
        text = self._hypothesis
        if self.contradicted:
            return None  # it will be made again
        reset = not _one_way(self.stable, text)
        if reset:  # the source was changed
            self.stable = self.draft = ""
        return self._show("", text if len(text) > len(self.stable) else self.stable, reset=reset)

    def _stream(self, *, reset: bool) -> Delta | None:
        """Show more of the translation of a text that came complete, as stable text.

        ``reset``: it is a second attempt. So it is where the source was corrected.
        """
        text = self._hypothesis
        reset = self.stable != "" and (reset or not _one_way(self.stable, text))
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
        )


class Utterance:
    """What one speaker said once, through its revisions; or a part of that, where it was long."""

    __slots__ = (
        "at",
        "author",
        "began",
        "cancelled",
        "captions",
        "final",
        "grown",
        "id",
        "lang",
        "ord",
        "retracted",
        "rev",
        "root",
        "seq",
        "speaker",
        "t0",
        "t1",
        "text",
        "turn",
    )

    def __init__(self, id: str, ord: int, author: str, now: float = 0.0) -> None:
        self.id = id
        self.root = id
        """The id it was said under: of a later part, that of the first."""
        self.ord = ord
        self.seq = 0
        """Number of the log's first event about it, or 0 while it has none."""
        self.author = author
        self.rev = 0
        self.text = ""
        """What is to be translated: of a growing utterance as much as was admitted."""
        self.turn = 0
        """How often `text` was renewed."""
        self.lang = ""
        self.grown = False
        """Whether it was said bit by bit."""
        self.final = False
        self.cancelled = False
        self.retracted = False
        self.began = self.at = now
        """When it was first heard of, and when it was said to its end."""
        self.speaker: str | None = None
        self.t0: float | None = None
        self.t1: float | None = None
        self.captions: dict[str, Caption] = {}

    def __repr__(self) -> str:
        return f"<Utterance {self.id} rev {self.rev} {'final' if self.final else 'growing'}>"

    @property
    def ended(self) -> bool:
        """Said to its end or cancelled, and every caption of it ended: nothing more will come."""
        return (self.final or self.cancelled) and not self.active

    @property
    def active(self) -> list[Caption]:
        """The captions that have not ended."""
        return [caption for caption in self.captions.values() if not caption.state.ended]

    def erase(self) -> None:
        """It was taken back: nothing of what was said is kept."""
        self.retracted = True
        self.text = ""
        for caption in self.captions.values():
            caption.erase()


def _one_way(a: str, b: str) -> bool:
    """Whether one of two texts begins with the other."""
    return a.startswith(b) or b.startswith(a)


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
