#!/usr/bin/env python3
"""Prints the events of a Saline master or minion on this machine: its tag, a tab, and its data as JSON.

    listen.py [--socket PATH] [--count N] [--origin] [TAG]

With --origin, who caused the event stands between the two, as JSON: the daemon says so, and no data can.

Needs nothing but Python 3 and the right to open the socket (the master's user, or root). TAG is the
beginning of the tags to print, in whole segments: `salt/job` prints what happens to jobs, none prints
everything. A minion's own bus has another socket: minion_event_HASH_pull.ipc in its sock_dir. The bytes
are described in docs/event-bus.md.
"""

import argparse
import json
import socket
import struct
import sys
import time

GREETING, SUBSCRIBE, SUBSCRIBED, PUBLICATION, LAGGED, PING = 1, 6, 7, 10, 11, 12
VERSION = 1
# How often we want to hear something, in seconds, and speak ourselves.
PING_EVERY = 5.0
LARGEST = 64 * 1024 * 1024


def frame(kind, body=b""):
    return struct.pack("<IB", len(body), kind) + body


class Bus:
    """The event bus over the Unix socket of transport `tcp`."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.spoke = time.monotonic()
        self.heard = self.spoke
        # The range of versions that we speak, our ping in ms, the largest payload, no extensions.
        ours = struct.pack("<BBIQB", VERSION, VERSION, int(PING_EVERY * 1000), LARGEST, 0)
        self.say(GREETING, b"saline" + ours)
        kind, body = self.next()
        if kind != GREETING or body[:6] != b"saline" or not body[6] <= VERSION <= body[7]:
            raise ConnectionError("the daemon does not take us, or speaks another version")

    def say(self, kind, body=b""):
        self.socket.sendall(frame(kind, body))
        self.spoke = time.monotonic()

    def read(self, count):
        """Exactly so many bytes. Says that we are alive while there is nothing to read."""
        data = b""
        while len(data) < count:
            now = time.monotonic()
            if now - self.heard > 2 * PING_EVERY:
                raise ConnectionError("the daemon is silent")
            quiet = self.spoke + PING_EVERY * 0.75 - now
            if quiet <= 0:
                self.say(PING)
                continue
            self.socket.settimeout(quiet)
            try:
                part = self.socket.recv(min(count - len(data), 65536))
            except socket.timeout:
                continue
            finally:
                self.socket.settimeout(None)
            if not part:
                raise ConnectionError("the daemon has gone")
            self.heard = time.monotonic()
            data += part
        return data

    def next(self):
        """The next frame: its kind and its body."""
        length, kind = struct.unpack("<IB", self.read(5))
        return kind, self.read(length)

    def subscribe(self, topic):
        """Asks for a topic and all below it. Returns when the daemon has confirmed."""
        topic = topic.encode()
        body = struct.pack("<QH", 1, 1) + struct.pack("<BH", 1, len(topic)) + topic
        self.say(SUBSCRIBE, body)
        while True:
            kind, _ = self.next()
            if kind == SUBSCRIBED:
                return
            if kind != PING:
                raise ConnectionError("the daemon does not take the subscription")

    def events(self):
        """Yields (tag, origin, data); a tag of None says how many events were lost."""
        while True:
            kind, body = self.next()
            if kind == PUBLICATION:
                (length,) = struct.unpack_from("<H", body)
                event = unpack(body[2 + length :])
                yield event["tag"], event["origin"], event["data"]
            elif kind == LAGGED:
                yield None, None, struct.unpack("<QQ", body)[1]


def unpack(data):
    """Reads one MessagePack value."""
    at = 0

    def take(count):
        nonlocal at
        at += count
        if at > len(data):
            raise ValueError("a MessagePack value that is too short")
        return data[at - count : at]

    def number(form):
        return struct.unpack(">" + form, take(struct.calcsize(form)))[0]

    def text(length):
        return take(length).decode("utf-8", "replace")

    def array(length):
        return [value() for _ in range(length)]

    def mapping(length):
        # JSON has only text for keys, and so has this.
        pairs = ((value(), value()) for _ in range(length))
        return {key if isinstance(key, str) else str(key): entry for key, entry in pairs}

    def value():
        kind = number("B")
        if kind <= 0x7F:
            return kind
        if kind >= 0xE0:
            return kind - 0x100
        if kind <= 0x8F:
            return mapping(kind & 0x0F)
        if kind <= 0x9F:
            return array(kind & 0x0F)
        if kind <= 0xBF:
            return text(kind & 0x1F)
        if kind in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[kind]
        if 0xC4 <= kind <= 0xC6:
            return take(number("BHI"[kind - 0xC4])).hex()
        if 0xCA <= kind <= 0xD3:
            return number("fdBHIQbhiq"[kind - 0xCA])
        if 0xD9 <= kind <= 0xDB:
            return text(number("BHI"[kind - 0xD9]))
        if 0xDC <= kind <= 0xDD:
            return array(number("HI"[kind - 0xDC]))
        if 0xDE <= kind <= 0xDF:
            return mapping(number("HI"[kind - 0xDE]))
        raise ValueError(f"a MessagePack value of an unknown kind: {kind:#x}")

    return value()


def main():
    arguments = argparse.ArgumentParser(description="Prints the events of a Saline master.")
    arguments.add_argument("--socket", default="/run/saline/master/master_event_pull.ipc")
    arguments.add_argument("--count", type=int, default=0, help="end after so many events")
    arguments.add_argument("--origin", action="store_true", help="print who caused each event")
    arguments.add_argument("tag", nargs="?", default="")
    given = arguments.parse_args()
    try:
        bus = Bus(given.socket)
        bus.subscribe("/".join(part for part in ("event", given.tag.strip("/")) if part))
        print("listening", file=sys.stderr, flush=True)
        for count, (tag, origin, data) in enumerate(bus.events(), 1):
            if tag is None:
                print(f"{data} events were lost", file=sys.stderr, flush=True)
            else:
                shown = [json.dumps(origin)] if given.origin else []
                print(tag, *shown, json.dumps(data), sep="\t", flush=True)
            if count == given.count:
                return 0
    except KeyboardInterrupt:
        return 0
    except (OSError, ValueError) as error:
        print(f"{given.socket}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
