"""Scripts of this project: documents, audits, lists."""
