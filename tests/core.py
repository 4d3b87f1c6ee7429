"""Which of the tests that boot machines `make test` runs: of each thing that users do, and of each promise, one file.
The others try more networks, strategies, programs and ways to fail: `make test-broad`, and continuous integration."""

from __future__ import annotations

CORE = frozenset(
    f"end_to_end/{file}.py"
    for file in (
        "test_readme",
        "test_point",
        "strategies/test_allreduce_on_the_wire",
        "strategies/test_ps_on_the_wire",
        "strategies/test_parallelism_on_the_wire",
        "networks/test_starved_class",
        "networks/test_hosts_alike",
        "api/test_python_on_the_wire",
        "labs/test_labs",
        "programs/test_replaced_queues",
        "programs/test_program_scenario",
        "programs/test_forgery",
        "programs/test_laws",
        "machine/test_byte_code",
    )
)
"""Files, below tests/."""
