"""Text: languages, units of length, sentences, glossary terms. Pure."""
