"""The program that tries flows in progress on the code of a manifest (spec/node-api.md, N-118b).

    python -m aos.node.gate_process WORLD

It reads on stdin a line of JSON, the lengths of the manifest's document and of each module, and
then these bytes. It writes JSON on stdout: the document of A-90, or ``{problem}`` with a sentence.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from aos.audit.lens.gate_document import gate_document
from aos.audit.lens.lens import shown
from aos.core.journal.records import CellId
from aos.errors import AosError
from aos.host.apply.flow_gating import gate_flows
from aos.manifest.effective import Effective
from aos.manifest.load import Loaded
from aos.values.digests import content_hash


def main() -> int:
    lengths: list[int] = json.loads(sys.stdin.buffer.readline())
    document, *wasm = [sys.stdin.buffer.read(each) for each in lengths]
    modules = {content_hash(each): each for each in wasm}
    try:
        effective = Effective.from_document(document)
        gate = gate_flows(Path(sys.argv[1]), Loaded(effective=effective, modules=modules))
    except AosError as error:
        found: dict[str, object] = {"problem": str(error)}
    else:

        def key(cell: CellId) -> object:
            return shown(effective.workflows[cell[0]].key, cell[1]) if cell[1] else None

        found = gate_document(gate, key)
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
