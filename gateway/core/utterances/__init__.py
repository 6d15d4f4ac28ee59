"""What was said: utterances, their parts, and the captions made of them. Pure."""
