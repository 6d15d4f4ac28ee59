"""Whisper in CTranslate2, through faster-whisper."""
