"""Tests of the known layouts of model directories, and of faults for all others."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers import models as kinds

from gateway.engines import profiles
from gateway.engines.base import model_files
from gateway.engines.base.tokenizer import Vocabulary
from gateway.engines.ctranslate2 import model as checkpoint
from gateway.engines.profiles import Output, Profile, TemplateBlock
from gateway.engines.profiles.doubt import Doubt
from gateway.errors import EngineFault, GatewayError
from gateway.job import Chunk, Job
from tests.support import models

pytest.importorskip("ctranslate2")
pytest.importorskip("sentencepiece")

OPTIONS = {"compute_type": "int8", "inter_threads": 1, "intra_threads": 1}
EMBEDDED = profiles.load("embedded")
MARIAN = profiles.match("opus-mt-en-de", {})
NLLB = profiles.load("nllb")
JOB = Job(id="1", text="Good morning everybody", source="en", target="de")


@pytest.fixture(scope="module")
def dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def load(path: Path, cache: Path) -> checkpoint.TranslationModel:
    return checkpoint.load(path, cache, OPTIONS)


class Reader:
    """A `DecodeSink` that keeps all calls."""

    def __init__(self, job: Job = JOB, stop_after: int = -1) -> None:
        self.job = job
        self.texts: list[str] = []
        self.ids: list[int] = []
        self.fault: GatewayError | None = None
        self.steps = self.ends = 0
        self.checked: tuple[int, int] | None = None
        self.others: list[int] = []
        self._stop_after = stop_after
        self._batch: list[Reader] = []

    def add(self, chunk: Chunk) -> bool:
        assert not self.ends
        self.ids += chunk.ids
        self.steps += chunk.tokens
        if chunk.tokens or chunk.text:
            self.texts.append(chunk.text)
        if not chunk.tokens:
            assert not self.steps
            self.checked = (chunk.drafted, chunk.accepted)
        return 0 < self._stop_after <= len(self.texts)

    def end(
        self,
        rest: str = "",
        fault: GatewayError | None = None,
        *,
        unsure: bool = False,
        p: float = 1.0,
    ) -> None:
        self.unsure, self.p = unsure, p
        if rest and len(self.texts) != self._stop_after:
            self.texts.append(rest)
        self.fault = fault
        self.ends += 1
        self.others = [len(reader.texts) for reader in self._batch if not reader.ends]

    def sees(self, batch: list[Reader]) -> None:
        """Return a sink that notes at its end how far the other sinks of the batch are."""
        self._batch = batch


def doubt(least: float) -> Doubt:
    """Return the doubt about outputs whose least log probability is under ``least``."""
    return Doubt(below=0.5, mean=0.0, least=1.0, bias={f"{JOB.source}-{JOB.target}": -least})


def output(model: checkpoint.TranslationModel, profile: Profile, stop_after: int = -1) -> list[str]:
    return outputs(model, profile, [Reader(stop_after=stop_after)])[0]


def outputs(
    model: checkpoint.TranslationModel, profile: Profile, readers: list[Reader]
) -> list[list[str]]:
    """Decode a batch, and return its sinks."""
    model.decode(readers, profile)
    assert all(reader.ends == 1 for reader in readers)
    return [reader.texts for reader in readers]


def converted_llama(dir: Path) -> Path:
    if not (target := dir / "converted").exists():
        target.mkdir()
        model_files.convert(models.tiny_llama(dir / "llama"), target)
    return target


@pytest.mark.parametrize(
    ("build", "profile"),
    [
        (lambda dir: models.tiny_llama(dir / "llama"), EMBEDDED),
        (converted_llama, EMBEDDED),
        (lambda dir: models.tiny_marian(dir / "marian"), MARIAN),
        (lambda dir: models.tiny_nllb(dir / "nllb"), NLLB),
    ],
    ids=["llama", "converted", "marian", "nllb"],
)
def test_a_model_of_a_known_layout_loads_decodes_and_stops_on_request(
    build: Callable[[Path], Path], profile: Profile, dir: Path
) -> None:
    model = load(build(dir), dir / "cache")
    whole = output(model, profile)
    assert len(whole) > 3
    assert output(model, profile, stop_after=3) == whole[:3]


# --- batches

KINDS = pytest.mark.parametrize(
    ("build", "profile"),
    [
        (lambda dir: models.tiny_llama(dir / "llama"), EMBEDDED),
        (lambda dir: models.tiny_marian(dir / "marian"), MARIAN),
        (lambda dir: models.tiny_nllb(dir / "nllb"), NLLB),
    ],
    ids=["llama", "marian", "nllb"],
)
TEXTS = ("Good morning everybody, can you hear me?", "Yes.", "The report is not finished yet.")
JOBS = [msgspec.structs.replace(JOB, text=text) for text in TEXTS]
JOBS.append(msgspec.structs.replace(JOB, prefix="Guten Morgen"))
JOBS.append(msgspec.structs.replace(JOB, text=TEXTS[0], prefix="Ja"))


@KINDS
def test_each_job_of_a_batch_gets_the_same_output_as_alone(
    build: Callable[[Path], Path], profile: Profile, dir: Path
) -> None:
    model = load(build(dir), dir / "cache")
    alone = [outputs(model, profile, [Reader(job)])[0] for job in JOBS]
    assert outputs(model, profile, [Reader(job) for job in JOBS]) == alone
    assert len({"".join(texts) for texts in alone}) == len(JOBS)


@KINDS
def test_the_ids_of_an_output_are_those_of_its_prefix_and_its_tokens(
    build: Callable[[Path], Path], profile: Profile, dir: Path
) -> None:
    model = load(build(dir), dir / "cache")
    free, forced = Reader(), Reader(JOBS[3])
    outputs(model, profile, [free, forced])
    controls = set(range(len(models.CONTROLS))) if profile is EMBEDDED else set()
    assert controls.isdisjoint(free.ids)
    assert free.steps - 1 <= len(free.ids) <= free.steps  # the tiny Llama says one control token
    prefix = "".join(free.texts[:5])
    again = Reader(msgspec.structs.replace(JOB, prefix=prefix, prefix_ids=tuple(free.ids)))
    outputs(model, profile, [again])
    assert again.ids[: len(free.ids)] == free.ids
    assert len(forced.ids) > forced.steps


@KINDS
def test_a_job_that_stops_leaves_the_others_of_its_batch_alone(
    build: Callable[[Path], Path], profile: Profile, dir: Path
) -> None:
    model = load(build(dir), dir / "cache")
    whole = outputs(model, profile, [Reader(job) for job in JOBS])
    stopping = [Reader(job, stop) for job, stop in zip(JOBS, (2, 1, -1, 3, -1), strict=True)]
    first, second, third, fourth, fifth = outputs(model, profile, stopping)
    assert (first, second, fourth) == (whole[0][:2], whole[1][:1], whole[3][:3])
    assert (third, fifth) == (whole[2], whole[4])


@KINDS
def test_each_job_of_a_batch_has_a_length_limit_of_its_own_and_ends_there_at_once(
    build: Callable[[Path], Path], profile: Profile, dir: Path
) -> None:
    model = load(build(dir), dir / "cache")
    profile = msgspec.structs.replace(profile, output=Output(factor=1.0, extra=3))
    short, long = readers = [Reader(JOBS[1]), Reader(JOBS[0])]
    short.sees(readers)
    outputs(model, profile, readers)
    assert len(short.texts) < len(long.texts)
    assert short.others[0] < len(long.texts)


@KINDS
def test_a_job_ends_once_it_has_as_many_characters_as_are_needed(
    build: Callable[[Path], Path], profile: Profile, dir: Path
) -> None:
    model = load(build(dir), dir / "cache")
    whole = outputs(model, profile, [Reader(job) for job in JOBS])
    needed = [len("".join(texts)) // 2 for texts in whole]
    jobs = [
        msgspec.structs.replace(job, needed=count) for job, count in zip(JOBS, needed, strict=True)
    ]
    for texts, count, full in zip(
        outputs(model, profile, [Reader(job) for job in jobs]), needed, whole, strict=True
    ):
        assert len("".join(texts[:-1])) < count <= len("".join(texts)) or count == 0
        assert "".join(full).startswith("".join(texts))


def test_a_job_whose_draft_has_all_that_is_needed_ends_with_the_check(dir: Path) -> None:
    model = load(models.tiny_llama(dir / "llama"), dir / "cache")
    plain = Reader()
    (whole,) = outputs(model, EMBEDDED, [plain])
    draft = {"draft": "".join(whole), "prefix_ids": tuple(plain.ids)}
    reader = Reader(msgspec.structs.replace(JOB, **draft, needed=3))
    outputs(model, EMBEDDED, [reader])
    assert reader.checked is not None and reader.checked[1] > 0
    assert (reader.steps, reader.ends) == (0, 1)


def test_a_job_that_the_model_cannot_translate_does_not_affect_its_batch(dir: Path) -> None:
    model = load(models.tiny_llama(dir / "llama"), dir / "cache")
    endless = Reader(msgspec.structs.replace(JOB, text=TEXTS[0] * 100))
    other = Reader()
    assert outputs(model, EMBEDDED, [endless, other]) == [[], output(model, EMBEDDED)]
    assert isinstance(endless.fault, EngineFault)
    assert other.fault is None
    assert outputs(model, EMBEDDED, [Reader(endless.job)]) == [[]]


def test_marks_are_suppressed_unless_a_source_of_the_batch_has_them(dir: Path) -> None:
    asked: list[Any] = []

    def generate(*_: Any, suppress_sequences: Any, **options: Any) -> None:
        asked.append(suppress_sequences)

    models.tiny_llama(dir / "llama")
    vocabulary = Vocabulary.load(dir / "llama")
    model = checkpoint.DecoderModel(SimpleNamespace(generate_batch=generate), vocabulary)
    profile = msgspec.structs.replace(EMBEDDED, unwritten=("#",))
    marked = msgspec.structs.replace(JOB, text="No. #1")
    for batch in ([JOB], [JOB, marked]):
        model.decode([Reader(job) for job in batch], profile)
    model.decode([Reader()], msgspec.structs.replace(EMBEDDED, unwritten=()))
    assert asked == [[vocabulary.cut("#"), vocabulary.cut(" #")], None, None]


# --- beam search


def test_a_beam_search_sends_its_whole_output_at_once(dir: Path) -> None:
    readers = [Reader(job) for job in JOBS]
    load(models.tiny_llama(dir / "llama"), dir / "cache").decode(readers, EMBEDDED, 4)
    for reader in readers:
        # A second text is the incomplete character at the end of a random output.
        assert 1 <= len(reader.texts) <= 2 and reader.ends == 1
        assert 0 < reader.steps <= len(reader.ids)  # the ids of a forced prefix are no steps


def test_each_job_of_a_beam_search_has_a_length_limit_of_its_own(dir: Path) -> None:
    model = load(models.tiny_llama(dir / "llama"), dir / "cache")
    profile = msgspec.structs.replace(EMBEDDED, output=Output(factor=1.0, extra=3))
    short, long = Reader(JOBS[1]), Reader(JOBS[0])
    model.decode([short, long], profile, 4)
    assert short.steps < len(TEXTS[1]) + 3 < long.steps
    assert short.unsure


def test_a_beam_search_without_a_job_that_can_be_translated_does_nothing(dir: Path) -> None:
    endless = Reader(msgspec.structs.replace(JOB, text=TEXTS[0] * 100))
    load(models.tiny_llama(dir / "llama"), dir / "cache").decode([endless], EMBEDDED, 4)
    assert isinstance(endless.fault, EngineFault)


# --- layouts


def test_a_model_converted_beforehand_gives_the_same_output(dir: Path) -> None:
    one = load(models.tiny_llama(dir / "llama"), dir / "cache")
    other = load(converted_llama(dir), dir / "cache")
    assert output(one, EMBEDDED) == output(other, EMBEDDED)


@pytest.mark.parametrize("adds_end", [True, False])
@pytest.mark.parametrize("said", ["{text}", "{text}</s>"])
def test_the_source_has_one_end_token_for_every_converter(
    adds_end: bool, said: str, dir: Path, tmp_path: Path
) -> None:
    expected = output(load(models.tiny_marian(dir / "marian"), dir), MARIAN)
    model = shutil.copytree(dir / "marian", tmp_path / "marian")
    config = json.loads((model / "config.json").read_bytes())
    (model / "config.json").write_text(json.dumps(config | {"add_source_eos": adds_end}))
    profile = msgspec.structs.replace(MARIAN, template=(TemplateBlock(said),))
    assert output(load(model, dir), profile) == expected


def test_an_encoder_decoder_may_have_a_tokenizer_json_instead(dir: Path, tmp_path: Path) -> None:
    model = damaged(models.tiny_nllb(dir / "nllb"), tmp_path / "nllb", "sentencepiece.bpe.model")
    tokens = json.loads((model / "shared_vocabulary.json").read_bytes())
    tokenizer = Tokenizer(kinds.Unigram([(token, -1.0) for token in tokens], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.save(str(model / "tokenizer.json"))
    assert len(output(load(model, dir), NLLB)) > 3


def test_a_vocabulary_in_a_text_file_is_read(dir: Path, tmp_path: Path) -> None:
    expected = output(load(models.tiny_nllb(dir / "nllb"), dir), NLLB)
    model = damaged(dir / "nllb", tmp_path / "nllb")
    tokens = json.loads((model / "shared_vocabulary.json").read_bytes())
    (model / "shared_vocabulary.json").unlink()
    (model / "shared_vocabulary.txt").write_text("\n".join(tokens), "utf-8")
    assert output(load(model, dir), NLLB) == expected


def damaged(model: Path, target: Path, *missing: str) -> Path:
    shutil.copytree(model, target)
    for name in missing:
        (target / name).unlink()
    return target


@pytest.mark.parametrize(
    ("build", "missing", "said"),
    [
        (models.tiny_marian, ("source.spm",), "without its tokenizer"),
        (models.tiny_nllb, ("sentencepiece.bpe.model",), "without its tokenizer"),
        (models.tiny_marian, ("shared_vocabulary.json",), "could not load"),
        (models.tiny_marian, ("model.bin",), "could not be converted"),
        (models.tiny_marian, ("model.bin", "config.json"), "There is no model"),
    ],
)
def test_an_incomplete_directory_is_a_fault_that_names_what_is_missing(
    build: Callable[[Path], Path], missing: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    model = damaged(build(tmp_path / "model"), tmp_path / "damaged", *missing)
    with pytest.raises(EngineFault, match=said):
        load(model, tmp_path / "cache")


def test_a_broken_model_is_a_fault(tmp_path: Path) -> None:
    model = models.tiny_marian(tmp_path / "model")
    (model / "model.bin").write_bytes((model / "model.bin").read_bytes()[:500])
    with pytest.raises(EngineFault, match="could not load"):
        load(model, tmp_path)


def test_a_model_that_does_not_translate_is_a_fault_that_names_its_kind(tmp_path: Path) -> None:
    name = b"WhisperSpec\0"
    head = (6).to_bytes(4, "little") + len(name).to_bytes(2, "little") + name
    (tmp_path / "model.bin").write_bytes(head)
    with pytest.raises(EngineFault, match="WhisperSpec") as caught:
        load(tmp_path, tmp_path)
    assert "OPUS-MT" in (caught.value.hint or "")


def test_without_the_package_the_fault_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(EngineFault, match="not installed"):
        load(tmp_path, tmp_path)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(
    ("least", "changes", "unsure"),
    [
        (0.0, {}, True),
        (-500.0, {"needed": 1}, False),
        (0.0, {"needed": 1}, True),
        (-500.0, {}, True),  # the model of this test ends at its limit alone
        (None, {}, False),
        (0.0, {"partial": True}, False),
        (0.0, {"attempt": 2}, False),
    ],
)
def test_an_output_of_improbable_tokens_or_cut_at_its_limit_is_unsure(
    least: float | None, changes: dict[str, int | bool], unsure: bool, beam: int, dir: Path
) -> None:
    reader = Reader(msgspec.structs.replace(JOB, **changes))
    profile = msgspec.structs.replace(EMBEDDED, unsure=None if least is None else doubt(least))
    load(converted_llama(dir), dir / "cache").decode([reader], profile, beam)
    if beam > 1 and changes == {"needed": 1}:
        unsure = True  # a search goes on to the limit
    assert reader.unsure is unsure


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(("source", "target"), [("en-GB", "de"), ("en", "de-AT")])
def test_an_output_for_a_regional_tag_is_judged_like_one_for_its_language(
    source: str, target: str, beam: int, dir: Path
) -> None:
    regional = Reader(msgspec.structs.replace(JOB, source=source, target=target))
    profile = msgspec.structs.replace(EMBEDDED, unsure=doubt(0.0))
    model, plain = load(converted_llama(dir), dir / "cache"), Reader()
    for reader in (plain, regional):
        model.decode([reader], profile, beam)
    assert regional.p == plain.p < 1


@pytest.mark.parametrize(("text", "unsure"), [("Yes!", False), ("はい", False), ("Oh yes!", True)])
def test_a_caption_of_one_word_is_unsure_only_at_its_limit(
    text: str, unsure: bool, dir: Path
) -> None:
    model = load(converted_llama(dir), dir / "cache")
    profile = msgspec.structs.replace(EMBEDDED, unsure=doubt(0.0))
    short = Reader(msgspec.structs.replace(JOB, text=text, needed=1))
    whole = Reader(msgspec.structs.replace(JOB, text=text))
    outputs(model, profile, [short])
    outputs(model, profile, [whole])
    assert (short.unsure, whole.unsure) == (unsure, True)
