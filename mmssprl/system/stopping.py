"""Signals that stop a training after the step under way, and the launcher that may vanish.

SIGINT, SIGTERM, SIGUSR1, SIGHUP (a closed terminal) and SIGXCPU (a limit of CPU time) are only
noted while a training is under way: it saves, says how to resume and ends with ``SAVED``. Before
that, and from the second signal on, the process ends at once with 128 + the signal's number.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SAVED = 75
"""Exit code of a training that was told to stop and can resume: EX_TEMPFAIL of sysexits.h."""

Signal = signal.Signals
_SIGNALS = (Signal.SIGINT, Signal.SIGTERM, Signal.SIGUSR1, Signal.SIGHUP, Signal.SIGXCPU)
_REPEATED = (Signal.SIGHUP, Signal.SIGXCPU)
_SAME_S = 1.0
"""Within it a signal counts once: a terminal and a launcher may both send it."""
_HEARD_S = 0.1
"""Until a signal of the same group has come for certain."""
_LAUNCHED = "TORCHELASTIC_RUN_ID"
"""In the environment of a process whose launcher tells of signals."""
PARENT = "MMSSPRL_PARENT"
"""In the environment of a command: number of the process that it ends with."""
_PARENT_S = 1.0
"""How often a process looks whether the one that started it is still there."""
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
"""Where torchrun and mmengine, srun and Open MPI put the number of a process."""
_ORPHAN_S = 25.0
"""How long a process outlives its launcher: to save, if the others still answer."""


class StoppedError(SystemExit):
    """A training was stopped by a signal, and its process must end with a code."""


class Interrupted(KeyboardInterrupt):
    """A signal came before the first step; ``code`` is the exit code of the process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number

    def __str__(self) -> str:
        return f"stopped by {Signal(self.args[0]).name}."


class _Signals:
    """The signals of this process while somebody watches them.

    ``number`` is the first one since ``note``, 0 if there was none.
    """

    def __init__(self) -> None:
        self.number = 0
        self._early = 0
        """The one before ``note``, which ends the process."""
        self._time = 0.0
        self._is_noted = self._launches = False
        self._is_watched = False
        self._pid = 0
        os.register_at_fork(after_in_child=self._shield)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """End the process in one line at a signal; nothing outside of the main thread."""
        if self._is_watched or threading.current_thread() is not threading.main_thread():
            yield
            return
        handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        # What is ignored stays so, as behind nohup.
        taken = [number for number in _SIGNALS if handlers[number] is not signal.SIG_IGN]
        self._is_watched, self._pid, self._early = True, os.getpid(), 0
        for number in taken:
            signal.signal(number, self._receive)
        try:
            yield
        except Exception as error:
            # A signal before the first step may be told of as its consequence: it ends processes
            # that were not forked, too, and mmengine's Config makes a SyntaxError of an interrupt.
            time.sleep(_HEARD_S)
            if self._early:
                raise Interrupted(self._early) from error
            raise
        finally:
            self._is_watched, self._early = False, 0
            for number in taken:
                signal.signal(number, handlers[number])

    def note(self, *, launches: bool = False) -> None:
        """Only note the first signal from now on; who ``launches`` a training passes it on."""
        if self._is_watched and not self._is_noted:
            self._is_noted, self._launches = True, launches
            self.number, self._early = self._early, 0  # one that came in between

    def interrupt(self) -> None:
        """Let signals end the process again."""
        self.number, self._is_noted = 0, False

    def _receive(self, number: int, _: Any) -> None:
        if not self._is_noted:
            self._early = self._early or number
            raise Interrupted(number)
        name, is_told = Signal(number).name, is_first_process() and _LAUNCHED not in os.environ
        if not self.number:
            self.number, self._time = number, time.monotonic()
            for child in _children() if self._launches else ():
                child.send_signal(number)
            if is_told:
                _tell(f"{name}: saving after this step; once more ends at once")
        # A closed terminal and its shells each send SIGHUP, and SIGXCPU comes every second.
        elif number not in _REPEATED and time.monotonic() - self._time > _SAME_S:
            if is_told:
                _tell(f"ended at once by {name}")
            for child in _children():
                child.kill()  # one that is suspended would stay
            os._exit(128 + number)

    def _shield(self) -> None:
        """Let a forked process, such as a loader's worker, leave signals to its parent.

        Ctrl-C reaches both, and so does what Slurm sends, and the parent still needs its batches:
        before the first step to end in one line, afterwards for the step that a save waits for.
        """
        if not (self._is_watched and hasattr(signal, "sigtimedwait")):
            return
        for number in set(_SIGNALS) - {Signal.SIGTERM}:
            signal.signal(number, signal.SIG_IGN)
        parent, self._pid = self._pid, os.getpid()
        # Blocked, for torch gives its workers a handler of SIGTERM later on, which ends them.
        # That holds for the threads that follow, and for what this process starts.
        signal.pthread_sigmask(signal.SIG_BLOCK, {Signal.SIGTERM})
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        signal.signal(Signal.SIGTERM, signal.SIG_DFL)


def _tell(line: str) -> None:
    with suppress(OSError):  # of a terminal that is closed
        os.write(2, f"{line}\n".encode())  # not by print, which may just be at work


def _children() -> list[Any]:
    import psutil  # not at the top: `import mmssprl` never fails where a package is missing

    return psutil.Process().children()


def _end_with(parent: int) -> None:
    """End this process, in which SIGTERM is blocked, once its parent sends that or is gone."""
    while os.getppid() == parent:
        received = signal.sigtimedwait({Signal.SIGTERM}, _PARENT_S)
        if received is not None and received.si_pid == parent:
            break
    os._exit(0)  # as torch's handler: any other code would be taken for a fault


signals = _Signals()


def _watch_parent(then: Callable[[], object], parent: int) -> None:
    """Call a function from a thread as soon as the process that started this one is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_S)
        then()

    threading.Thread(target=watch, daemon=True).start()


def end_with_parent(parent: int) -> None:
    """End this process without a word soon after the one that started it, of this number."""
    _watch_parent(lambda: os._exit(1), parent)


def stop_with_launcher() -> None:
    """Stop a training whose launcher is gone as SIGTERM would, and for certain after a time."""

    def stop() -> None:
        os.kill(os.getpid(), Signal.SIGTERM)
        time.sleep(_ORPHAN_S)
        os._exit(128 + Signal.SIGTERM)

    _watch_parent(stop, os.getppid())


def is_first_process() -> bool:
    """Whether this is rank 0, as far as a launcher's variables tell before the group is joined."""
    found = (os.environ[name] for name in _RANKS if name in os.environ)
    return int(next(found, 0)) == 0
