"""A server that sells TICKETS tickets, with a race: it looks whether one is left, asks the bank, and then takes it.

While the bank answers, others look as well. Each request has a thread; the answer is `sold NUMBER` or `sold out`.

    ticket_server.py TICKETS
"""

import socket
import sys
import threading
import time

PORT = 8000
BANK_S = 0.009


class Office:
    def __init__(self, tickets):
        self.left = tickets
        self.sold = 0

    def buy(self):
        if self.left <= 0:  # the check ...
            return "sold out"
        time.sleep(BANK_S)
        self.left -= 1  # ... and the act, which nothing joins
        self.sold += 1
        return f"sold {self.sold}"


def main():
    office = Office(int(sys.argv[1]))

    def serve(peer):
        with peer:
            peer.sendall(office.buy().encode())

    with socket.create_server(("", PORT), backlog=64) as listening:
        while True:
            peer, _ = listening.accept()
            threading.Thread(target=serve, args=(peer,), daemon=True).start()


if __name__ == "__main__":
    main()
