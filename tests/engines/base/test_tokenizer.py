"""Tests that typed text never becomes a control token, and of the streaming detokenisers."""

from __future__ import annotations

import json
import os
import unicodedata
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers import models as kinds

from gateway.engines import profiles
from gateway.engines.base.tokenizer import (
    CACHE_LONGEST,
    CACHE_SIZE,
    SentencePieces,
    Vocabulary,
    output_limit,
    sentencepiece,
)
from gateway.engines.profiles import Control, Prompt
from gateway.engines.profiles.profile import Output
from gateway.errors import EngineFault
from tests.support import models


def prompt(*parts: Control | str, prefix: str = "") -> Prompt:
    return Prompt(parts=(*parts, prefix) if prefix else parts, prefix=prefix)


def unigram() -> Tokenizer:
    """Return a Unigram model that marks words, with ``</s>`` as one of its pieces."""
    tokenizer = Tokenizer(kinds.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=300,
        special_tokens=["<unk>", "<s>", "</s>"],
        unk_token="<unk>",
        show_progress=False,
    )
    tokenizer.train_from_iterator([*models.LINES, "< / s > think"] * 3, trainer)
    tokenizer.add_tokens([AddedToken("<think>", special=False)])
    return tokenizer


BYTES = Vocabulary(models.byte_bpe())
WORDS = Vocabulary(unigram())


def test_control_tokens_of_a_prompt_become_ids_and_the_text_between_them_is_encoded() -> None:
    ids = BYTES.encode(prompt(Control("<s>"), Control("<en>"), "Good morning", Control("<sep>")))
    assert ids[:2] == [1, 5]
    assert ids[-1] == 3
    assert BYTES.tokenizer.decode(ids[2:-1]) == "Good morning"


def test_a_control_token_the_model_lacks_is_a_fault_that_names_it() -> None:
    with pytest.raises(EngineFault, match="no control token <xx>"):
        BYTES.encode(prompt(Control("<xx>")))


def test_a_text_encoded_before_comes_from_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vocabulary = Vocabulary(models.byte_bpe())
    encoded: list[str] = []
    encode = vocabulary._encode

    def recorded(text: str) -> list[int]:
        encoded.append(text)
        return encode(text)

    monkeypatch.setattr(vocabulary, "_encode", recorded)
    ids = vocabulary.text("Good morning")
    ids.append(0)  # the caller's own
    assert vocabulary.text("Good morning") == ids[:-1]
    assert vocabulary.count("Good morning") == len(ids) - 1
    assert encoded == ["Good morning"]

    long = "Good morning " * CACHE_LONGEST
    assert vocabulary.text(long) == vocabulary.text(long)
    assert encoded.count(long) == 2
    for number in range(CACHE_SIZE):
        vocabulary.text(f"{number}")
    vocabulary.text("Good morning")
    assert encoded.count("Good morning") == 2


def test_a_forced_prefix_is_encoded_last() -> None:
    ids = BYTES.encode(prompt("hello", Control("<sep>"), prefix="Guten"))
    assert BYTES.tokenizer.decode(ids[ids.index(3) + 1 :]) == "Guten"


def test_prefix_ids_replace_the_text_of_the_prefix() -> None:
    letters = [BYTES.text(letter)[0] for letter in "Guten"]  # not how "Guten" is encoded
    ids = BYTES.encode(prompt(Control("<sep>"), prefix="Guten"), prefix_ids=letters)
    assert ids == [3, *letters]
    assert BYTES.encode(prompt(Control("<sep>")), prefix_ids=letters) == ids


# Forced prefixes

SAID = st.lists(
    st.sampled_from(
        [*models.LINES, *models.CONTROLS, "会議は九時", "👩🏽‍💻", "é", "한국어", "a\nb", "  "]
    )
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cn", "Co")), max_size=8),
    max_size=6,
).map(lambda parts: unicodedata.normalize("NFC", "".join(parts)))
"""Text as people write and models translate it, CJK and emoji, and what nobody should write."""


@given(SAID, st.integers(0, 80))
def test_a_forced_prefix_is_spelt_exactly_wherever_it_ends(text: str, cut: int) -> None:
    prefix, hint = text[:cut], BYTES.text(text)
    for ids in (BYTES.forced(prefix, hint), BYTES.forced(prefix)):
        assert BYTES.tokenizer.decode(ids) == prefix
        assert BYTES.controls.isdisjoint(ids)


@given(SAID, st.integers(0, 80))
def test_the_longest_matching_run_of_hint_tokens_is_used(text: str, cut: int) -> None:
    hint = [id for letter in text for id in BYTES.text(letter)]  # not as the text is encoded
    prefix = BYTES.tokenizer.decode(hint)[:cut]
    ids = BYTES.forced(prefix, hint)
    runs = [n for n in range(len(hint) + 1) if prefix.startswith(BYTES.tokenizer.decode(hint[:n]))]
    assert ids[: max(runs)] == hint[: max(runs)]


@given(SAID, st.lists(st.integers(0, 600)))
def test_any_hint_gives_ids_that_spell_the_prefix(prefix: str, hint: list[int]) -> None:
    for ids in (hint, [*BYTES.text(prefix[:9]), *hint]):
        assert BYTES.tokenizer.decode(BYTES.forced(prefix, ids)) == prefix


@given(SAID, st.integers(0, 80))
def test_a_vocabulary_that_marks_words_spells_a_prefix_as_well_as_it_can(
    text: str, cut: int
) -> None:
    spell = WORDS.tokenizer.decode
    said = spell(WORDS.text(text))
    prefix = said[:cut]
    ids = WORDS.forced(prefix, WORDS.text(said))
    assert spell(ids) in (prefix, spell(WORDS.text(prefix)))
    assert WORDS.controls.isdisjoint(ids)


@pytest.mark.parametrize("cut", range(1, 28))
def test_a_word_vocabulary_spells_a_prefix_that_ends_inside_a_word(cut: int) -> None:
    hint = WORDS.text("Guten Morgen zusammen, können")
    prefix = "Guten Morgen zusammen, können"[:cut]
    assert WORDS.tokenizer.decode(WORDS.forced(prefix, hint)) == prefix


def test_a_hint_token_that_ends_inside_a_character_is_not_used() -> None:
    hint = BYTES.text("ab 😀")
    assert BYTES.forced("ab ", hint) == BYTES.text("ab ")
    assert BYTES.forced("ab 😀", hint) == hint


def test_a_hint_is_used_up_to_its_first_control_token() -> None:
    one, two = BYTES.text("Guten"), BYTES.text(" Morgen")
    assert BYTES.forced("Guten Morgen", [*one, 3, *two]) == [*one, *two]
    assert BYTES.forced("Guten", [3, *one]) == one


def test_without_a_prefix_nothing_is_forced() -> None:
    assert BYTES.forced("") == []
    assert BYTES.forced("", BYTES.text("Guten")) == []


# Text is never a control token


@pytest.mark.parametrize("vocabulary", [BYTES, WORDS], ids=["bytes", "words"])
@pytest.mark.parametrize(
    "text", ["<sep></s><en>", "hello</s>", "<s>", "a <think> b", "＜/s＞", "<<think>", "<pad>"]
)
def test_text_that_looks_like_control_tokens_is_encoded_as_text(
    vocabulary: Vocabulary, text: str
) -> None:
    added = vocabulary.tokenizer.get_added_tokens_decoder()
    controls = {id for id, token in added.items() if token.content != "<unk>"}
    assert controls.isdisjoint(vocabulary.text(text))


def test_text_that_looks_like_control_tokens_is_encoded_completely() -> None:
    text = "so <sep></s><en> it is"
    assert BYTES.tokenizer.decode(BYTES.text(text), skip_special_tokens=False) == text


@given(st.lists(st.sampled_from([*models.CONTROLS, "<", ">", "/s>", "s", " ", "é", "＜", "日"])))
def test_no_text_becomes_a_control_token(parts: list[str]) -> None:
    assert not set(range(len(models.CONTROLS))) & set(BYTES.text("".join(parts)))
    assert not {1, 2} & set(WORDS.text("".join(parts)))


def test_truncation_and_padding_of_the_tokenizer_file_are_switched_off() -> None:
    tokenizer = models.byte_bpe()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=50)
    assert Vocabulary(tokenizer).text("Good morning everybody") == BYTES.text(
        "Good morning everybody"
    )


def test_count_is_the_number_of_tokens() -> None:
    assert BYTES.count("Good morning") == len(BYTES.text("Good morning"))
    assert BYTES.count("") == 0


def test_cut_returns_the_tokens_of_the_ids() -> None:
    assert BYTES.cut("Good") == [BYTES.token(id) for id in BYTES.text("Good")]


def test_an_id_outside_the_vocabulary_is_a_fault() -> None:
    with pytest.raises(EngineFault, match="no token 99999"):
        BYTES.token(99999)


def test_a_directory_without_a_tokenizer_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(EngineFault, match=r"no tokenizer\.json"):
        Vocabulary.load(tmp_path)


def test_a_broken_tokenizer_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(EngineFault, match="could not be read"):
        Vocabulary.load(tmp_path)


@pytest.mark.parametrize("vocabulary", [BYTES, WORDS], ids=["bytes", "words"])
@pytest.mark.parametrize("text", [*models.LINES, "é", "a  b"])
def test_pieces_of_the_stream_join_to_the_whole_text(vocabulary: Vocabulary, text: str) -> None:
    ids = vocabulary.text(text)
    stream = vocabulary.detokenizer()
    pieces = [stream.push(id) for id in ids]
    assert "".join(pieces) + stream.flush() == vocabulary.tokenizer.decode(ids)


@given(st.text())
def test_a_byte_level_stream_returns_any_text_and_never_half_a_character(text: str) -> None:
    ids = BYTES.text(text)
    stream = BYTES.detokenizer()
    whole = BYTES.tokenizer.decode(ids)
    shown = ""
    for id in ids:
        shown += stream.push(id)
        assert whole.startswith(shown)
    assert shown + stream.flush() == whole


def test_a_character_in_several_tokens_is_withheld_until_it_is_whole() -> None:
    ids = BYTES.text("😀")
    assert len(ids) > 1
    stream = BYTES.detokenizer()
    assert [stream.push(id) for id in ids] == [""] * (len(ids) - 1) + ["😀"]
    assert stream.flush() == ""


def test_an_incomplete_character_at_the_end_becomes_a_replacement_character() -> None:
    *ids, _ = BYTES.text("ab 😀")
    stream = BYTES.detokenizer()
    assert "".join(map(stream.push, ids)) == "ab "
    assert stream.flush() == "\ufffd"
    assert stream.flush() == ""


@pytest.mark.parametrize("vocabulary", [BYTES, WORDS], ids=["bytes", "words"])
def test_after_a_forced_prefix_the_space_is_neither_lost_nor_doubled(
    vocabulary: Vocabulary,
) -> None:
    ids = vocabulary.text("Guten Morgen zusammen")
    n = len(vocabulary.text("Guten"))
    assert vocabulary.tokenizer.decode(ids[:n]) == "Guten"
    stream = vocabulary.detokenizer(ids[:n])
    assert "".join(map(stream.push, ids[n:])) + stream.flush() == " Morgen zusammen"


def test_a_character_split_between_prefix_and_continuation_comes_out_whole() -> None:
    first, *rest = BYTES.text("😀")
    stream = BYTES.detokenizer([first])
    assert "".join(map(stream.push, rest)) == "😀"


def test_control_tokens_in_the_output_are_not_shown() -> None:
    stream = BYTES.detokenizer()
    ids = [4, *BYTES.text("ja"), 2]
    assert "".join(map(stream.push, ids)) + stream.flush() == "ja"


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> SentencePieces:
    pytest.importorskip("sentencepiece")
    model = models.tiny_nllb(tmp_path_factory.mktemp("nllb"))
    cut = sentencepiece(model / "sentencepiece.bpe.model")
    vocabulary = json.loads((model / "shared_vocabulary.json").read_bytes())
    return SentencePieces(cut, cut, vocabulary)


def test_pieces_stream_back_to_the_text(pieces: SentencePieces) -> None:
    stream = pieces.detokenizer()
    tokens = pieces.target("Guten Morgen zusammen")
    assert "".join(map(stream.push, tokens)) == "Guten Morgen zusammen"


def test_pieces_after_a_forced_prefix_keep_their_space(pieces: SentencePieces) -> None:
    stream = pieces.detokenizer(pieces.target("Guten"))
    assert "".join(map(stream.push, pieces.target("Morgen"))) == " Morgen"


TARGET = "Guten Morgen zusammen, können Sie mich hören? 会議は九時に"


@given(st.integers(0, len(TARGET)), st.booleans())
def test_pieces_of_a_forced_prefix_spell_it_wherever_it_was_cut(
    pieces: SentencePieces, cut: int, hinted: bool
) -> None:
    whole = pieces.target(TARGET)
    prefix = TARGET[:cut].rstrip()
    tokens = pieces.forced(prefix, pieces.ids(whole) if hinted else ())
    assert "".join(map(pieces.detokenizer().push, tokens)) == prefix
    if hinted and cut == len(TARGET):
        assert tokens == whole


def test_pieces_of_a_hint_are_used_as_far_as_they_match(pieces: SentencePieces) -> None:
    letters = ["▁", *"Guten"]  # not how "Guten" is cut
    ids = pieces.ids(letters)
    assert pieces.forced("Guten", ids) == letters
    assert pieces.forced("Guten Morgen", ids) == [*letters, *pieces.target("Morgen")]
    assert pieces.forced("Gut", [*ids[:3], 10**6, *ids[3:]])[:3] == letters[:3]
    assert pieces.forced("", ids) == []


def test_language_tokens_come_from_controls_only(pieces: SentencePieces) -> None:
    text = "deu_Latn </s> <s>"
    tokens = pieces.encode((Control("eng_Latn"), text, Control("</s>")))
    assert (tokens[0], tokens[-1]) == ("eng_Latn", "</s>")
    assert not {"</s>", "<s>", *models.CODES} & set(tokens[1:-1])


def test_a_language_token_the_model_lacks_is_a_fault_that_names_it(pieces: SentencePieces) -> None:
    with pytest.raises(EngineFault, match="no control token xxx_Latn"):
        pieces.encode((Control("xxx_Latn"),))


def test_a_broken_sentencepiece_file_is_a_fault(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    (tmp_path / "x.spm").write_text("nonsense")
    with pytest.raises(EngineFault, match="is no SentencePiece model"):
        sentencepiece(tmp_path / "x.spm")


@pytest.mark.external
@pytest.mark.skipif("GATEWAY_TEST_MODEL" not in os.environ, reason="GATEWAY_TEST_MODEL is not set")
def test_a_real_vocabulary_keeps_control_tokens_and_text_apart() -> None:
    vocabulary = Vocabulary.load(Path(os.environ["GATEWAY_TEST_MODEL"]))
    ids = vocabulary.text("<sep></s><en>")
    assert min(ids) >= len(models.CONTROLS)
    assert vocabulary.tokenizer.decode(ids) == "<sep></s><en>"


def test_an_output_has_room_for_a_token_however_short_its_text_is() -> None:
    shorter = msgspec.structs.replace(profiles.load("embedded"), output=Output(extra=-40))
    assert output_limit(shorter, source=6, prompt=10, prefix=0, context=512) == 1
