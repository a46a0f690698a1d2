#!/usr/bin/env python3
"""Fires an event on the own bus of a Saline minion on this machine.

    fire.py SOCKET TAG [JSON]

SOCKET is minion_event_HASH_pull.ipc in the minion's sock_dir, TAG the tag and JSON a mapping with the data.
The minion acts on some tags. `fire_master` sends an event on to the master's bus:

    fire.py SOCKET fire_master '{"tag": "backup/done", "data": {"files": 1204}}'

A program that fires events can import `fire` and `Bus`. The bytes are described in docs/event-bus.md.
"""

import json
import struct
import sys

from listen import Bus, unpack

REQUEST, REPLY, NO_REPLY = 3, 4, 5


def fire(bus, tag, data):
    """Fires an event, and returns when the minion has taken it."""
    bus.say(REQUEST, struct.pack("<Q", 1) + pack({"tag": tag, "data": data}))
    while True:
        kind, body = bus.next()
        if kind == REPLY:
            answer = unpack(body[8:])
            if not answer["result"]:
                raise ValueError(answer["error"])
            return
        if kind == NO_REPLY:
            raise ConnectionError("the minion does not take events now")


def pack(value):
    """Writes what JSON can hold as MessagePack."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return b"\xd3" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        text = value.encode()
        return b"\xdb" + struct.pack(">I", len(text)) + text
    if isinstance(value, list):
        return b"\xdd" + struct.pack(">I", len(value)) + b"".join(map(pack, value))
    pairs = b"".join(pack(str(key)) + pack(entry) for key, entry in value.items())
    return b"\xdf" + struct.pack(">I", len(value)) + pairs


def main():
    if len(sys.argv) not in (3, 4):
        print(__doc__, file=sys.stderr)
        return 64
    path, tag = sys.argv[1:3]
    try:
        data = json.loads(sys.argv[3]) if len(sys.argv) == 4 else {}
        fire(Bus(path), tag, data)
    except (OSError, ValueError) as error:
        print(f"{path}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
