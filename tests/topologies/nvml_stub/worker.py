"""
Read machines from the library that the loader finds: one path to a machine file a line, one document a line.

It is a process of its own, because a library cannot be exchanged in a process that has loaded it.
"""

from __future__ import annotations

import json
import os
import sys
import time

from topologies.documents.document import error_document, to_document
from topologies.errors import TopologyError
from topologies.nvml.live import read_live


def main() -> None:
    for line in sys.stdin:
        os.environ["NVML_STUB_MACHINE"] = line.strip()
        start = time.perf_counter()
        try:
            document = to_document(read_live())
        except TopologyError as error:
            document = error_document(str(error))
        print(json.dumps({"document": document, "seconds": time.perf_counter() - start}), flush=True)


if __name__ == "__main__":
    main()
