"""Asks the kernel for hosts' addresses, queues and counters by rtnetlink, where a process of ip or tc for each host
would take longer."""
