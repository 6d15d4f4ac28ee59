"""Write the generated pages of docs/: settings, codes, schemas. `make docs` runs it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this checkout, whichever one is installed

from gateway import schema, settings  # noqa: E402
from gateway.server import openapi  # noqa: E402

DOCS = ROOT / "docs"

if __name__ == "__main__":
    schema.write(DOCS)
    (DOCS / "settings.md").write_text(settings.markdown(), encoding="utf-8")
    (DOCS / openapi.PATH).write_text(openapi.render(), encoding="utf-8")
