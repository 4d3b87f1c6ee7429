"""The OpenFlow controller: forwarding, ECMP, priority queues and multicast groups, all installed before traffic
starts."""
