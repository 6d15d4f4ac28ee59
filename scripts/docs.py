"""Write the generated pages of docs/: settings, codes, schemas. `make docs-pages` runs it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # this checkout, whichever one is installed

from gateway.protocol import schema  # noqa: E402
from gateway.server.routes import openapi  # noqa: E402
from gateway.settings import listing  # noqa: E402

DOCS = ROOT / "docs"

if __name__ == "__main__":
    schema.write(DOCS)
    (DOCS / "reference" / "settings.md").write_text(listing.markdown(), encoding="utf-8")
    (DOCS / openapi.PATH).write_text(openapi.render(), encoding="utf-8")
