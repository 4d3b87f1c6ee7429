"""Published communication strategies, a file each.

Every module lists what it declares in STRATEGIES (workloads/strategy_registry.py).
"""
