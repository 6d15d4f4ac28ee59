"""Examples and the rows they are packed into: a function of a seed and a step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from training import examples, prepare, slots, transcribe
from training.examples import ROW, Batch, Mix, Packer, Source
from training.pairs import Pair

PAIRS = [
    Pair("tatoeba", "de", "Peter has 25 apples, I think.", "Peter hat 25 Äpfel, glaube ich."),
    Pair("tatoeba", "fr", "The report is late again.", "Le rapport est encore en retard."),
    Pair("tatoeba", "ja", "Anna is on mute.", "アンナさんはミュートです。"),
    Pair("tatoeba", "zh", "We start at nine o'clock.", "我们九点开始。"),
    Pair("fisher_callhome_asr", "es", "well yes of course", "pues sí claro", way="into"),
]
OWN = (
    "{name} is here.",
    "{name} ist da.",
    "{name} est là.",
    "{name} está.",
    "{name}です。",
    "{name}在。",
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    work = tmp_path_factory.mktemp("work")
    prepare.write(work / prepare.PAIRS, PAIRS)
    (work / prepare.OWN).write_text("\t".join(OWN) + "\n", "utf-8")
    texts = [text for pair in PAIRS for text in (pair.english, pair.other)]
    prepare.cut(iter(texts * 3), 500).save(str(work / prepare.TOKENIZER))
    return work


@pytest.fixture(scope="module")
def tokenizer(work: Path) -> Tokenizer:
    return Tokenizer.from_file(str(work / prepare.TOKENIZER))


def packer(work: Path, *, rows: int = 4, reading: float = 0.0, seed: int = 0) -> Packer:
    return Packer(Source(work, Mix()), work / prepare.TOKENIZER, rows, seed, reading)


def arrays(batch: Batch) -> Iterator[bytes]:
    return (getattr(batch, name).tobytes() for name in Batch.__dataclass_fields__)


def test_a_step_gives_the_same_batch_in_every_process_and_another_step_another(work: Path) -> None:
    one, other = packer(work), packer(work)
    other.batch(6)
    assert list(arrays(one.batch(7))) == list(arrays(other.batch(7)))
    assert list(arrays(one.batch(7))) != list(arrays(one.batch(8)))
    assert list(arrays(one.batch(7))) != list(arrays(packer(work, seed=1).batch(7)))


@pytest.mark.parametrize("reading", [0.0, 0.3])
@pytest.mark.parametrize("step", range(4))
def test_examples_never_cross_rows_and_targets_follow_sources(
    work: Path, tokenizer: Tokenizer, reading: float, step: int
) -> None:
    batch = packer(work, reading=reading).batch(step)
    ids = tokenizer.get_vocab()
    flat = batch.tokens.reshape(-1)
    learnt = {int(place): n for n, place in enumerate(batch.places) if batch.weights[n]}
    for n, (row, which) in enumerate(zip(batch.tokens, batch.examples, strict=True)):
        assert list(which) == sorted(which)  # one after the other, the padding last
        assert not row[which == ROW].any()
        for example in sorted(set(which.tolist()) - {ROW}):
            (at,) = np.nonzero(which == example)
            tokens = row[at].tolist()
            assert batch.positions[n, at].tolist() == list(range(len(tokens)))
            assert tokens[0] == ids["<s>"]
            assert tokens[-1] == ids["</s>"]
            assert tokens.count(ids["<sep>"]) == tokens.count(ids["<s>"]) == 1
            for place, token, following in zip(
                (at + n * ROW).tolist(), tokens, tokens[1:], strict=False
            ):
                begun = place - n * ROW - at[0]
                if place not in learnt:
                    # What names the languages, a source that is not learnt, or no room for it.
                    first = 2 if reading else tokens.index(ids["<sep>"])
                    assert begun < first or len(learnt) == len(batch.places)
                    continue
                assert flat[place + 1] == batch.targets[learnt[place]] == following
                is_target = begun >= tokens.index(ids["<sep>"])
                assert batch.weights[learnt[place]] == np.float32(1.0 if is_target else reading)
                assert token != ids["</s>"]


def test_every_target_token_is_predicted_when_there_is_room(
    work: Path, tokenizer: Tokenizer
) -> None:
    batch = packer(work, reading=0.3).batch(0)
    ids = tokenizer.get_vocab()
    targets = 0
    for row, which in zip(batch.tokens, batch.examples, strict=True):
        for example in set(which.tolist()) - {ROW}:
            tokens = row[which == example].tolist()
            targets += len(tokens) - tokens.index(ids["<sep>"]) - 1
    assert (batch.weights == 1).sum() == targets


@given(seed=st.integers())
def test_an_example_is_drawn_from_a_pair_in_a_way_that_it_allows(work: Path, seed: int) -> None:
    source = SOURCES.setdefault(work, Source(work, Mix()))
    example = source.example(random.Random(seed))
    assert "en" in {example.source_language, example.target_language}
    assert example.source_language != example.target_language
    assert example.source
    assert "{" not in example.source + example.target
    if example.target_language == "es":
        assert "pues" not in example.target


SOURCES: dict[Path, Source] = {}


@pytest.fixture(scope="module")
def foreign(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the same without own sentences."""
    foreign = tmp_path_factory.mktemp("foreign")
    prepare.write(foreign / prepare.PAIRS, PAIRS)
    (foreign / prepare.OWN).write_text("")
    return foreign


WAYS = {(pair.english, pair.other) for pair in PAIRS}
WAYS |= {(other, english) for english, other in WAYS}


def test_a_mix_of_nothing_gives_the_sentences_as_they_are(foreign: Path) -> None:
    source = Source(foreign, Mix(part=0, copied=0, joined=0, recognised=0, hesitant=0, renamed=0))
    draw = random.Random(0)
    made = {(one.source, one.target) for one in (source.example(draw) for _ in range(200))}
    assert made <= WAYS
    assert len(made) == 2 * len(PAIRS) - 1  # one of them goes into English only


def test_a_mix_of_parts_alone_gives_prefixes(foreign: Path) -> None:
    source = Source(foreign, Mix(part=1, copied=0, joined=0, recognised=0, hesitant=0, renamed=0))
    draw = random.Random(0)
    for example in (source.example(draw) for _ in range(200)):
        assert example.part
        assert any(
            whole.startswith(example.source) and translation.startswith(example.target)
            for whole, translation in WAYS
        )


def test_joined_sentences_have_both_sides_in_the_same_order(foreign: Path) -> None:
    source = Source(foreign, Mix(part=0, copied=0, joined=1, recognised=0, hesitant=0, renamed=0))
    draw = random.Random(0)
    for example in (source.example(draw) for _ in range(100)):
        languages = {example.source_language, example.target_language}
        (pair,) = (pair for pair in PAIRS if {"en", pair.language} == languages)
        sides = (pair.english, pair.other)
        mine = sides if example.source_language == "en" else sides[::-1]
        times = example.source.count(mine[0])
        assert times in {1, 2, 3}
        assert example.target.count(mine[1]) == times


def test_synthetic_pairs_are_drawn_only_if_they_have_a_weight(work: Path) -> None:
    prepare.write(work / prepare.SYNTHETIC, [Pair("synthetic", "de", "made", "gemacht")])
    draw = random.Random(0)
    for weight in (0.0, 50.0):
        source = Source(work, Mix(joined=0), weight)
        made = [source.example(draw) for _ in range(100)]
        found = any("made" in (one.source, one.target) for one in made)
        assert found is bool(weight)


@given(share=st.floats(0, 1), seed=st.integers(), text=st.text())
def test_unmerged_tokens_are_the_same_text(
    tokenizer: Tokenizer, share: float, seed: int, text: str
) -> None:
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    split = examples.unmerged(ids, examples.merges(tokenizer), share, random.Random(seed))
    assert len(split) >= len(ids)
    assert tokenizer.decode(split) == tokenizer.decode(ids)


def test_no_merge_is_left_out_at_a_share_of_nothing_and_all_are_at_one(
    tokenizer: Tokenizer,
) -> None:
    ids = tokenizer.encode("Peter has apples").ids
    merged = examples.merges(tokenizer)
    assert examples.unmerged(ids, merged, 0.0, random.Random(0)) == ids
    assert len(examples.unmerged(ids, merged, 1.0, random.Random(0))) == len("Peter has apples")


def renamings(english: str, other: str, language: str) -> list[tuple[str, str]]:
    pair = Pair("tatoeba", language, english, other)
    found = (examples.renamed(pair, random.Random(seed)) for seed in range(60))
    return [(one.english, one.other) for one in found]


@pytest.mark.parametrize(
    ("english", "other", "language"),
    [
        ("Maria's book is here.", "Marias Buch ist hier.", "de"),
        ("Thomas' book is here.", "Thomas' Buch ist hier.", "de"),
        ("Anna came, and Anna left.", "Anna kam und ging.", "de"),
        ("Ken has come to Cambridge.", "健はケンブリッジに来ました。", "ja"),
        ("Anna is here.", "ハンナさんとマリアンナさんです。", "ja"),
        ("Anna is here.", "戴安娜在这里。", "zh"),
        ("We meet at 10:30.", "Wir treffen uns um 10:30.", "de"),
        ("It was the 12th time.", "Es war das 12. Mal.", "de"),
        ("It costs 1,200 euros.", "Es kostet 1.200 Euro.", "de"),
    ],
)
def test_a_name_or_figure_that_cannot_be_found_alike_on_both_sides_stays(
    english: str, other: str, language: str
) -> None:
    assert set(renamings(english, other, language)) == {(english, other)}


@pytest.mark.parametrize(
    ("english", "other", "language"),
    [
        ("@ is here.", "@ ist da.", "de"),
        ("@'s here with @.", "@ ist mit @ da.", "de"),
        ("@'s report.", "Le rapport de @.", "fr"),
    ],
)
def test_a_name_is_replaced_by_the_same_name_on_both_sides(
    english: str, other: str, language: str
) -> None:
    made = renamings(english.replace("@", "Peter"), other.replace("@", "Peter"), language)
    assert len(set(made)) > 20
    for one, two in made:
        name = one.split(" ")[0].removesuffix("'s")
        assert (one, two) == (english.replace("@", name), other.replace("@", name))


def test_a_transcribed_name_is_replaced_by_a_transcribed_one() -> None:
    known = {row[0]: row[1] for row in slots.NAMES}
    for english, other in renamings("Peter is here.", "ピーターさんです。", "ja"):
        name = english.split(" ")[0]
        names = {known.get(name, name), transcribe.katakana(name), name}
        assert other.removesuffix("さんです。") in names


def test_a_woman_stays_a_woman_and_a_word_joined_to_a_name_still_fits() -> None:
    whose = {row[0]: row[3] for row in slots.NAMES}
    for english, other in renamings(
        "Emma's report is late.", "Le rapport d'Emma est en retard.", "fr"
    ):
        name = english.split("'")[0]
        assert other == f"Le rapport d'{name} est en retard."
        assert name[0] in "AEIOU"
        assert whose.get(name, "f") in "fx"


@pytest.mark.parametrize(
    ("figure", "low", "high"),
    [("12", 10, 12), ("30", 10, 31), ("1987", 1700, 2099), ("640", 100, 999)],
)
def test_a_figure_becomes_another_that_could_stand_there(figure: str, low: int, high: int) -> None:
    made = renamings(f"It was in {figure}.", f"Das war {figure}.", "de")
    assert len(set(made)) > 2
    for english, other in made:
        new = english.removeprefix("It was in ").removesuffix(".")
        assert low <= int(new) <= high
        assert other == f"Das war {new}."
