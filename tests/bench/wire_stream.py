#!/usr/bin/env python3
"""How fast a TCP connection is when both ends send at once, as ranks do.

usage: wire_stream.py listen|ADDRESS SECONDS; prints the bytes per second that this end received.
"""
import socket
import sys
import threading
import time

PORT = 29600
CHUNK = 1 << 18


def connect(address, patience_s=20):
    end = time.monotonic() + patience_s
    while True:
        try:
            return socket.create_connection((address, PORT), timeout=patience_s)
        except ConnectionRefusedError:  # the other end is still starting
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def open_connection(where):
    if where != "listen":
        return connect(where)
    with socket.create_server(("", PORT)) as listener:
        return listener.accept()[0]


def send(connection, seconds):
    chunk, end = bytes(CHUNK), time.monotonic() + seconds
    while time.monotonic() < end:
        connection.sendall(chunk)
    connection.shutdown(socket.SHUT_WR)


def main():
    where, seconds = sys.argv[1], float(sys.argv[2])
    with open_connection(where) as connection:
        threading.Thread(target=send, args=(connection, seconds), daemon=True).start()
        buffer, received, start = bytearray(CHUNK), 0, 0.0
        while count := connection.recv_into(buffer):
            start = start or time.monotonic()
            received += count
        print(received / (time.monotonic() - start))


if __name__ == "__main__":
    main()
