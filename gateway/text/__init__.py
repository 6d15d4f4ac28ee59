"""Text: languages, scripts, units of length, sentences, glossary terms. Pure."""
