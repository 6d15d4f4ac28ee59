"""The parts of `benchmarks.prefix` that need no vLLM: the predicted cache, and other prompts."""

from __future__ import annotations

import pytest

from benchmarks.prefix import Blocks, backwards, terms_last, whole
from gateway.engines import profiles
from gateway.job import Chunk, Job

JOB = Job(
    id="1",
    text="The launch is in June.",
    source="en",
    target="de",
    topic="The new app",
    context=(("Good morning.", "Guten Morgen."),),
    glossary=(("launch", "Launch"),),
)


def hits(*prompts: str, size: int = 4) -> int:
    """Return the tokens found in the cache, where a character is one."""
    blocks = Blocks(size)
    for prompt in prompts:
        blocks.read([ord(char) for char in prompt])
    return blocks.hits


def order(profile: profiles.Profile, *pieces: str) -> list[str]:
    """Return these pieces of the prompt, in the order in which they stand in it."""
    text = profile.prompt(JOB).text
    assert all(text.count(piece) == 1 for piece in pieces)
    return sorted(pieces, key=text.index)


def test_only_whole_blocks_are_found_and_only_up_to_the_first_that_differs() -> None:
    assert hits("aaaabbbbcc", "aaaabbbbdd") == 8
    assert hits("aaaabbbbcc", "aaaabbbxcccc") == 4
    assert hits("aaaabbbb", "xaaabbbb") == 0
    assert hits("aaa", "aaa") == 0


def test_a_block_is_another_one_behind_other_text() -> None:
    assert hits("aaaabbbb", "ccccbbbbd") == 0


def test_the_last_token_of_a_prompt_is_never_taken_from_the_cache() -> None:
    assert hits("aaaabbbb", "aaaabbbb") == 4
    assert hits("aaaabbbb", "aaaabbbbc") == 8


@pytest.mark.parametrize("name", ["qwen3-instruct", "eurollm"])
def test_the_reversed_prompt_has_the_same_pieces_with_the_source_before_the_context(
    name: str,
) -> None:
    profile = profiles.load(name)
    pieces = ("launch = Launch", "Good morning.", JOB.text)
    assert order(profile, *pieces) == list(pieces)
    assert order(backwards(profile), *pieces) == list(pieces)[::-1]


def test_the_reversed_prompt_has_its_instructions_behind_the_source_in_the_same_turn() -> None:
    turned = backwards(profiles.load("qwen3-instruct"))
    assert order(turned, JOB.text, "You are a translation engine") == [
        JOB.text,
        "You are a translation engine",
    ]
    assert "<|im_start|>system" not in turned.prompt(JOB).text


@pytest.mark.parametrize("name", ["qwen3-instruct", "eurollm"])
def test_the_glossary_can_stand_behind_the_context(name: str) -> None:
    pieces = ("Good morning.", "launch = Launch", JOB.text)
    assert order(terms_last(profiles.load(name)), *pieces) == list(pieces)


def test_an_output_is_joined_without_an_abandoned_attempt() -> None:
    chunks = [
        Chunk("Nein", 1, ids=(1,)),
        Chunk("Ja", 2, reset=True, ids=(2,)),
        Chunk(".", ids=(3,)),
    ]
    assert whole(chunks) == Chunk("Ja.", 4, ids=(2, 3))
