"""Default signals for the tests and the programs that they start, whatever started the tests.

A background job of a shell, ``nohup`` and some CI runners start a program with SIGINT or SIGHUP ignored, and a program
inherits that. Tests that press Ctrl-C would wait for ever.
"""

from __future__ import annotations

import signal

_PYTHONS_OWN = {"SIGPIPE", "SIGXFSZ", "SIGXFZ"}
"""Python ignores these itself, and ``subprocess`` restores them for a child."""


def restore_defaults() -> None:
    """Give this process, and so its children, every signal as a terminal's foreground job has it; main thread only.

    An ignored SIGHUP stays without effect here, as ``nohup`` asks for, but as a handler: a handler does not survive
    exec, so that children have the default.
    """
    for number in signal.valid_signals():
        if getattr(number, "name", "") in _PYTHONS_OWN or signal.getsignal(number) is not signal.SIG_IGN:
            continue
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
        elif number == getattr(signal, "SIGHUP", None):
            signal.signal(number, _nothing)
        else:
            signal.signal(number, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _nothing(number: int, frame: object) -> None:
    """Stay."""
