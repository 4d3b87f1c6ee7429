"""Formats on the wire, as frozen data: connections and flows, and the headers of messages and datagrams."""
