"""The text that is said under one id: its revisions, and the utterances that it is cut into.

Owns: which text belongs to the part that still grows, and the ids of the parts. Must not know:
captions, jobs, readers, where a text is cut (`gateway.core.streaming.segmentation`).

The first part keeps the id, the next are ``u1.2``, ``u1.3``. Each is an utterance of its own, with
its own ``ord``, ``source`` and ``final``, while the speaker goes on saying all of it as ``u1``.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from gateway.core.streaming import segmentation
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialPolicy
from gateway.core.streaming.segmentation import PauseMap
from gateway.core.utterances.utterance import Utterance
from gateway.text import word_units


class Speech(msgspec.Struct, eq=False):
    """A text that one speaker says under one id."""

    id: str
    author: str
    options: StreamingOptions
    rev: int = 0
    text: str = ""
    """Newest revision, whole and as it was said."""
    final: bool = False
    parts: list[Utterance] = []
    """Utterances in order; all but the last are complete."""
    # Most texts come complete, and need neither of them.
    _policy: PartialPolicy | None = None
    _pauses: PauseMap | None = None
    _consumed: list[str] = []
    _count: int = 1

    def __repr__(self) -> str:
        return f"<Speech {self.id} rev {self.rev}, {self._count} parts>"

    @property
    def open(self) -> Utterance:
        """Part that grows, or the last one."""
        return self.parts[-1]

    @property
    def policy(self) -> PartialPolicy:
        """The policy that decides when the last part is translated."""
        if self._policy is None:
            self._policy = PartialPolicy(self.options.pace)
        return self._policy

    @property
    def growing(self) -> bool:
        """True if it is neither complete nor cancelled."""
        return not (self.open.final or self.open.cancelled)

    def name(self, taken: Container[str]) -> str:
        """Return the id of a later part, which skips ids that clients use for something else."""
        self._count += 1
        while (id := segmentation.part_id(self.id, self._count)) in taken:
            self._count += 1
        return id

    def remainder(self, lang: str) -> str:
        """Return the rest of the newest text, which belongs to the open part."""
        if not self._consumed:
            return self.text
        return segmentation.remainder(self.text, self._consumed, lang)

    def offer(self, lang: str, at: float, now: float) -> None:
        """Show the newest text to the policy. Pauses in the time at which it was spoken are good
        places to cut.
        """
        rest = self.remainder(lang)
        self._pauses = self._pauses or PauseMap()
        self._pauses.record(len(word_units.keyed(rest, word_units.spaced(lang))[0]), lang, at)
        self.policy.offer(rest, lang, now)

    def cut(self, lang: str) -> str | None:
        """Return the complete beginning of the open part, if there is one, and cut behind it."""
        policy, pauses = self.policy, self._pauses
        assert pauses is not None, "a text was offered"
        agreed = policy.agreed
        at = segmentation.cut(
            agreed,
            lang,
            self.options.lengths,
            pauses.before,
            since=policy.admitted,
            hidden=self.options.stability.mask,
        )
        if at is None:
            return None
        keys, _ = word_units.keyed(agreed[:at], word_units.spaced(lang))
        # Remembered as keys, because later revisions may spell these words differently.
        self._consumed += keys
        pauses.drop(len(keys))
        self._policy = policy.rest(len(keys))
        return agreed[:at].strip()

    def continues(self, text: str, lang: str) -> bool:
        """Tell whether a final text continues the one that was translated last."""
        return self._policy is None or self._policy.continues(text, lang)

    def forget_parts(self) -> None:
        """Forget the state that is only needed to find the parts again in a longer text."""
        self._policy, self._pauses, self._consumed = None, None, []

    def erase(self) -> None:
        """Erase the text, because it was retracted."""
        self.text = ""
        self.forget_parts()
