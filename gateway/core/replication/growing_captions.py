"""The unfinished captions of a room, as a replica has seen them grow.

Owns: what is shown of each. Must not know: who reads them.

Bound: captions end by durable events, so there are as many as the authority has in the making.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gateway.core.delivery.waiting_frames import merge
from gateway.core.history.event_log import Durable
from gateway.protocol.messages import Cancelled, Delta, Edited, Failed, Final, Retracted


class GrowingCaptions:
    """The captions that have not ended, by utterance and language."""

    def __init__(self) -> None:
        self._shown: dict[tuple[str, str], Delta] = {}

    def grow(self, delta: Delta) -> Delta:
        """Add more text of a caption, and return the delta as readers are to be shown it.

        The first one has a ``reset``, because a reader may have seen the beginning of another
        translation, whose gateway has died.
        """
        key = (delta.id, delta.lang)
        before = self._shown.get(key)
        if before is None and not delta.reset:
            delta = replace(delta, reset=True)
        # A text that begins anew has nothing of the one before, not even its draft.
        self._shown[key] = delta if before is None or delta.reset else merge(before, delta)
        return delta

    def forget_ended(self, event: Durable) -> None:
        """Forget the captions that a durable event ends."""
        match event:
            case Final() | Failed() | Edited() | Cancelled(lang=str()):
                self._shown.pop((event.id, event.lang or ""), None)
            case Cancelled() | Retracted():
                for key in [key for key in self._shown if key[0] == event.id]:
                    del self._shown[key]

    def replace(self, growing: Iterable[Delta]) -> list[Delta]:
        """Take over the captions of an authority; return deltas that lead from the earlier ones."""
        before = self._shown
        self._shown = {(delta.id, delta.lang): delta for delta in growing}
        gone = [
            Delta(id=delta.id, rev=delta.rev, lang=delta.lang, draft="", reset=True, n=0)
            for key, delta in before.items()
            if key not in self._shown
        ]
        return [*gone, *self._shown.values()]

    def of(self, lang: str) -> list[Delta]:
        """Return all that is shown of the captions in a language, oldest first."""
        return [delta for delta in self._shown.values() if delta.lang == lang]
