"""What is said under one id: its revisions, and the utterances that a long one is cut into.

Owns: which text belongs to the part that still grows, what of it is agreed, and the parts' ids.
Must not know: captions, jobs, readers; where a text is cut is
`gateway.core.streaming.segmentation`'s to say.

The first part keeps the id, the next are ``u1.2``, ``u1.3``. Each is an utterance of its own, with
its own ``ord``, ``source`` and ``final``, while the speaker goes on saying all of it as ``u1``.
"""

from __future__ import annotations

from collections.abc import Container

from gateway.core.streaming import segmentation
from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.segmentation import PauseMap
from gateway.core.streaming.source import PartialPolicy
from gateway.core.utterance import Utterance
from gateway.text import units


class Speech:
    """All that one speaker says under one id.

    ``parts`` are its utterances in order; all but the last have been said to their end. ``gate`` is
    that of the last one.
    """

    __slots__ = (
        "_consumed",
        "_count",
        "_flow",
        "_pauses",
        "author",
        "final",
        "gate",
        "id",
        "parts",
        "rev",
        "text",
    )

    def __init__(self, id: str, author: str, flow: StreamingOptions) -> None:
        self.id = id
        self.author = author
        self.rev = 0
        self.text = ""
        """The newest revision, whole and as it was said."""
        self.final = False
        self.parts: list[Utterance] = []
        self.gate = PartialPolicy(flow.pace)
        self._flow = flow
        self._pauses = PauseMap()
        self._consumed: list[str] = []
        self._count = 0

    def __repr__(self) -> str:
        return f"<Speech {self.id} rev {self.rev}, {self._count} parts>"

    @property
    def open(self) -> Utterance:
        """The part that grows, or the last one."""
        return self.parts[-1]

    @property
    def growing(self) -> bool:
        """Whether it was not said to its end, and not cancelled."""
        return not (self.open.final or self.open.cancelled)

    def name(self, taken: Container[str]) -> str:
        """The id of the next part; ids that clients chose for something else are passed over."""
        self._count += 1
        while (id := segmentation.part_id(self.id, self._count)) in taken:
            self._count += 1
        return id

    def remainder(self, lang: str) -> str:
        """What of the newest text belongs to the open part."""
        if not self._consumed:
            return self.text
        return segmentation.remainder(self.text, self._consumed, lang)

    def offer(self, lang: str, at: float, now: float) -> None:
        """Let the gate see the newest text; it was said ``at`` some time, and silence is a good
        place to cut."""
        rest = self.remainder(lang)
        self._pauses.record(len(units.keyed(rest, units.spaced(lang))[0]), lang, at)
        self.gate.offer(rest, lang, now)

    def cut(self, lang: str) -> str | None:
        """What of the open part is complete, if anything is: the next part begins behind it."""
        agreed = self.gate.agreed
        at = segmentation.cut(
            agreed, lang, self._flow.lengths, self._pauses.before, since=self.gate.admitted
        )
        if at is None:
            return None
        keys, _ = units.keyed(agreed[:at], units.spaced(lang))
        self._consumed += keys
        self._pauses.drop(len(keys))
        self.gate = self.gate.rest(len(keys))
        return agreed[:at].strip()

    def end(self) -> None:
        """It does not grow any more: nothing has to be found again in a longer text."""
        self.gate, self._pauses, self._consumed = PartialPolicy(self._flow.pace), PauseMap(), []

    def erase(self) -> None:
        """It was taken back: nothing of what was said is kept."""
        self.text = ""
        self.end()
