"""Loading of settings: order of the sources, errors, warnings, suggestions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.core.streaming.options import StreamingOptions
from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.stability import WITHOUT_CHECKS, StabilityRules
from gateway.limits import Limits
from gateway.settings import catalogue, loading
from gateway.settings.catalogue import Settings, SettingsError
from gateway.settings.loading import load


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_without_flags_and_variables_the_defaults_apply() -> None:
    loaded = load({}, {})
    assert loaded.settings == Settings()
    assert loaded.origins == {}
    assert loaded.warnings == ()


def test_a_flag_wins_over_a_variable_over_the_file_over_the_default(tmp_path: Path) -> None:
    config = write(
        tmp_path / "gateway.toml", "max_num_seqs = 2\nport = 2\nhost = '::1'\nlang = 'fr'\n"
    )
    loaded = load(
        {"config": config, "port": "4", "max_num_seqs": "4"},
        {"GATEWAY_PORT": "3", "GATEWAY_MAX_NUM_SEQS": "3", "GATEWAY_HOST": "127.0.0.3"},
    )
    found = loaded.settings
    assert (found.port, found.max_num_seqs, found.host, found.lang, found.drain_s) == (
        4,
        4,
        "127.0.0.3",
        "fr",
        10.0,
    )
    assert loaded.origins == {
        "port": "--port",
        "max_num_seqs": "--max-num-seqs",
        "host": "GATEWAY_HOST",
        "lang": f"lang in {config}",
    }


def test_a_variable_can_name_the_file(tmp_path: Path) -> None:
    config = write(tmp_path / "gateway.toml", "port = 7")
    assert load({}, {"GATEWAY_CONFIG": config}).settings.port == 7


def test_the_variable_port_is_used_if_gateway_port_is_not_set(tmp_path: Path) -> None:
    config = write(tmp_path / "gateway.toml", "port = 7")
    loaded = load({"config": config}, {"PORT": "5000"})
    assert (loaded.settings.port, loaded.origins["port"]) == (5000, "PORT")
    assert load({}, {"PORT": "5000", "GATEWAY_PORT": "6000"}).settings.port == 6000
    assert load({"port": "1"}, {"PORT": "5000"}).settings.port == 1


def test_an_empty_variable_is_ignored() -> None:
    loaded = load({}, {"GATEWAY_MODEL": "", "PORT": "", "GATEWAY_CONFIG": ""})
    assert loaded.settings == Settings()
    assert loaded.warnings == ()


def test_a_number_may_begin_with_a_point_and_a_text_stays_as_it_is() -> None:
    loaded = load({"scripted_faults": ".3", "model": ".3"}, {"GATEWAY_LIMIT_RATE": ".5"})
    settings = loaded.settings
    assert (settings.scripted_faults, settings.limits.rate, settings.model) == (0.3, 0.5, ".3")
    with pytest.raises(SettingsError, match=r"'\.x'"):
        load({"scripted_faults": ".x"}, {})


def test_every_limit_is_a_setting_of_the_same_name() -> None:
    loaded = load({"limit_text": "5", "limit_rate": "2.5"}, {"GATEWAY_LIMIT_QUEUE": "9"})
    assert loaded.settings.limits == Limits(text=5, rate=2.5, queue=9)
    assert catalogue.value(loaded.settings, "limit_text") == 5


def test_settings_of_growing_captions_reach_their_stages() -> None:
    loaded = load({"pace_interval": "0.5", "pace_repeats": "3"}, {"GATEWAY_STABLE_MASK": "0"})
    flow = loaded.settings.flow
    assert flow == StreamingOptions(
        pace=PartialTiming(interval=0.5, repeats=3), stability=StabilityRules(mask=0)
    )
    for name, value in (("pace_interval", 0.5), ("pace_repeats", 3), ("stable_mask", 0)):
        assert catalogue.value(loaded.settings, name) == value


def test_engines_that_do_not_check_drafts_have_other_defaults_for_stable_text(
    tmp_path: Path,
) -> None:
    assert load({}, {}).settings.flow.stability == StabilityRules()
    found = load({"engine": "vllm", "stable_mask": "5"}, {}).settings.flow.stability
    assert found == replace(WITHOUT_CHECKS, mask=5)
    tables = "[[engine]]\nengine = 'openai'\nopenai_url = 'http://there/v1'\n"
    config = write(tmp_path / "one.toml", tables)
    assert load({"config": config}, {}).settings.flow.stability == WITHOUT_CHECKS
    found = load({"engine": "vllm", "stability": "checked"}, {}).settings.flow.stability
    assert found == StabilityRules()
    assert load({"stability": "forced"}, {}).settings.flow.stability == WITHOUT_CHECKS
    config = write(tmp_path / "two.toml", tables + "[[engine]]\nengine = 'ctranslate2'\n")
    assert load({"config": config}, {}).settings.flow.stability == StabilityRules()


def test_a_prefix_can_be_a_table_in_the_file(tmp_path: Path) -> None:
    config = write(
        tmp_path / "gateway.toml",
        "[limit]\ntext = 5\n[openai]\nurl = 'http://there/v1'\n[vllm]\nswap_space = 1\n"
        "[stable]\nmask = 4\n",
    )
    found = load({"config": config}, {}).settings
    assert found.limits.text == 5
    assert found.flow.stability.mask == 4
    assert found.openai_url == "http://there/v1"
    assert found.vllm == {"swap_space": 1}


def test_a_variable_gives_a_table_as_json() -> None:
    assert load({}, {"GATEWAY_VLLM": '{"seed": 3}'}).settings.vllm == {"seed": 3}


@pytest.mark.parametrize(
    ("word", "meaning"),
    [("on", True), ("Yes", True), ("TRUE", True), ("1", True)]
    + [("off", False), ("no", False), ("false", False), ("0", False)],
)
def test_a_switch_has_several_spellings(word: str, meaning: bool) -> None:
    assert load({}, {"GATEWAY_GUARDS": word}).settings.guards is meaning


@pytest.mark.parametrize(
    ("flags", "environ", "says"),
    [
        ({"port": "70000"}, {}, "--port cannot be '70000': it is a whole number from 0 to 65535."),
        ({}, {"GATEWAY_PORT": "web"}, "GATEWAY_PORT cannot be 'web': it is a whole number"),
        ({}, {"PORT": "-1"}, "PORT cannot be '-1'"),
        ({"engine": "gpu"}, {}, "--engine cannot be 'gpu': it is one of `ctranslate2`,"),
        ({}, {"GATEWAY_LIMIT_TEXT": "0"}, "GATEWAY_LIMIT_TEXT cannot be '0'"),
        ({}, {"GATEWAY_LIMIT_JOB_S": "inf"}, "GATEWAY_LIMIT_JOB_S cannot be 'inf'"),
        ({}, {"GATEWAY_DRAIN_S": "nan"}, "GATEWAY_DRAIN_S cannot be 'nan'"),
        ({}, {"GATEWAY_LIMIT_RATE": "nan"}, "GATEWAY_LIMIT_RATE cannot be 'nan'"),
        ({}, {"GATEWAY_PACE_INTERVAL": "-1"}, "it is a number from 0 to 1000."),
        ({}, {"GATEWAY_STABLE_MASK": "2.5"}, "it is a whole number from 0 to 1000."),
        ({}, {"GATEWAY_GPU_MEMORY_UTILIZATION": "nan"}, "it is a number above 0 to 1."),
        ({}, {"GATEWAY_GUARDS": "maybe"}, "it is `true` or `false`."),
        ({"gpu_memory_utilization": "0"}, {}, "it is a number above 0 to 1."),
        ({}, {"GATEWAY_VLLM": "seed=3"}, "GATEWAY_VLLM cannot be 'seed=3': it is a table."),
        ({"config": "nowhere.toml"}, {}, "nowhere.toml cannot be read: No such file or directory."),
    ],
)
def test_the_error_for_a_value_names_its_origin_and_the_allowed_values(
    flags: dict[str, str], environ: dict[str, str], says: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(flags, environ)
    assert says in str(caught.value)


def test_the_error_for_a_secret_does_not_contain_it(tmp_path: Path) -> None:
    config = write(tmp_path / "gateway.toml", "openai_api_key = 12345")
    with pytest.raises(SettingsError) as caught:
        load({"config": config}, {})
    assert "12345" not in str(caught.value)


def test_an_unknown_key_of_the_file_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    config = write(tmp_path / "gateway.toml", "max_num_seq = 3")
    with pytest.raises(SettingsError) as caught:
        load({"config": config}, {})
    assert "no setting 'max_num_seq'. Did you mean max_num_seqs?" in str(caught.value)


def test_the_error_for_a_file_that_is_not_toml_names_the_line(tmp_path: Path) -> None:
    config = write(tmp_path / "gateway.toml", "port: 3")
    with pytest.raises(SettingsError, match=r"gateway\.toml is not TOML: .*line 1"):
        load({"config": config}, {})


def test_an_unknown_variable_is_a_warning_with_a_suggestion() -> None:
    mine = {"PATH": "x", "GATEWAY_KEY": "x"}  # the latter is of clients
    loaded = load({}, {"GATEWAY_MODLE": "x", "GATEWAY_ZZZZZZZZ": "x", **mine})
    assert loaded.warnings == (
        "GATEWAY_MODLE is set, but it is not a setting. Did you mean GATEWAY_MODEL?",
        "GATEWAY_ZZZZZZZZ is set, but it is not a setting.",
    )


def test_a_setting_that_was_removed_is_an_error_that_names_its_replacement(tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text("workers = 4")
    for flags, environ, origin in (
        ({}, {"GATEWAY_WORKERS": "4"}, "GATEWAY_WORKERS"),
        ({"config": str(file)}, {}, f"workers in {file}"),
    ):
        with pytest.raises(SettingsError, match="Several gateways") as refused:
            load(flags, environ)
        assert str(refused.value).startswith(f"{origin} is no setting any more.")
    assert len(load({}, {"GATEWAY_WORKERS": ""}).warnings) == 1, "an empty one is not set"
    with pytest.raises(SettingsError, match="--vllm-arg NAME=VALUE"):
        load({}, {"GATEWAY_LOAD_FORMAT": "dummy"})


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("--prot", "--port"),
        ("--resue-port", "--reuse-port"),
        ("--max-seqs", "--max-num-seqs"),
        ("--json", None),
        ("--source", None),
        ("--timeout", None),
        ("--path", None),
    ],
)
def test_only_a_similar_name_is_suggested(name: str, meant: str | None) -> None:
    flags = [row.flag for row in catalogue.table().values()]
    assert loading.near(name, flags) == (f" Did you mean {meant}?" if meant else "")


def test_a_short_signing_key_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError) as refused:
        load({}, {"GATEWAY_SIGNING_KEY": "secret"})
    assert "it is text of at least 32 characters" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert load({}, {"GATEWAY_SIGNING_KEY": "s" * 32}).settings.signing_key == "s" * 32


# --- several engines ---------------------------------------------------------------------------


TABLES = """
hang_s = 7

[[engine]]
name = "japanese"
engine = "openai"
openai_url = "http://127.0.0.1:8001/v1"
openai_api_key = "sesame"
pairs = [["EN", "ja"], ["*", "pt_BR"]]
weight = 2

[[engine]]
fallback = "scripted"
hang_s = 3

[[engine]]
engine = "vllm"
vllm = { seed = 1 }
gpus = [2, 3]
"""


def test_each_engine_table_is_laid_over_the_settings_outside_of_it(tmp_path: Path) -> None:
    loaded = load({"config": write(tmp_path / "g.toml", TABLES)}, {"GATEWAY_BATCH": "3"})
    first, second, third = loaded.settings.engines
    assert (first.name, first.weight) == ("japanese", 2.0)
    assert first.pairs == (("en", "ja"), ("*", "pt-BR"))
    assert (first.settings.engine, first.settings.hang_s) == ("openai", 7)
    assert (second.name, third.name) == ("ctranslate2", "vllm")
    assert (second.settings.fallback, second.settings.hang_s, second.pairs) == ("scripted", 3, None)
    assert third.settings.vllm == {"seed": 1} and third.settings.fallback is None
    assert (second.gpus, third.gpus) == (None, (2, 3))
    assert [one.settings.batch for one in (first, second, third)] == [3, 3, 3]
    assert loaded.origins["engine.japanese.weight"] == f"[[engine]] 1 in {tmp_path / 'g.toml'}"
    assert catalogue.engines(loaded.settings) == loaded.settings.engines


def test_without_tables_the_other_settings_are_those_of_one_engine() -> None:
    (only,) = catalogue.engines(Settings(engine="scripted"))
    assert (only.name, only.pairs, only.settings.engine) == ("scripted", None, "scripted")


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_flag_or_variable_that_names_an_engine_replaces_all_tables(
    tmp_path: Path, how: str
) -> None:
    config = write(tmp_path / "g.toml", TABLES)
    flags = {"config": config} | ({"engine": "scripted"} if how == "flag" else {})
    loaded = load(flags, {} if how == "flag" else {"GATEWAY_ENGINE": "scripted"})
    assert loaded.settings.engines == () and loaded.settings.engine == "scripted"


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ("modle = 'x'", "[[engine]] 1 in {}: there is no key 'modle'. Did you mean model?"),
        (
            "port = 1",
            "[[engine]] 1 in {}: there is no key 'port'. It is a setting of the whole gateway: move"
            " it above the tables.",
        ),
        ("pairs = []", "pairs of [[engine]] 1 in {} are empty, so this engine would get no job."),
        ("weight = 0", "weight of [[engine]] 1 in {} cannot be 0: it is a number above 0 to 1000."),
        ("pairs = ['en-de']", "pairs of [[engine]] 1 in {} cannot be ['en-de']: "),
        ("gpus = [0]", "gpus of [[engine]] 1 in {} need the engine vllm and at least one number."),
        ("engine = 'vllm'\ngpus = []", "gpus of [[engine]] 1 in {} need the engine vllm and"),
        (
            "gpus = [-1]",
            "gpus of [[engine]] 1 in {} cannot be [-1]: it is a list of whole",
        ),
        ("pairs = [['en', '?']]", "pairs of [[engine]] 1 in {}: `?` is not a language tag."),
        ("name = 'a'\n[[engine]]\nname = 'a'", "[[engine]] 2 in {}: another engine is called 'a'"),
    ],
)
def test_a_fault_in_an_engine_table_is_named_with_its_place(
    tmp_path: Path, tables: str, says: str
) -> None:
    config = write(tmp_path / "g.toml", f"[[engine]]\n{tables}\n")
    with pytest.raises(SettingsError) as caught:
        load({"config": config}, {})
    assert str(caught.value).startswith(says.format(config))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[engine]\nname = 'a'", "{}: write [[engine]], with two brackets, for each engine."),
        (
            "engine = 'scripted'\n[[engine]]\nname = 'a'",
            "{} is not TOML: Cannot overwrite a value (at line 2, column 9). Write"
            " `engine = ...` inside of each [[engine]] table.",
        ),
    ],
)
def test_engine_tables_that_are_written_wrongly_are_refused_with_the_right_way(
    tmp_path: Path, text: str, says: str
) -> None:
    config = write(tmp_path / "g.toml", f"{text}\n")
    with pytest.raises(SettingsError) as caught:
        load({"config": config}, {})
    assert str(caught.value) == says.format(config)


def test_the_examples_of_the_guide_to_several_engines_can_be_loaded(tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "engines.md"
    examples = re.findall(r"```toml\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    loaded = [
        load({"config": write(tmp_path / f"{n}.toml", example)}, {}).settings.engines
        for n, example in enumerate(examples)
    ]
    names = [[(one.name, one.settings.engine) for one in engines] for engines in loaded]
    assert names == [
        [("japanese", "openai"), ("rest", "ctranslate2")],
        [("vllm", "vllm"), ("vllm-2", "vllm")],
    ]
    assert [one.gpus for one in loaded[1]] == [(0,), (1,)]


# --- outputs -----------------------------------------------------------------------------------


WEBHOOK = f"kind = 'webhook'\nroom = '*'\nurl = 'https://there/'\nsecret_key = 'whsec_{'A' * 44}'"


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("kind = 'webhook'", "[[output]] 1 in {} needs the key 'url'."),
        ("kind = 'fax'", "[[output]] 1 in {} needs the key 'url'."),
        (WEBHOOK.replace("webhook", "fax"), "kind of [[output]] 1 in {} cannot be 'fax'"),
        (WEBHOOK + "\nrooms = 'x'", "[[output]] 1 in {}: there is no key 'rooms'. Did you mean"),
        (WEBHOOK.replace("whsec", "x"), "[[output]] 1 in {}: secret_key has to be whsec_"),
        (WEBHOOK.replace("https", "ftp"), "url of [[output]] 1 in {} cannot be"),
        *(
            (
                WEBHOOK.replace("https://there/", url),
                "[[output]] 1 in {}: url cannot be used: it",
            )
            for url in (
                *("https://", "http://[::1", "http://h:port/", "http://h:99999/", "http://h:0/"),
                *("http://256.1.1.1/", "https://\u2603.example/", f"https://h/{'x' * 2048}"),
            )
        ),
        (WEBHOOK + "\nto = '?'", "[[output]] 1 in {}: `?` is not a language tag."),
        (WEBHOOK.replace("webhook", "zoom"), "[[output]] 1 in {}: zoom shows one meeting"),
        (f"{WEBHOOK}\n[[output]]\n{WEBHOOK}", "[[output]] 2 in {}: another output is called"),
    ],
)
def test_a_fault_in_an_output_table_is_named_with_its_place(
    tmp_path: Path, table: str, says: str
) -> None:
    config = write(tmp_path / "g.toml", f"[[output]]\n{table}\n")
    with pytest.raises(SettingsError) as caught:
        load({"config": config}, {})
    assert str(caught.value).startswith(says.format(config))
    assert "A" * 44 not in str(caught.value)


def test_the_examples_of_the_guide_to_outputs_can_be_loaded(tmp_path: Path) -> None:
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "outputs.md"
    examples = re.findall(r"```toml\n(.*?)```", guide.read_text(encoding="utf-8"), re.DOTALL)
    loaded = [load({"config": write(tmp_path / "g.toml", text)}, {}) for text in examples]
    outputs = [[one.label for one in each.settings.outputs] for each in loaded]
    assert outputs == [["webhook"], ["youtube", "zoom"]]
