"""Tests of the guards of a streaming output."""

from __future__ import annotations

from re._parser import parse  # type: ignore[import-not-found]

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.engines.guards import streaming_output as stream
from gateway.engines.guards.complete_output import Guard, find_flags
from gateway.engines.guards.loops import LOOP_WORDS, NGRAM, RepeatCounter, max_repeats
from gateway.engines.guards.phrases import RUDE
from gateway.engines.guards.streaming_output import (
    HEAD_MOST,
    RUDE_MOST,
    THINKING_MOST,
)
from gateway.errors import ErrorCode, Rejected
from tests.engines.guards.outputs import ORDERS, STRIPPED, TALK, pieces, read, watch
from tests.text.test_letters import GREETINGS

BAD = (
    # guard, source language, target, text, output
    (Guard.EMPTY, "en", "de", "Good morning!", ""),
    (Guard.EMPTY, "en", "de", "Good morning!", " \n "),
    (Guard.EMPTY, "en", "de", "Good morning!", "..."),
    (Guard.EMPTY, "en", "de", "Good morning!", "Translation:"),
    (Guard.EMPTY, "en", "de", "Good morning!", '"'),
    (Guard.LOOP, "en", "de", "Let us go.", "Gehen wir, gehen wir, gehen wir, gehen wir"),
    (Guard.LOOP, "en", "de", "Very good.", "sehr " * LOOP_WORDS),
    (Guard.LOOP, "en", "ja", "Let us go home.", "帰ろう帰ろう帰ろう帰ろう帰ろう帰ろう"),
    (Guard.LOOP, "en", "de", "They laughed for a long time about the joke.", "Sie " + "ha" * 30),
    (Guard.LOOP, "en", "de", "And then they went home to their friends.", "und-" * 20),
    (Guard.LOOP, "en", "de", "And then they went home to their friends.", "Ja" + " ." * 40),
    (Guard.LOOP, "en", "de", "We met the whole team in the new office in town on Friday evening.",
     "Wir trafen am Freitagabend alle Leute vom Team in der Stadt " * 4),
    (Guard.LENGTH, "en", "de", "Write a poem.",
     "Das Meer ist weit, das Meer ist blau, die Wellen rauschen grau in grau, der Wind weht kalt,"),
    (Guard.SHORT, "en", "de", "Please tell them that the meeting on Friday is off.", "Ja."),
    (Guard.COPY, "en", "de", "can you hear me all right now", "Can you hear me all right now?"),
    (Guard.COPY, "en", "de", "we will see each other on Monday",
     "we will see each other on Monday - wir sehen uns am Montag"),
    (Guard.COPY, "ja", "zh", "明日の会議は九時に始まります", "明日の会議は九時に始まります"),
    (Guard.SCRIPT, "en", "ru", "See you tomorrow at the office.", "Bis morgen im Büro also."),
    (Guard.SCRIPT, "en", "de", "See you tomorrow at the office.", "明天在办公室见，大家再见。"),
    (Guard.SCRIPT, "en", "zh", "See you tomorrow at the office.", "また明日ここで会いましょう。"),
    (Guard.SCRIPT, "en", "ja", "We will see each other tomorrow morning at nine in the big room.",
     "我们明天早上九点在大会议室见面大家不要迟到请准时"),
    *((Guard.SCRIPT, "en", "de", "Good morning!", text) for text in GREETINGS.values()),
    *(
        (Guard.SCRIPT, lang, "en", text, text)
        for lang, text in GREETINGS.items() if lang not in ("ja", "zh")
    ),
    (Guard.SCRIPT, "ja", "en", "田中さん。", "田中さん。"),
    (Guard.SCRIPT, "en", "zh", "Hi.", "やあ"),
    (Guard.SCRIPT, "en", "ar", "See you tomorrow at the office.", "On se voit demain au bureau."),
    (Guard.REFUSAL, "en", "de", "Write a poem about the sea.", "I'm sorry, but I can't do this."),
    (Guard.REFUSAL, "en", "de", "Tell me the password.", "Als KI kenne ich das Passwort nicht."),
    (Guard.REFUSAL, "de", "en", "Sag mir das Passwort.", "I cannot assist with this request."),
    (Guard.REFUSAL, "ja", "en", "パスワードを教えて。", "As an AI, I have none."),
    (Guard.NOTE, "en", "de", "Good morning!", "Guten Morgen! (Note: formal)"),
    (Guard.NOTE, "en", "ja", "Good morning, Mr Ito!", "伊藤さん、おはよう（訳注：丁寧）"),
    (Guard.RUDE, "en", "de", "The birds are back.", "Die Titten sind"),
    (Guard.RUDE, "fr", "en", "Coucou tout le monde !", "Shit, everyone!"),
    (Guard.RUDE, "en", "es-MX", "Our pet is fine.", "Nuestra mascota es puta"),
    (Guard.RUDE, "en", "zh", "Good morning!", "早上好，他妈的"),
    (Guard.THINKING, "en", "de", "Good morning!", "<think>The user says"),
    (Guard.THINKING, "en", "de", "Good morning!", "The user wants</think> Guten Morgen"),
    (Guard.THINKING, "en", "de", "Good morning!", "<think>" + "so " * THINKING_MOST),
)  # fmt: skip


@pytest.mark.parametrize("cut", [1, 3, 1000], ids=["by character", "by three", "whole"])
@pytest.mark.parametrize(("source", "target", "text", "good"), ORDERS + TALK)
def test_a_good_translation_passes_unchanged(
    source: str, target: str, text: str, good: str, cut: int
) -> None:
    follower = watch(source, target, text)
    assert read(follower, pieces(good, cut)) == good
    assert follower.hits == []


@pytest.mark.parametrize("cut", [1, 1000], ids=["by character", "whole"])
@pytest.mark.parametrize(("guard", "source", "target", "text", "output"), BAD)
def test_an_output_that_is_no_translation_is_rejected_by_the_named_guard(
    guard: Guard, source: str, target: str, text: str, output: str, cut: int
) -> None:
    with pytest.raises(Rejected) as caught:
        read(watch(source, target, text), pieces(output, cut))
    assert caught.value.guard == guard
    assert caught.value.code is ErrorCode.REJECTED
    assert str(caught.value).startswith("The model's output ")


def test_words_that_the_cache_knows_count_towards_the_length() -> None:
    words = [f" mot{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    for _ in range(2):  # the first output fills the cache
        with pytest.raises(Rejected) as caught:
            read(watch("en", "fr", "Good morning!"), words)
        assert caught.value.guard == Guard.LENGTH


@pytest.mark.parametrize("cut", [1, 2, 1000], ids=["by character", "by two", "whole"])
@pytest.mark.parametrize(("guard", "target", "output", "rest"), STRIPPED)
def test_text_around_a_translation_is_stripped(
    guard: Guard, target: str, output: str, rest: str | None, cut: int
) -> None:
    follower = watch("en", target, "good morning")
    assert read(follower, pieces(output, cut)) == (rest or "Guten Morgen")
    assert follower.hits == [guard]


def test_text_is_withheld_exactly_while_it_may_be_a_preamble() -> None:
    follower = watch("en", "de", "good morning")
    assert follower.accept("Sure, here is the") == ""
    assert follower.accept(" shop") == "Sure, here is the shop"
    assert follower.accept(" now") == " now"


def test_withheld_text_is_bounded() -> None:
    follower = watch("en", "de", "good morning " * 20)
    shown = "".join(follower.accept("here is the text ") for _ in range(HEAD_MOST // 16 + 2))
    assert shown.startswith("here is the text here")


def test_text_after_the_last_line_is_cut_and_the_output_is_done() -> None:
    follower = watch("en", "de", "good morning")
    assert follower.accept("Guten Morgen\n\nDas ist") == "Guten Morgen"
    assert follower.done
    assert follower.accept(" eine formelle Anrede") == ""
    assert follower.complete() == ""
    assert follower.hits == [Guard.LINES]


def test_an_output_may_have_as_many_lines_as_its_source() -> None:
    follower = watch("en", "de", "one\n \ntwo")
    assert read(follower, ["Eins\n", "\nZwei", "\nAlso:"]) == "Eins\n\nZwei"
    assert follower.hits == [Guard.LINES]


def test_an_unfinished_source_gets_no_invented_end() -> None:
    follower = watch("en", "de", "we will", partial=True)
    output = "Wir werden uns morgen um neun Uhr im großen Saal treffen und dort"
    shown = read(follower, [word + " " for word in output.split()])
    assert output.startswith(shown)
    assert len(shown.split()) == 7
    assert follower.done
    assert follower.hits == [Guard.INVENTION]


def test_an_unfinished_source_may_have_no_translation_yet() -> None:
    assert read(watch("en", "de", "the", partial=True), []) == ""


def test_an_unfinished_source_is_not_flagged() -> None:
    follower = watch("en", "de", "it costs 1200", partial=True)
    assert read(follower, ["Es kostet"]) == "Es kostet"
    assert follower.flags == ()


def test_names_may_come_first_while_the_source_is_unfinished() -> None:
    text, output = "Who was it that founded", "Energiprojekt Aktiebolaget是"
    assert read(watch("en", "zh", text, partial=True), [output]) == output
    with pytest.raises(Rejected):
        read(watch("en", "zh", text), [output])


@pytest.mark.parametrize(
    ("text", "output", "flags"),
    [
        ("We sold 1,200 of them.", "Wir haben 1.200 davon verkauft.", ()),
        ("We sold 1,200 of them.", "Wir haben 1\u202f200 davon verkauft.", ()),
        ("We sold 1,200 of them.", "Wir haben 2.100 davon verkauft.", (Guard.NUMBERS,)),
        ("We sold １２００ of them.", "Wir haben 1200 davon verkauft.", ()),
        ("At 2:30 pm we are 12.", "Um halb drei sind wir zwölf.", ()),
        ("See www.example.org.", "Siehe www.example.org!", ()),
        ("See https://example.org/x?y=100.", "Siehe dort.", (Guard.URL,)),
        ("Write to Anna.Weber@example.org", "Schreib an anna.weber@example.org", ()),
        ("Write to anna@example.org, room 512", "Schreib an Anna", (Guard.NUMBERS, Guard.URL)),
    ],
)
def test_lost_numbers_and_addresses_are_flagged(
    text: str, output: str, flags: tuple[Guard, ...]
) -> None:
    follower = watch("en", "de", text)
    assert read(follower, [output]) == output
    assert follower.flags == flags


@pytest.mark.parametrize(
    ("text", "output", "flags"),
    [
        ("The train leaves at 17:45.", "電車は9:45に出ます。", (Guard.NUMBERS,)),
        ("The train leaves at 17:45.", "Le train part à 17 h 54.", (Guard.NUMBERS,)),
        ("The train leaves at 17:45.", "Der Zug fährt um Viertel vor sechs.", ()),
        ("The train leaves at 17:45.", "火车下午5点45分开。", ()),
        ("火车在17时45分开。", "The train leaves at 5:45 p.m.", ()),
        ("It took 17 seconds.", "Es war 9:45.", ()),
        ("From 11:30 to 10 pm.", "Von 11:30 bis 22:00 Uhr.", ()),
    ],
)
def test_a_time_of_day_that_became_another_is_flagged(
    text: str, output: str, flags: tuple[Guard, ...]
) -> None:
    assert find_flags(text, output, "zh" if text[0] == "火" else "en", "de") == flags


@pytest.mark.parametrize(
    ("text", "target", "output", "flags"),
    [
        ("That leaves us $82,000.", "de", "Es bleiben uns 82.000 Pfund.", (Guard.NUMBERS,)),
        ("That leaves us $82,000.", "es", "Nos quedan 82.000.", (Guard.NUMBERS,)),
        ("That leaves us $82,000.", "es-MX", "Nos quedan 82.000 dólares.", ()),
        ("It is $7 or €6.", "de", "Das sind 7 Dollar oder 6.", (Guard.NUMBERS,)),
        ("The rent is £4,200.", "ja", "家賃は4,200ポンドです。", ()),
        ("The rent is £4,200.", "ja", "家賃は4,200円です。", (Guard.NUMBERS,)),
        ("总共￥248,000。", "en", "It is 248,000 euros.", (Guard.NUMBERS,)),
        ("总共￥248,000。", "en", "It is ¥ 248,000.", ()),
        ("Il coûte 13 €.", "en", "It costs 13.", (Guard.NUMBERS,)),
        ("The rent is £4,200.", "ru", "Аренда стоит 4200 фунтов.", ()),  # not one of the languages
        ("Set $HOME to 12.", "de", "Setze HOME auf 12.", ()),
    ],
)
def test_a_sum_without_its_currency_is_flagged(
    text: str, target: str, output: str, flags: tuple[Guard, ...]
) -> None:
    assert find_flags(text, output, "zh" if target == "en" else "en", target) == flags


@pytest.mark.parametrize(
    ("text", "pair", "output", "lost"),
    [
        ("予算は250万円です。", "ja-en", "The budget is 250 million yen.", True),
        ("予算は250万円です。", "ja-en", "The budget is 2.5 million yen.", False),
        ("予算は250万円です。", "ja-en", "The budget is 2,500,000 yen.", False),
        ("It costs 2.5 million yen.", "en-ja", "250万円かかります。", False),
        ("It costs 2.5 million yen.", "en-ja", "25万円かかります。", True),
        ("共计3亿元。", "zh-en", "A total of 30 million yuan.", True),
        ("Es kostet 2,5 Mio. Euro.", "de-en", "It costs 2.5 million euros.", False),
        ("Es kostet 2,5 Mio. Euro.", "de-en", "It costs 2.5 euros.", True),
        ("Thirty-two people came.", "en-de", "Es kamen zweiunddreißig Leute.", False),
        ("Thirty-two people came.", "en-de", "Es kamen 32 Leute.", False),
        ("Thirty-two people came.", "en-de", "Es kamen dreiundzwanzig Leute.", True),
        ("Thirty-two people came.", "en-ru", "Пришли тридцать два человека.", False),
        ("It costs 2.5 million.", "en-ru", "Это стоит 2,5 миллиона.", False),
        ("Um vierzehn Uhr.", "de-en", "At two o'clock.", False),
        ("At nine thirty.", "en-de", "Um halb zehn.", False),
        ("A thousand thanks, a hundred times.", "en-de", "Tausend Dank, immer wieder.", False),
        ("Three or four of us.", "en-de", "Ein paar von uns.", False),
    ],
)
def test_a_number_in_words_or_a_sum_that_became_another_is_flagged(
    text: str, pair: str, output: str, lost: bool
) -> None:
    assert find_flags(text, output, *pair.split("-")) == ((Guard.NUMBERS,) if lost else ())


def test_the_source_may_repeat_itself_and_so_may_the_translation() -> None:
    text, again = "very " * 10 + "good", "sehr " * 12 + "gut"
    assert read(watch("en", "de", text), [again]) == again
    with pytest.raises(Rejected) as caught:
        read(watch("en", "de", text), ["sehr " * 13])
    assert caught.value.guard is Guard.LOOP


def test_repetitions_in_the_source_are_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without this the loop guard blocks the event loop for minutes at a thousand words."""
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return max_repeats(text)

    monkeypatch.setattr(stream, "max_repeats", count)
    assert read(watch("en", "de", "ha " * 50), [" ho"] * 50) == "ho" + " ho" * 49
    assert len(counted) == 1

    class Word(str):
        compared = 0
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Word.compared += 1
            return str.__eq__(self, other)

    runs = RepeatCounter()
    for _ in range(300):
        runs.add(Word("ha"))
    Word.compared = 0
    assert runs.add(Word("ha")) == (1, 301)
    assert Word.compared <= 2 * NGRAM


@pytest.mark.parametrize(
    ("loop", "shown"),
    [
        (["Wir ", *(f"wort{letter} " for letter in "abcdefghijk")] * 5, 20),
        (["Er "] + ["ha"] * 60, 9),
        (["Ja"] + [" ."] * 60, 9),
    ],
    ids=["twelve words", "a word", "signs"],
)
def test_of_a_loop_little_more_than_its_second_time_is_shown(loop: list[str], shown: int) -> None:
    follower = watch("en", "de", "We met the whole team in the new office in town on Friday.")
    pieces = []
    with pytest.raises(Rejected) as caught:
        for piece in loop:
            pieces.append(follower.accept(piece))  # noqa: PERF401  # until it raises
    assert caught.value.guard == Guard.LOOP
    assert sum(map(bool, pieces)) <= shown


def test_a_word_that_laughs_as_the_source_does_is_shown() -> None:
    laugh = "ha" * 40
    follower = watch("en", "de", f"Very funny, {laugh}!")
    assert read(follower, ["Sehr lustig, ", *["ha"] * 40, "!"]) == f"Sehr lustig, {laugh}!"


def test_a_long_phrase_that_comes_twice_is_shown_to_its_end() -> None:
    text = "wir gehen morgen früh alle zusammen mit Anna in das Büro " * 2
    follower = watch("en", "de", "We all go to the office together with Anna early tomorrow.")
    assert read(follower, pieces(text, 4)).strip() == text.strip()


def test_a_loop_is_rejected_before_the_model_ends() -> None:
    follower = watch("en", "de", "Let us go there together now.")
    with pytest.raises(Rejected):
        for _ in range(10):
            follower.accept("gehen wir hin ")
    assert follower.text.count("gehen") == 3


@pytest.mark.parametrize(
    ("target", "phrase", "seen"),
    [("de", "gehen wir hin ", 2), ("de", "sehr ", 4), ("zh", "好", 6), ("ja", "帰ろう", 2)],
)
@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_loop_is_withheld_before_it_is_rejected(
    target: str, phrase: str, seen: int, cut: int
) -> None:
    follower = watch("en", target, "Let us go there together now, that would be very good.")
    shown = ""
    with pytest.raises(Rejected) as caught:
        for piece in pieces(phrase * 20, cut):
            shown += follower.accept(piece)
    assert caught.value.guard is Guard.LOOP
    assert shown.count(phrase.strip()) <= seen


@pytest.mark.parametrize("cut", [1, 4, 1000])
@pytest.mark.parametrize(
    ("target", "output"),
    [
        ("de", "Das ist sehr, sehr, sehr gut, ja, ja, ja."),
        ("de", "Wir gehen, wir gehen, wir"),
        ("fr", "Nous nous retrouvons, nous nous retrouvons"),
        ("zh", "好好好好好好，谢谢谢谢"),
    ],
)
def test_a_repetition_that_ends_is_shown_as_a_whole(target: str, output: str, cut: int) -> None:
    follower = watch("en", target, "That is good, so let us go there, thank you very much indeed.")
    assert read(follower, pieces(output, cut)) == output


@pytest.mark.parametrize("language", RUDE)
def test_no_rude_word_is_longer_than_the_text_that_is_searched_again(language: str) -> None:
    assert parse(RUDE[language].pattern).getwidth()[1] < RUDE_MOST


@pytest.mark.parametrize(
    ("text", "shown"),
    [("Er ist ein Arschloch.", False), ("Sie ist barschl", True), ("Das_Scheiß", False)],
)
def test_a_rude_word_is_found_at_the_start_of_a_word_however_it_is_split(
    text: str, shown: bool
) -> None:
    for cut in range(1, len(text)):
        follower = watch("en", "de", "He is a good man.")
        try:
            for piece in (text[:cut], text[cut:]):
                follower.accept(piece)
            found = False
        except Rejected as fault:
            found = fault.guard == Guard.RUDE
        assert found is not shown


@given(
    st.text(max_size=60),
    st.lists(st.text(alphabet=st.one_of(st.sampled_from('ab <>/think:"\n翻译'), st.characters()))),
    st.booleans(),
    st.sampled_from(["", "Guten ", "おはよう"]),
)
def test_any_output_is_shown_in_order_or_rejected(
    text: str, output: list[str], partial: bool, prefix: str
) -> None:
    """Shown text never changes, and is never longer than the output."""
    follower = watch("en", "de", text, partial=partial, prefix=prefix)
    try:
        shown = read(follower, output)
    except Rejected:
        return
    said = iter("".join(output))
    assert all(char in said for char in shown if not char.isspace())


@given(st.sampled_from(ORDERS), st.lists(st.integers(0, 60)))
def test_the_result_does_not_depend_on_where_the_output_is_split(
    pair: tuple[str, str, str, str], cuts: list[int]
) -> None:
    source, target, text, good = pair
    edges = sorted({0, len(good), *(min(cut, len(good)) for cut in cuts)})
    output = [good[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    assert read(watch(source, target, text), output) == good
