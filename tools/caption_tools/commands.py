"""The commands that this distribution adds to ``gateway``.

Owns: their names and texts, which the entry points in pyproject.toml list. Must not know: their
flags. Every call of ``gateway`` imports this module, so it imports none of the tools.
"""

from gateway.cli.main import AddedCommand

bench = AddedCommand("Load-test a running gateway.", "caption_tools.loadtest.command")
plan = AddedCommand(
    "Compute how many engines, gateways and Redis servers a number of meetings needs.",
    "caption_tools.plan.command",
)
record = AddedCommand(
    "Record a live room to a file for gateway replay. Ctrl-C ends the recording.",
    "caption_tools.replay.record",
)
replay = AddedCommand(
    "Play a meeting from a file to a running gateway, and measure its captions.",
    "caption_tools.replay.command",
)
top = AddedCommand(
    "Show how one or several gateways are doing, live, in the terminal.",
    "caption_tools.top.command",
)
tune = AddedCommand(
    "Find the engine settings that fit the load of a gateway.", "caption_tools.tune.command"
)
