"""Network namespaces: entered, left again, and named when they cannot be entered."""

from __future__ import annotations

import os

import pytest

from gradwire.faults import MachineFault
from gradwire.network_namespace import fresh_network_namespace, namespace_of, network_namespace

NO_PROCESS = 2**22 + 1


def own_namespace() -> str:
    return os.readlink("/proc/thread-self/ns/net")  # noqa: PTH115


def may_make_namespaces() -> bool:
    try:
        with fresh_network_namespace():
            return True
    except MachineFault:
        return False


def test_the_namespace_of_a_process_that_is_gone_is_named() -> None:
    with (
        pytest.raises(MachineFault, match=rf"cannot open .*/proc/{NO_PROCESS}/ns/net"),
        network_namespace(namespace_of(NO_PROCESS)),
    ):
        pytest.fail("entered the namespace of no process")


def test_a_namespace_that_may_not_be_entered_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    if may_make_namespaces():
        monkeypatch.setattr("gradwire.network_namespace.CLONE_NEWNET", 1)  # no kind of namespace, which is refused too
    own = namespace_of(os.getpid())
    with (
        pytest.raises(MachineFault, match=f"cannot enter .*{own} .*: (Operation not permitted|Invalid)"),
        network_namespace(own),
    ):
        pytest.fail("entered a namespace that may not be entered")


@pytest.mark.namespaces
def test_the_namespace_is_left_even_after_an_error() -> None:
    home = own_namespace()
    with pytest.raises(ZeroDivisionError), fresh_network_namespace():
        raise ZeroDivisionError
    assert own_namespace() == home


@pytest.mark.namespaces
def test_one_namespace_inside_another() -> None:
    home = own_namespace()
    with fresh_network_namespace():
        fresh = own_namespace()
        assert fresh != home
        with network_namespace(f"/proc/{os.getpid()}/task/{os.getpid()}/ns/net"):
            assert own_namespace() == fresh
        assert own_namespace() == fresh
    assert own_namespace() == home
