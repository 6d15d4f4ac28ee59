"""Known vulnerabilities of the installed packages, by pip-audit. `make audit` runs it.

The exit status is 1 if there are any. If the service cannot be reached, or knows none of the
packages (a private registry), nothing was audited: the last line says so, and the status is 0.
`.ci/run` repeats that line at its end.
"""

from __future__ import annotations

import json
import subprocess
import sys

COMMAND = (sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off")
SECONDS = 300


def main(command: tuple[str, ...] = COMMAND) -> int:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        found = json.loads(done.stdout)["dependencies"]
    except subprocess.TimeoutExpired:
        print(f"audit: SKIPPED, nothing was audited: no answer within {SECONDS} s")
        return 0
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
        print(f"audit: SKIPPED, nothing was audited: {last[:300]}")
        return 0
    known = [one for one in found if "skip_reason" not in one]
    unknown = [one["name"] for one in found if "skip_reason" in one]
    if not known:
        print(
            f"audit: SKIPPED, nothing was audited: the service knows none of {len(found)} packages"
        )
        return 0
    bad = [(one, hole) for one in known for hole in one["vulns"]]
    for one, hole in bad:
        fixed = ", ".join(hole["fix_versions"]) or "no version"
        print(f"audit: {one['name']} {one['version']}: {hole['id']}, mended in {fixed}")
    if unknown:
        print(f"audit: not known to the service: {', '.join(unknown)}")
    print(f"audit: {len(known)} packages, {len(bad)} known vulnerabilities")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
