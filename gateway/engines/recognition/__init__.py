"""Recognisers: engines that turn speech into text, behind one contract."""
