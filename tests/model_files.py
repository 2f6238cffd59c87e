"""Model files that lie."""

import json
import struct


def edit(path, change):
    """Rewrite the JSON header of a model file."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    outer = json.loads(raw[8 : 8 + size])
    header = json.loads(outer["__metadata__"]["undercut"])
    change(header)
    outer["__metadata__"]["undercut"] = json.dumps(header)
    text = json.dumps(outer).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + size :])
