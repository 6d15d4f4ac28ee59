"""A room as its sessions see it, in whichever gateway its decisions are made.

Owns: the state that every room has, and the names of all that members may ask for. Must not know:
who decides (`gateway.core.room.room`, `gateway.core.replication.replica`).

Texts and languages of requests are normalised by the session. Every method takes the time in
seconds and returns at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from gateway.core.base.translation_context import TranslationContext
from gateway.core.history.event_log import EventLog
from gateway.core.history.log_view import LogView
from gateway.core.members.member import Member
from gateway.core.members.subscribers import Subscribers
from gateway.protocol.codec import Envelope
from gateway.protocol.messages import Bye, Cancel, Edit, Get, Retract, Say, Set, View, Want
from gateway.protocol.notices import Degraded

Request = Say | Cancel | Edit | Retract | Set | Get | Bye
"""Messages of clients that concern the utterances and settings of a room."""


class AbstractRoom(ABC):
    """A room with its members and its log."""

    def __init__(self, name: str, log: EventLog, subscribers: Subscribers) -> None:
        self.name = name
        self.log = log
        self.subscribers = subscribers
        self.log_view = LogView(log, subscribers)
        self.translation_context = TranslationContext()
        """Settings of the room."""
        self.empty_since: float | None = None
        self.temporary = False
        """True if nobody will come back to the room."""

    @property
    @abstractmethod
    def degraded(self) -> Degraded | None:
        """State of the service for people who join now; None if it works as usual."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """True if nothing is in flight, so that another process can continue with the log."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Memory of events and utterances."""

    # --- members ------------------------------------------------------------------------------

    @abstractmethod
    def use_tenant(self, tenant: str) -> str:
        """Use a tenant's share of the engine, unless somebody is in the room; return which."""

    @abstractmethod
    def join(self, member: Member, now: float) -> None:
        """Add a member, which is sent the events that its languages and view ask for."""

    @abstractmethod
    def leave(self, member: Member, now: float) -> None:
        """Let a member go, and cancel its work."""

    @abstractmethod
    def disconnect(self, member: Member, now: float) -> None:
        """Let a member go whose socket was lost, and which may come back."""

    @abstractmethod
    def want(self, member: Member, message: Want, now: float) -> None:
        """Change the languages and the view of a member, and show it the past in new ones."""

    @abstractmethod
    def in_flight(self, tags: Sequence[str], view: View) -> list[Envelope]:
        """Return the unfinished captions in ``tags``, for a member that has caught up."""

    @abstractmethod
    def shed(self, size: int) -> None:
        """Forget the oldest events, to free ``size`` bytes of the log."""

    # --- requests of members --------------------------------------------------------------------
    # Each raises `ClientFault` and then has changed nothing.

    @abstractmethod
    def knows(self, member: Member, id: str | None) -> bool:
        """Tell whether a member may go on with an utterance of this id."""

    @abstractmethod
    def say(self, member: Member, message: Say, now: float) -> None:
        """Accept a new utterance or a revision of one, whose language was found before."""

    @abstractmethod
    def cancel(self, member: Member, message: Cancel, now: float) -> None:
        """Stop the work on an utterance and all its parts. The answer is always ``cancelled``."""

    @abstractmethod
    def edit(self, member: Member, message: Edit, now: float) -> None:
        """Replace a caption, or the original, which is then translated anew."""

    @abstractmethod
    def retract(self, member: Member, message: Retract, now: float) -> None:
        """Erase an utterance and all its parts, in all languages."""

    @abstractmethod
    def change_settings(self, member: Member, message: Set, now: float) -> None:
        """Change the room's settings, and send everybody the new version."""

    @abstractmethod
    def get(
        self, member: Member, message: Get, now: float, langs: tuple[str, ...] | None = None
    ) -> None:
        """Send a snapshot of an utterance in ``langs``, which the member may read; None for all."""

    @abstractmethod
    def finish_speaking(self, member: Member, now: float) -> None:
        """Cancel the member's utterances that still grow: it will say no more."""
