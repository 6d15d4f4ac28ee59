"""The captions that a client would show, with every check that a client could make."""

from __future__ import annotations

from os.path import commonprefix

import msgspec

from gateway.protocol.messages import (
    Cancelled,
    Delta,
    Edited,
    Failed,
    Final,
    Retracted,
    ServerMessage,
    Snapshot,
    Source,
    Synced,
    Welcome,
)


class Shown:
    """One caption on a screen."""

    def __init__(self) -> None:
        self.stable = ""
        self.draft = ""
        self.end: Final | Failed | Cancelled | None = None

    @property
    def text(self) -> str:
        return self.stable + self.draft


class Screen:
    """Captions that a client shows, by (id, lang). Every event is checked against those before it.

    ``strict``: the client reads in time and from the beginning, so that the stable text it put
    together must be the beginning of the final one. ``erased`` counts the characters of stable text
    that were taken back.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.captions: dict[tuple[str, str], Shown] = {}
        self.originals: dict[str, Source] = {}
        self.void: dict[str, int] = {}
        self.gone: set[str] = set()
        self.erased = 0
        self.seq = 0

    def __getitem__(self, key: tuple[str, str]) -> Shown:
        return self.captions.setdefault(key, Shown())

    def show(self, event: ServerMessage) -> None:
        seq = getattr(event, "seq", None)
        if seq is not None:
            assert isinstance(event, Welcome | Synced) or seq >= self.seq, "the log runs backwards"
            self.seq = seq
        match event:
            case Synced(seq=seq):
                for caption in self.captions.values():  # their ends come again
                    if caption.end is not None and (caption.end.seq or 0) > seq:
                        caption.end = None
            case Source():
                self.originals[event.id] = event
                self.gone.discard(event.id)  # the room has forgotten another of this id
            case Delta(id=id, lang=lang):
                self._check(event)
                caption = self[id, lang]
                if event.reset:
                    kept = commonprefix([caption.stable, event.add])
                    self.erased += len(caption.stable) - len(kept)
                    caption.stable = ""
                caption.stable += event.add
                if event.draft is not None:
                    caption.draft = event.draft
                assert len(caption.stable) == event.n, f"{event} on {caption.stable!r}"
            case Final(id=id, lang=lang, text=text):
                self._check(event)
                caption = self[id, lang]
                assert not self.strict or text.startswith(caption.stable), caption.stable
                caption.stable, caption.draft, caption.end = text, "", event
            case Failed(id=id, lang=lang):
                self._check(event)
                self[id, lang].end = event
            case Cancelled(id=id, lang=None, seq=int()):
                self.void[id] = event.rev
                for (other, _), caption in self.captions.items():
                    if other == id and caption.end is None:
                        caption.end = event
            case Cancelled(id=id, lang=str() as lang, seq=int()):
                assert self[id, lang].end is None, f"{event} after {self[id, lang].end}"
                self[id, lang].end = event
            case Edited(id=id, lang=lang, text=text):
                assert id not in self.gone, f"{event} after it was taken back"
                source = self.originals.get(id)
                if source is not None and event.by == "human" and lang == source.lang:
                    self.originals[id] = msgspec.structs.replace(source, text=text)
                else:
                    self[id, lang].stable, self[id, lang].draft = text, ""
            case Retracted(id=id):
                self.gone.add(id)
                self.originals.pop(id, None)
                self.captions = {key: c for key, c in self.captions.items() if key[0] != id}
            case Snapshot(id=id, lines=lines):
                for line in lines:
                    if self[id, line.lang].end is None and line.state not in (
                        "failed",
                        "cancelled",
                    ):
                        self[id, line.lang].stable = line.text
                        self[id, line.lang].draft = line.draft or ""

    def _check(self, event: Delta | Final | Failed) -> None:
        assert event.id not in self.gone, f"{event} after it was taken back"
        end = self[event.id, event.lang].end
        assert end is None, f"{event} after {end}"
        assert event.rev > self.void.get(event.id, 0), f"{event} after its cancel"
