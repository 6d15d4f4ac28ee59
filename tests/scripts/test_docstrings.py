"""The form of docstrings that the reference of the Python API is made from."""

from __future__ import annotations

import griffe

from scripts.docstrings import fields_last

SOURCE = '''
def connect(url, key):
    """Connect to a gateway.

    :param url: address of the gateway
    :param key: API key

    Raises `ValueError` if ``url`` is not an address. Example::

        connect("ws://127.0.0.1:8000", None)
    """
'''


def test_text_after_the_parameters_does_not_become_part_of_the_last_one() -> None:
    with griffe.temporary_visited_module(SOURCE, docstring_parser="sphinx") as module:
        docstring = module["connect"].docstring
        docstring.value = fields_last(docstring.value)
        text, parameters = docstring.parsed
    assert "Raises `ValueError`" in text.value
    assert text.value.endswith('Example:\n\n    connect("ws://127.0.0.1:8000", None)')
    assert [(one.name, one.description) for one in parameters.value] == [
        ("url", "address of the gateway"),
        ("key", "API key"),
    ]
