"""Listings of settings: values, origins, no secrets."""

from __future__ import annotations

from pathlib import Path

from gateway.settings import catalogue, loading
from gateway.settings.catalogue import Settings
from gateway.settings.loading import load


def test_the_listing_shows_values_and_origins_but_no_secrets() -> None:
    text = loading.as_text(
        load(
            {"openai_url": "http://me:pass@there/v1"},
            {"GATEWAY_OPENAI_API_KEY": "sesame", "GATEWAY_LIMIT_TEXT": "5"},
        )
    )
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    assert rows["openai_api_key"] == ["****", "GATEWAY_OPENAI_API_KEY"]
    assert rows["openai_url"] == ['"http://****@there/v1"', "--openai-url"]
    assert rows["limit_text"] == ["5", "GATEWAY_LIMIT_TEXT"]
    assert rows["model"] == ["default"]
    assert set(rows) == set(catalogue.table())


def test_the_repr_of_settings_contains_no_secret() -> None:
    secret = "canary" * 8
    settings = Settings(jwt_key=secret, signing_key=secret, openai_api_key=secret)
    assert repr(settings) == "<Settings ctranslate2 on 127.0.0.1:8000>"
    assert secret not in f"{settings} {load({}, {'GATEWAY_JWT_KEY': secret})!r}"


def test_the_keys_of_engine_tables_are_listed_with_their_engine_and_without_secrets(
    tmp_path: Path,
) -> None:
    config = tmp_path / "gateway.toml"
    config.write_text(
        '[[engine]]\nname = "far"\nengine = "openai"\nopenai_api_key = "sesame"\n'
        'pairs = [["en", "ja"]]\n[[engine]]\n',
        encoding="utf-8",
    )
    loaded = load({"config": str(config)}, {})
    rows = {line.split()[0]: line.split()[1] for line in loading.as_text(loaded).splitlines()}
    assert rows["engine.far.openai_api_key"] == "****"
    assert rows["engine.far.pairs"] == '[["en","ja"]]'
    assert rows["engine.far.engine"] == '"openai"'
    assert loading.as_json(loaded)["engine.far.pairs"]["value"] == [["en", "ja"]]


def test_every_key_of_an_engine_table_is_a_setting_or_documented() -> None:
    assert set(catalogue.OF_AN_ENGINE) <= set(catalogue.table())
    assert all(row.doc for row in catalogue.engine_table().values())


def test_outputs_are_listed_without_their_addresses(tmp_path: Path) -> None:
    config = tmp_path / "gateway.toml"
    table = "[[output]]\nkind = 'zoom'\nroom = 'demo'\nurl = 'https://there/?signature=sesame'\n"
    config.write_text(table, encoding="utf-8")
    loaded = load({"config": str(config)}, {})
    assert loading.as_json(loaded)["output.zoom"]["value"] == ["zoom", "demo"]
    assert "sesame" not in loading.as_text(loaded) + repr(loaded.settings.outputs)
    assert all(row.doc for row in catalogue.output_table().values())
