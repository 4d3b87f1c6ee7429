"""A small Raft (Ongaro and Ousterhout, USENIX ATC 2014) over UDP: leaders are elected, and a log is replicated.

Each leader appends a command every 50 ms. What happens is printed, a line each: `leader TERM`, `committed INDEX TERM
COMMAND`. There is no disk and no snapshot: nodes do not crash here, but their links do.

    raft.py SECONDS    # on each host of a lab, which tells it the others
"""

import contextlib
import json
import os
import random
import select
import socket
import sys
import time

PORT = 7000
HEARTBEAT_S, PROPOSAL_S = 0.05, 0.05
ELECTION_S = (0.15, 0.3)  # a node that hears no leader for a random time in between stands for election


class Node:
    def __init__(self, name, names):
        self.name, self.others = name, [other for other in names if other != name]
        self.majority = len(names) // 2 + 1
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("", PORT))
        self.socket.setblocking(False)
        self.random = random.Random(f"{os.environ.get('SEED', '1')} {name}")
        self.role, self.term, self.voted_for, self.votes = "follower", 0, None, set()
        self.log, self.committed = [], 0  # entries are [term, command]; index 1 is log[0]
        self.next, self.match = {}, {}
        self.proposals = 0
        self.hear_again()

    def say(self, *words):
        print(f"{time.monotonic():.6f}", *words)

    def hear_again(self):
        self.election_s = time.monotonic() + self.random.uniform(*ELECTION_S)

    def send(self, other, **message):
        data = json.dumps({"from": self.name, "term": self.term, **message}).encode()
        with contextlib.suppress(OSError):  # no carrier: as good as lost
            self.socket.sendto(data, (other, PORT))

    def last(self):
        return [self.log[-1][0] if self.log else 0, len(self.log)]

    def follow(self, term):
        if term > self.term:
            self.term, self.voted_for = term, None
        self.role = "follower"

    def stand(self):
        self.role, self.term, self.voted_for, self.votes = "candidate", self.term + 1, self.name, {self.name}
        self.hear_again()
        for other in self.others:
            self.send(other, kind="vote?", last=self.last())

    def lead(self):
        self.role = "leader"
        self.next = dict.fromkeys(self.others, len(self.log) + 1)
        self.match = dict.fromkeys(self.others, 0)
        self.heartbeat_s = self.proposal_s = time.monotonic()
        self.say("leader", self.term)

    def replicate(self, other):
        before = self.next[other] - 1
        term = self.log[before - 1][0] if before else 0
        entries = self.log[before : before + 20]
        self.send(other, kind="append", before=[term, before], entries=entries, committed=self.committed)

    def commit(self, index):
        while self.committed < index:
            term, command = self.log[self.committed]
            self.committed += 1
            self.say("committed", self.committed, term, command)

    def take(self, message):
        sender, kind = message["from"], message["kind"]
        if message["term"] > self.term:
            self.follow(message["term"])
        if kind == "vote?":
            grants = (
                message["term"] == self.term and self.voted_for in (None, sender) and message["last"] >= self.last()
            )
            if grants:
                self.voted_for = sender
                self.hear_again()
            self.send(sender, kind="vote", granted=grants)
        elif message["term"] < self.term:
            if kind == "append":
                self.send(sender, kind="appended", match=0, ok=False)
        elif kind == "vote" and self.role == "candidate" and message["granted"]:
            self.votes.add(sender)
            if len(self.votes) >= self.majority:
                self.lead()
        elif kind == "append":
            self.append(sender, message)
        elif kind == "appended" and self.role == "leader":
            self.appended(sender, message)

    def append(self, sender, message):
        self.follow(message["term"])
        self.hear_again()
        term, before = message["before"]
        if before > len(self.log) or (before and self.log[before - 1][0] != term):
            self.send(sender, kind="appended", match=min(before - 1, len(self.log)), ok=False)
            return
        for index, entry in enumerate(message["entries"], before):
            if index < len(self.log) and self.log[index][0] != entry[0]:
                del self.log[index:]
            if index == len(self.log):
                self.log.append(entry)
        match = before + len(message["entries"])
        self.commit(min(message["committed"], match))
        self.send(sender, kind="appended", match=match, ok=True)

    def appended(self, sender, message):
        if not message["ok"]:
            self.next[sender] = max(1, message["match"] + 1)
            return
        self.match[sender] = max(self.match[sender], message["match"])
        self.next[sender] = self.match[sender] + 1
        agreed = sorted([len(self.log), *self.match.values()])[-self.majority]
        if agreed > self.committed and self.log[agreed - 1][0] == self.term:
            self.commit(agreed)

    def tick(self):
        now_s = time.monotonic()
        if self.role == "leader":
            if now_s >= self.proposal_s:
                self.proposals += 1
                self.log.append([self.term, f"{self.name}-{self.proposals}"])
                self.proposal_s += PROPOSAL_S
            if now_s >= self.heartbeat_s:
                for other in self.others:
                    self.replicate(other)
                self.heartbeat_s += HEARTBEAT_S
            return min(self.heartbeat_s, self.proposal_s)
        if now_s >= self.election_s:
            self.stand()
        return self.election_s

    def run(self, end_s):
        while (now_s := time.monotonic()) < end_s:
            wake_s = min(self.tick(), end_s)
            if select.select([self.socket], [], [], max(0.0, wake_s - now_s))[0]:
                self.take(json.loads(self.socket.recv(65536)))
        self.say("end", self.role, self.term, len(self.log))


def main():
    node = Node(os.environ["GRADWIRE_HOST"], os.environ["GRADWIRE_HOSTS"].split())
    node.run(time.monotonic() + float(sys.argv[1]))


if __name__ == "__main__":
    main()
