"""The utterances of a room, by id and in order.

Owns: utterances and speeches, their ids, their order, and which of them are forgotten. Must not
know: how captions are made, members, the log.

Bound: `Limits.utterances`; the oldest that has ended is forgotten first, and utterances in flight
are bounded for each member. An utterance shares its texts with its events in the log. So the room
also forgets an utterance whose events the log has dropped: its texts would not be counted any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from gateway.core.base.translation_context import Pairs
from gateway.core.streaming.options import StreamingOptions
from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.speech import Speech
from gateway.core.utterances.utterance import Utterance
from gateway.errors import ClientFault, ErrorCode
from gateway.limits import Limits
from gateway.text import languages

UTTERANCE_BYTES = 350
"""Bytes that an utterance takes beside its text, which is that of an event: with its `Speech`."""
CAPTION_BYTES = 380
"""Bytes that a caption takes beside its text."""
NEAR = 8
"""Utterances that are searched for earlier translations of the same speech."""


class Utterances(msgspec.Struct, eq=False):
    """The utterances of one room, in the order in which they began."""

    room: str
    options: StreamingOptions
    limits: Limits
    by_id: dict[str, Utterance] = {}
    speeches: dict[str, Speech] = {}
    _last_ord: int = 0

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def bytes(self) -> int:
        """Memory of the utterances beside the events of the log."""
        # A list first, because threads ask, too.
        captions = sum(len(utterance.captions) for utterance in list(self.by_id.values()))
        return len(self.by_id) * UTTERANCE_BYTES + captions * CAPTION_BYTES

    def begin(self, id: str | None, author: str, now: float) -> Speech:
        """Return a new speech under ``id``, or under an id of its own if there is none."""
        number = self._last_ord + 1
        # Clients may have chosen the ids that the room would give next.
        while id is None or id in self.by_id or id in self.speeches:
            id = f"u{number}"
            number += 1
        speech = self.speeches[id] = Speech(id, author, self.options)
        self._add(speech, id, now)
        return speech

    def add_part(self, speech: Speech, now: float) -> Utterance:
        """Begin the next utterance of a speech; it is the open one from now on."""
        return self._add(speech, speech.name(self.by_id), now)

    def _add(self, speech: Speech, id: str, now: float) -> Utterance:
        self._last_ord += 1
        part = self.by_id[id] = Utterance(id, self._last_ord, speech.author, now)
        # Clients know all parts by the id of the first.
        part.root = speech.id
        speech.parts.append(part)
        if len(self.by_id) > self.limits.utterances:
            self._forget()
        return part

    def restore(self, utterance: Utterance) -> None:
        """Add an utterance of an earlier process."""
        self._last_ord = utterance.ord
        self.by_id[utterance.id] = utterance
        if len(self.by_id) > self.limits.utterances:
            self._forget()

    def knows(self, id: str | None) -> bool:
        """Tell whether ``id`` is in use."""
        return id is not None and (id in self.speeches or id in self.by_id)

    def known(self, id: str) -> Utterance:
        """Return an utterance that stands. Raises `ClientFault` (``not_found``)."""
        utterance = self.by_id.get(id)
        if utterance is None or utterance.retracted:
            raise ClientFault(
                ErrorCode.NOT_FOUND,
                f"There is no utterance {id!r} in room {self.room!r}.",
                f"The room remembers the last {self.limits.utterances}.",
            )
        return utterance

    def parts(self, id: str) -> list[Utterance]:
        """Return the utterances that a client means by an id: a whole speech, or one part."""
        speech = self.speeches.get(id)
        if speech is not None:
            return list(speech.parts)
        utterance = self.by_id.get(id)
        if utterance is None or utterance.root != id:
            return [] if utterance is None else [utterance]
        # After a restart there is no speech to the utterance, and no part will be added.
        return [other for other in self.by_id.values() if other.root == id]

    def translated_before(self, utterance: Utterance, lang: str) -> Pairs:
        """Return the texts of the same language shortly before, with their translations.

        Oldest first; `Limits.context` at most, none older than `Limits.context_s`. Utterances that
        were not completed, or were retracted, are passed over.
        """
        pairs: list[tuple[str, str]] = []
        left = NEAR
        for earlier in reversed(self.by_id.values()):
            if not earlier.final or earlier.retracted or earlier.cancelled:
                continue
            if not left:
                break
            left -= 1
            # A backfilled utterance is not told what was said after it.
            if earlier.ord >= utterance.ord:
                continue
            old = utterance.began - earlier.at > self.limits.context_s
            # Context that is too old or too much makes a prompt longer and not better.
            if old or len(pairs) == self.limits.context:
                break
            caption = earlier.captions.get(lang)
            if (
                caption is not None
                and caption.state is CaptionState.FINAL
                and languages.same(earlier.lang, utterance.lang)
            ):
                pairs.append((earlier.text, caption.stable))
        return tuple(reversed(pairs))

    def forget(self, oldest: int) -> None:
        """Forget ended utterances whose first event is older than the oldest one in the log."""
        gone: list[Utterance] = []
        for utterance in self.by_id.values():
            if utterance.seq >= oldest:
                break
            if utterance.ended:
                gone.append(utterance)
        if gone:
            self._drop(gone)

    def _forget(self) -> None:
        over = len(self.by_id) - self.limits.utterances
        ended = (utterance for utterance in self.by_id.values() if utterance.ended)
        self._drop(list(islice(ended, over)))

    def _drop(self, utterances: Iterable[Utterance]) -> None:
        for utterance in utterances:
            del self.by_id[utterance.id]
            speech = self.speeches.get(utterance.root)
            # A restored part belongs to no speech, and its root's id may be in use again.
            if speech is not None and utterance in speech.parts:
                speech.parts.remove(utterance)
                if not speech.parts:
                    del self.speeches[speech.id]
