"""What a reader sees of one caption: stable text, a draft behind it, and one end."""

from __future__ import annotations

import pytest

from gateway.job import Chunk
from gateway.messages import Delta, Timing
from gateway.utterance import Caption, State, Utterance
from tests.helpers import NOW


class Watched:
    """A caption and what its reader sees."""

    def __init__(self) -> None:
        self.caption = Caption("u1", "de")
        self.stable = self.draft = ""
        self.deltas: list[Delta] = []
        self.rev = 0

    def begin(self, *, partial: bool) -> Watched:
        self.rev += 1
        self.caption.queue(f"j{self.rev}", self.rev, "source", partial=partial, now=NOW)
        self.caption.start(NOW + 0.1)
        return self

    def feed(self, *pieces: str, reset: bool = False) -> Watched:
        for piece in pieces:
            self.see(self.caption.feed(Chunk(piece, reset=reset), NOW + 0.2))
            reset = False
        return self

    def rest(self) -> Watched:
        self.see(self.caption.rest())
        return self

    def see(self, delta: Delta | None) -> None:
        if delta is None:
            return
        self.deltas.append(delta)
        if delta.reset:
            self.stable = ""
        self.stable += delta.add
        self.draft = self.draft if delta.draft is None else delta.draft
        assert delta.n == len(self.stable)
        assert (self.stable, self.draft) == (self.caption.stable, self.caption.draft)

    @property
    def text(self) -> str:
        return self.stable + self.draft


# --- partial revisions ----------------------------------------------------------------------------


def test_a_partial_shows_everything_as_draft() -> None:
    seen = Watched().begin(partial=True).feed("Guten", " Morgen").rest()
    assert (seen.stable, seen.draft) == ("", "Guten Morgen")


def test_a_new_partial_that_only_repeats_what_is_shown_sends_nothing() -> None:
    seen = Watched().begin(partial=True).feed("Guten", " Morgen").rest()
    before = len(seen.deltas)
    seen.begin(partial=True).feed("Gu", "ten", " Morgen")
    assert len(seen.deltas) == before
    seen.feed(" zusammen")
    assert seen.text == "Guten Morgen zusammen"


def test_a_new_partial_that_contradicts_what_is_shown_replaces_it() -> None:
    seen = Watched().begin(partial=True).feed("Guten Morgen").rest()
    seen.begin(partial=True).feed("Guten", " Tag")
    assert seen.text == "Guten Tag"


def test_a_partial_that_turns_out_shorter_is_shown_so_when_it_ends() -> None:
    seen = Watched().begin(partial=True).feed("Guten Morgen").rest()
    seen.begin(partial=True).feed("Guten")
    assert seen.text == "Guten Morgen"
    assert seen.rest().text == "Guten"


def test_a_partial_that_ends_as_it_was_shown_sends_nothing() -> None:
    seen = Watched().begin(partial=True).feed("Guten").rest()
    assert len(seen.deltas) == 1


def test_a_second_attempt_at_a_partial_takes_back_what_the_first_showed() -> None:
    seen = Watched().begin(partial=True).feed("Gut").rest()
    seen.begin(partial=True).feed("Sure! Here")
    assert seen.text == "Sure! Here"
    seen.feed("", reset=True)
    assert seen.text == "Gut"
    assert seen.feed("Guten Tag").rest().text == "Guten Tag"


def test_a_partial_that_failed_leaves_what_was_shown_before_it() -> None:
    seen = Watched().begin(partial=True).feed("Gut").rest()
    seen.begin(partial=True).feed("Sure! Here")
    seen.see(seen.caption.lose())
    assert seen.text == "Gut"
    assert seen.caption.state is State.OPEN


def test_a_partial_that_failed_before_it_began_changes_nothing() -> None:
    caption = Caption("u1", "de")
    caption.queue("j1", 1, "source", partial=True, now=NOW)
    assert caption.lose() is None


# --- final revisions ------------------------------------------------------------------------------


def test_a_final_streams_as_stable_text() -> None:
    seen = Watched().begin(partial=False).feed("Guten", " Morgen")
    assert (seen.stable, seen.draft) == ("Guten Morgen", "")
    assert [delta.draft for delta in seen.deltas] == [None, None]


def test_the_rest_of_the_draft_stays_behind_a_final_that_agrees_with_it() -> None:
    seen = Watched().begin(partial=True).feed("Guten Morgen allen").rest()
    seen.begin(partial=False).feed("Guten")
    assert (seen.stable, seen.draft) == ("Guten", " Morgen allen")
    seen.feed(" Morgen")
    assert seen.text == "Guten Morgen allen"
    seen.feed(" zusammen")
    assert (seen.stable, seen.draft) == ("Guten Morgen zusammen", "")


def test_a_draft_that_was_contradicted_does_not_come_back() -> None:
    seen = Watched().begin(partial=True).feed("Guten Morgen").rest()
    seen.begin(partial=False).feed("Hallo")
    assert seen.text == "Hallo"
    seen.feed("Guten", reset=True)
    assert seen.text == "Guten"


def test_a_final_as_long_as_its_draft_leaves_no_draft() -> None:
    seen = Watched().begin(partial=True).feed("Guten").rest()
    seen.begin(partial=False).feed("Guten")
    assert (seen.stable, seen.draft) == ("Guten", "")


def test_stable_text_shrinks_only_with_a_reset() -> None:
    seen = Watched().begin(partial=False).feed("Sure!").feed("Guten", reset=True)
    assert seen.stable == "Guten"
    assert [delta.reset for delta in seen.deltas] == [False, True]


def test_a_reset_alone_empties_the_stable_text() -> None:
    seen = Watched().begin(partial=False).feed("Sure!").feed("", reset=True)
    assert (seen.stable, seen.deltas[-1].reset) == ("", True)


def test_a_reset_before_anything_was_shown_is_not_told() -> None:
    seen = Watched().begin(partial=False).feed("", reset=True)
    assert seen.deltas == []
    assert seen.feed("Guten", reset=True).deltas[-1].reset is False


def test_an_empty_chunk_sends_nothing() -> None:
    assert Watched().begin(partial=False).feed("", "").deltas == []


# --- ends -----------------------------------------------------------------------------------------


def test_the_text_of_a_caption_is_all_its_chunks_since_the_last_reset() -> None:
    seen = Watched().begin(partial=False).feed("a", "b").feed("c", "d", reset=True)
    assert seen.caption.text == "cd"


def test_a_finished_caption_tells_how_long_it_took() -> None:
    seen = Watched().begin(partial=False).feed("Guten")
    assert seen.caption.finish("Guten", "mt", NOW + 0.5) == Timing(queue=100, first=200, total=500)
    assert seen.caption.state is State.FINAL


def test_a_caption_without_work_took_no_time() -> None:
    assert Caption("u1", "de").finish("a", "same", NOW) == Timing(queue=0, first=0, total=0)


def test_a_clock_that_went_back_is_not_shown_as_negative_time() -> None:
    seen = Watched().begin(partial=False)
    assert seen.caption.finish("", "mt", NOW - 5).total == 0


def test_a_failed_caption_has_no_text() -> None:
    seen = Watched().begin(partial=False).feed("Sure!")
    seen.caption.fail()
    assert (seen.caption.stable, seen.caption.draft) == ("", "")
    assert seen.caption.state is State.FAILED


def test_an_ended_caption_keeps_nothing_but_its_text() -> None:
    seen = Watched().begin(partial=False).feed("Guten")
    seen.caption.finish(seen.caption.text, "mt", NOW)
    assert (seen.caption.stable, seen.caption.text, seen.caption.job_text) == ("Guten", "", "")


@pytest.mark.parametrize("end", [Caption.fail, Caption.cancel])
def test_a_caption_ends_once(end: object) -> None:
    assert callable(end)
    caption = Caption("u1", "de")
    caption.cancel()
    with pytest.raises(AssertionError):
        end(caption)


def test_a_reader_who_begins_now_is_told_everything_shown() -> None:
    seen = Watched()
    assert seen.caption.whole() is None
    seen.begin(partial=True).feed("Guten Tag").rest().begin(partial=False).feed("Guten")
    assert seen.caption.whole() == Delta(
        id="u1", rev=2, lang="de", add="Guten", draft=" Tag", reset=True, n=5
    )


def test_flags_are_those_of_the_attempt_that_counts() -> None:
    caption = Caption("u1", "de")
    caption.queue("j1", 1, "source", partial=False, now=NOW)
    caption.start(NOW)
    caption.feed(Chunk("a", flags=("numbers",)), NOW)
    assert caption.flags == ("numbers",)
    caption.feed(Chunk("b", reset=True), NOW)
    caption.feed(Chunk("c", flags=("url",)), NOW)
    assert caption.flags == ("url",)


# --- utterances -----------------------------------------------------------------------------------


def test_an_utterance_has_ended_when_it_was_said_to_its_end_and_all_its_captions_have() -> None:
    utterance = Utterance("u1", 1, "s1")
    caption = utterance.captions["de"] = Caption("u1", "de")
    assert not utterance.ended
    utterance.final = True
    assert not utterance.ended
    assert utterance.active == [caption]
    caption.fail()
    assert utterance.ended
    assert utterance.active == []


def test_a_cancelled_utterance_has_ended_though_it_was_not_said_to_its_end() -> None:
    utterance = Utterance("u1", 1, "s1")
    utterance.cancelled = True
    assert utterance.ended


def test_they_can_be_read_in_a_log_without_what_was_said() -> None:
    utterance = Utterance("u1", 1, "s1")
    utterance.text = "secret"
    assert repr(utterance) == "<Utterance u1 rev 0 growing>"
    utterance.final = True
    assert "final" in repr(utterance)
    assert repr(Caption("u1", "de")) == "<Caption u1 de rev 0 open>"
