"""Tests of outputs in another language than the target, with the real detector."""

from __future__ import annotations

from collections import Counter

import pytest

from gateway.engines.base.language_detection import Detector
from gateway.engines.guards.complete_output import Guard
from gateway.engines.wrappers.guarded import GuardedEngine
from gateway.errors import Rejected
from gateway.job import Chunk, Job
from tests.engines.reading import started
from tests.engines.wrappers.test_guarded import TwoMinds, read

WRONG = (
    # source language, target, source, output
    ("en", "fr", "We talk on Tuesday.", "Wir reden am Dienstag über das Geld."),
    ("en", "it", "Where did you leave the car?", "¿Dónde dejaste las llaves del coche?"),
    ("en", "es", "Where did you leave the car?", "Dove hai lasciato le chiavi della macchina?"),
    ("de", "en", "Wir treffen uns morgen um neun.", "On se retrouve demain à neuf heures."),
    ("ja", "en", "明日の会議は九時に始まります。", "Die Besprechung beginnt morgen um neun Uhr."),
    ("en", "pl", "Thank you.", "Vielen Dank für die Einladung, wir kommen."),
    ("en", "de", "Please wait two minutes.", "Please wait two minutes."),
    ("en", "de", "'Please wait two minutes here.'", "'Please wait two minutes here.'"),
)
RIGHT = (
    # names, cognates and numbers, quotations, short lines, near languages
    ("en", "de", "Anna Schmidt, Peter Novak and Maria Garcia.",
     "Anna Schmidt, Peter Novak und Maria Garcia."),
    ("en", "it", "Pizza and tiramisù, please.", "Pizza e tiramisù, per favore."),
    ("en", "de", "iPhone 15 Pro Max, 256 GB, 1,199 euros", "iPhone 15 Pro Max, 256 GB, 1.199 Euro"),
    ("en", "de", "The song is called 'let it be me tonight'.",
     "Das Lied heißt „let it be me tonight“."),
    ("en", "de", "He said 'je ne sais pas ce que tu veux'.",
     "Er sagte: „je ne sais pas ce que tu veux“."),
    ("en", "fr", "Run git commit --amend and then git push.",
     "Exécutez git commit --amend puis git push."),
    ("en", "es", "No, no, no, no problem.", "No, no, no, no hay problema."),
    ("en", "de", "ha ha ha ha ha", "ha ha ha ha ha"),
    ("en", "fr", "Hi.", "Ciao."),
    ("en", "nb", "We do not know that yet.", "Det ved vi ikke endnu."),
    ("en", "tlh", "We will talk about the budget.", "nIteb malja' wIja'chuqlaHbe' DaHjaj"),
)  # fmt: skip


@pytest.mark.parametrize(("source", "target", "text", "output"), WRONG)
async def test_an_output_in_another_language_is_made_again_and_then_fails(
    source: str, target: str, text: str, output: str
) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    engine = GuardedEngine(TwoMinds([output], [output]), counts, Detector(()))
    async with started(engine):
        with pytest.raises(Rejected, match="is not in the target language"):
            await read(engine, Job(id="j1", text=text, source=source, target=target))
    assert counts == {(Guard.LANGUAGE, "retried"): 1, (Guard.LANGUAGE, "rejected"): 1}


@pytest.mark.parametrize(("source", "target", "text", "output"), RIGHT)
async def test_an_output_that_may_be_in_its_language_passes(
    source: str, target: str, text: str, output: str
) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    engine = GuardedEngine(TwoMinds([output], []), counts, Detector(()))
    async with started(engine):
        job = Job(id="j1", text=text, source=source, target=target)
        assert await read(engine, job) == [Chunk(output)]
    assert not counts
