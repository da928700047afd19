"""Progress on standard error: a live bar in a terminal, a line now and then in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from ciga.cli.screen import say
from ciga.progress import AtMost

TITLE, BAR = 34, 12  # letters of the title, and of the bar


class Clock(ProgressColumn):
    """The time that is left; until that is known, the time that has passed."""

    def render(self, task: Task) -> Text:
        left, bound = task.time_remaining, task.fields.get("bound", "")
        seconds = int((task.elapsed or 0) if left is None else left)
        hours, minutes = divmod(seconds // 60, 60)
        clock = f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
        return Text(clock if left is None else f"{bound}{clock} left", style="progress.remaining")


class EpochBar:
    """Shows a run's epochs with the latest metrics, and how long it still takes."""

    def __init__(self, title: str, enabled: bool = True) -> None:
        console = Console(stderr=True)
        self.live = enabled and console.is_terminal
        self.plain = enabled and not self.live
        self.title = title
        self.last = 0.0
        self.stop: Stop | None = None
        self.bar = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, max_width=TITLE)),
            BarColumn(bar_width=BAR),  # without a total it pulses: something is going on
            TextColumn("{task.fields[count]}"),
            # In a narrow window the news gives way, not the numbers.
            TextColumn("{task.fields[metrics]}", table_column=Column(no_wrap=True, ratio=1)),
            Clock(),
            console=console,
            expand=True,
            transient=True,
            disable=not self.live,
        )
        self.task = self.bar.add_task(title, total=None, metrics="starting", count="", bound="")

    def __enter__(self) -> EpochBar:
        self.bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.stop()

    def stops(self, warmup: int, patience: int) -> None:
        """Early stopping is on: the end that the bar shows is where the run stops if nothing improves."""
        self.stop = Stop(warmup, patience)

    def data(self, done: int, total: int, what: str) -> None:
        """Progress of building the data; when it is done, the bar pulses until training reports."""
        if done >= total:
            self.bar.reset(self.task, metrics="starting", count="", bound="")
            self.bar.tasks[0].total = None  # `reset` takes None for "as it was"
        else:
            self._update(done, total, what)

    def overall(self, done: int, total: int, what: str) -> None:
        """Progress of several runs at once."""
        if done:
            self._update(done, total, what)
        else:
            self.bar.update(self.task, metrics=what or "starting")
        self._line(f"{done} of {total} epochs; {what}")

    def epoch(self, row: dict[str, Any], epochs: int) -> None:
        """Progress of training."""
        loss = sum(row["terms"].values())
        shown = {k: v for k, v in row["metrics"].items() if k.endswith("_val")}
        scores = [f"{k} {v['accuracy']:.3f}" for k, v in shown.items()]
        news = [f"loss {loss:.3f}", *scores]
        done = row["epoch"] + 1
        last = list(shown.values())[-1]["accuracy"] if shown else 0.0
        end = epochs if self.stop is None else min(epochs, self.stop.end(done, last))
        self._update(done, end, self._fitting(news, len(f"{done}/{end}")))
        self._line(f"epoch {done}/{epochs} {' '.join(news)}")

    def _fitting(self, news: list[str], count: int) -> str:
        """The last of the news, as many as the window has room for: none is cut."""
        room = self.bar.console.width - min(len(self.title), TITLE) - BAR - count - len(" 0:00:00 left") - 3
        while len(" ".join(news)) > room and len(news) > 1:
            news = news[1:]
        return " ".join(news)

    def _update(self, done: int, total: int, what: str) -> None:
        if self.bar.tasks[0].total is not None:
            self.bar.tasks[0].total = total  # `update` with another total would forget the speed so far
        bound = "at most " if isinstance(total, AtMost) else ""
        count = f"{done}/{int(total)}"
        self.bar.update(self.task, completed=done, total=total, metrics=what, count=count, bound=bound)

    def _line(self, text: str) -> None:
        """In a log, now and then."""
        if self.plain and time.monotonic() - self.last > 10:
            self.last = time.monotonic()
            print(f"{self.title}: {text}", file=sys.stderr, flush=True)


class Stop:
    """Where early stopping would end a run, as things stand."""

    def __init__(self, warmup: int, patience: int) -> None:
        self.warmup, self.patience = warmup, patience
        self.best, self.at = float("-inf"), 0

    def end(self, done: int, score: float) -> int:
        """The epoch after which it stops unless the score improves; `done` epochs are over."""
        if score > self.best:
            self.best, self.at = score, done
        return max(done, max(self.at, self.warmup) + self.patience)


@contextmanager
def epoch_bar(title: str, enabled: bool = True) -> Iterator[EpochBar]:
    """An `EpochBar` for the time of a block."""
    with EpochBar(title, enabled) as bar:
        yield bar


@contextmanager
def bench_bar(name: str) -> Iterator[Any]:
    """Overall progress of a bench: a watcher for `ciga.runs.pool.schedule.Pool`.

    A bar with an estimate in a terminal, and in any case a line for every run that ends.
    """
    from rich.progress import TimeElapsedColumn

    from ciga.runs.estimate import hours

    console = Console(stderr=True, soft_wrap=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[count]}"),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(name, total=None, count="", state="")

    def watch(state: Any, news: str) -> None:
        ended = state.recorded + state.done + len(state.failed)
        left = "" if state.seconds_left is None else f"about {hours(state.seconds_left)} left"
        failed = f", {len(state.failed)} failed" if state.failed else ""
        now = "; ".join(str(standing) for standing in state.running.values() if standing.epoch)
        count = f"{ended}/{state.total} runs"
        bar.update(task, completed=ended, total=state.total, count=count, state=f"{left}{failed} {now}")
        if news:
            say(console, f"[{ended}/{state.total}] {news}; {left}")

    with bar:
        yield watch


@contextmanager
def row_counter(title: str, enabled: bool = True) -> Iterator[Any]:
    """A counter of rows of unknown number: `report(rows, bad)`."""
    from rich.progress import SpinnerColumn, TimeElapsedColumn

    console = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}: {task.fields[text]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (enabled and console.is_terminal),
    )
    task = bar.add_task(title, total=None, text="")
    began = time.monotonic()

    def report(rows: int, bad: int) -> None:
        speed = rows / max(time.monotonic() - began, 1e-9)
        bar.update(task, text=f"{rows:,} rows, {bad:,} with errors, {speed:,.0f} a second")

    with bar:
        yield report
