"""The members of a room, and the languages that each of them reads.

Owns: the members present, the languages to caption, how long a language outlives its last reader,
and which outboxes an event goes into. Must not know: utterances, why an event is sent.

Tags that the model serves with the same language (``de`` and ``de-AT``) share one translation, and
each reader is sent it under its own tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from msgspec.structs import replace

from gateway.auth.permissions import Role
from gateway.core.delivery.fanout import Encoder, FanoutGroup
from gateway.core.members.member import Member, Reply
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Delta, View
from gateway.protocol.notices import Presence
from gateway.text import languages

NAMED = 100
"""Names of speakers in `Subscribers.presence`, which is sent to everybody, and often."""


class Subscribers:
    """The members of a room.

    :param targets: the languages that the model writes
    :param linger: seconds that a language is still captioned after its last reader has left: most
        readers that lose their network are back before
    """

    def __init__(self, targets: Sequence[str], linger: float) -> None:
        self.members: dict[str, Member] = {}
        self._targets = targets
        self._linger = linger
        self._readers: dict[str, dict[tuple[str, str], tuple[Member, str, FanoutGroup | None]]] = {}
        self._groups: dict[str, dict[tuple[str, bool, Codec], FanoutGroup]] = {}
        self._until: dict[str, float] = {}

    @property
    def wanted(self) -> set[str]:
        """Languages to caption: somebody reads them, or did so until a moment ago."""
        return self._readers.keys() | self._until.keys()

    @property
    def due(self) -> float | None:
        """Time at which `expire` will return a language; None if all have readers."""
        return min(self._until.values(), default=None)

    def served_by(self, tag: str) -> str:
        """Return the language that serves readers of ``tag``; the tag itself if there is none."""
        try:
            return languages.match(tag, self._targets) or tag
        except ValueError:  # not a tag: a client may cancel any string
            return tag

    def serving(self, tags: Iterable[str]) -> list[tuple[str, str]]:
        """Return each tag with the language that serves it."""
        return [(tag, self.served_by(tag)) for tag in tags]

    def join(self, member: Member) -> None:
        """Add a member."""
        self.members[member.id] = member
        self._enter(member)

    def leave(self, member: Member, now: float) -> None:
        """Remove a member; its languages linger if it was their last reader."""
        del self.members[member.id]
        for tag in member.langs:
            self._drop(member, tag, now)

    def change(self, member: Member, langs: tuple[str, ...], now: float) -> None:
        """Let a member read ``langs`` instead of its languages before."""
        for tag in member.langs:
            self._drop(member, tag, now)
        member.langs = langs
        self._enter(member)

    def expire(self, now: float) -> set[str]:
        """Return languages that linger no later than ``now``; they are not `wanted` any more."""
        over = {lang for lang, until in self._until.items() if until <= now}
        for lang in over:
            del self._until[lang]
        return over

    def tell(
        self,
        envelope: Envelope,
        lang: str | None,
        now: float,
        *,
        but: Member | None = None,
        tag: str | None = None,
    ) -> None:
        """Send an event to the readers of a language under their own tags, or to all with None. One
        member, ``but``, is answered separately, under ``tag``.
        """
        if lang is None:
            for member in self.members.values():
                if member is not but:
                    member.hear(envelope, now)
        else:
            for member, own, _ in self._readers.get(lang, {}).values():
                if member is not but or own != tag:
                    member.hear(envelope.for_language(own), now)

    def publish(
        self, envelope: Envelope, lang: str | None, now: float, reply: Reply | None
    ) -> None:
        """Send a durable event to the readers of a language, or to all with None, and as the answer
        to a request if it answers one.
        """
        if reply is None:
            self.tell(envelope, lang, now)
            return
        self.tell(envelope, lang, now, but=reply.member, tag=reply.tag)
        if reply.tag is not None:
            envelope = envelope.for_language(reply.tag)
        # Last, since only this member knows the reference.
        if reply.ref is not None:
            envelope = Envelope(replace(envelope.message, ref=reply.ref))
        reply.member.answer(envelope, now)

    def show(self, delta: Delta, now: float) -> None:
        """Send an ephemeral delta to the readers that follow its caption as it grows. It is encoded
        once for each encoding, view and tag, however many readers there are.
        """
        lang = delta.lang
        groups = self._groups.get(lang)
        if groups is None:
            return
        for group in groups.values():
            shown = delta
            # Views without drafts are sent only deltas that change the stable text.
            if delta.draft is not None and not group.live:
                if not (delta.add or delta.reset):
                    continue
                shown = shown_in("stable", delta)
            if group.tag != lang:
                shown = replace(shown, lang=group.tag)
            group.show(shown, now)

    def catch_up(self, member: Member, tag: str, delta: Delta, now: float) -> None:
        """Send one reader the text of a caption so far, as its view shows it."""
        if member.view != "final" and member.catch_up is None:
            shown = Envelope(shown_in(member.view, delta))
            member.outbox.push(shown.for_language(tag), now)

    def presence(self) -> Presence:
        """Return the number of readers of each language, and the first speakers by name."""
        names = dict.fromkeys(
            member.speaker
            for member in self.members.values()
            if member.speaker is not None and member.role is not Role.VIEW
        )
        return Presence(
            readers={lang: len(self._readers[lang]) for lang in sorted(self._readers)},
            members=len(self.members),
            speakers=tuple(sorted(islice(names, NAMED))),
        )

    def encoder(self, codec: Codec) -> Encoder:
        """Return the function that encodes deltas for the readers of a codec."""
        return codec.wire

    def _enter(self, member: Member) -> None:
        for tag in member.langs:
            lang = self.served_by(tag)
            # Somebody reads it again, so its captions go on.
            self._until.pop(lang, None)
            group = None
            if member.view != "final":  # such a reader is sent no deltas, so it has no group
                group = self._group(lang, tag, member.view == "live", member.outbox.codec)
                member.outbox.enter(group)
            self._readers.setdefault(lang, {})[member.id, tag] = (member, tag, group)

    def _group(self, lang: str, tag: str, live: bool, codec: Codec) -> FanoutGroup:
        groups = self._groups.setdefault(lang, {})
        group = groups.get((tag, live, codec))
        if group is None:
            group = groups[tag, live, codec] = FanoutGroup(tag, live, codec, self.encoder(codec))
        return group

    def _drop(self, member: Member, tag: str, now: float) -> None:
        lang = self.served_by(tag)
        readers = self._readers[lang]
        _, _, group = readers.pop((member.id, tag))
        if group is not None:
            member.outbox.leave(group)
            # An empty group would still encode every delta.
            if not group:
                del self._groups[lang][tag, group.live, group.codec]
                if not self._groups[lang]:
                    del self._groups[lang]
        if not readers:  # most who lose their network come back soon
            del self._readers[lang]
            self._until[lang] = now + self._linger


def shown_in(view: View, delta: Delta) -> Delta:
    """Return a delta as readers with a view are sent it: only the live view has drafts."""
    return delta if view == "live" else replace(delta, draft=None)
