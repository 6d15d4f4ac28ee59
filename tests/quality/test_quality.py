"""Bounds on the quality of the embedded model, on the sentences of ``tests/quality``.

They go through the engine that ``make run`` builds: its default model and settings, guards and
pieces. Only its batches are larger, for speed. What a guard withholds counts as an empty
translation. The whole evaluation, with BLEU and more sets, is ``python -m training.evaluate``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sacrebleu.metrics.chrf import CHRF

from gateway.engines.guards.measures import weight
from gateway.engines.registry import build
from gateway.job import Job, Priority
from gateway.settings.catalogue import Settings
from tests.quality import DIRECTIONS, SETS, captions, lines
from training import metrics, noise

pytestmark = pytest.mark.timeout(900)  # 4,600 captions are made first, beside other tests

FLOORS = {
    #        meeting100  own
    "en-de": (73.9, 70.1),
    "de-en": (69.4, 71.4),
    "en-fr": (74.3, 69.5),
    "fr-en": (72.6, 68.6),
    "en-es": (76.4, 72.2),
    "es-en": (70.8, 74.1),
    "en-ja": (44.4, 44.6),
    "ja-en": (55.2, 59.7),
    "en-zh": (38.1, 40.7),
    "zh-en": (54.9, 61.4),
}
"""The least chrF: 3 under that of the model that ships, or of an earlier one that had more.

But for meeting100 into Japanese: the references are polite throughout, and the model, which has
learnt more kinds of talk since its third edition, is not. And for meeting100 into French, 3.6 under
an earlier one.

``python -m training.evaluate gateway/model tests/quality/own.tsv --quick`` prints it anew.
"""

PIVOTED = {"de-fr": 63.1, "es-de": 64.9, "fr-ja": 39.5, "ja-zh": 28.5}
"""The least chrF on `SPEECH` of some directions in two steps: 3 under that of the model that ships.
``docs/design/pairs.md`` has more of them."""

FIGURES, FIGURES_EACH, FIGURES_BETA = 97.5, 94.0, 80.0
"""The least per cent of the sentences with figures that keep them all: over all directions between
European languages, in each of them (sixty sentences), and in each of the others."""

BETA = ("ja", "zh")

SPOKEN, SPOKEN_EACH = 3.0, 5.0
"""The most chrF that a source without capitals and punctuation may cost, as a mean over the
directions and in each, against the same references."""

HALF = 0.6
"""The most that translations of the first halves may weigh, as a share of whole references."""

WHOLE, SLACK = 1.25, 12
"""And the most that one of them may: so many times its reference, and so many characters more."""

WITHHELD = 0.005
"""The largest share of captions that the guards may withhold."""

SPEECH = "meeting100"
"""The set that is also translated as speech recognition gives it, and from half of each line."""

BATCH = 64
"""Captions that are made together: more than in a gateway, since no caption is waited for."""

Made = Callable[[str, str], Sequence[str]]
"""The translations for a name of `forms` and a direction, in the order of the lines."""


def forms(language: str) -> dict[str, list[str]]:
    """Return the texts of a language: the sets, one of them as recognised, and its first halves."""
    heard = [noise.recognised(text, language) for text in lines(SPEECH, language)]
    return {
        **{name: lines(name, language) for name in SETS},
        "heard": heard,
        "half": [half(text, language) for text in heard],
    }


def half(text: str, language: str) -> str:
    """Return the first half of an utterance, rounded up."""
    units = noise.units(text, language)
    return "".join(units[: (len(units) + 1) // 2])


def jobs(direction: str, form: str, texts: Sequence[str]) -> list[Job]:
    source, target = direction.split("-")
    grows = form == "half"
    return [
        Job(
            id=f"{form} {direction} {number}",
            text=text,
            source=source,
            target=target,
            partial=grows,
            priority=Priority.PARTIAL if grows else Priority.FINAL,
        )
        for number, text in enumerate(texts)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    given = {
        (form, direction): jobs(direction, form, texts)
        for direction in DIRECTIONS
        for form, texts in forms(direction[:2]).items()
    }
    cache = str(tmp_path_factory.mktemp("cache"))
    # One thread, since other tests run on the other cores.
    engine = build(Settings(cache_dir=cache, batch=BATCH, inter_threads=1))
    found = asyncio.run(captions(engine, sum(given.values(), [])))
    return lambda form, direction: [found[job.id] for job in given[form, direction]]


def chrf(made: Sequence[str], references: Sequence[str]) -> float:
    return float(CHRF().corpus_score(list(made), [list(references)]).score)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", SETS)
def test_no_direction_falls_under_its_floor(made: Made, name: str, direction: str) -> None:
    score = chrf(made(name, direction), lines(name, direction[-2:]))
    assert score >= FLOORS[direction][SETS.index(name)]


def test_no_direction_in_two_steps_falls_under_its_floor(tmp_path: Path) -> None:
    given = {
        direction: jobs(direction, SPEECH, lines(SPEECH, direction[:2])) for direction in PIVOTED
    }
    engine = build(Settings(cache_dir=str(tmp_path), batch=BATCH, inter_threads=1))
    found = asyncio.run(captions(engine, sum(given.values(), [])))
    for direction, made in given.items():
        score = chrf([found[job.id] for job in made], lines(SPEECH, direction[-2:]))
        assert score >= PIVOTED[direction], direction


def test_figures_are_kept(made: Made) -> None:
    kept: dict[str, list[bool]] = {}
    for direction in DIRECTIONS:
        source, target = direction.split("-")
        kept[direction] = [
            metrics.kept(said, caption, source, target)
            for name in SETS
            for said, caption in zip(lines(name, source), made(name, direction), strict=True)
            if metrics.figures(said)
        ]
    each = {direction: 100 * sum(some) / len(some) for direction, some in kept.items()}
    european = [one for one in DIRECTIONS if not {*one.split("-")} & {*BETA}]
    every = [one for direction in european for one in kept[direction]]
    assert 100 * sum(every) / len(every) >= FIGURES, each
    assert min(each[direction] for direction in european) >= FIGURES_EACH, each
    assert min(each.values()) >= FIGURES_BETA, each


def test_lower_case_without_punctuation_costs_little(made: Made) -> None:
    losses = {}
    for direction in DIRECTIONS:
        references = lines(SPEECH, direction[-2:])
        written, heard = made(SPEECH, direction), made("heard", direction)
        losses[direction] = chrf(written, references) - chrf(heard, references)
    assert sum(losses.values()) / len(losses) <= SPOKEN, losses
    assert max(losses.values()) <= SPOKEN_EACH, losses


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_end_of_what_is_half_said_is_not_invented(made: Made, direction: str) -> None:
    begun, references = made("half", direction), lines(SPEECH, direction[-2:])
    assert sum(map(weight, begun)) <= HALF * sum(map(weight, references))
    pairs = zip(begun, references, strict=True)
    assert not [pair for pair in pairs if weight(pair[0]) > WHOLE * weight(pair[1]) + SLACK]


def test_hardly_any_caption_is_withheld(made: Made) -> None:
    found = {
        f"{name} {direction} {number}": caption
        for name in (*SETS, "heard")
        for direction in DIRECTIONS
        for number, caption in enumerate(made(name, direction))
    }
    withheld = [id for id, caption in found.items() if not caption]
    assert len(withheld) <= WITHHELD * len(found), withheld
