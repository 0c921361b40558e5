"""What comes of a fault, and questions that a process apart answers, where a crash does no harm."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mmssprl.system.environment import processor, source_commit, usable_cores

Log = Callable[[str], object]
_HANGS, _MEMORY, _ENDS = "hangs", "takes too much memory", "ends the process by"


class Outcome(NamedTuple):
    """One row of the table."""

    fault: str  # what was done to the run
    tries: int  # how often
    survived: int  # how often the run went on, with nothing torn, as if nothing had happened
    lost_steps: str  # steps that were done again, the most in one try and on average
    remark: str  # what else counts


def describe_lost(steps: list[int]) -> str:
    """Return the most and the mean of the steps that were done again."""
    return f"{max(steps)} at most, {sum(steps) / len(steps):.1f} on average" if steps else "0"


def describe_run(command: str, minutes: float) -> str:
    """Return where and when faults were injected, and by what."""
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"`{command}`, {when}, commit {source_commit(excluded='docs/results')}, {processor()}, "
        f"{usable_cores()} cores, torch {torch.__version__}, {minutes:.0f} minutes."
    )


class Answer(NamedTuple):
    """What came of a question; one that ended its process, or hung, has an answer too."""

    kind: str  # how it ended
    line: str = ""  # what was said
    mib: float = 0.0  # memory that it took at its peak, beside what there was
    seconds: float = 0.0


class Apart:
    """A forked process that answers questions, and a new one after each that it does not survive.

    ``answer`` takes a question and returns the kind and the line of an ``Answer``; ``prepare`` is
    called before the first one. The limits are for one question.
    """

    def __init__(
        self,
        answer: Callable[[Any], tuple[str, str]],
        *,
        limit_s: float,
        limit_mib: float = float("inf"),
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        self._answer, self._prepare = answer, prepare
        self._limit_s, self._limit_mib = limit_s, limit_mib
        self._child: Any = None

    def __enter__(self) -> "Apart":
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def ask(self, question: Any) -> Answer:
        """Return the answer, also where there is none."""
        if self._child is None:
            fork = multiprocessing.get_context("fork")
            self._pipe, theirs = fork.Pipe()
            self._child = fork.Process(target=self._answer_all, args=(theirs,), daemon=True)
            self._child.start()
            theirs.close()
        try:
            self._pipe.send(question)
            is_answered = self._pipe.poll(self._limit_s)
            answer = self._pipe.recv() if is_answered else Answer(_HANGS, seconds=self._limit_s)
        except (EOFError, ConnectionError):
            self._child.join()
            answer = Answer(f"{_ENDS} {self._child.exitcode}")
        if answer.mib > self._limit_mib:
            answer = answer._replace(kind=_MEMORY)
        if answer.kind.startswith((_HANGS, _MEMORY, _ENDS)):
            self._end()
        return answer

    def _end(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._child = None

    def _answer_all(self, questions: Connection) -> None:
        self._prepare()
        while True:
            question = questions.recv()
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
            before, start = _peak_mib(), time.process_time()
            kind, line = self._answer(question)
            answer = Answer(kind, line, _peak_mib() - before, time.process_time() - start)
            questions.send(answer)


class Judged(NamedTuple):
    """Answers counted."""

    kinds: Counter[str]
    survived: int
    mib: float  # the most memory of one
    seconds: float  # the most time of one

    def outcome(self, fault: str, remark: str) -> Outcome:
        """Return the row of the table."""
        return Outcome(fault, self.kinds.total(), self.survived, "0", remark)


def judge(answers: Iterable[tuple[str, Answer]], fine: Collection[str], log: Log) -> Judged:
    """Count answers to named questions, and log those that are not of a fine kind."""
    kinds: Counter[str] = Counter()
    mib = seconds = 0.0
    for name, answer in answers:
        kinds[answer.kind] += 1
        mib, seconds = max(mib, answer.mib), max(seconds, answer.seconds)
        if answer.kind not in fine:
            log(f"{name}: {answer.kind} {answer.line}")
    return Judged(kinds, sum(kinds[kind] for kind in fine), mib, seconds)


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
