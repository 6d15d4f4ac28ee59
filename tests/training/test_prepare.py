"""Files that preparation writes, which are read back unchanged."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from training import pairs, prepare
from training.pairs import Pair

CLEAN = st.text().map(pairs.clean)


@given(english=CLEAN, other=CLEAN, way=st.sampled_from(("both", "into")))
def test_clean_pairs_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, english: str, other: str, way: str
) -> None:
    work = tmp_path_factory.mktemp("work")
    rows = [Pair("talk", "de", english, other, way), Pair("talk", "ja", other, english, way)]
    prepare.write(work / prepare.PAIRS, rows)
    assert prepare.read(work) == rows


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return prepare.cut(
        iter(["we meet at 10:30 today", "wir treffen uns", "会議を始めます"] * 9), 400
    )


def test_controls_come_first_and_in_the_order_that_the_model_knows(tokenizer: Tokenizer) -> None:
    assert [tokenizer.id_to_token(id) for id in range(11)] == list(prepare.CONTROLS)
    assert tokenizer.token_to_id("<s>") == 1
    assert tokenizer.token_to_id("</s>") == 2


@given(text=st.text())
def test_any_text_can_be_written_and_read(tokenizer: Tokenizer, text: str) -> None:
    normal = tokenizer.normalizer.normalize_str(text)
    if not any(control in normal for control in prepare.CONTROLS):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids) == normal


def test_digits_are_tokens_of_their_own(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("at 10:30").tokens
    assert [token for token in tokens if token.isdigit()] == ["1", "0", "3", "0"]


def test_a_tokenizer_is_the_same_when_it_is_made_again() -> None:
    texts = ["the quick brown fox", "der schnelle braune Fuchs", "素早い狐"] * 3
    assert prepare.cut(iter(texts), 330).to_str() == prepare.cut(iter(texts), 330).to_str()


def test_prepare_holds_out_what_quality_is_measured_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    for path, line in (
        ("train/talk/en-de.tsv", "Good ≪m≫ morning to all of you.\tGuten Morgen euch allen."),
        # From the project's own sentences, in other words.
        ("dev/talk.en-de.tsv", "Can you hear me well, everyone?\tHört ihr mich alle gut?"),
        ("mono/de.txt", "Alle hört ihr mich gut.\nSo eine Scheiße.\nEs  regnet.\nEs regnet.\n"),
    ):
        (data / path).parent.mkdir(parents=True, exist_ok=True)
        (data / path).write_text(line + "\n", "utf-8")
    sentences = [("everyone, can you hear me well",) * 6, ("Shall we begin with the agenda?",) * 6]
    monkeypatch.setattr(pairs, "own", lambda _: iter(sentences))
    monkeypatch.setattr(
        "sys.argv", ["prepare", str(data), str(work), "--vocabulary", "300"], raising=True
    )
    prepare.main()
    assert prepare.read_own(work) == sentences[1:]
    assert [pair.english for pair in prepare.read(work)] == ["Good morning to all of you."]
    for name in (prepare.PAIRS, prepare.OWN, prepare.LONE):
        written = (work / name).read_bytes()
        text = (gzip.decompress(written) if name.endswith(".gz") else written).decode()
        assert not pairs.MARKS.search(text)
    assert prepare.read_lone(work) == [("de", "Es regnet.")]
    assert (work / prepare.TOKENIZER).is_file()
