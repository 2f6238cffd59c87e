"""Run benchmarks and write what they print into ``RESULTS.md``, between the marks of each; prose stands outside them.

    python benchmarks/results.py               # all of them, some hours
    python benchmarks/results.py linear table6

A block begins with ``<!-- printed by NAME -->`` and ends with ``<!-- end -->``.  A benchmark that fails leaves its
block as it was.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "RESULTS.md"
BLOCK = re.compile(r"<!-- printed by (\w+) -->\n(.*?)<!-- end -->", re.DOTALL)


def names() -> list[str]:
    """The benchmarks that have a block, in its order."""
    return [match[1] for match in BLOCK.finditer(RESULTS.read_text(encoding="utf-8"))]


def printed(name: str) -> str | None:
    """What a benchmark prints; ``None`` if it fails or its data are missing."""
    command = [sys.executable, str(HERE / f"{name}.py")]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return run.stdout if run.returncode == 0 else None


def write(name: str, output: str) -> None:
    """Replace the block of a benchmark."""
    block = f"<!-- printed by {name} -->\n\n    python benchmarks/{name}.py\n\n{output.strip()}\n\n<!-- end -->"
    text = RESULTS.read_text(encoding="utf-8")
    RESULTS.write_text(BLOCK.sub(lambda old: block if old[1] == name else old[0], text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}")
    chosen = parser.parse_args().names or names()
    if unknown := set(chosen) - set(names()):
        parser.error(f"{', '.join(sorted(unknown))} has no block in RESULTS.md")
    failed = []
    for name in chosen:
        print(f"{name} ...", flush=True)
        output = printed(name)
        if output is None:
            failed.append(name)
        else:
            write(name, output)
    if failed:
        sys.exit(f"failed, their blocks are as they were: {', '.join(failed)}")


if __name__ == "__main__":
    main()
