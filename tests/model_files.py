"""Model files that lie."""

import json
import struct


def entry(stored, name):
    """The ``[name, value]`` of a stored dict, or of the settings of a stored object."""
    items = stored["object"]["dict"] if "object" in stored else stored["dict"]
    return next(item for item in items if item[0] == name)


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
