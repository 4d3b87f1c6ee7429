"""The second engine: iteration times of a plan on an ideal fluid network, without sockets, packets or a kernel."""
