"""The text that is said under one id, and the parts that it is cut into."""

from __future__ import annotations

from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.segmentation import SegmentLengths
from gateway.core.utterances.speech import Speech
from gateway.core.utterances.utterance import Utterance
from tests.support.typed import current

FLOW = StreamingOptions(
    pace=PartialTiming(repeats=1),
    lengths=SegmentLengths(least=2, clause=2, most=4, hard=6, behind=1, pause=0.5),
)


def speech(*texts: str, at: float = 0.0) -> Speech:
    """Return a speech with these revisions, half a second apart."""
    made = Speech("u1", "s1", FLOW)
    add(made)
    for n, text in enumerate(texts):
        offer(made, text, at + n / 2)
    return made


def add(made: Speech, taken: tuple[str, ...] = ()) -> None:
    """Begin the next part."""
    id = made.name(taken) if made.parts else made.id  # as `Utterances.begin` does
    part = Utterance(id, len(made.parts) + 1, made.author)
    part.root = made.id
    made.parts.append(part)


def offer(made: Speech, text: str, at: float = 0.0) -> None:
    made.text = text
    made.offer("en", at, at)


def test_a_new_speech_says_nothing_yet() -> None:
    made = speech()
    assert (made.rev, made.text, made.final, made.growing) == (0, "", False, True)


def test_a_short_text_is_one_part() -> None:
    made = speech("So we", "So we met.")
    assert made.cut("en") is None
    assert made.remainder("en") == "So we met."
    assert made.policy.agreed == "So we met."


def test_the_complete_beginning_is_cut_off_and_the_policy_is_that_of_the_rest() -> None:
    made = speech("So we met. It was")
    assert made.cut("en") == "So we met."
    assert (made.remainder("en"), made.policy.agreed) == ("It was", "It was")
    assert made.cut("en") is None


def test_a_text_is_cut_as_often_as_it_has_to_be() -> None:
    made = speech("So we met. It was cold. Then")
    assert [made.cut("en"), made.cut("en"), made.cut("en")] == ["So we met.", "It was cold.", None]
    assert made.remainder("en") == "Then"


def test_parts_that_say_the_same_are_each_passed_over_once() -> None:
    made = speech("We met. We met. We met. Then")
    assert [made.cut("en") for _ in range(4)] == ["We met."] * 3 + [None]
    assert made.remainder("en") == "Then"


def test_a_text_without_spaces_is_cut_and_goes_on_behind_the_cut() -> None:
    made = Speech("u1", "s1", FLOW)
    add(made)
    made.text = "会議を始めます。資料は"
    made.offer("ja", 0.0, 0.0)
    assert made.cut("ja") == "会議を始めます。"
    assert made.remainder("ja") == "資料は"


def test_a_text_without_punctuation_is_cut_where_the_speaker_paused() -> None:
    made = speech()
    for text, at in (("so we met", 0.0), ("so we met and it", 3.0), ("so we met and it was", 3.2)):
        offer(made, text, at)
    assert made.cut("en") == "so we met"


def test_the_speaker_goes_on_saying_all_of_it() -> None:
    made = speech("So we met. It")
    made.cut("en")
    offer(made, "So we met. It was")
    assert made.policy.agreed == "It was"


def test_a_corrected_beginning_is_not_said_twice() -> None:
    made = speech("So we met. It")
    made.cut("en")
    offer(made, "Oh, we met, it was")
    assert made.policy.agreed == "it was"


def test_silence_is_counted_in_the_part_that_grows() -> None:
    made = speech("So we met. It", "So we met. It was")
    made.cut("en")
    for text, at in (("So we met. It was so", 0.9), ("So we met. It was so cold", 9.0)):
        offer(made, text, at)
    assert made._pauses is not None
    silences = made._pauses.before
    assert max(silences, key=silences.__getitem__) == 3


def test_parts_are_numbered_and_ids_that_are_taken_are_passed_over() -> None:
    made = speech()
    add(made, ("u1.2", "u1.3"))
    add(made)
    assert [part.id for part in made.parts] == ["u1", "u1.4", "u1.5"]


def test_a_speech_grows_until_its_last_part_is_complete_or_cancelled() -> None:
    made = speech("So we met. It")
    assert current(made.growing)
    made.open.final = True
    assert not current(made.growing)
    add(made)
    assert made.growing
    made.open.cancelled = True
    assert not made.growing


def test_at_its_end_it_keeps_the_last_revision_alone() -> None:
    made = speech("So we met. It was")
    made.cut("en")
    made.forget_parts()
    assert (made.text, made.policy.agreed, made._consumed) == ("So we met. It was", "", [])


def test_a_retracted_speech_keeps_no_text() -> None:
    made = speech("So we met.")
    made.erase()
    assert (made.text, made.policy.agreed) == ("", "")


def test_a_speech_is_readable_in_a_log_without_its_text() -> None:
    assert repr(speech("secret")) == "<Speech u1 rev 0, 1 parts>"
