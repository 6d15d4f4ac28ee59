"""The terminal: types of arguments, and a screen of growing lines."""
