"""One utterance and its captions: revisions in, stable text and draft out.

Owns: the state of a caption and every change of it. Must not know: who reads, sequence numbers, how
jobs are queued.

What a reader sees of a caption is ``stable + draft``:

* A partial revision (the source still grows) shows everything as draft. While a new hypothesis
  only repeats the beginning of what is shown, nothing is sent: text does not shrink and grow again.
* A final revision streams as stable text; the rest of the last draft stays behind it until it has
  been outgrown or contradicted.
"""

from __future__ import annotations

import enum

from gateway.job import Chunk
from gateway.messages import By, Delta, Timing


class State(enum.Enum):
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


_ENDED = frozenset((State.FINAL, State.FAILED, State.CANCELLED))


class Caption:
    """One utterance in one language."""

    __slots__ = (
        "_first",
        "_hypothesis",
        "_previous",
        "_said",
        "_started",
        "by",
        "draft",
        "flags",
        "id",
        "job_id",
        "job_text",
        "lang",
        "partial",
        "rev",
        "stable",
        "state",
    )

    def __init__(self, id: str, lang: str) -> None:
        self.id = id
        self.lang = lang
        self.state = State.OPEN
        self.rev = 0
        self.by: By | None = None
        self.job_id: str | None = None
        self.job_text = ""
        self.partial = True
        self.stable = ""
        self.draft = ""
        self.flags: tuple[str, ...] = ()
        self._hypothesis = ""
        self._previous = ""
        self._said = self._started = self._first = 0.0

    def __repr__(self) -> str:
        return f"<Caption {self.id} {self.lang} rev {self.rev} {self.state.value}>"

    def queue(self, job_id: str, rev: int, text: str, *, partial: bool, now: float) -> None:
        """A job for this revision was submitted."""
        assert not self.state.ended and self.job_id is None, repr(self)
        self.state = State.QUEUED
        self.job_id = job_id
        self.job_text = text
        self.rev = rev
        self.partial = partial
        self.flags = ()
        self._previous = self.stable + self.draft
        self._hypothesis = ""
        self._said = now
        self._started = self._first = 0.0

    def start(self, now: float) -> None:
        """The engine was given the job."""
        assert self.state is State.QUEUED, repr(self)
        self.state = State.RUNNING
        self._started = now

    def feed(self, chunk: Chunk, now: float) -> Delta | None:
        """More text from the engine; the delta to show, or None where nothing changes."""
        assert self.state is State.RUNNING, repr(self)
        if chunk.text and not self._first:
            self._first = now
        if chunk.reset:
            self._hypothesis = ""
            self.flags = ()
        self._hypothesis += chunk.text
        self.flags += chunk.flags
        if self.partial:
            repeats = self._previous.startswith(self._hypothesis)
            return self._redraft(self._previous if repeats else self._hypothesis)
        return self._extend(chunk.text, reset=chunk.reset)

    def rest(self) -> Delta | None:
        """The job of a partial revision ended: what still has to change on the screen."""
        assert self.state is State.RUNNING and self.partial, repr(self)
        return self._settle(self._hypothesis)

    def lose(self) -> Delta | None:
        """The job of a partial revision failed: what was shown before it is shown again."""
        assert self.job_id is not None and self.partial, repr(self)
        return self._settle(self._previous)

    def whole(self) -> Delta | None:
        """Everything shown so far, for a reader who begins to read now."""
        if not (self.stable or self.draft):
            return None
        return self._delta(add=self.stable, draft=self.draft, reset=True)

    def finish(self, text: str, by: By, now: float) -> Timing:
        """The caption is complete and will not change again."""
        assert not self.state.ended, repr(self)
        self.stable, self.draft, self.by = text, "", by
        self._release(State.FINAL)
        said = self._said or now
        started = self._started or now
        first = self._first or now
        return Timing(queue=_ms(started - said), first=_ms(first - said), total=_ms(now - said))

    def fail(self) -> None:
        """There will be no caption."""
        assert not self.state.ended, repr(self)
        self.stable = self.draft = ""
        self._release(State.FAILED)

    def cancel(self) -> None:
        """Nobody wants the caption any more."""
        assert not self.state.ended, repr(self)
        self._release(State.CANCELLED)

    def withdraw(self) -> None:
        """The job was taken back; a newer revision follows."""
        self._release(State.OPEN)

    @property
    def text(self) -> str:
        """What the engine has made of this revision so far."""
        return self._hypothesis

    def _release(self, state: State) -> None:
        self.state = state
        self.job_id = None
        if state.ended:
            self.job_text = self._hypothesis = self._previous = ""  # a room remembers it for long

    def _settle(self, draft: str) -> Delta | None:
        self._release(State.OPEN)
        return self._redraft(draft)

    def _redraft(self, draft: str) -> Delta | None:
        if draft == self.draft:
            return None
        self.draft = draft
        return self._delta(draft=draft)

    def _extend(self, text: str, *, reset: bool) -> Delta | None:
        reset = reset and self.stable != ""
        if not (text or reset):
            return None
        self.stable = text if reset else self.stable + text
        rest = ""
        if self.draft and self._previous.startswith(self.stable):
            rest = self._previous[len(self.stable) :]
        changed = rest != self.draft
        self.draft = rest
        return self._delta(add=text, draft=rest if changed else None, reset=reset)

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
    """What one speaker said once, through its revisions."""

    __slots__ = (
        "author",
        "cancelled",
        "captions",
        "final",
        "id",
        "lang",
        "ord",
        "rev",
        "speaker",
        "t0",
        "t1",
        "terms",
        "text",
    )

    def __init__(self, id: str, ord: int, author: str) -> None:
        self.id = id
        self.ord = ord
        self.author = author
        self.rev = 0
        self.text = ""
        self.lang = ""
        self.final = False
        self.cancelled = False
        self.speaker: str | None = None
        self.t0: float | None = None
        self.t1: float | None = None
        self.terms: tuple[tuple[str, str], ...] = ()
        """Glossary (term, translation) pairs that occur in ``text``."""
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


def _ms(seconds: float) -> int:
    return max(0, round(seconds * 1000))
