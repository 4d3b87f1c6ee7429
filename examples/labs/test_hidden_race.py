"""A race that shows with few seeds: it is looked for, and then repeated bit for bit.

Four customers come at random times within 100 ms, and the server has two tickets. It sells a third one only if two ask
within the 9 ms that the bank takes, and one ticket is left: see ticket_server.py.

    pytest examples/labs/test_hidden_race.py -s
"""

import sys
from pathlib import Path

import gradwire.lab

SERVER = Path(__file__).with_name("ticket_server.py")
TICKETS = 2
WITHIN_S = 0.1
BUY = "exec 3<>/dev/tcp/office/8000; cat <&3"


def sell(net):
    """What each customer got. The seed decides when each of them comes, and how long its packets are under way."""
    office, s1 = net.host("office"), net.switch()
    customers = net.hosts("ann", "bob", "cid", "dan")
    net.link(office, s1, rate="1gbit")
    for customer in customers:
        net.link(customer, s1, rate="1gbit", delay="1ms", jitter="1ms")
    office.start([sys.executable, str(SERVER), str(TICKETS)])
    net.sleep("1s")
    bought = []
    for customer in customers:
        at_s = net.now_s + net.random.uniform(0, WITHIN_S)
        net.at(at_s, lambda customer=customer: bought.append(customer.start(["bash", "-c", BUY])))
    net.sleep(2 * WITHIN_S)
    return [f"{process.host}: {process.result.stdout} at {process.result.ended_s:.9f} s" for process in bought]


def trial(net):
    """Fails if more tickets are sold than there are."""
    answers = sell(net)
    sold = sum("sold out" not in answer for answer in answers)
    assert sold <= TICKETS, f"{sold} of {TICKETS} tickets sold: {answers}"


def test_a_seed_shows_the_race_and_repeats_it():
    failure = gradwire.lab.explore(trial, range(1, 20))
    assert failure is not None, "no seed shows the race"
    print(failure)

    again = []
    for _ in range(2):
        with gradwire.lab.network(seed=failure.seed) as net:
            again.append((sell(net), net.now_s))
    assert again[0] == again[1]
    assert str(again[0][0]) in str(failure.error)


def test_another_seed_hides_it():
    with gradwire.lab.network(seed=2) as net:
        trial(net)
