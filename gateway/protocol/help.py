"""The text of ``help``: one line for each message that a client can send."""

from __future__ import annotations

HELP: dict[str, str] = {
    "say": '{"type":"say","text":"good morning"}  say a line (or just type it, without JSON)',
    "audio": '{"type":"audio","codec":"pcm_s16le","rate":16000}  binary frames are speech now',
    "chunk": '{"type":"chunk","data":"AAAA"}  send audio in base64 (bytes in MessagePack)',
    "cancel": '{"type":"cancel","id":"u1"}  stop work on an utterance now',
    "want": '{"type":"want","langs":["de","fr"],"view":"live"}  set what this socket reads',
    "set": '{"type":"set","from":"en","glossary":{"standup":"Standup"}}  change room settings',
    "edit": '{"type":"edit","id":"u1","lang":"de","text":"Guten Morgen."}  correct a caption',
    "retract": '{"type":"retract","id":"u1"}  withdraw an utterance in all languages',
    "get": '{"type":"get","id":"u1"}  show one utterance with all its captions',
    "sync": '{"type":"sync","epoch":"9a41c07e","seq":41}  send the durable events after seq again',
    "auth": '{"type":"auth","token":"..."}  send a new key before the old one expires',
    "stats": '{"type":"stats"}  show the counters of this socket',
    "help": '{"type":"help"}  show this list',
    "bye": '{"type":"bye"}  finish the utterances in flight, then close',
}
