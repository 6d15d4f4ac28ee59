"""Scores of a model on the held-out sets, per direction.

    python -m training.evaluate MODEL DATA [--json FILE] [--only everyday,meeting100] [--beam 4]

``MODEL`` is a model directory, translated with by the gateway's own CTranslate2 conversion on the
CPU, or a checkpoint (``*.pt``), translated with by PyTorch. ``DATA`` has ``dev/*.en-de.tsv`` and
the like, of two columns; or is one file of six columns, as ``training/corpus`` has.
Greedy decoding, unless ``--beam`` says otherwise; sacrebleu with the tokenisers 13a, char
(Japanese) and zh (Chinese); chrF.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from training import metrics, noise
from training.figures import LANGUAGES
from training.prompt import END, Text, prompted

TOKENISERS = {"ja": "char", "zh": "zh"}
SPOKEN = ("everyday", "meeting100")
"""Sets that are also translated from speech-recognition text."""

GROWN = "meeting100"
"""The set whose utterances are also translated as they grow."""

Translate = Callable[[Sequence[Text]], list[list[int]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--outputs", type=Path, help="write every translation there")
    parser.add_argument("--raw", action="store_true", help="not the average, of a checkpoint")
    parser.add_argument("--beam", type=int, default=1, help="hypotheses, of a model directory")
    parser.add_argument("--quick", action="store_true", help="without growing utterances")
    options = parser.parse_args()
    translate, text = loaded(options.model, options.raw, options.beam)
    tests = list(held(options.data, [name for name in options.only.split(",") if name]))
    made = iter(translate([given for test in tests for given in test.texts]))
    found: dict[str, dict[str, float]] = {}
    outputs: list[str] = []
    kept: dict[str, list[bool]] = defaultdict(list)
    for test in tests:
        out = [text(next(made)) for _ in test.texts]
        found[test.name] = scores(out, test.references, test.texts[0].target)
        if figures := figures_kept(test.texts, out):
            found[test.name]["figures"] = _percent(figures)
            kept[f"figures {test.texts[0].source}-{test.texts[0].target}"] += figures
        outputs += (
            f"{test.name}\t{given.text}\t{one}\t{reference}"
            for given, one, reference in zip(test.texts, out, test.references, strict=True)
        )
    for test in tests:
        if test.name.startswith(GROWN) and not test.spoken and not options.quick:
            found[f"{test.name} growing"] = growing(translate, text, test.texts)
    for direction, each in kept.items():
        found[direction] = {"kept": _percent(each), "of": len(each)}
    for key, values in found.items():
        print(f"{key:38}", *(f"{name} {value:6.2f}" for name, value in values.items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.outputs:
        options.outputs.write_text("\n".join(outputs) + "\n", "utf-8")


@dataclass(frozen=True, slots=True)
class Test:
    name: str
    texts: list[Text]
    references: list[str]
    spoken: bool = False


def held(data: Path, only: Sequence[str] = ()) -> Iterator[Test]:
    """Yield every held-out set in every direction; some also as speech recognition gives them."""
    for path in [data] if data.is_file() else sorted((data / "dev").glob("*.tsv")):
        name, _, pair = path.stem.partition(".")
        if only and name not in only:
            continue
        rows = [line.split("\t") for line in path.read_text("utf-8").split("\n") if line]
        languages = ("en", pair[-2:]) if pair else LANGUAGES
        spoken = name in SPOKEN or data.is_file()
        for n, other in enumerate(languages[1:], 1):
            for source, target, here, there in (("en", other, 0, n), (other, "en", n, 0)):
                references = [row[there] for row in rows]
                texts = [Text(row[here], source, target) for row in rows]
                yield Test(f"{name} {source}-{target}", texts, references)
                if spoken:
                    heard = [replace(t, text=noise.recognised(t.text, source)) for t in texts]
                    yield Test(f"{name} {source}-{target} spoken", heard, references, spoken=True)


def scores(made: Sequence[str], references: Sequence[str], language: str) -> dict[str, float]:
    """Return BLEU, chrF, and BLEU of the texts whose reference has four words or more."""
    bleu = BLEU(tokenize=TOKENISERS.get(language, "13a"))
    long = [
        (out, reference)
        for out, reference in zip(made, references, strict=True)
        if len(noise.units(reference, language)) >= 4
    ]
    return {
        "bleu": bleu.corpus_score(list(made), [list(references)]).score,
        "chrf": CHRF().corpus_score(list(made), [list(references)]).score,
        "bleu4": bleu.corpus_score([a for a, _ in long], [[b for _, b in long]]).score,
    }


def figures_kept(given: Sequence[Text], made: Sequence[str]) -> list[bool]:
    """Return for each text with figures whether its translation has the same."""
    return [
        metrics.kept(one.text, out, one.source, one.target)
        for one, out in zip(given, made, strict=True)
        if metrics.figures(one.text)
    ]


def _percent(each: Sequence[bool]) -> float:
    return 100 * sum(each) / len(each)


def growing(
    translate: Translate,
    text: Callable[[Sequence[int]], str],
    given: Sequence[Text],
) -> dict[str, float]:
    """Return normalised erasure of lower-case utterances that grow unit by unit, in three ways.

    ``again``: each prefix is translated afresh and shown whole. ``held``: the same, but the last
    two units are held back until the end. ``agreed``: the common beginning of two successive
    translations, less its last two units, is forced on the next; all but the last two units are
    shown.
    """
    source, target = given[0].source, given[0].target
    grown = [noise.units(noise.recognised(one.text, source), source) for one in given]
    steps = max(map(len, grown))
    shown: dict[str, list[list[list[str]]]] = {
        way: [[] for _ in grown] for way in ("again", "held", "agreed")
    }
    agreed: list[tuple[int, ...]] = [() for _ in grown]
    before: list[list[int]] = [[] for _ in grown]
    for count in range(1, steps + 1):
        now = [n for n, one in enumerate(grown) if len(one) >= count]
        texts = [
            Text("".join(grown[n][:count]), source, target, part=count < len(grown[n])) for n in now
        ]
        for n, ids in zip(now, translate(texts), strict=True):
            units = noise.units(text(ids), target)
            end = count == len(grown[n])
            shown["again"][n].append(units)
            shown["held"][n].append(units if end else units[:-2])
        forced = [
            Text(one.text, source, target, one.part, agreed[n])
            for n, one in zip(now, texts, strict=True)
        ]
        for n, ids in zip(now, translate(forced), strict=True):
            units = noise.units(text(ids), target)
            shown["agreed"][n].append(units if count == len(grown[n]) else units[:-2])
            kept = _held(ids[: metrics.common(ids, before[n])], text, target)
            if len(kept) > len(agreed[n]):
                agreed[n] = tuple(kept)
            before[n] = ids
    return {way: metrics.erasure(histories) for way, histories in shown.items()}


def _held(ids: list[int], text: Callable[[Sequence[int]], str], language: str) -> list[int]:
    """Return ``ids`` up to the last two units of their text."""
    units = noise.units(text(ids), language)
    goal = "".join(units[:-2])
    while ids and len(text(ids)) > len(goal):
        ids = ids[:-1]
    return ids


def loaded(
    path: Path, raw: bool = False, beam: int = 1
) -> tuple[Translate, Callable[[Sequence[int]], str]]:
    """Return a translator for a model directory or a checkpoint, and its detokenizer."""
    if path.suffix != ".pt":
        engine = CTranslate2(path, beam=beam)
        return engine, engine.text
    from training import decode  # torch is not needed for what ships

    checkpoint = decode.loaded(path, raw)
    return checkpoint, checkpoint.text


class CTranslate2:
    """A translator on the CPU, in batches, as the gateway uses it."""

    def __init__(self, model: Path, compute: str = "int8", beam: int = 1) -> None:
        import ctranslate2
        from tokenizers import Tokenizer

        from gateway.engines.base import model_files

        self._beam = beam
        self.tokenizer = Tokenizer.from_file(str(model / model_files.TOKENIZER))
        with tempfile.TemporaryDirectory() as made:
            model_files.convert(model, Path(made), compute)
            self._generator = ctranslate2.Generator(made, compute_type=compute, inter_threads=2)

    def __call__(self, texts: Sequence[Text]) -> list[list[int]]:
        results = self._generator.generate_batch(
            self._tokens(prompted(texts, self.tokenizer)),
            max_length=256,
            beam_size=self._beam,
            max_batch_size=32,
            include_prompt_in_result=False,
        )
        return [
            [*given.begun, *(id for id in made.sequences_ids[0] if id != END)]
            for given, made in zip(texts, results, strict=True)
        ]

    def scores(self, texts: Sequence[Text], made: Sequence[Sequence[int]]) -> list[list[float]]:
        """Return the log probability of each token of translations that end with `END`."""
        prompts = prompted(texts, self.tokenizer)
        whole = [[*ids, *after] for ids, after in zip(prompts, made, strict=True)]
        found = self._generator.score_batch(self._tokens(whole), max_batch_size=32)
        return [one.log_probs[-len(ids) :] for one, ids in zip(found, made, strict=True)]

    def text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids))

    def _tokens(self, many: Sequence[Sequence[int]]) -> list[list[str]]:
        return [[str(self.tokenizer.id_to_token(id)) for id in ids] for ids in many]


if __name__ == "__main__":
    main()
