"""Connections and flows on the wire, and the headers of packets and datagrams, as frozen data."""
