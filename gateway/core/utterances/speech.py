"""The text that is said under one id: its revisions, and the utterances that it is cut into.

Owns: which text belongs to the part that still grows, and the ids of the parts. Must not know:
captions, jobs, readers, where a text is cut (`gateway.core.streaming.segmentation`).

The first part keeps the id, the next are ``u1.2``, ``u1.3``. Each is an utterance of its own, with
its own ``ord``, ``source`` and ``final``, while the speaker goes on saying all of it as ``u1``.
"""

from __future__ import annotations

from collections.abc import Container

from gateway.core.streaming import segmentation
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialPolicy
from gateway.core.streaming.segmentation import PauseMap
from gateway.core.utterances.utterance import Utterance
from gateway.text import units


class Speech:
    """A text that one speaker says under one id.

    ``parts``   its utterances in order; all but the last are complete
    ``policy``  decides when the last part is translated
    """

    __slots__ = (
        "_consumed",
        "_count",
        "_options",
        "_pauses",
        "author",
        "final",
        "policy",
        "id",
        "parts",
        "rev",
        "text",
    )

    def __init__(self, id: str, author: str, options: StreamingOptions) -> None:
        self.id = id
        self.author = author
        self.rev = 0
        self.text = ""
        """Newest revision, whole and as it was said."""
        self.final = False
        self.parts: list[Utterance] = []
        self.policy = PartialPolicy(options.pace)
        self._options = options
        self._pauses = PauseMap()
        self._consumed: list[str] = []
        self._count = 0

    def __repr__(self) -> str:
        return f"<Speech {self.id} rev {self.rev}, {self._count} parts>"

    @property
    def open(self) -> Utterance:
        """Part that grows, or the last one."""
        return self.parts[-1]

    @property
    def growing(self) -> bool:
        """True if it is neither complete nor cancelled."""
        return not (self.open.final or self.open.cancelled)

    def name(self, taken: Container[str]) -> str:
        """Return the id of the next part, which skips ids that clients use for something else."""
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
        """Show the newest text to the policy.

        :param at: time at which it was spoken, in seconds: a pause is a good place to cut
        """
        rest = self.remainder(lang)
        self._pauses.record(len(units.keyed(rest, units.spaced(lang))[0]), lang, at)
        self.policy.offer(rest, lang, now)

    def cut(self, lang: str) -> str | None:
        """Return the complete beginning of the open part, if there is one, and cut behind it."""
        agreed = self.policy.agreed
        at = segmentation.cut(
            agreed,
            lang,
            self._options.lengths,
            self._pauses.before,
            since=self.policy.admitted,
            hidden=self._options.stability.mask,
        )
        if at is None:
            return None
        keys, _ = units.keyed(agreed[:at], units.spaced(lang))
        # Remembered as keys, because later revisions may spell these words differently.
        self._consumed += keys
        self._pauses.drop(len(keys))
        self.policy = self.policy.rest(len(keys))
        return agreed[:at].strip()

    def end(self) -> None:
        """Forget the state that is only needed to find the parts again in a longer text."""
        self.policy, self._pauses, self._consumed = (
            PartialPolicy(self._options.pace),
            PauseMap(),
            [],
        )

    def erase(self) -> None:
        """Erase the text, because it was retracted."""
        self.text = ""
        self.end()
