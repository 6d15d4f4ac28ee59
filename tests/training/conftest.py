"""The profile of the property tests."""

import tests.properties.conftest  # noqa: F401
