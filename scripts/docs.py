"""Write the generated pages of docs/: settings, codes, schemas. `make docs` runs it."""

from pathlib import Path

from gateway import schema, settings
from gateway.server import openapi

DOCS = Path(__file__).resolve().parent.parent / "docs"

if __name__ == "__main__":
    schema.write(DOCS)
    (DOCS / "settings.md").write_text(settings.markdown(), encoding="utf-8")
    (DOCS / openapi.PATH).write_text(openapi.render(), encoding="utf-8")
