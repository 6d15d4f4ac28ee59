"""A caption of growing text: what partial revisions commit, and a final that goes on from it."""

from __future__ import annotations

from gateway.core.streaming.stability import StabilityRules
from gateway.core.utterances.caption_state import CaptionState
from gateway.job import Chunk
from gateway.protocol.messages import Delta
from tests.core.utterances.test_utterance import Watched, caption, final, job, said
from tests.support.meeting import NOW
from tests.support.typed import current

MASKED = StabilityRules(hold=1, mask=1, early=1, agree=2)

# --- partial revisions ----------------------------------------------------------------------------


def test_a_partial_is_shown_in_one_step_when_its_translation_is_complete() -> None:
    seen = Watched().begin(partial=True).feed("Guten", " Morgen")
    assert seen.text == ""
    assert (seen.finish_partial().stable, seen.draft) == ("", "Guten Morgen")
    assert len(seen.deltas) == 1


def test_the_end_of_a_partial_may_be_masked() -> None:
    seen = Watched(MASKED).partial("Guten")
    assert seen.text == "Guten"
    assert seen.partial("Guten Morgen zusammen").text == "Guten Morgen"


def test_a_partial_that_ends_where_no_more_is_needed_is_shown_up_to_there() -> None:
    seen = Watched(MASKED).begin(partial=True, needed=13)
    assert seen.feed("Guten Morgen", " zus").finish_partial().text == "Guten Morgen"
    seen = Watched(MASKED).begin(partial=True, needed=12)
    assert seen.feed("Guten Morgen zusammen und mehr").finish_partial().text == (
        "Guten Morgen zusammen und"
    )


def test_a_partial_that_is_shorter_than_what_is_needed_is_whole_and_therefore_masked() -> None:
    seen = Watched(MASKED).begin(partial=True, needed=14)
    assert seen.feed("Guten Morgen").finish_partial().text == "Guten"


def test_the_forced_beginning_is_none_of_what_is_needed() -> None:
    seen = Watched(MASKED).partial("Guten Tag", "Guten Tag euch")
    assert seen.caption.committed == "Guten Tag"
    seen.begin(partial=True, base="Guten Tag", needed=6).feed(" euch").finish_partial()
    assert seen.text == "Guten Tag"
    seen.begin(partial=True, base="Guten Tag", needed=6).feed(" euch al").finish_partial()
    assert seen.text == "Guten Tag euch"


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
    seen = Watched(MASKED).partial("Guten Tag", "Guten Tag euch")
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


def test_token_ids_are_those_of_the_last_translation() -> None:
    made = caption()
    made.queue(job(partial=True), said(), NOW)
    made.start(NOW)
    made.add_output(Chunk("Sure!", ids=(9, 9)), NOW)
    made.add_output(Chunk("Guten Morgen", ids=(1, 2), reset=True), NOW)
    made.add_output(Chunk("", ids=(3,)), NOW)
    assert current(made.last("")) == ((), "")
    made.finish_partial()
    assert current(made.last("Guten")) == ((1, 2, 3), " Morgen")


def test_a_job_that_waits_may_be_of_a_newer_revision() -> None:
    made = caption()
    made.queue(job(partial=True), said(), NOW)
    made.update(job(), said(2))
    assert (made.rev, made.text_number, made.job_id) == (2, 2, "j1")


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


def test_a_final_shorter_than_the_stable_text_of_a_changed_source_retracts_it_first() -> None:
    seen = doubted().begin(partial=False).feed("Guten")
    seen.see(seen.caption.correct("Guten"))
    assert (seen.stable, seen.draft, seen.deltas[-1].reset) == ("Guten", "", True)
    assert seen.caption.correct("Guten") is None


# --- a final that has to go on from what was committed --------------------------------------------


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
    seen.caption.requeue(job("j9", base=seen.caption.committed))
    seen.caption.start(NOW + 5)
    assert seen.caption.forced and seen.caption.job_id == "j9"
    seen.feed(" euch")
    assert (seen.caption.text, seen.stable) == ("Guten Morgen euch", "Guten Morgen")
    assert not (seen.caption.broken or seen.caption.contradicted)


def test_a_rejected_forced_final_is_made_freely() -> None:
    seen = final().feed("Hallo")
    for base in (seen.caption.committed, ""):
        seen.caption.withdraw()
        seen.caption.requeue(job("j9", base=base))
        seen.caption.start(NOW + 5)
    assert not seen.caption.forced and seen.caption.committed == ""
    seen.feed("Hallo")
    assert (seen.stable, seen.draft, seen.deltas[-1].reset) == ("", "Hallo", True)


def test_a_second_attempt_replaces_the_text_of_the_first_and_keeps_stable_text() -> None:
    seen = final().feed("Guten Morgen Sure!").feed("Guten Morgen ihr", reset=True)
    assert (seen.stable, seen.draft, seen.deltas[-1].reset) == ("Guten Morgen", " ihr", False)
