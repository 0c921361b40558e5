"""Questions that a process apart answers, where a crash does no harm, and one way to judge them."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

_HANGS, _MEMORY, _ENDS = "hangs", "takes too much memory", "ends the process by"


class Answer(NamedTuple):
    """What came of a question.

    Attributes:
        kind: How it ended; the process that ended or hung has an answer too.
        line: What was said.
        mib: Memory that it took in MiB, at its peak and beside what there was.
        seconds: Time that it took.
    """

    kind: str
    line: str = ""
    mib: float = 0.0
    seconds: float = 0.0


class Apart:
    """A forked process that answers questions, and a new one after each that it does not survive.

    Args:
        answer: Takes a question and returns the kind and the line of an ``Answer``.
        limit_s: Time for one question.
        limit_mib: Memory for one.
        prepare: Is called before the first question.
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
    """Answers counted.

    Attributes:
        kinds: How many of each kind.
        tries: How many.
        survived: Of them, those that are fine.
        mib: The most memory of one.
        seconds: The most time of one.
    """

    kinds: Counter[str]
    tries: int
    survived: int
    mib: float
    seconds: float


def judge(
    answers: Iterable[tuple[str, Answer]], fine: Collection[str], log: Callable[[str], object]
) -> Judged:
    """Count answers, and log those that are not fine.

    Args:
        answers: Name of the question, and the answer.
        fine: Kinds of answers to questions that are survived.
        log: Takes a line.
    """
    kinds: Counter[str] = Counter()
    mib = seconds = 0.0
    for name, answer in answers:
        kinds[answer.kind] += 1
        mib, seconds = max(mib, answer.mib), max(seconds, answer.seconds)
        if answer.kind not in fine:
            log(f"{name}: {answer.kind} {answer.line}")
    survived = sum(kinds[kind] for kind in fine)
    return Judged(kinds, kinds.total(), survived, mib, seconds)


def _peak_mib() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
