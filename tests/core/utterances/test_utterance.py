"""A caption as its reader sees it: stable text, a draft behind it, and one end."""

from __future__ import annotations

import pytest

from gateway.core.base.transitions import IllegalTransition
from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.caption_state import CaptionState
from gateway.core.utterances.utterance import Caption, Utterance
from gateway.job import Chunk
from gateway.protocol.messages import Delta, Timing
from tests.support.meeting import NOW
from tests.support.typed import current

RULES = StabilityRules(hold=1, mask=0)


def caption(rules: StabilityRules = RULES) -> Caption:
    return Caption("u1", "de", rules)


class Watched:
    """A caption and what its reader sees. ``hold`` is 1 and ``mask`` 0 unless they are named."""

    def __init__(self, rules: StabilityRules = RULES) -> None:
        self.caption = caption(rules)
        self.stable = self.draft = ""
        self.deltas: list[Delta] = []
        self.rev = 0

    def begin(self, *, partial: bool, base: str = "") -> Watched:
        self.rev += 1
        rev = self.rev
        grown = partial or rev > 1
        self.caption.queue(f"j{rev}", rev, rev, partial=partial, grown=grown, base=base, now=NOW)
        self.caption.start(NOW + 0.1)
        return self

    def feed(self, *pieces: str, reset: bool = False) -> Watched:
        for piece in pieces:
            self.see(self.caption.feed(Chunk(piece, reset=reset), NOW + 0.2))
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


# --- partial revisions ----------------------------------------------------------------------------


def test_a_partial_is_shown_in_one_step_when_its_translation_is_complete() -> None:
    seen = Watched().begin(partial=True).feed("Guten", " Morgen")
    assert seen.text == ""
    assert (seen.finish_partial().stable, seen.draft) == ("", "Guten Morgen")
    assert len(seen.deltas) == 1


def test_the_end_of_a_partial_may_be_masked() -> None:
    seen = Watched(StabilityRules(hold=1, mask=1, early=1)).partial("Guten")
    assert seen.text == "Guten"
    assert seen.partial("Guten Morgen zusammen").text == "Guten Morgen"


def test_text_that_two_partials_agree_on_is_stable_except_for_the_last_words() -> None:
    seen = Watched().partial("Guten Morgen", "Guten Morgen zusammen")
    assert (seen.stable, seen.draft) == ("Guten Morgen", " zusammen")
    assert seen.caption.committed == "Guten Morgen"
    assert seen.deltas[-1] == Delta(
        id="u1", rev=2, lang="de", add="Guten Morgen", draft=" zusammen", n=12
    )


def test_stable_text_stays_stable_whatever_the_next_partials_are() -> None:
    seen = Watched().partial("Guten Morgen", "Guten Morgen zusammen", "Guten Morgen allerseits")
    assert (seen.stable, seen.draft) == ("Guten Morgen", " allerseits")


def test_a_partial_that_only_repeats_the_beginning_of_what_is_shown_sends_nothing() -> None:
    seen = Watched().partial("Guten Morgen zusammen", "Guten")
    assert seen.text == "Guten Morgen zusammen"
    assert len(seen.deltas) == 1


def test_a_partial_that_contradicts_what_is_shown_replaces_the_draft() -> None:
    seen = Watched().partial("Guten Morgen", "Hallo")
    assert seen.text == "Hallo"
    assert seen.deltas[-1].reset is False


def test_a_partial_that_commits_without_a_change_on_the_screen_sends_no_draft() -> None:
    seen = Watched(StabilityRules(hold=1, mask=1, early=1)).partial("Guten Tag", "Guten Tag euch")
    assert (seen.stable, seen.draft) == ("Guten Tag", "")
    before = len(seen.deltas)
    seen.partial("Guten Tag euch", "Guten Tag euch")
    assert len(seen.deltas) == before


def test_a_draft_that_stays_as_it_is_is_not_sent_again_with_what_becomes_stable() -> None:
    seen = Watched().partial("la la", "la la la", "la la la la")
    assert (seen.stable, seen.draft) == ("la la la", " la")
    assert seen.deltas[-1] == Delta(id="u1", rev=3, lang="de", add=" la", n=8)


def test_the_second_attempt_at_a_partial_is_the_one_that_counts() -> None:
    seen = (
        Watched()
        .begin(partial=True)
        .feed("Sure! Here")
        .feed("Guten Tag", reset=True)
        .finish_partial()
    )
    assert seen.text == "Guten Tag"


def test_a_second_attempt_goes_on_from_what_is_forced() -> None:
    seen = Watched().partial("Guten Morgen", "Guten Morgen zusammen")
    seen.begin(partial=True, base=seen.caption.committed).feed(" Sure!").feed(" alle", reset=True)
    assert seen.caption.text == "Guten Morgen alle"
    assert seen.finish_partial().text == "Guten Morgen alle"


def test_a_partial_that_failed_leaves_what_was_shown_before_it() -> None:
    seen = Watched().partial("Gut").begin(partial=True).feed("Sure! Here")
    seen.caption.withdraw()
    assert (seen.caption.state, seen.caption.draft) == (CaptionState.OPEN, "Gut")
    assert seen.partial("Gut so").text == "Gut so"


def test_token_ids_are_those_of_a_translation_that_begins_with_what_is_committed() -> None:
    made = caption()
    for rev, text in enumerate(("Guten Morgen", "Guten Morgen zusammen"), 1):
        assert made.ids == ()
        made.queue(f"j{rev}", rev, rev, partial=True, now=NOW)
        made.start(NOW)
        made.feed(Chunk("Sure!", ids=(9, 9)), NOW)
        made.feed(Chunk(text, ids=(1, 2), reset=True), NOW)
        made.feed(Chunk("", ids=(3,)), NOW)
        made.finish_partial()
    assert made.ids == (1, 2, 3)


def test_a_job_that_waits_may_be_of_a_newer_revision() -> None:
    made = caption()
    made.queue("j1", 1, 1, partial=True, now=NOW)
    made.update(2, 2)
    assert (made.rev, made.turn, made.job_id) == (2, 2, "j1")


# --- a source that is changed under it ------------------------------------------------------------


def doubted() -> Watched:
    """Return a caption with ``Guten Morgen`` committed, whose source was then changed."""
    seen = Watched().partial("Guten Morgen", "Guten Morgen zusammen")
    seen.caption.invalidate()
    return seen


def test_stable_text_of_a_changed_source_is_taken_back_when_the_next_contradicts_it() -> None:
    seen = doubted().partial("Guten Abend")
    assert (seen.stable, seen.draft) == ("", "Guten Abend")
    assert seen.deltas[-1].reset
    assert seen.partial("Guten Abend allen").stable == "Guten Abend"


def test_stable_text_of_a_changed_source_is_forced_again_if_the_next_begins_with_it() -> None:
    seen = doubted().partial("Guten Morgen allen")
    assert (seen.stable, seen.draft) == ("Guten Morgen", " allen")
    assert not seen.deltas[-1].reset
    assert seen.caption.committed == "Guten Morgen"


def test_stable_text_of_a_changed_source_may_be_retracted_until_the_next_translation() -> None:
    seen = doubted().begin(partial=True)
    seen.caption.withdraw()
    seen.caption.invalidate()
    assert seen.partial("Guten Abend").deltas[-1].reset


def test_text_made_of_the_changed_source_is_stable_like_any_other() -> None:
    seen = doubted().partial("Guten Abend", "Guten Abend allen")
    assert seen.stable == "Guten Abend"
    seen.begin(partial=False).feed("Hallo")
    assert seen.caption.contradicted
    assert seen.stable == "Guten Abend"


def test_a_draft_of_a_changed_source_is_just_replaced() -> None:
    seen = Watched().partial("Guten Morgen")
    seen.caption.invalidate()
    assert seen.partial("Guten Abend").deltas[-1].reset is False


def test_a_final_of_a_changed_source_takes_stable_text_back_when_it_contradicts_it() -> None:
    seen = doubted().begin(partial=False).feed("Guten", " ")
    assert seen.stable == "Guten Morgen"
    seen.feed("Abend")
    assert (seen.stable, seen.draft, seen.deltas[-1].reset) == ("", "Guten Abend", True)


def test_a_final_shorter_than_stable_text_of_a_changed_source_retracts_it_before_its_end() -> None:
    seen = doubted().begin(partial=False).feed("Guten")
    seen.see(seen.caption.correct("Guten"))
    assert (seen.stable, seen.draft, seen.deltas[-1].reset) == ("Guten", "", True)
    assert seen.caption.correct("Guten") is None


# --- a final that has to go on from what was committed --------------------------------------------


def final() -> Watched:
    """Return a caption with ``Guten Morgen`` committed, whose final translation has begun."""
    return Watched().partial("Guten Morgen", "Guten Morgen zusammen").begin(partial=False)


def test_a_final_shows_nothing_until_it_is_beyond_what_is_shown() -> None:
    seen = final()
    before = len(seen.deltas)
    seen.feed("Gu", "ten", " Morgen", " zusammen")
    assert len(seen.deltas) == before
    assert not seen.caption.contradicted
    seen.feed(",")
    assert (seen.stable, seen.draft) == ("Guten Morgen", " zusammen,")


def test_a_final_that_contradicts_only_the_draft_replaces_it() -> None:
    seen = final().feed("Guten Morgen alle")
    assert (seen.stable, seen.draft) == ("Guten Morgen", " alle")


def test_a_final_that_cannot_go_on_from_it_is_contradicted_and_shows_nothing() -> None:
    seen = final().feed("Gut")
    assert not current(seen.caption.contradicted)
    assert seen.caption.broken
    before = len(seen.deltas)
    seen.feed("er")
    assert seen.caption.contradicted
    assert len(seen.deltas) == before


def test_a_contradicted_final_is_made_again_with_the_committed_text_as_its_beginning() -> None:
    seen = final().feed("Hallo")
    seen.caption.withdraw()
    seen.caption.requeue("j9", base=seen.caption.committed)
    seen.caption.start(NOW + 5)
    assert seen.caption.forced and seen.caption.job_id == "j9"
    seen.feed(" euch")
    assert (seen.caption.text, seen.stable) == ("Guten Morgen euch", "Guten Morgen")
    assert not (seen.caption.broken or seen.caption.contradicted)


def test_a_rejected_forced_final_is_made_freely() -> None:
    seen = final().feed("Hallo")
    for base in (seen.caption.committed, ""):
        seen.caption.withdraw()
        seen.caption.requeue("j9", base=base)
        seen.caption.start(NOW + 5)
    assert not seen.caption.forced and seen.caption.committed == ""
    seen.feed("Hallo")
    assert (seen.stable, seen.draft, seen.deltas[-1].reset) == ("", "Hallo", True)


def test_a_second_attempt_replaces_what_the_first_showed_and_takes_nothing_stable_back() -> None:
    seen = final().feed("Guten Morgen Sure!").feed("Guten Morgen ihr", reset=True)
    assert (seen.stable, seen.draft, seen.deltas[-1].reset) == ("Guten Morgen", " ihr", False)


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
    seen.caption.requeue("j9", base="".join(["Gut", "en"]))
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
    seen.caption.queue("j2", 1, 2, partial=False, now=NOW)
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
    made.queue("j1", 1, 1, partial=False, now=NOW)
    made.start(NOW)
    for text, at in (("", 1.0), ("Guten", 2.0), (" Morgen", 3.0)):
        made.feed(Chunk(text), NOW + at)
    assert made.finish("Guten Morgen", "mt", NOW + 4) == Timing(queue=0, first=2000, total=4000)


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
    with pytest.raises(IllegalTransition, match="CaptionState cannot go from 'cancelled' to"):
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


def test_flags_are_those_of_the_attempt_that_counts() -> None:
    made = caption()
    made.queue("j1", 1, 1, partial=False, now=NOW)
    made.start(NOW)
    made.feed(Chunk("a", flags=("numbers",)), NOW)
    assert made.flags == ("numbers",)
    made.feed(Chunk("b", reset=True), NOW)
    made.feed(Chunk("c", flags=("url",)), NOW)
    assert made.flags == ("url",)
    made.finish("c", "mt", NOW)
    assert made.flags == ("url",)


def test_flags_of_all_pieces_count() -> None:
    made = caption()
    made.queue("j1", 1, 1, partial=False, now=NOW)
    made.start(NOW)
    for flag in ("numbers", "url"):
        made.feed(Chunk("a", flags=(flag,)), NOW)
    assert made.flags == ("numbers", "url")


def test_a_caption_that_a_person_wrote_has_no_flags() -> None:
    made = caption()
    made.queue("j1", 1, 1, partial=False, now=NOW)
    made.start(NOW)
    made.feed(Chunk("a", flags=("numbers",)), NOW)
    made.finish("b", "human", NOW)
    assert (made.stable, made.by, made.flags) == ("b", "human", ())


def test_an_edit_takes_the_place_of_any_end() -> None:
    for end in (Caption.fail, Caption.cancel):
        made = caption()
        end(made)
        made.edit("Hallo", "human")
        assert (made.state, made.stable, made.by) == (CaptionState.FINAL, "Hallo", "human")
        assert (made.draft, made.flags) == ("", ())


def test_an_erased_caption_keeps_no_text() -> None:
    seen = Watched().partial("Guten Morgen", "Guten Morgen zusammen")
    seen.caption.cancel()
    seen.caption.erase()
    assert (seen.caption.stable, seen.caption.draft, seen.caption.committed) == ("", "", "")


# --- the beginning --------------------------------------------------------------------------------


def test_a_new_caption_is_of_no_text_and_shows_nothing() -> None:
    made = caption()
    assert (made.state, made.rev, made.turn, made.partial) == (CaptionState.OPEN, 0, 0, True)
    assert (made.stable, made.draft, made.text, made.committed) == ("", "", "", "")
    assert (made.by, made.context, made.flags, made.ids, made.job_id) == (None, None, (), (), None)
    assert not (made.forced or made.broken or made.contradicted)


def test_a_job_is_noted_with_the_text_that_it_translates() -> None:
    made = caption()
    made.queue("j1", 4, 2, partial=False, now=NOW)
    assert (made.job_id, made.rev, made.turn, made.partial) == ("j1", 4, 2, False)


def test_a_source_that_changes_before_anything_is_stable_leaves_later_text_as_it_is() -> None:
    seen = Watched()
    seen.caption.invalidate()
    seen.begin(partial=False).feed("Guten", " Morgen")
    assert seen.stable == "Guten Morgen"
    assert not any(delta.reset for delta in seen.deltas)


def test_a_step_that_does_not_fit_the_job_is_a_fault() -> None:
    waiting, partial, whole = caption(), caption(), caption()
    waiting.queue("j1", 1, 1, partial=True, now=NOW)
    partial.queue("j1", 1, 1, partial=True, now=NOW)
    partial.start(NOW)
    whole.queue("j1", 1, 1, partial=False, now=NOW)
    whole.start(NOW)
    for step in (
        lambda: waiting.echo("gut", 2),
        waiting.finish_partial,
        lambda: partial.update(2, 2),
        whole.finish_partial,
    ):
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
    assert (made.rev, made.turn, made.seq, made.text, made.lang) == (0, 0, 0, "", "")
    assert (made.speaker, made.t0, made.t1, made.began, made.at) == (None, None, None, 0.0, 0.0)
    assert (made.grown, made.final, made.cancelled, made.retracted) == (False,) * 4
    assert made.captions == {} and not made.ended


def test_an_utterance_has_ended_when_it_was_said_to_its_end_and_all_its_captions_have() -> None:
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
