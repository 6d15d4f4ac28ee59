"""What a room remembers of what was said in it.

Owns: utterances and speeches by their ids, their order, and which of them is forgotten. Must not
know: captions' making, members, the log.

Bound: so many utterances; the oldest that has ended goes first. Their texts are those of the log's
events, so the room has the memory forget what the log has dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, takewhile

from gateway.core.speech import Speech
from gateway.core.streaming.options import StreamingOptions
from gateway.core.utterance import Utterance
from gateway.errors import ClientFault, ErrorCode

NEAR = 8
"""Utterances that are looked at for what was said before one."""


class Utterances:
    """The utterances of one room, in the order in which they began.

    :param room: its name, for people
    :param most: utterances that are remembered
    """

    def __init__(self, room: str, flow: StreamingOptions, most: int) -> None:
        self.speeches: dict[str, Speech] = {}
        self.utterances: dict[str, Utterance] = {}
        self._room = room
        self._flow = flow
        self._most = most
        self._ords = 0

    def __len__(self) -> int:
        return len(self.utterances)

    def begin(self, id: str | None, author: str, now: float) -> Speech:
        """Something new is said; without an ``id`` it gets one."""
        number = self._ords + 1
        while id is None or id in self.utterances or id in self.speeches:
            id = f"u{number}"
            number += 1
        speech = self.speeches[id] = Speech(id, author, self._flow)
        self.part(speech, now)
        return speech

    def part(self, speech: Speech, now: float) -> Utterance:
        """The next utterance of a speech, and its open one from now on."""
        self._ords += 1
        id = speech.name(self.utterances)
        part = self.utterances[id] = Utterance(id, self._ords, speech.author, now)
        part.root = speech.id
        speech.parts.append(part)
        self._forget()
        return part

    def restore(self, utterance: Utterance) -> None:
        """An utterance that an earlier process heard."""
        self._ords = utterance.ord
        self.utterances[utterance.id] = utterance
        self._forget()

    def knows(self, id: str | None) -> bool:
        """Whether something was said under ``id``."""
        return id is not None and (id in self.speeches or id in self.utterances)

    def known(self, id: str) -> Utterance:
        """One utterance. Raises `ClientFault` (``not_found``)."""
        utterance = self.utterances.get(id)
        if utterance is None or utterance.retracted:
            raise ClientFault(
                ErrorCode.NOT_FOUND,
                f"There is no utterance {id!r} in room {self._room!r}.",
                f"The room remembers the last {self._most}.",
            )
        return utterance

    def parts(self, id: str) -> list[Utterance]:
        """What a client means by an id: all that was said under it, or the one part it names."""
        speech = self.speeches.get(id)
        if speech is not None:
            return list(speech.parts)
        utterance = self.utterances.get(id)
        if utterance is None or utterance.root != id:
            return [] if utterance is None else [utterance]
        # An earlier process heard it: there is no speech of it, and nothing will be added.
        return [other for other in self.utterances.values() if other.root == id]

    def last(self, most: int) -> list[Utterance]:
        """The last utterances that were said to their end and stand, newest first."""
        standing = (
            utterance
            for utterance in reversed(self.utterances.values())
            if utterance.final and not utterance.retracted and not utterance.cancelled
        )
        return list(islice(standing, most))

    def before(self, utterance: Utterance) -> Iterator[Utterance]:
        """What was said to its end before an utterance began, newest first."""
        return (other for other in self.last(NEAR) if other.ord < utterance.ord)

    def forget(self, oldest: int) -> None:
        """Forget the utterances that have ended and of which the log has dropped the beginning.

        :param oldest: number of the oldest event in the log
        """
        dropped = takewhile(lambda one: one.seq < oldest, self.utterances.values())
        self._drop([utterance for utterance in dropped if utterance.ended])

    def _forget(self) -> None:
        over = max(0, len(self.utterances) - self._most)
        ended = (utterance for utterance in self.utterances.values() if utterance.ended)
        self._drop(list(islice(ended, over)))

    def _drop(self, utterances: Iterable[Utterance]) -> None:
        for utterance in utterances:
            del self.utterances[utterance.id]
            speech = self.speeches.get(utterance.root)
            # Restored parts belong to none, and their root's id may have been taken again.
            if speech is not None and utterance in speech.parts:
                speech.parts.remove(utterance)
                if not speech.parts:
                    del self.speeches[speech.id]
