"""Signals that stop a training after the current step, and launchers that die.

During a training SIGINT, SIGTERM, SIGUSR1, SIGHUP (a closed terminal) and SIGXCPU (a limit of CPU
time) are only noted: it saves, prints how to resume and exits with ``SAVED``. Before a training,
and from the second signal on, the process exits at once with 128 + the signal's number. So it does
if no step ends within ``STUCK_S`` after a signal.
"""

import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

SAVED = 75
"""Exit code of a stopped training that can resume: EX_TEMPFAIL of sysexits.h."""

Signal = signal.Signals
_SAVING = "saving after this step"
_SIGNALS = (Signal.SIGINT, Signal.SIGTERM, Signal.SIGUSR1, Signal.SIGHUP, Signal.SIGXCPU)
_REPEATED = (Signal.SIGHUP, Signal.SIGXCPU)
_SAME_S = 1.0
"""Repetitions within this time are ignored: a terminal and a launcher may both send a signal."""
_HEARD_S = 0.1
"""Longest delay of a signal that was sent to the whole process group."""
STUCK_S = 45.0
"""How long a step may take that a signal waits for; with the end of the process under a minute."""
_FIRST_S = 3.0
"""Delay of all ranks but the first, so that the first one speaks and ends them."""
_LAUNCHED = "TORCHELASTIC_RUN_ID"
"""Environment variable of a process that torch has launched: its launcher reports signals."""
EXPERIMENT_VARIABLE = "MMSSPRL_PARENT"
"""Environment variable of a run with the pid of its experiment."""
_PARENT_S = 1.0
"""How often a process checks whether its parent is alive."""
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
"""Variables with the rank: of torchrun and mmengine, srun, Open MPI."""
_ORPHAN_S = 25.0
"""How long a process outlives its launcher in order to save."""


class StoppedError(SystemExit):
    """A training was stopped by a signal; ``code`` is the exit code of the process."""


class Interrupted(KeyboardInterrupt):
    """A signal came before the first step; ``code`` is the exit code of the process."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number

    def __str__(self) -> str:
        return f"stopped by {Signal(self.args[0]).name}."


class _Signals:
    """The signals of this process; ``number`` is the first one since ``note``, or 0."""

    def __init__(self) -> None:
        self.number = self._early = self._pid = 0  # early: before ``note``, it ends the process
        self._parent = 0
        self._time = 0.0
        self._is_noted = self._launches = self._is_watched = False
        self._heard = self._last_step = 0.0  # when the first signal came, and when a batch was done
        self._doing = _SAVING
        self._advice: Callable[[], str] = str
        os.register_at_fork(after_in_child=self._shield)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise ``Interrupted`` at a signal; does nothing outside the main thread."""
        if self._is_watched or threading.current_thread() is not threading.main_thread():
            yield
            return

        handlers = {number: signal.getsignal(number) for number in _SIGNALS}
        # Ignored signals stay ignored, as under nohup.
        taken = [number for number in _SIGNALS if handlers[number] is not signal.SIG_IGN]
        self._is_watched = True
        self._early = 0
        self._heard = self._last_step = 0.0
        self._pid = os.getpid()
        self._parent = os.getppid()

        # Python writes the numbers of signals to it even while the main thread waits in C.
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        watch = threading.Thread(target=self._end_if_stuck, args=(reading, writing), daemon=True)
        watch.start()
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

        for number in taken:
            signal.signal(number, self._receive)
        try:
            yield
        except Exception as error:
            # It may result from a signal, which mmengine's Config turns into a SyntaxError.
            time.sleep(_HEARD_S)
            if self._early:
                raise Interrupted(self._early) from error
            raise
        finally:
            self._is_watched = False
            self._early = 0
            for number in taken:
                signal.signal(number, handlers[number])
            signal.set_wakeup_fd(wakeup)
            os.write(writing, b"\0")  # ends the thread

    def note(
        self, doing: str = _SAVING, *, launches: bool = False, advice: Callable[[], str] = str
    ) -> None:
        """From now on only note the first signal; pass it on if this one ``launches`` others.

        ``doing`` is what the process does after it, and ``advice`` returns how to resume, for the
        line of a process that is stuck.
        """
        if self._is_watched and not self._is_noted:
            # No call among these lines: Python handles a signal that comes meanwhile after them.
            self._is_noted = True
            self._doing = doing
            self._launches = launches
            self._advice = advice
            self.number = self._early  # one that came in between
            self._early = 0

    def interrupt(self) -> None:
        """Let signals end the process again."""
        self.number = 0
        self._is_noted = False
        self._heard = self._last_step = 0.0
        self._advice = str

    def progress(self) -> None:
        """Note that a batch is done: a signal may wait for the next one, too."""
        self._last_step = time.monotonic()

    def saves(self) -> None:
        """Wait for as long as saving takes."""
        self._last_step = math.inf

    def _receive(self, number: int, _: Any) -> None:
        if not self._is_noted:
            self._early = self._early or number
            raise Interrupted(number)

        name = Signal(number).name
        if not self.number:
            self._time = time.monotonic()  # before the number: a signal that comes now compares it
            self.number = number
            if self._launches:
                for child in _children():
                    child.send_signal(number)
            _announce(f"{name}: {self._doing}; once more ends at once")
        # A closed terminal and its shells each send SIGHUP, and SIGXCPU comes every second.
        elif number not in _REPEATED and time.monotonic() - self._time > _SAME_S:
            _announce(f"ended at once by {name}")
            _kill(_children())
            os._exit(128 + number)

    def _end_if_stuck(self, reading: int, writing: int) -> None:
        """End the process, unless it launches others, if a signal is followed by no step."""
        number = 0
        while True:
            if select.select([reading], [], [], _PARENT_S)[0]:
                numbers = os.read(reading, 64)
                if 0 in numbers:
                    break
                # SIGUSR1 announces a limit minutes before it: a step may take longer.
                stops = [each for each in numbers if each in {*_SIGNALS} - {Signal.SIGUSR1}]
                if stops and not self._heard:
                    number = stops[0]
                    self._heard = time.monotonic()

            waited = time.monotonic() - max(self._heard, self._last_step)
            if self._heard and waited > STUCK_S and not self._launches:
                self._end_stuck(number)
        os.close(reading)
        os.close(writing)

    def _end_stuck(self, number: int) -> None:
        if not is_first_process():
            time.sleep(_FIRST_S)
        name = Signal(number).name
        _tell(f"ended by {name}: no step has ended for {STUCK_S:.0f} s. {self._advice()}")
        _kill(_children())
        # A suspended rank would stay. If the launcher has died, the parent is another program.
        if _LAUNCHED in os.environ and os.getppid() == self._parent:
            _kill(_children(self._parent))
        os._exit(128 + number)

    def _shield(self) -> None:
        """Ignore signals in a loader's worker, so that its parent can finish the current step."""
        if self._is_watched:
            signal.set_wakeup_fd(-1)
        if not (self._is_watched and hasattr(signal, "sigtimedwait")):
            return
        for number in set(_SIGNALS) - {Signal.SIGTERM}:
            signal.signal(number, signal.SIG_IGN)

        parent = self._pid
        self._pid = os.getpid()
        # Blocked, as torch later installs a SIGTERM handler; new threads inherit the mask.
        signal.pthread_sigmask(signal.SIG_BLOCK, {Signal.SIGTERM})
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
        signal.signal(Signal.SIGTERM, signal.SIG_DFL)


def _tell(line: str) -> None:
    with suppress(OSError):  # the terminal may be closed
        erase = "\r\x1b[K" if os.isatty(2) else ""  # a live line
        os.write(2, f"{erase}{line}\n".encode())  # print is not reentrant


def _announce(line: str) -> None:
    """Tell once for all ranks, and nothing if a launcher tells."""
    if is_first_process() and _LAUNCHED not in os.environ:
        _tell(line)


def _children(pid: int | None = None) -> list[Any]:
    import psutil  # not at the top: `import mmssprl` must work without it

    return psutil.Process(pid).children()


def _kill(processes: list[Any]) -> None:
    for each in processes:
        if each.pid != os.getpid():
            with suppress(ProcessLookupError):
                os.kill(each.pid, Signal.SIGKILL)  # a suspended one would stay


def _end_with(parent: int) -> None:
    """End this process, where SIGTERM is blocked, when its parent sends it or dies."""
    while os.getppid() == parent:
        received = signal.sigtimedwait({Signal.SIGTERM}, _PARENT_S)
        if received is not None and received.si_pid == parent:
            break
    os._exit(0)  # like torch's handler: another code would count as a failure


signals = _Signals()


def end_with_parent(parent: int, *, saves: bool = False) -> None:
    """End this process silently soon after its parent, given by pid.

    A training that ``saves`` is stopped as by SIGTERM, and killed after ``_ORPHAN_S``.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_S)
        if saves:
            os.kill(os.getpid(), Signal.SIGTERM)
            time.sleep(_ORPHAN_S)
        os._exit(128 + Signal.SIGTERM if saves else 1)

    threading.Thread(target=watch, daemon=True).start()


def end_with_experiment() -> None:
    """End this process soon after its experiment, if it is a run of one."""
    if EXPERIMENT_VARIABLE in os.environ:  # removed, so that child processes do not inherit it
        end_with_parent(int(os.environ.pop(EXPERIMENT_VARIABLE)))


def is_first_process() -> bool:
    """Whether this is rank 0 by the variables of its launcher."""
    found = (os.environ[name] for name in _RANKS if name in os.environ)
    return int(next(found, 0)) == 0
