"""A caption as its reader sees it: stable text, a draft behind it, and one end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gateway.core.base.transitions import IllegalTransition
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.job import Chunk, Job
from gateway.protocol.fields import Statement
from gateway.protocol.messages import Delta, Timing
from tests.support.meeting import NOW
from tests.support.typed import current

RULES = StabilityRules(hold=1, mask=0, agree=2)


def caption(rules: StabilityRules = RULES) -> Caption:
    return Caption("u1", "de", rules)


def job(id: str = "j1", *, partial: bool = False, base: str = "", needed: int = 0) -> Job:
    return Job(
        id=id, text="", source="en", target="de", partial=partial, prefix=base, needed=needed
    )


def said(rev: int = 1, text_number: int | None = None, *, grown: bool = False) -> Utterance:
    number = rev if text_number is None else text_number
    return Utterance("u1", 1, "s1", rev=rev, text_number=number, grown=grown)


class Watched:
    """A caption and the text that its reader sees. ``hold`` is 1 and ``mask`` 0 unless they are
    named.
    """

    def __init__(self, rules: StabilityRules = RULES) -> None:
        self.caption = caption(rules)
        self.stable = self.draft = ""
        self.deltas: list[Delta] = []
        self.rev = 0

    def begin(self, *, partial: bool, base: str = "", needed: int = 0) -> Watched:
        self.rev += 1
        rev = self.rev
        made = job(f"j{rev}", partial=partial, base=base, needed=needed)
        self.caption.queue(made, said(rev, grown=partial or rev > 1), NOW)
        self.caption.start(NOW + 0.1)
        return self

    def feed(self, *pieces: str, reset: bool = False) -> Watched:
        for piece in pieces:
            self.see(self.caption.add_output(Chunk(piece, reset=reset), NOW + 0.2))
            reset = False
        return self

    def finish_partial(self) -> Watched:
        self.see(self.caption.finish_partial())
        return self

    def partial(self, *texts: str) -> Watched:
        """Translate partial revisions to these texts."""
        for text in texts:
            base = self.caption.committed
            assert text.startswith(base)
            self.begin(partial=True, base=base).feed(text.removeprefix(base)).finish_partial()
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


def final() -> Watched:
    """Return a caption with ``Guten Morgen`` committed, whose final translation has begun."""
    return Watched().partial("Guten Morgen", "Guten Morgen zusammen").begin(partial=False)


# --- text that came complete ----------------------------------------------------------------------


def test_a_text_that_came_complete_streams_as_stable_text() -> None:
    seen = Watched().begin(partial=False).feed("Guten", " Morgen")
    assert (seen.stable, seen.draft) == ("Guten Morgen", "")
    assert [delta.draft for delta in seen.deltas] == [None, None]


def test_each_piece_of_it_is_sent_once() -> None:
    seen = Watched().begin(partial=False).feed("Guten", " Morgen")
    assert seen.deltas == [
        Delta(id="u1", rev=1, lang="de", add="Guten", n=5),
        Delta(id="u1", rev=1, lang="de", add=" Morgen", n=12),
    ]


def test_a_text_that_is_made_again_goes_on_from_its_forced_beginning() -> None:
    seen = Watched().begin(partial=False).feed("Guten")
    seen.caption.withdraw()
    seen.caption.requeue(job("j9", base="".join(["Gut", "en"])))
    seen.caption.start(NOW + 5)
    seen.feed(" Morgen")
    assert (seen.stable, seen.deltas[-1].add) == ("Guten Morgen", " Morgen")


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


def test_a_corrected_source_takes_back_what_its_translation_contradicts() -> None:
    seen = Watched().begin(partial=False).feed("Guten Mor")
    seen.caption.withdraw()
    seen.caption.invalidate()
    seen.caption.queue(job("j2"), said(1, 2), NOW)
    seen.caption.start(NOW)
    before = len(seen.deltas)
    seen.feed("Gu", "ten")
    assert len(seen.deltas) == before
    seen.feed(" Abend")
    assert (seen.stable, seen.deltas[-1].reset) == ("Guten Abend", True)


# --- ends -----------------------------------------------------------------------------------------


def test_the_text_of_a_caption_is_all_its_chunks_since_the_last_reset() -> None:
    seen = Watched().begin(partial=False).feed("a", "b").feed("c", "d", reset=True)
    assert seen.caption.text == "cd"


def test_a_finished_caption_tells_how_long_it_took() -> None:
    seen = Watched().begin(partial=False).feed("Guten")
    assert seen.caption.finish("Guten", "mt", NOW + 0.5) == Timing(queue=100, first=200, total=500)
    assert seen.caption.state is CaptionState.FINAL


def test_the_first_text_counts_from_the_first_piece_that_has_any() -> None:
    made = caption()
    made.queue(job(), said(), NOW)
    made.start(NOW)
    for text, at in (("", 1.0), ("Guten", 2.0), (" Morgen", 3.0)):
        made.add_output(Chunk(text), NOW + at)
    assert made.finish("Guten Morgen", "mt", NOW + 4) == Timing(queue=0, first=2000, total=4000)


def test_a_caption_keeps_the_times_of_its_job() -> None:
    made = caption()
    assert (made.queued_at, made.started_at, current(made.first_at)) == (0, 0, 0)
    made.queue(job(), said(), NOW)
    made.start(NOW + 1)
    made.add_output(Chunk("Guten"), NOW + 2)
    assert (made.queued_at, made.started_at, made.first_at) == (NOW, NOW + 1, NOW + 2)


def test_a_caption_without_work_took_no_time() -> None:
    assert caption().finish("a", "same", NOW) == Timing(queue=0, first=0, total=0)


def test_a_clock_that_went_back_is_not_shown_as_negative_time() -> None:
    seen = Watched().begin(partial=False)
    assert seen.caption.finish("", "mt", NOW - 5).total == 0


def test_a_failed_caption_has_no_text() -> None:
    seen = Watched().begin(partial=False).feed("Sure!")
    seen.caption.fail()
    assert (seen.caption.stable, seen.caption.draft) == ("", "")
    assert seen.caption.state is CaptionState.FAILED


def test_an_ended_caption_keeps_nothing_but_its_text() -> None:
    seen = Watched().begin(partial=False).feed("Guten")
    seen.caption.finish(seen.caption.text, "mt", NOW)
    assert (seen.caption.stable, seen.caption.text, seen.caption.committed) == ("Guten", "", "")
    assert seen.caption.draft == ""


@pytest.mark.parametrize("end", [Caption.fail, Caption.cancel])
def test_a_caption_ends_once(end: object) -> None:
    assert callable(end)
    made = caption()
    made.cancel()
    with pytest.raises(IllegalTransition, match="CaptionState 'cancelled' has no event"):
        end(made)


def test_a_reader_who_begins_now_is_told_everything_shown() -> None:
    seen = Watched()
    assert seen.caption.full_delta() is None
    seen.partial("Guten Tag").begin(partial=False).feed("Guten")
    assert seen.caption.full_delta() == Delta(
        id="u1", rev=2, lang="de", draft="Guten Tag", reset=True, n=0
    )
    seen = final()
    assert seen.caption.full_delta() == Delta(
        id="u1", rev=3, lang="de", add="Guten Morgen", draft=" zusammen", reset=True, n=12
    )


def test_doubts_are_those_of_the_attempt_that_counts() -> None:
    made = caption()
    made.queue(job(), said(), NOW)
    made.start(NOW)
    made.add_output(Chunk("a", flags=("numbers",), p=0.25), NOW)
    assert (made.flags, made.p) == (("numbers",), 0.25)
    made.add_output(Chunk("b", reset=True), NOW)
    made.add_output(Chunk("c", flags=("url",), p=0.5), NOW)
    assert (made.flags, made.p) == (("url",), 0.5)
    made.finish("c", "mt", NOW)
    assert (made.flags, made.p) == (("url",), 0.5)


def test_doubts_of_all_pieces_count() -> None:
    made = caption()
    made.queue(job(), said(), NOW)
    made.start(NOW)
    for flag in ("numbers", "url"):
        made.add_output(Chunk("a", flags=(flag,)), NOW)
    for _ in range(2):
        made.add_output(Chunk("b", p=0.5), NOW)
    assert (made.flags, made.p) == (("numbers", "url"), 0.25)


def test_doubts_about_an_earlier_job_are_forgotten() -> None:
    made = caption()
    made.queue(job(partial=True), said(), NOW)
    made.start(NOW)
    made.add_output(Chunk("a", flags=("numbers",), p=0.25), NOW)
    made.finish_partial()
    made.queue(job("j2"), said(2), NOW)
    assert (made.flags, made.p) == ((), 1.0)


def test_a_caption_that_a_person_wrote_has_no_doubts() -> None:
    made = caption()
    made.queue(job(), said(), NOW)
    made.start(NOW)
    made.add_output(Chunk("a", flags=("numbers",), p=0.25), NOW)
    made.finish("b", "human", NOW)
    assert (made.stable, made.by, made.flags, made.p) == ("b", "human", (), 1.0)


def test_an_edit_takes_the_place_of_any_end() -> None:
    for end in (Caption.fail, Caption.cancel):
        made = caption()
        made.queue(job(), said(), NOW)
        made.start(NOW)
        made.add_output(Chunk("a", flags=("numbers",), p=0.25), NOW)
        end(made)
        made.edit("Hallo", "human")
        assert (made.state, made.stable, made.by) == (CaptionState.FINAL, "Hallo", "human")
        assert (made.draft, made.flags, made.p) == ("", (), 1.0)


def test_an_erased_caption_keeps_no_text() -> None:
    seen = Watched().partial("Guten Morgen", "Guten Morgen zusammen")
    seen.caption.cancel()
    seen.caption.erase()
    assert (seen.caption.stable, seen.caption.draft, seen.caption.committed) == ("", "", "")


# --- the beginning --------------------------------------------------------------------------------


def test_a_new_caption_is_of_no_text_and_shows_nothing() -> None:
    made = caption()
    assert (made.state, made.rev, made.text_number, made.partial) == (CaptionState.OPEN, 0, 0, True)
    assert (made.stable, made.draft, made.text, made.committed) == ("", "", "", "")
    assert (made.by, made.context, made.flags, made.job_id) == (None, None, (), None)
    assert not (made.forced or made.broken or made.contradicted)


def test_a_job_is_noted_with_the_text_that_it_translates() -> None:
    made = caption()
    made.queue(job(), said(4, 2), NOW)
    assert (made.job_id, made.rev, made.text_number, made.partial) == ("j1", 4, 2, False)


def test_a_source_that_changes_before_anything_is_stable_leaves_later_text_as_it_is() -> None:
    seen = Watched()
    seen.caption.invalidate()
    seen.begin(partial=False).feed("Guten", " Morgen")
    assert seen.stable == "Guten Morgen"
    assert not any(delta.reset for delta in seen.deltas)


def test_a_step_that_does_not_fit_the_job_is_a_fault() -> None:
    waiting, partial, whole = caption(), caption(), caption()
    waiting.queue(job(partial=True), said(), NOW)
    partial.queue(job(partial=True), said(), NOW)
    partial.start(NOW)
    whole.queue(job(), said(), NOW)
    whole.start(NOW)
    steps: tuple[Callable[[], object], ...] = (
        lambda: waiting.echo("gut", 2),
        waiting.finish_partial,
        lambda: partial.update(job(), said(2)),
        whole.finish_partial,
    )
    for step in steps:
        with pytest.raises(AssertionError):
            step()


# --- readers of the original ----------------------------------------------------------------------


def test_the_growing_original_is_a_draft() -> None:
    made = caption()
    assert made.echo("gut", 1) == Delta(id="u1", rev=1, lang="de", draft="gut", n=0)
    assert made.echo("gut", 2) is None
    assert made.echo("gu", 3) == Delta(id="u1", rev=3, lang="de", draft="gu", n=0)


def test_an_echo_replaces_a_translation_that_was_not_needed() -> None:
    seen = Watched().partial("Guten Morgen", "Guten Morgen zusammen")
    seen.see(seen.caption.echo(" zusammen", 3))
    assert (seen.stable, seen.draft) == ("", " zusammen")
    assert seen.caption.committed == ""


# --- utterances -----------------------------------------------------------------------------------


def test_a_new_utterance_says_nothing_yet() -> None:
    made = Utterance("u1", 3, "s1")
    assert (made.id, made.root, made.ord, made.author) == ("u1", "u1", 3, "s1")
    assert (made.rev, made.text_number, made.seq, made.text, made.lang) == (0, 0, 0, "", "")
    assert (made.statement, made.began, made.at) == (Statement(), 0.0, 0.0)
    assert (made.grown, made.final, made.cancelled, made.retracted) == (False,) * 4
    assert made.captions == {} and not made.ended


def test_an_utterance_has_ended_when_its_text_and_all_its_captions_are_complete() -> None:
    utterance = Utterance("u1", 1, "s1")
    made = utterance.captions["de"] = caption()
    assert not current(utterance.ended)
    utterance.final = True
    assert not current(utterance.ended)
    assert utterance.active == [made]
    made.fail()
    assert utterance.ended
    assert utterance.active == []


def test_a_cancelled_utterance_has_ended_though_it_was_not_said_to_its_end() -> None:
    utterance = Utterance("u1", 1, "s1")
    utterance.cancelled = True
    assert utterance.ended


def test_an_utterance_that_is_erased_keeps_nothing_of_what_was_said() -> None:
    utterance = Utterance("u1", 1, "s1")
    utterance.text = "secret"
    utterance.captions["de"] = caption()
    utterance.captions["de"].finish("geheim", "mt", NOW)
    utterance.erase()
    assert (utterance.retracted, utterance.text, utterance.captions["de"].stable) == (True, "", "")


def test_captions_and_utterances_are_readable_in_a_log_without_their_texts() -> None:
    utterance = Utterance("u1", 1, "s1")
    utterance.text = "secret"
    assert repr(utterance) == "<Utterance u1 rev 0 growing>"
    utterance.final = True
    assert "final" in repr(utterance)
    assert repr(caption()) == "<Caption u1 de rev 0 open>"
