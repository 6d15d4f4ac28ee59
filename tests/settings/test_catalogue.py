"""The catalogue: every setting is described and bounded, and exposure is checked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.core.streaming.partials import PartialTiming
from gateway.core.streaming.stability import StabilityRules
from gateway.limits import Limits
from gateway.settings import catalogue
from gateway.settings.catalogue import Settings, SettingsError, check


def test_every_field_of_the_settings_is_one_and_those_of_a_group_with_a_docstring() -> None:
    nested = {"engines", "outputs", "limits", "flow"}
    assert set(Settings.__struct_fields__) - set(catalogue.table()) == nested
    groups: dict[str, type[msgspec.Struct]] = {
        "limit_": Limits,
        "pace_": PartialTiming,
        "stable_": StabilityRules,
    }
    for prefix, group in groups.items():
        names = [name for name in catalogue.table() if name.startswith(prefix)]
        fields = [prefix + name for name in group.__struct_fields__]
        assert names == [name for name in fields if name in names] != []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_loopback_address_needs_no_keys(host: str) -> None:
    check(Settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "", "gateway.example"])
def test_other_addresses_without_keys_are_refused_unless_insecure(host: str) -> None:
    check(Settings(host=host, insecure=True))
    with pytest.raises(SettingsError, match="--insecure"):
        check(Settings(host=host))


def test_a_gateway_for_the_local_network_needs_no_configured_keys() -> None:
    check(Settings(host="0.0.0.0", lan=True))


@pytest.mark.parametrize("given", ["keys", "jwt_key", "jwks_url", "jwks_file"])
def test_other_addresses_are_allowed_with_keys(given: str) -> None:
    values: dict[str, Any] = {"host": "0.0.0.0", given: "x"}
    check(Settings(**values))


def test_every_setting_is_documented_and_bounded() -> None:
    for row in catalogue.table().values():
        assert row.doc.endswith("."), f"{row.name} needs a docstring that is a sentence"
        assert row.read(row.default, row.name) == row.default or row.default is None
        if not isinstance(row.default, bool) and isinstance(row.default, int | float):
            with pytest.raises(SettingsError):
                row.read(-1, row.name)
            with pytest.raises(SettingsError):
                row.read(10**12, row.name)


def test_rooms_in_redis_are_in_no_other_store() -> None:
    check(Settings(store="sqlite:x"))
    check(Settings(redis="redis://x"))
    with pytest.raises(SettingsError, match="--store"):
        check(Settings(redis="redis://x", store="sqlite:x"))
