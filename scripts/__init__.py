"""Scripts of the project's own making: documents, audits, lists."""
