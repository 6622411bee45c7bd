"""The user's keyring for pip's packages: each question is asked once a run, whichever thread needs the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from resume_dl.model.index_logins import DISABLED, IndexLogins, KeyringAnswer, KeyringQuestion
from resume_dl.threads import start_thread

PATIENCE = 20.0
"""Seconds for an answer: less than ``Policy.unreached_give_up``, so that the reason is named and not a silent host."""
_POLL = 0.05
"""Seconds between two checks for cancellation."""
_STOPPED = KeyringAnswer()


@dataclass(slots=True, eq=False)
class _Asked:
    done: threading.Event = field(default_factory=threading.Event)
    answer: KeyringAnswer = _STOPPED


class KeyringMemory:
    """The answers of one run, for all its transports."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: dict[KeyringQuestion, _Asked] = {}
        self.one_at_a_time = threading.Lock()
        """Two questions at once may open two dialogs."""
        self.trouble: KeyringAnswer | None = None
        """The answer to all later questions, once the keyring has failed; pip disables it then, too."""


class Keyring:
    """``ports.Keyring``: the keyring of ``provider`` (pip's ``--keyring-provider``), used from any number of threads.

    ``python`` is the one that pip runs in.
    """

    def __init__(
        self,
        provider: str,
        logins: IndexLogins,
        memory: KeyringMemory,
        *,
        python: Path,
        env: Mapping[str, str],
        patience: float = PATIENCE,
    ) -> None:
        self.provider = provider
        self.logins = logins
        self._memory = memory
        self._python = python
        self._env = env
        self._patience = patience
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def of_index(self, url: str) -> tuple[str, str] | None:
        """See ``IndexLogins.of_index``."""
        return self.logins.of_index(url)

    def known(self, url: str) -> tuple[str, str] | None:
        """The login that an earlier question has brought for ``url``. Raises ValueError for a malformed URL."""
        if not self._memory.asked:
            return None
        question = self.logins.question(url, url)
        asked = None if question is None else self._memory.asked.get(question)
        return None if asked is None else asked.answer.login

    def ask(self, url: str, first: str, stopped: Callable[[], bool]) -> KeyringAnswer:
        """See ``ports.Keyring``. Raises ValueError for a malformed URL."""
        question = None if self.provider == DISABLED else self.logins.question(url, first)
        if question is None:
            return KeyringAnswer()
        with self._memory.lock:
            asked = self._memory.asked.get(question)
            if asked is None:
                asked = self._memory.asked[question] = _Asked()
                self._start(question, asked)
        while not asked.done.wait(_POLL):
            if stopped():
                return _STOPPED
        return asked.answer

    def stop(self) -> None:
        """End the questions that are being asked. Never raises."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _start(self, question: KeyringQuestion, asked: _Asked) -> None:
        """Ask in a separate thread, so that a caller can stop waiting; the answer is shared by all callers."""

        def failed(error: BaseException) -> None:
            asked.answer = KeyringAnswer(why=f"the keyring could not be asked ({type(error).__name__})")
            asked.done.set()

        try:
            self._threads.append(start_thread(lambda: self._find(question, asked), failed, name="keyring"))
        except RuntimeError as error:
            failed(error)

    def _find(self, question: KeyringQuestion, asked: _Asked) -> None:
        from resume_dl.settings.keyring_ask import KeyringFailedError, ask_keyring

        memory = self._memory
        with memory.one_at_a_time:
            try:
                asked.answer = memory.trouble or ask_keyring(
                    question, self.provider, self._python, self._env, patience=self._patience, stop=self._stop
                )
            except KeyringFailedError as error:
                if self._stop.is_set():
                    del memory.asked[question]  # another transport of this run may ask it again
                else:
                    asked.answer = memory.trouble = KeyringAnswer(why=str(error))
        asked.done.set()
