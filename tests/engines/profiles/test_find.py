"""Tests of the choice of a profile, and of profile files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.engines import profiles
from gateway.engines.profiles import Sampling, UnknownProfile, find
from gateway.job import Job

# --- for a model


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("../shared/pilot-model", "embedded"),
        ("pilot-model", "embedded"),
        ("/srv/models/embedded", "embedded"),
        ("utter-project/EuroLLM-9B-Instruct", "eurollm"),
        ("google/gemma-4-31B-it", "gemma4"),
        ("google/gemma-4-E4B-it", "gemma4-small"),
        ("google/translategemma-4b-it", "translategemma"),
        ("Qwen/Qwen3-8B", "qwen3"),
        ("Qwen/Qwen3.5-9B", "qwen3"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "qwen3-instruct"),
        ("tencent/Hunyuan-MT-7B", "hunyuan-mt"),
        ("tencent/HY-MT1.5-7B-FP8", "hy-mt1.5"),
        ("tencent/HY-MT1.5-1.8B", "hy-mt1.5-1.8b"),
        ("tencent/Hy-MT2-30B-A3B", "hy-mt2"),
        ("tencent/Hy-MT2-7B", "hy-mt2-7b"),
        ("tencent/Hy-MT2-1.8B-FP8", "hy-mt2-1.8b"),
        ("ByteDance-Seed/Seed-X-PPO-7B", "seed-x"),
        ("Unbabel/Tower-Plus-9B", "tower"),
        ("Unbabel/Tower-Plus-72B", "tower-plus-72b"),
        ("Unbabel/TowerInstruct-7B-v0.2", "tower-instruct"),
        ("facebook/nllb-200-distilled-600M", "nllb"),
        ("Helsinki-NLP/opus-mt-en-de", "opus-mt"),
        ("meta-llama/Llama-3.3-70B-Instruct", "chat"),
        ("", "chat"),
    ],
)
def test_a_profile_is_found_by_path_or_hub_id(model: str, name: str) -> None:
    assert profiles.match(model).name == name


PILOT = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 24576,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
EMBEDDED = PILOT | {"vocab_size": 16384, "hidden_size": 512, "num_hidden_layers": 11}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (PILOT, "embedded"),
        (EMBEDDED, "embedded"),
        ({"model_type": "qwen3_moe"}, "qwen3"),
        ({"model_type": "m2m_100", "vocab_size": 256206}, "nllb"),
        ({"_name_or_path": "utter-project/EuroLLM-9B-Instruct"}, "eurollm"),
        ({"model_type": "llama", "chat_template": "{{ messages }}"}, "chat"),
        (PILOT | {"gateway_profile": "seed-x"}, "seed-x"),
    ],
)
def test_a_profile_is_found_by_the_configuration_of_a_renamed_model(
    config: dict[str, object], name: str
) -> None:
    assert profiles.match("/srv/model", config).name == name


@pytest.mark.parametrize(
    ("model", "config", "pair"),
    [
        ("Helsinki-NLP/opus-mt-tc-big-en-fr", None, ("en", "fr")),
        ("/srv/opus-mt-deu-en-ct2", {}, ("de", "en")),
        ("/srv/model", {"model_type": "marian", "gateway_pair": ["en", "pt_BR"]}, ("en", "pt-BR")),
    ],
)
def test_a_model_of_one_pair_gets_its_languages_from_name_or_configuration(
    model: str, config: dict[str, object] | None, pair: tuple[str, str]
) -> None:
    profile = profiles.match(model, config)
    assert profile.name == "opus-mt"
    assert profile.pairs == (pair,)
    assert profile.supports(*pair)


@pytest.mark.parametrize("pair", [None, "en-de", ["en"]])
def test_a_model_of_an_unknown_pair_is_refused_with_what_to_do(pair: object) -> None:
    config = {"model_type": "marian", "gateway_pair": pair}
    with pytest.raises(UnknownProfile, match=r'Put "gateway_pair": \["en", "de"\] into'):
        profiles.match("/srv/model", config)


def test_a_model_without_a_profile_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnknownProfile, match=r"Name one with --profile.*There are chat, embedded,"):
        profiles.match("/srv/model", {"model_type": "llama"})


# --- the files


def test_a_profile_file_is_read_once() -> None:
    assert profiles.load("eurollm") is profiles.load("eurollm")


def test_an_unknown_profile_name_is_refused_with_the_known_names() -> None:
    with pytest.raises(UnknownProfile, match=r"no profile 'gpt'.*eurollm"):
        profiles.load("gpt")


def test_a_profile_can_be_a_file_of_the_operator_that_extends_another(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(
        'extends = "eurollm"\nwithout = ["bos"]\ntitle = "Ours"\n'
        "attempts = [{}, {temperature = 0.5}]\n",
        encoding="utf-8",
    )
    ours = profiles.load(str(path))
    assert (ours.name, ours.title, ours.bos) == ("ours", "Ours", "")
    assert ours.languages == profiles.load("eurollm").languages
    assert ours.sampling(Job(id="u1", text="A.", source="en", target="de", attempt=2)) == Sampling(
        temperature=0.5
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('kind = "raw"\ntemprature = 1', "unknown field `temprature`"),
        ('kind = "raw"\n[output]\nmaximum = 1', r"unknown field `maximum`.*\$.output"),
        ('kind = "poem"', "Invalid enum value 'poem'"),
        ('title = "no kind"', "missing required field `kind`"),
        ('kind = "raw"\nbeta = ["ja"]', "`beta` names .'ja'., missing in `languages`"),
        ('kind = "raw"\n[[template]]\ntext = "{txt}"', "`text` has .'txt'.; it may have"),
        ('kind = "raw"\n[[template]]\ntext = ""\nwhen = ["!late"]', "`when` has .'late'.; it may"),
        ('kind = "raw"\nkind = "ids"', "Cannot overwrite a value"),
    ],
)
def test_a_mistake_in_a_file_is_an_error_when_it_is_read(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=f"wrong.toml is malformed.*{complaint}"):
        profiles.load(str(path))


# --- of other packages


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder for packages, with the entry point of a package ``acme_profiles``."""
    info = tmp_path / "acme_profiles-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-profiles\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[caption_gateway.profiles]\nacme = acme_profiles\n")
    monkeypatch.syspath_prepend(tmp_path)
    find._files.cache_clear()
    yield tmp_path
    find._files.cache_clear()


def test_a_profile_of_another_package_is_found_by_its_name_and_for_its_models(site: Path) -> None:
    (site / "acme_profiles").mkdir()
    (site / "acme_profiles" / "acme.toml").write_text(
        'extends = "eurollm"\nwithout = ["names"]\nlanguages = ["en", "de"]\n'
        '[models]\nnames = ["acme-mt"]\n'
    )
    (site / "acme_profiles" / "chat.toml").write_text("no profile, and not used")
    assert profiles.load("acme").languages == ("en", "de")
    assert profiles.match("someone/Acme-MT-7B").name == "acme"
    assert "acme" in profiles.names()
    assert profiles.load("chat").kind == "chat"


def test_profiles_that_cannot_be_imported_are_named_with_the_reason(site: Path) -> None:
    points = "[caption_gateway.profiles]\nacme = absent_profiles\n"
    (site / "acme_profiles-1.0.dist-info" / "entry_points.txt").write_text(points)
    with pytest.raises(UnknownProfile, match="acme cannot be imported: No module named 'absent_"):
        profiles.names()
