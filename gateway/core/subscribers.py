"""Who is in a room, and who of them reads what.

Owns: members, the languages that are made for them, how long a language outlives its last reader,
and whose outbox an event goes into. Must not know: utterances, why something is sent.

Two tags that the model serves with one language are one (``de`` and ``de-AT``): it is translated
once, and each reader gets it under the tag it asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from gateway.auth.permissions import Role
from gateway.core.fanout import FanoutGroup
from gateway.core.member import Member
from gateway.protocol.codec import Codec, Envelope
from gateway.protocol.messages import Delta, Presence
from gateway.text import languages

NAMED = 100
"""Speakers whose names `Subscribers.presence` tells: it goes to everybody, and again and again."""


class Subscribers:
    """The members of a room.

    :param targets: the languages of the model
    :param linger: seconds that a language is still made after its last reader left: most who lose
        their network are back before
    """

    def __init__(self, targets: Sequence[str], linger: float) -> None:
        self.members: dict[str, Member] = {}
        self._targets = targets
        self._linger = linger
        self._readers: dict[str, dict[tuple[str, str], tuple[Member, str, FanoutGroup | None]]] = {}
        self._circles: dict[str, dict[tuple[str, bool, Codec], FanoutGroup]] = {}
        self._until: dict[str, float] = {}

    def __repr__(self) -> str:
        return f"<Audience of {len(self.members)} in {sorted(self._readers)}>"

    @property
    def wanted(self) -> set[str]:
        """The languages to be made: somebody reads them, or did until a moment ago."""
        return self._readers.keys() | self._until.keys()

    @property
    def due(self) -> float | None:
        """When `expire` will have something to say."""
        return min(self._until.values(), default=None)

    def key(self, tag: str) -> str:
        """The language that serves a reader of ``tag``; the tag itself where the model has none."""
        try:
            return languages.match(tag, self._targets) or tag
        except ValueError:  # no tag at all: somebody cancels a language that cannot be
            return tag

    def join(self, member: Member) -> None:
        self.members[member.id] = member
        self._enter(member)

    def leave(self, member: Member, now: float) -> None:
        del self.members[member.id]
        for tag in member.langs:
            self._drop(member, tag, now)

    def change(self, member: Member, langs: tuple[str, ...], now: float) -> None:
        """The member reads ``langs`` from now on."""
        for tag in member.langs:
            self._drop(member, tag, now)
        member.langs = langs
        self._enter(member)

    def expire(self, now: float) -> set[str]:
        """The languages that nobody has come back for; they are not `wanted` any more."""
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
        """Send an event to those who read a language, each under its own tag; None: to all.

        ``but`` has it already, under ``tag``.
        """
        if lang is None:
            for member in self.members.values():
                if member is not but:
                    member.hear(envelope, now)
        else:
            for member, own, _ in self._readers.get(lang, {}).values():
                if member is not but or own != tag:
                    member.hear(envelope.for_language(own), now)

    def show(self, delta: Delta, now: float) -> None:
        """Send an ephemeral delta to those who read its language as it grows.

        It is encoded once for each encoding, view and tag, however many they are.
        """
        lang = delta.lang
        circles = self._circles.get(lang)
        if circles is None:
            return
        for circle in circles.values():
            shown = delta
            if delta.draft is not None and not circle.live:
                if not (delta.add or delta.reset):
                    continue
                shown = settled(delta)
            if circle.tag != lang:
                shown = replace(shown, lang=circle.tag)
            circle.show(shown, now)

    def catch_up(self, member: Member, tag: str, delta: Delta, now: float) -> None:
        """Send what has been shown of a caption to one reader, as far as its view has it."""
        if member.view != "final" and member.backlog is None:
            shown = delta if member.view == "live" else settled(delta)
            member.outbox.push(Envelope(shown).for_language(tag), now)

    def presence(self) -> Presence:
        """How many read each language, and who may speak, of many those who came first."""
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

    def _enter(self, member: Member) -> None:
        for tag in member.langs:
            lang = self.key(tag)
            self._until.pop(lang, None)
            circle = None
            if member.view != "final":
                circle = self._circle(lang, tag, member.view == "live", member.outbox.codec)
                member.outbox.enter(circle)
            self._readers.setdefault(lang, {})[member.id, tag] = (member, tag, circle)

    def _circle(self, lang: str, tag: str, live: bool, codec: Codec) -> FanoutGroup:
        circles = self._circles.setdefault(lang, {})
        circle = circles.get((tag, live, codec))
        if circle is None:
            circle = circles[tag, live, codec] = FanoutGroup(tag, live, codec)
        return circle

    def _drop(self, member: Member, tag: str, now: float) -> None:
        lang = self.key(tag)
        readers = self._readers[lang]
        _, _, circle = readers.pop((member.id, tag))
        if circle is not None:
            member.outbox.leave(circle)
            if not circle:
                del self._circles[lang][tag, circle.live, circle.codec]
                if not self._circles[lang]:
                    del self._circles[lang]
        if not readers:
            del self._readers[lang]
            self._until[lang] = now + self._linger


def settled(delta: Delta) -> Delta:
    """What a delta is to a reader who sees no draft."""
    return Delta(
        id=delta.id,
        rev=delta.rev,
        lang=delta.lang,
        add=delta.add,
        reset=delta.reset,
        n=delta.n,
    )
