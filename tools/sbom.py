"""Check the list of what is shipped (CycloneDX) against the lock it was made of: `python -m tools.sbom LIST LOCK`.

A list that leaves a package out, or names it without the hashes it is installed by, is worse than none.
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def missing(listed: Mapping[str, Any], lock: str) -> list[str]:
    """The pins of the lock that the list does not have, or has without a hash."""
    known = {
        (_name(one["name"]), one.get("version"))
        for one in listed.get("components", ())
        if any(reference.get("hashes") for reference in one.get("externalReferences", ())) or one.get("hashes")
    }
    return [f"{name}=={version}" for name, version in PIN.findall(lock) if (_name(name), version) not in known]


def _name(name: str) -> str:
    return re.sub(r"[._-]+", "-", name).lower()


def main(listed: str, lock: str) -> int:
    lost = missing(json.loads(Path(listed).read_text(encoding="utf-8")), Path(lock).read_text(encoding="utf-8"))
    if lost:
        print(f"{listed} does not list: {', '.join(lost)}", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
