"""From text to captions: ingest, the job of each caption, and how captions end. Pure."""
