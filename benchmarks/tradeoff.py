"""A picture of erasure against latency, from figures of `benchmarks.captions`.

    python -m benchmarks.captions FILE --vary mask=0,4,8 --json biased.json
    python -m benchmarks.captions FILE --vary mask=0,4,8 --vary bias=0 --product --json checked.json
    python -m benchmarks.tradeoff biased.json checked.json --out docs/images/captions.svg

Each file is a line with its name, and each of its settings a point: x is the LAAL of the live view
in seconds, y the normalised erasure. Settings of different files are comparable if the files were
made with the same lines and times.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from gateway.cli.report import chart


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="written by --json")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--title", default="Erasure against latency of growing captions")
    args = parser.parse_args()
    series = {}
    for path in args.files:
        rows = json.loads(path.read_text("utf-8"))
        # If two numbers vary, the defaults differ from the other rows in both.
        if any(" " in name for name in rows):
            del rows["defaults"]
        points = ((row["LAAL"] / 1000, row["erasure"]) for row in rows.values())
        series[path.stem] = sorted(points)
    picture = chart.lines(args.title, series, x="LAAL in seconds", y="normalised erasure")
    args.out.write_text(picture, "utf-8")


if __name__ == "__main__":
    main()
