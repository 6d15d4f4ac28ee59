"""Write the generated pages of docs/: settings, codes, schemas; and the types of the JavaScript
client. `make docs-pages` runs it.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this checkout, whichever one is installed

from gateway.errors import CloseCode, ErrorCode  # noqa: E402
from scripts.openapi import openapi  # noqa: E402
from scripts.schema import asyncapi, json_schema  # noqa: E402
from scripts.settings_page import limits, markdown  # noqa: E402
from scripts.typescript import declarations  # noqa: E402


def _render(document: Callable[[], dict[str, Any]]) -> Callable[[], str]:
    return lambda: json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def codes() -> str:
    """Return the catalogue of error and close codes as a page of Markdown."""
    lines = [
        "# Codes",
        "",
        "<!-- Generated from gateway/errors.py. Change it there. -->",
        "",
        "## Error codes",
        "",
        "The `code` of an `error` or `failed`. Programs switch on it; `msg` is for people.",
        "*Retry* is the `retry` of the message: the same request may succeed a little later.",
        "Treat a code you do not know like `internal`.",
        "",
        "| code | retry | meaning |",
        "|---|---|---|",
        *(f"| `{c.value}` | {_yes(c.retry)} | {c.doc} |" for c in ErrorCode),
        "",
        "## Close codes",
        "",
        "The reason for which a socket is closed. The range tells clients what to do: open a new",
        "socket after 1001 and 4000 to 4399, but not after 4400 to 4499. Also open a new socket",
        "if the connection broke without a close frame (1006 in browsers).",
        "",
        "| code | reconnect | meaning |",
        "|---|---|---|",
        *(f"| {c.value} | {_yes(c.reconnect)} | {c.doc} |" for c in CloseCode),
        "",
    ]
    return "\n".join(lines)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


FILES: dict[str, Callable[[], str]] = {
    "docs/schema/gateway.v1.schema.json": _render(json_schema),
    "docs/schema/asyncapi.v1.json": _render(asyncapi),
    "docs/schema/openapi.json": _render(openapi),
    "docs/reference/codes.md": codes,
    "docs/reference/settings.md": markdown,
    "docs/reference/settings-limits.md": limits,
    "clients/js/protocol.d.ts": lambda: declarations(json_schema()),
}
"""Generated files of the repository, and the functions that return their contents."""


def write(root: Path) -> None:
    """Write the generated `FILES` below ``root``."""
    for name, content in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content(), encoding="utf-8")


if __name__ == "__main__":
    write(ROOT)
