"""Pairs that are left out of the training, also for being too near to held-out ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training import pairs
from training.pairs import Near, Pair


def written(root: Path, name: str, *lines: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
    return root


def test_a_corpus_is_read_once_and_under_the_name_of_its_folder(tmp_path: Path) -> None:
    line = "Good morning.\tGuten Morgen."
    root = written(tmp_path, "talk/en-de.tsv", line, "no second column", line, "Bye.\tTschüss.")
    assert list(pairs.corpora(root)) == [
        Pair("talk", "de", "Good morning.", "Guten Morgen."),
        Pair("talk", "de", "Bye.", "Tschüss."),
    ]


def test_a_corpus_into_english_only_says_so(tmp_path: Path) -> None:
    root = written(tmp_path, "calls/es2en_only.en-es.tsv", "Well, yes.\tpues sí")
    assert [(pair.language, pair.way) for pair in pairs.corpora(root)] == [("es", "into")]


@pytest.mark.parametrize(
    ("english", "other", "language"),
    [
        ("", "Nichts.", "de"),
        ("Nothing.", "", "de"),
        ("word " * 90, "Wort " * 90, "de"),
        ("This one was not translated.", "This one was not translated.", "de"),
        ("A sentence of some length here.", "Kurz.", "de"),
        ("Short enough.", "Ein Satz, der viel zu lang ist für diese kurze englische Seite.", "de"),
    ],
)
def test_what_cannot_be_a_translation_is_not_usable(
    english: str, other: str, language: str
) -> None:
    assert not pairs.usable(Pair("talk", language, english, other))


@pytest.mark.parametrize(
    ("english", "other", "language"),
    [
        ("Hi.", "Guten Tag zusammen.", "de"),
        ("Zoom 5.2", "Zoom 5.2", "de"),
        ("Can you hear me now?", "今、聞こえますか？", "ja"),
        ("We will meet again tomorrow.", "我们明天再开会。", "zh"),
    ],
)
def test_translations_are_usable(english: str, other: str, language: str) -> None:
    assert pairs.usable(Pair("talk", language, english, other))


@given(st.text())
def test_clean_text_is_clean_and_has_neither_tabs_nor_lines(text: str) -> None:
    clean = pairs.clean(text)
    assert pairs.clean(clean) == clean
    assert not pairs.MARKS.search(clean)
    assert not set(clean) & set("\t\n\r\x00\x85\u2028\u200b\ufeff")
    assert len(clean.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We have ≪to≫ to train ≪our≫ ourselves.", "We have to train ourselves."),
        ("still ≪th I'm in doubt.", "still th I'm in doubt."),
        ("pues y <unk> aló", "pues y aló"),
        ("I think he would have it -*-", "I think he would have it"),
        ("a T_V_, two D_V_D_s and C_C_ed", "a TV, two DVDs and CCed"),
        ("open(path, O_CREAT | O_RDONLY) in my_file and a_b", None),
        ("a << 2 >> 1, 《书》, «oui»", None),
    ],
)
def test_marks_of_transcribers_are_left_out(text: str, expected: str | None) -> None:
    assert pairs.clean(text) == (expected or text)


def test_own_sentences_need_all_languages_the_same_slots_and_no_unknown_one(
    tmp_path: Path,
) -> None:
    good = "\t".join(f"{{name}} {n}" for n in range(6))
    written(
        tmp_path,
        "own.tsv",
        good,
        "\t".join(["one", "two"]),
        good.replace("{name} 3", "{city} 3"),
        good.replace("{name}", "{colour}"),
        good.replace("{name} 5", " "),
    )
    assert list(pairs.own(tmp_path)) == [tuple(good.split("\t"))]


@pytest.mark.parametrize(
    ("text", "language", "rude"),
    [
        ("What the FUCK is that?", "en", True),
        ("They are fucking up.", "en", True),
        ("A cocktail in Scunthorpe.", "en", False),
        ("So eine Scheiße!", "de", True),
        ("con mucho gusto", "es", False),
        ("このくそ野郎", "ja", True),
        ("早くそれを無くそう。", "ja", False),
        ("Un pique-nique ?", "fr", False),
        ("ファックスとパチンコ", "ja", False),
        ("他妈的！", "zh", True),
    ],
)
def test_profanity_is_found_as_whole_words(text: str, language: str, rude: bool) -> None:
    assert pairs.Blocked()(text, language) is rude


SENTENCES = st.lists(st.sampled_from("a b c d e f g h".split()), min_size=1, max_size=9)


@given(st.lists(SENTENCES, max_size=6), SENTENCES)
def test_near_finds_every_sentence_with_a_jaccard_index_of_seven_tenths(
    held: list[list[str]], sentence: list[str]
) -> None:
    near = Near(map(" ".join, held))
    mine = set(sentence)
    expected = any(
        len(mine & set(other)) / len(mine | set(other)) >= Near.CLOSE
        for other in held
        if len(set(other)) >= Near.SHORT
    )
    assert near(" ".join(sentence)) is (expected and len(mine) >= Near.SHORT)


def test_near_knows_neither_case_nor_punctuation_nor_short_answers() -> None:
    near = Near(["You're on mute, Peter.", "Okay."])
    assert near("you're on MUTE Peter!")
    assert near("You're on mute, .")
    assert not near("Okay.")


@given(
    st.lists(st.integers(0, 3), max_size=4),
    st.sampled_from(pairs.LOOPS).flatmap(
        lambda size: st.lists(st.integers(), min_size=size, max_size=size)
    ),
)
def test_a_few_tokens_three_times_in_a_row_are_a_loop(before: list[int], some: list[int]) -> None:
    assert pairs.looped([*before, *some * 3])


@given(st.lists(st.integers(), unique=True, max_size=30))
def test_tokens_that_never_come_back_are_no_loop(ids: list[int]) -> None:
    assert not pairs.looped(ids)
    assert not pairs.looped(ids[:6] * 2)
