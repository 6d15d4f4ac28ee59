"""Speech of one person: when it is recognised, and which words are shown. Pure."""
