"""What goes over the wire, as frozen data: how messages and datagrams look, and how they are found again in packets."""
