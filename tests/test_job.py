"""Merging of chunks, and the text of recognised words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.job import Chunk, Recognised, Word, merged

CHUNKS = st.lists(
    st.builds(
        Chunk,
        st.text(max_size=3),
        tokens=st.integers(0, 5),
        reset=st.booleans(),
        flags=st.lists(st.sampled_from(["numbers", "url"]), max_size=2).map(tuple),
        ids=st.lists(st.integers(0, 9), max_size=3).map(tuple),
        drafted=st.integers(0, 5),
        accepted=st.integers(0, 5),
        p=st.sampled_from([1.0, 0.5]),
    ),
    min_size=1,
    max_size=6,
)


def read(chunks: list[Chunk]) -> tuple[str, int, tuple[int, ...], tuple[str, ...], float, bool]:
    """Return text, tokens, ids and doubts of all chunks, and whether there was a reset."""
    text, tokens, p, void = "", 0, 1.0, False
    ids: tuple[int, ...] = ()
    flags: tuple[str, ...] = ()
    for chunk in chunks:
        if chunk.reset:
            text, ids, flags, p, void = "", (), (), 1.0, True
        text += chunk.text
        tokens += chunk.tokens
        ids += chunk.ids
        flags += chunk.flags
        p *= chunk.p
    return text, tokens, ids, flags, p, void


@given(CHUNKS)
def test_merged_chunks_have_the_same_meaning_as_the_separate_ones(chunks: list[Chunk]) -> None:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = merged(whole, chunk)
    assert read([whole]) == read(chunks)


def test_tokens_of_void_chunks_are_still_counted() -> None:
    one = Chunk("a", 2, ids=(1,), drafted=4, accepted=1)
    two = Chunk("b", 3, reset=True, drafted=2, accepted=2)
    assert merged(one, two) == Chunk("b", 5, reset=True, drafted=6, accepted=3)


def test_the_text_of_a_result_is_its_words_as_the_model_wrote_them() -> None:
    words = (Word(" Well", 0.0, 0.2), Word(",", 0.2, 0.2), Word(" yes.", 0.3, 0.5))
    assert Recognised(words=words).text == "Well, yes."
    assert Recognised(words=(Word("你", 0.0, 0.2), Word("好", 0.2, 0.4))).text == "你好"
    assert Recognised().text == ""
